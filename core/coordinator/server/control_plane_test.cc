#include "core/coordinator/server/control_plane.h"

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "core/base/status_matchers.h"
#include "core/coordinator/state/coordinator_options.h"
#include "core/coordinator/state/role_dealer.h"
#include "core/coordinator/stream/attach_stream.h"
#include "core/coordinator/view/cluster_recorder.h"
#include "core/coordinator/view/view_store.h"
#include "core/coordinator/view/wire_conversion.h"
#include "core/proto/coordinator.pb.h"
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

// To show 100,000 slots takes half a second, for which no node should run on and no heartbeat wait.
TEST(ControlPlaneTest, AStopIsWrittenToAllNodesBeforeReadersSeeThatTheyWereAsked) {
  constexpr int kNodes = 1200;  // more than are shown in one go
  CoordinatorOptions options;
  options.roles = *DealRoles({.num_executors = kNodes});
  options.program.path = "/bin/true";
  ViewStore view({.num_slots = kNodes, .incarnation = "test", .limits = {}});
  ClusterRecorder recorder(options, &view, nullptr);
  ControlPlane plane(
      options, ToNodeSpec(options, kNodes, "", 0),
      [](absl::string_view, absl::string_view) -> absl::StatusOr<std::string> {
        return "certificate";
      },
      &view, &recorder);
  std::vector<std::shared_ptr<CountingStream>> streams;
  for (int id = 0; id < kNodes; ++id) {
    v1::Register hello;
    hello.set_protocol(2);
    hello.set_agent_id(absl::StrCat("agent-", id));
    hello.set_executor_id(id);
    hello.set_host("h");
    hello.set_address(absl::StrCat("h:", 1 + id));
    hello.set_public_key(std::string(65, '\4'));
    streams.push_back(std::make_shared<CountingStream>(&view));
    ASSERT_THAT(plane.agents().Register(streams.back(), hello), IsOk());
  }
  const uint64_t before = view.seq();
  for (const auto& stream : streams) stream->queued = stream->written = 0;

  plane.driver().Stop(NodeFilter::kAll, "done", /*now=*/true);

  for (const auto& stream : streams) {
    EXPECT_EQ(stream->written, 1);
    EXPECT_LE(stream->view_seq, before + 3);  // the cluster's phase and an event: no slot
  }
  EXPECT_GE(view.seq(), before + kNodes);
  for (const SlotStatus& slot : plane.Snapshot().slots) EXPECT_TRUE(slot.stop_asked);

  plane.driver().Stop(NodeFilter::kAll, "again", /*now=*/true);  // no news
  for (const auto& stream : streams) EXPECT_EQ(stream->written, 1);
  plane.Shutdown();
}

}  // namespace
}  // namespace millrace
