#include "dashboard/source/lines_source.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/proto/time_proto.h"
#include "core/proto/watch.pb.h"

namespace millrace::dashboard {
namespace {

constexpr uint64_t kLinesPerUpdate = 1000;

void FillCluster(absl::Time now, v1::WatchUpdate* watch) {
  watch->set_snapshot(true);
  v1::ClusterInfo* cluster = watch->mutable_cluster();
  cluster->set_cluster_id("lines");
  cluster->set_phase(v1::ClusterInfo::PHASE_RUNNING);
  cluster->set_num_slots(LinesSource::kNodes);
  *cluster->mutable_started() = TimeToProto(now);
  for (int i = 0; i < LinesSource::kNodes; ++i) {
    v1::SlotStatus* slot = watch->add_slots();
    slot->set_executor_id(i);
    slot->set_job_name("worker");
    slot->set_task_index(i);
    slot->set_state(v1::SLOT_STATE_RUNNING);
    slot->set_host(absl::StrCat("h", i));
    slot->set_attached(true);
  }
}

}  // namespace

void LinesSource::Poll(absl::Time now, size_t max_updates, std::vector<SourceUpdate>* updates) {
  for (size_t i = 0; i < max_updates && (!begun_ || given_ < asked_); ++i) {
    auto watch = std::make_shared<v1::WatchUpdate>();
    *watch->mutable_time() = TimeToProto(now);
    watch->set_incarnation("lines");
    if (!std::exchange(begun_, true)) FillCluster(now, watch.get());
    const uint64_t end = std::min(asked_, given_ + kLinesPerUpdate);
    for (; given_ < end; ++given_) {
      v1::LogBatch* batch = watch->add_logs();
      batch->set_executor_id(static_cast<int>(given_ % kNodes));
      batch->set_source(v1::LogLines::SOURCE_STDERR);
      *batch->mutable_time() = watch->time();
      batch->add_lines(absl::StrCat(given_ % 1000 == 999 ? "W" : "I", "0102 03:04:05.000006 step ",
                                    given_, " loss 0.1234"));
    }
    SourceUpdate update;
    update.arrived = now;
    update.link.kind = LinkState::Kind::kLive;
    update.link.since = now;
    update.watch = std::move(watch);
    updates->push_back(std::move(update));
  }
}

}  // namespace millrace::dashboard
