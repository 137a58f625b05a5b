#include "dashboard/source/playback_source.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"

namespace millrace::dashboard {
namespace {

// How much of the past is shown after a jump.
constexpr absl::Duration kPast = absl::Minutes(5);

class PlaybackSource final : public UpdateSource, public Playback {
 public:
  PlaybackSource(std::unique_ptr<PlaybackFrames> frames, const PlaybackOptions& options)
      : frames_(std::move(frames)),
        title_(options.title),
        paused_(options.paused),
        position_(std::clamp(begin() + options.begin_at, begin(), end())) {}

  std::string title() const override { return title_; }
  Playback* playback() override { return this; }

  void Poll(absl::Time now, size_t max_updates, std::vector<SourceUpdate>* updates) override {
    if (polled_ != absl::InfinitePast() && !paused_ && now > polled_) {
      position_ = std::min(position_ + (now - polled_) * speed_, end());
    }
    polled_ = now;
    for (size_t taken = 0; taken < max_updates && next_ < frames_->size() && !damaged_;) {
      if (frames_->arrived(next_) > position_) break;
      const size_t frame = next_++;
      if (frames_->kind(frame) == PlaybackFrames::Kind::kSeekPoint && frame != begun_at_) continue;
      absl::StatusOr<SourceUpdate> update = frames_->Read(frame);
      if (!update.ok()) {
        damaged_ = true;
        End(std::string(update.status().message()), updates);
        return;
      }
      update->restart = restart_;
      restart_ = false;
      last_link_ = update->link;
      updates->push_back(*std::move(update));
      ++taken;
    }
    if (next_ == frames_->size() && !damaged_ && !told_end_ && !frames_->cut_short().empty() &&
        updates->size() < max_updates) {
      told_end_ = true;
      End(frames_->cut_short(), updates);
    }
  }

  absl::Time ModelTime(absl::Time) const override {
    // While it catches up, time is what has been played.
    if (next_ < frames_->size() && !damaged_) return std::min(position_, frames_->arrived(next_));
    return position_;
  }

  absl::Time begin() const override { return frames_->arrived(0); }
  absl::Time end() const override { return frames_->arrived(frames_->size() - 1); }
  absl::Time position() const override { return position_; }
  bool paused() const override { return paused_; }
  double speed() const override { return speed_; }
  void SetPaused(bool paused) override { paused_ = paused; }
  void SetSpeed(double speed) override { speed_ = std::clamp(speed, 0.1, 100.0); }

  void Seek(absl::Time position) override {
    position_ = std::clamp(position, begin(), end());
    size_t frame = 0;
    for (size_t i = 0; i < frames_->size() && frames_->arrived(i) <= position_ - kPast; ++i) {
      if (frames_->kind(i) != PlaybackFrames::Kind::kUpdate) frame = i;
    }
    next_ = begun_at_ = frame;
    restart_ = true;
    damaged_ = told_end_ = false;
  }

 private:
  void End(std::string reason, std::vector<SourceUpdate>* updates) {
    SourceUpdate& update = updates->emplace_back();
    update.arrived = position_;
    update.link = last_link_;
    update.link.kind = LinkState::Kind::kEnded;
    update.link.since = position_;
    update.link.reason = std::move(reason);
    update.restart = std::exchange(restart_, false);
  }

  const std::unique_ptr<PlaybackFrames> frames_;
  const std::string title_;
  bool paused_;
  double speed_ = 1;
  absl::Time position_;
  absl::Time polled_ = absl::InfinitePast();
  size_t next_ = 0;
  size_t begun_at_ = 0;
  bool restart_ = false;
  bool damaged_ = false;
  bool told_end_ = false;
  LinkState last_link_;
};

}  // namespace

std::unique_ptr<UpdateSource> MakePlaybackSource(std::unique_ptr<PlaybackFrames> frames,
                                                 const PlaybackOptions& options) {
  return std::make_unique<PlaybackSource>(std::move(frames), options);
}

}  // namespace millrace::dashboard
