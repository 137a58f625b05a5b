// Strangers who connect to a node's data port and say nothing: each may for two seconds, and only
// so many at a time, so that they cannot use up the process's descriptors. Who waits gets his turn.

#include <dirent.h>
#include <poll.h>
#include <sys/resource.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "core/base/status_matchers.h"
#include "core/base/unique_fd.h"
#include "feed/feeder/feeder.h"
#include "feed/receiver/data_feed.h"
#include "feed/receiver/receiver.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "testing/attacks/raw_peer.h"
#include "testing/ledger/ledger_rows.h"

namespace millrace::attacks {
namespace {

// A quarter of the descriptors is what silent peers may hold together; the kernel keeps a hundred
// more in the queue of the socket.
constexpr rlim_t kDescriptors = 512;
constexpr int kBound = kDescriptors / 4;
constexpr int kStrangers = kBound + 90;
constexpr char kNonce[] = "5b0c9e1f22d3a4b6";
constexpr absl::Duration kPatience = absl::Seconds(60);

int OpenDescriptors() {
  DIR* const dir = opendir("/proc/self/fd");
  EXPECT_NE(dir, nullptr);
  if (dir == nullptr) return 0;
  int count = 0;
  while (const dirent* entry = readdir(dir)) count += entry->d_name[0] != '.' ? 1 : 0;
  closedir(dir);
  return count - 1;  // that of the folder
}

bool IsClosed(const UniqueFd& stranger) {
  pollfd closed{.fd = stranger.get(), .events = POLLRDHUP};
  return poll(&closed, 1, 0) == 1 && (closed.revents & (POLLRDHUP | POLLHUP | POLLERR)) != 0;
}

// How many the process takes at once, until each has been turned out.
int MostTakenAtOnce(absl::string_view endpoint) {
  const int before = OpenDescriptors();
  std::vector<UniqueFd> strangers;
  for (int i = 0; i < kStrangers; ++i) strangers.push_back(ConnectTo(endpoint));
  int most = 0;
  const absl::Time deadline = absl::Now() + kPatience;
  while (!std::all_of(strangers.begin(), strangers.end(), IsClosed)) {
    most = std::max(most, OpenDescriptors() - before - kStrangers);
    if (absl::Now() > deadline) {
      ADD_FAILURE() << "a stranger who says nothing may stay";
      break;
    }
    poll(nullptr, 0, 5);  // not as busy as the one that is looked at
  }
  return most;
}

class SilentConnectionsTest : public ::testing::Test {
 protected:
  SilentConnectionsTest() {
    rlimit limit{};
    EXPECT_EQ(getrlimit(RLIMIT_NOFILE, &limit), 0);
    limit.rlim_cur = std::min(kDescriptors, limit.rlim_max);
    EXPECT_EQ(setrlimit(RLIMIT_NOFILE, &limit), 0);
    auto node = FeedReceiver::Start(
        {.node_name = "worker:0", .nonce = kNonce, .advertise_host = "127.0.0.1"});
    EXPECT_THAT(node, IsOk());
    node_ = *std::move(node);
  }

  std::unique_ptr<FeedReceiver> node_;
};

TEST_F(SilentConnectionsTest, OnlySoManyAreTakenAtOnceAndAllAreTurnedOut) {
  for (const std::string& endpoint :
       {node_->endpoints().tcp, node_->endpoints().ipc, node_->endpoints().curve}) {
    const int most = MostTakenAtOnce(endpoint);
    EXPECT_GT(most, 0) << endpoint;
    EXPECT_LE(most, kBound) << endpoint;
  }
  // Who logs in is served as ever.
  auto feed = node_->GetDataFeed({.train_mode = true});
  ASSERT_THAT(feed, IsOk());
  auto feeder = Feeder::Start({});
  ASSERT_THAT(feeder, IsOk());
  auto session = (*feeder)->OpenSession({.node = "worker:0",
                                         .nonce = kNonce,
                                         .tcp_endpoint = node_->endpoints().tcp,
                                         .key = node_->endpoints().key},
                                        {.feed_id = "f1", .feed_timeout = kPatience});
  ASSERT_THAT(session, IsOk());
  ASSERT_THAT((*session)->Send(LedgerRows(0, 0, 0, 10)), IsOk());
  const auto rows = (*feed)->NextBatch(10);
  ASSERT_THAT(rows, IsOk());
  EXPECT_EQ(rows->num_rows(), 10);
}

}  // namespace
}  // namespace millrace::attacks
