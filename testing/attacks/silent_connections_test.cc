// Strangers who connect to a port of the feed and say nothing, at a node or at a feeder in a JVM:
// each may for two seconds, and only so many at a time, so that they cannot use up the process's
// descriptors. A feeder that has to wait gets its turn.

#include <dirent.h>
#include <poll.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "core/base/file.h"
#include "core/base/json.h"
#include "core/base/status_matchers.h"
#include "core/base/unique_fd.h"
#include "core/process/exit_status.h"
#include "core/process/process.h"
#include "feed/feeder/fake_feed_node.h"
#include "feed/feeder/feeder.h"
#include "feed/feeder/node_directory.h"
#include "feed/receiver/receiver.h"
#include "feed/wire/frame.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "millrace/data_feed.h"
#include "testing/attacks/raw_peer.h"
#include "testing/child_process.h"
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

int OpenSockets(pid_t pid) {
  const std::string folder = absl::StrCat("/proc/", pid, "/fd");
  DIR* const dir = opendir(folder.c_str());
  EXPECT_NE(dir, nullptr);
  if (dir == nullptr) return 0;
  int count = 0;
  while (const dirent* entry = readdir(dir)) {
    char target[64] = {};
    const std::string link = JoinPath(folder, entry->d_name);
    const ssize_t size = readlink(link.c_str(), target, sizeof(target));
    count += size > 0 && absl::StartsWith({target, static_cast<size_t>(size)}, "socket:") ? 1 : 0;
  }
  closedir(dir);
  return count;
}

bool IsClosed(const UniqueFd& stranger) {
  pollfd closed{.fd = stranger.get(), .events = POLLRDHUP};
  return poll(&closed, 1, 0) == 1 && (closed.revents & (POLLRDHUP | POLLHUP | POLLERR)) != 0;
}

// How many the process takes at once, until each has been turned out.
int MostTakenAtOnce(pid_t pid, absl::string_view endpoint) {
  const int before = OpenSockets(pid);
  const int own = pid == getpid() ? kStrangers : 0;  // the other ends
  std::vector<UniqueFd> strangers;
  for (int i = 0; i < kStrangers; ++i) strangers.push_back(ConnectTo(endpoint));
  int most = 0;
  const absl::Time deadline = absl::Now() + kPatience;
  while (!std::all_of(strangers.begin(), strangers.end(), IsClosed)) {
    most = std::max(most, OpenSockets(pid) - before - own);
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
    limit.rlim_max = std::min(kDescriptors, limit.rlim_max);  // a JVM takes as many as it may
    limit.rlim_cur = limit.rlim_max;
    EXPECT_EQ(setrlimit(RLIMIT_NOFILE, &limit), 0);
  }
};

TEST_F(SilentConnectionsTest, ANodeTakesOnlySoManyAtOnceAndTurnsAllOut) {
  const auto node = FeedReceiver::Start(
      {.node_name = "worker:0", .nonce = kNonce, .advertise_host = "127.0.0.1"});
  ASSERT_THAT(node, IsOk());
  const FeedEndpoints& endpoints = (*node)->endpoints();
  for (const std::string& endpoint : {endpoints.tcp, endpoints.ipc, endpoints.curve}) {
    const int most = MostTakenAtOnce(getpid(), endpoint);
    EXPECT_GT(most, 0) << endpoint;
    EXPECT_LE(most, kBound) << endpoint;
  }
  // Who logs in is served as ever.
  auto feed = (*node)->GetDataFeed({.train_mode = true});
  ASSERT_THAT(feed, IsOk());
  auto feeder = Feeder::Start({});
  ASSERT_THAT(feeder, IsOk());
  auto session = (*feeder)->OpenSession(
      {.node = "worker:0", .nonce = kNonce, .tcp_endpoint = endpoints.tcp, .key = endpoints.key},
      {.feed_id = "f1", .feed_timeout = kPatience});
  ASSERT_THAT(session, IsOk());
  ASSERT_THAT((*session)->Send(LedgerRows(0, 0, 0, 10)), IsOk());
  const auto rows = (*feed)->NextBatch(10);
  ASSERT_THAT(rows, IsOk());
  EXPECT_EQ(rows->num_rows(), 10);
}

TEST_F(SilentConnectionsTest, AFeederInAJvmTakesOnlySoManyAtOnceAndTurnsAllOut) {
  const FakeFeedNode::Script read_all = FakeFeedNode::ReadAll();
  // It has both of its connections to the feeder by then, and says that it is done in the end.
  FakeFeedNode node("worker:0", [&](FakeFeedNode::Session& session, FrameType type) {
    if (type != FrameType::kEndPartition) read_all(session, type);
  });
  const auto folder = TempDir::Create();
  ASSERT_THAT(folder, IsOk());
  const std::string lookup = JoinPath(folder->path(), "lookup.json");
  const FeedTarget target = node.target();
  const Json found = {{"state", "running"},
                      {"endpoint", target.tcp_endpoint},
                      {"key", target.key},
                      {"nonce", target.nonce}};
  ASSERT_THAT(WriteFileAtomic(lookup, found.dump()), IsOk());
  const auto feeder =
      ChildProcess::Start({EnvOr("FEEDER", ""), "--lookup-file", lookup, "--mode", "train",
                           "--partitions", "1", "--rows", "10", "--batch-rows", "10", "--feed-id",
                           "f1", "--deadline", "120", "--feed-timeout", "60"});
  ASSERT_THAT(feeder, IsOk());
  const auto all_sent = [](const std::vector<FakeFeedNode::Event>& events) {
    return !events.empty() && events.back().type == FrameType::kEndPartition;
  };
  const absl::Time deadline = absl::Now() + kPatience;
  while (!node.WaitFor(all_sent)) ASSERT_LT(absl::Now(), deadline);

  const int most = MostTakenAtOnce((*feeder)->pid(), node.events()[0].open.reply.endpoint);
  EXPECT_GT(most, 0);
  EXPECT_LE(most, kBound);
  node.Post([&](FakeFeedNode::Session& session) { read_all(session, FrameType::kEndPartition); });
  const auto exit = (*feeder)->Wait(kPatience);
  ASSERT_THAT(exit, IsOk());
  EXPECT_EQ(exit->code, 0);
  EXPECT_EQ(node.values().size(), 10);
}

}  // namespace
}  // namespace millrace::attacks
