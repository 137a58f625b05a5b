#include "core/coordinator/view/watch_hub.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "core/base/fake_clock.h"
#include "core/base/mutex.h"
#include "core/coordinator/view/view_store.h"
#include "core/proto/watch.pb.h"
#include "grpcpp/support/byte_buffer.h"
#include "gtest/gtest.h"

namespace millrace {
namespace {

constexpr absl::Duration kLimit = absl::Seconds(60);

// A reader that takes whatever it gets at once.
class TakingStream final : public ViewStream {
 public:
  TakingStream(WatchHub* hub, uint64_t id) : hub_(hub), id_(id) {}

  void Write(grpc::ByteBuffer message) override {
    v1::LogBatch batch;
    grpc::Slice bytes;
    EXPECT_TRUE(message.DumpToSingleSlice(&bytes).ok());
    EXPECT_TRUE(batch.ParseFromArray(bytes.begin(), static_cast<int>(bytes.size())));
    {
      MutexLock lock(&mu_);
      batches_.push_back(std::move(batch));
      changed_.SignalAll();
    }
    hub_->Written(id_);
  }
  void End(const absl::Status&) override {}

  // Blocks until there are that many.
  std::vector<v1::LogBatch> Await(size_t count) {
    MutexLock lock(&mu_);
    const absl::Time limit = absl::Now() + kLimit;
    while (batches_.size() < count && absl::Now() < limit) changed_.WaitWithDeadline(&mu_, limit);
    EXPECT_GE(batches_.size(), count);
    return batches_;
  }

 private:
  WatchHub* const hub_;
  const uint64_t id_;
  Mutex mu_;
  CondVar changed_;
  std::vector<v1::LogBatch> batches_ ABSL_GUARDED_BY(mu_);
};

// So that TCP finds a reader whose host is gone, however quiet the nodes are.
TEST(WatchHubTest, AQuietLogIsStillWrittenTo) {
  FakeClock clock;
  ViewStore view({.num_slots = 1, .incarnation = "one"});
  WatchHub hub(&view, &clock);
  const uint64_t id = hub.NewId();
  const auto stream = std::make_shared<TakingStream>(&hub, id);
  LogCursor cursor;
  cursor.nodes = {0};
  cursor.lines = {0};
  cursor.follow = true;
  ASSERT_TRUE(hub.AddLogs(id, stream, std::move(cursor)).ok());
  stream->Await(1);  // that it is there
  for (size_t i = 2; i < 5; ++i) {
    clock.Advance(WatchHub::kHeartbeat);
    view.Wake();
    for (const v1::LogBatch& batch : stream->Await(i)) EXPECT_TRUE(batch.lines().empty());
  }
}

}  // namespace
}  // namespace millrace
