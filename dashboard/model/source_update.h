// File: dashboard/model/source_update.h
//
// What every source (a live cluster, a recording, the demo) hands to the model: one type, so that
// the model cannot tell them apart.
//
// Defines: LinkState, SourceUpdate.
//
// Ownership: an update shares its message; nobody changes it any more.
// Thread safety: values.

#ifndef DASHBOARD_MODEL_SOURCE_UPDATE_H_
#define DASHBOARD_MODEL_SOURCE_UPDATE_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/time/time.h"
#include "core/proto/watch.pb.h"

namespace millrace::dashboard {

// How the source stands with its cluster.
struct LinkState {
  enum class Kind {
    kConnecting,  // not reached yet; `reason` says why, after the first attempt
    kLive,        // updates come
    kStale,       // they came, and do not now; what is shown is as of `since`
    kEnded,       // the cluster has ended, or the recording is over. Final.
    kLost,        // its owner is gone. Final.
    kRefused,     // wrong token, certificate or version. Final; `reason` says what to do.
  };
  Kind kind = Kind::kConnecting;
  absl::Time since;    // of this kind, on the viewer's clock
  std::string reason;  // of every kind but kLive; may be empty
  int reconnects = 0;
};

struct SourceUpdate {
  // Viewer's clock. Never decreases from one update of a source to the next, except after
  // `restart`.
  absl::Time arrived;
  // A part of the cluster's stream. Null if only the link changed. Parts of one transaction carry
  // the same `seq`; all but the last have `more` set.
  std::shared_ptr<const v1::WatchUpdate> watch;
  bool more = false;
  // The state of the link after this update.
  LinkState link;
  // Bytes on the wire (or in the recording) of `watch`. 0: not known.
  uint64_t bytes = 0;
  // Updates that this viewer threw away before this one, since it was too slow for them.
  uint64_t dropped = 0;
  // Forget everything first: a recording was set to another place.
  bool restart = false;
};

}  // namespace millrace::dashboard

#endif  // DASHBOARD_MODEL_SOURCE_UPDATE_H_
