#include "core/coordinator/server/control_plane.h"

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "core/base/status_matchers.h"
#include "core/coordinator/state/coordinator_options.h"
#include "core/coordinator/state/role_dealer.h"
#include "core/coordinator/stream/attach_stream.h"
#include "core/coordinator/view/cluster_recorder.h"
#include "core/coordinator/view/view_store.h"
#include "core/coordinator/view/wire_conversion.h"
#include "core/proto/coordinator.pb.h"
#include "core/proto/time_proto.h"
#include "grpcpp/support/byte_buffer.h"
#include "gtest/gtest.h"

namespace millrace {
namespace {

// Counts what it is given, and notes what readers may see by the time that it is written.
class CountingStream final : public AttachStream {
 public:
  explicit CountingStream(const ViewStore* view) : view_(view) {}

  void Enqueue(const grpc::ByteBuffer& /*message*/) override { ++queued; }
  void Close(const absl::Status& /*status*/) override {}
  void Flush() override {
    written = queued;
    view_seq = view_->seq();
  }

  int queued = 0;
  int written = 0;
  uint64_t view_seq = 0;  // at the last Flush()

 private:
  const ViewStore* const view_;
};

// A cluster without threads, whose agents are CountingStreams.
struct Cluster {
  explicit Cluster(int nodes)
      : options(OptionsFor(nodes)),
        view({.num_slots = nodes, .incarnation = "test", .limits = {}}),
        recorder(options, &view, nullptr),
        plane(
            options, ToNodeSpec(options, nodes, "", 0),
            [](absl::string_view, absl::string_view) -> absl::StatusOr<std::string> {
              return "certificate";
            },
            &view, &recorder) {
    for (int id = 0; id < nodes; ++id) {
      v1::Register hello;
      hello.set_protocol(2);
      hello.set_agent_id(absl::StrCat("agent-", id));
      hello.set_executor_id(id);
      hello.set_host("h");
      hello.set_address(absl::StrCat("h:", 1 + id));
      hello.set_public_key(std::string(65, '\4'));
      streams.push_back(std::make_shared<CountingStream>(&view));
      const absl::StatusOr<uint64_t> stream_id = plane.agents().Register(streams.back(), hello);
      EXPECT_THAT(stream_id, IsOk());
      ids.push_back(stream_id.value_or(0));
    }
  }
  ~Cluster() { plane.Shutdown(); }

  static CoordinatorOptions OptionsFor(int nodes) {
    CoordinatorOptions options;
    options.roles = *DealRoles({.num_executors = nodes});
    options.program.path = "/bin/true";
    return options;
  }

  const CoordinatorOptions options;
  ViewStore view;
  ClusterRecorder recorder;
  ControlPlane plane;
  std::vector<std::shared_ptr<CountingStream>> streams;
  std::vector<uint64_t> ids;  // of the streams
};

// To show 100,000 slots takes half a second, for which no node should run on and no heartbeat wait.
TEST(ControlPlaneTest, AStopIsWrittenToAllNodesBeforeReadersSeeThatTheyWereAsked) {
  constexpr int kNodes = 1200;  // more than are shown in one go
  Cluster cluster(kNodes);
  const uint64_t before = cluster.view.seq();
  for (const auto& stream : cluster.streams) stream->queued = stream->written = 0;

  cluster.plane.driver().Stop(NodeFilter::kAll, "done", /*now=*/true);

  for (const auto& stream : cluster.streams) {
    EXPECT_EQ(stream->written, 1);
    EXPECT_LE(stream->view_seq, before + 3);  // the cluster's phase and an event: no slot
  }
  EXPECT_GE(cluster.view.seq(), before + kNodes);
  for (const SlotStatus& slot : cluster.plane.Snapshot().slots) EXPECT_TRUE(slot.stop_asked);

  cluster.plane.driver().Stop(NodeFilter::kAll, "again", /*now=*/true);  // no news
  for (const auto& stream : cluster.streams) EXPECT_EQ(stream->written, 1);
}

TEST(ControlPlaneTest, WhatNodesWaitForEndsWithTheShutdown) {
  Cluster cluster(1);
  v1::AgentMessage get;
  get.mutable_kv()->set_request_id(1);
  get.mutable_kv()->set_key("nobody sets it");
  *get.mutable_kv()->mutable_get() = DurationToProto(absl::Hours(1));
  ASSERT_THAT(cluster.plane.agents().Handle(cluster.ids[0], get), IsOk());
  EXPECT_EQ(cluster.plane.operators().KvWaits(), 1u);
  cluster.plane.Shutdown();
  EXPECT_EQ(cluster.plane.operators().KvWaits(), 0u);
}

}  // namespace
}  // namespace millrace
