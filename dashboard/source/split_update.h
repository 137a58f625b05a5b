// File: dashboard/source/split_update.h
//
// A large transaction in parts that a window can take between two frames.
//
// Nothing is copied: the parts take what they hold from the update.
//
// Defines: SplitUpdate().

#ifndef DASHBOARD_SOURCE_SPLIT_UPDATE_H_
#define DASHBOARD_SOURCE_SPLIT_UPDATE_H_

#include <memory>
#include <vector>

#include "core/proto/watch.pb.h"

namespace millrace::dashboard {

// A part takes the window's thread less than a millisecond, with eight GPUs for each node.
inline constexpr int kSlotsPerPart = 1000;
inline constexpr int kNodesPerPart = 50;

// At least one part; all have the seq, incarnation and time of `update`. The first, which is
// `update` itself, keeps everything but slots and nodes, and alone is a snapshot if `update` was
// one; then come slots, then nodes. An update that is small is one part. Parts of an update in an
// arena lie there too, and share its ownership.
[[nodiscard]] std::vector<std::shared_ptr<const v1::WatchUpdate>> SplitUpdate(
    std::shared_ptr<v1::WatchUpdate> update);

}  // namespace millrace::dashboard

#endif  // DASHBOARD_SOURCE_SPLIT_UPDATE_H_
