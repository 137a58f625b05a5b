// File: dashboard/source/playback_source.h
//
// Plays frames that are all there already: a recording's, or a simulated run's.
//
// Defines: PlaybackFrames, PlaybackOptions, MakePlaybackSource().

#ifndef DASHBOARD_SOURCE_PLAYBACK_SOURCE_H_
#define DASHBOARD_SOURCE_PLAYBACK_SOURCE_H_

#include <cstddef>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "dashboard/model/source_update.h"
#include "dashboard/source/update_source.h"

namespace millrace::dashboard {

// Thread safety: not thread-safe. Blocking: Read() may read a disk.
class PlaybackFrames {
 public:
  // How a frame is played. A kSeekPoint repeats what is known already: only what begins there plays
  // it. A kStart can be begun at too, and is always played.
  enum class Kind { kUpdate, kStart, kSeekPoint };

  virtual ~PlaybackFrames() = default;
  [[nodiscard]] virtual size_t size() const = 0;  // at least 1; the first is a kStart
  // Does not decrease with `frame`.
  [[nodiscard]] virtual absl::Time arrived(size_t frame) const = 0;
  [[nodiscard]] virtual Kind kind(size_t frame) const = 0;
  // Returns DATA_LOSS if the frame is damaged; playing ends there, saying so.
  [[nodiscard]] virtual absl::StatusOr<SourceUpdate> Read(size_t frame) = 0;
  // Said at the end, why there is no more; empty: it is simply over.
  [[nodiscard]] virtual std::string cut_short() const { return ""; }
};

struct PlaybackOptions {
  std::string title;
  absl::Duration begin_at;  // after the first frame
  bool paused = false;
};

[[nodiscard]] std::unique_ptr<UpdateSource> MakePlaybackSource(
    std::unique_ptr<PlaybackFrames> frames, const PlaybackOptions& options);

}  // namespace millrace::dashboard

#endif  // DASHBOARD_SOURCE_PLAYBACK_SOURCE_H_
