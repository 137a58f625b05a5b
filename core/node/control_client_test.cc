#include "core/node/control_client.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "core/base/json.h"
#include "core/base/mutex.h"
#include "core/base/status_matchers.h"
#include "core/base/thread.h"
#include "core/base/unique_fd.h"
#include "core/node/fake_agent_channel.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace millrace {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr absl::Duration kLong = absl::Minutes(1);

class ControlClientTest : public testing::Test {
 protected:
  void Start() { Start(agent_.TakeNodeEnd()); }
  void Start(UniqueFd fd) {
    absl::StatusOr<std::unique_ptr<ControlClient>> client =
        ControlClient::Start(std::move(fd), {.on_push =
                                                 [this](ControlClient&, const Json& frame) {
                                                   MutexLock lock(&mu_);
                                                   pushes_.push_back(frame);
                                                   changed_.SignalAll();
                                                 },
                                             .on_tick = [this](ControlClient&) { OnTick(); },
                                             .on_closed =
                                                 [this](const absl::Status& status) {
                                                   EXPECT_FALSE(closed_.HasBeenNotified());
                                                   end_ = status;
                                                   closed_.Notify();
                                                 }});
    ASSERT_THAT(client, IsOk());
    client_ = *std::move(client);
  }

  void OnTick() {
    if (tick_takes_ > absl::ZeroDuration()) absl::SleepFor(tick_takes_);
    MutexLock lock(&mu_);
    ++ticks_;
    changed_.SignalAll();
  }

  int WaitForTicks(int count) {
    const absl::Time deadline = absl::Now() + kLong;
    MutexLock lock(&mu_);
    while (ticks_ < count) {
      if (changed_.WaitWithDeadline(&mu_, deadline)) break;
    }
    return ticks_;
  }

  std::vector<Json> WaitForPushes(size_t count) {
    const absl::Time deadline = absl::Now() + kLong;
    MutexLock lock(&mu_);
    while (pushes_.size() < count) {
      if (changed_.WaitWithDeadline(&mu_, deadline)) break;
    }
    return pushes_;
  }

  absl::Status WaitForEnd() {
    return closed_.WaitForNotificationWithTimeout(kLong) ? end_
                                                         : absl::UnknownError("it did not end");
  }

  // What was sent, then the end of the channel.
  absl::Status EndAfter(absl::string_view bytes) {
    Start();
    agent_.SendBytes(bytes);
    agent_.Close();
    return WaitForEnd();
  }

  FakeAgentChannel agent_;
  Mutex mu_;
  CondVar changed_;
  std::vector<Json> pushes_ ABSL_GUARDED_BY(mu_);
  int ticks_ ABSL_GUARDED_BY(mu_) = 0;
  absl::Duration tick_takes_;
  Notification closed_;
  absl::Status end_;
  std::unique_ptr<ControlClient> client_;  // last: its thread uses the rest
};

TEST_F(ControlClientTest, CallsAndReturnsTheResult) {
  agent_.Answer("kv.get", [](const Json& params) { return Json{{"value", params["key"]}}; });
  Start();
  const absl::StatusOr<Json> reply = client_->Call("kv.get", Json{{"key", "a"}}, kLong);
  ASSERT_THAT(reply, IsOk());
  EXPECT_EQ(*reply, (Json{{"value", "a"}}));
  const FakeAgentChannel::Request request = agent_.WaitFor("kv.get");
  EXPECT_EQ(request.id, 1u);
  EXPECT_EQ(request.params, (Json{{"key", "a"}}));
}

TEST_F(ControlClientTest, ReturnsTheAgentsErrorAsAStatus) {
  agent_.Answer("kv.get", [](const Json&) { return absl::NotFoundError("no such key"); });
  agent_.Answer("odd", [this](const Json&) {
    agent_.SendBytes(ControlFrame(R"({"id": 2, "error": {"code": "NO_SUCH", "message": "m"}})"));
    return std::nullopt;
  });
  agent_.Answer("odder", [this](const Json&) {
    agent_.SendBytes(ControlFrame(R"({"id": 3, "error": 7})"));
    return std::nullopt;
  });
  agent_.Answer("fine?", [this](const Json&) {
    agent_.SendBytes(ControlFrame(R"({"id": 4, "error": {"code": "OK", "message": "m"}})"));
    return std::nullopt;
  });
  agent_.Answer("none", [this](const Json&) {
    agent_.SendBytes(ControlFrame(R"({"id": 5})"));
    return std::nullopt;
  });
  Start();
  const Json no = Json::object();
  EXPECT_THAT(client_->Call("kv.get", no, kLong),
              StatusIs(absl::StatusCode::kNotFound, "no such key"));
  EXPECT_THAT(client_->Call("odd", no, kLong), StatusIs(absl::StatusCode::kUnknown, "m"));
  EXPECT_THAT(client_->Call("odder", no, kLong), StatusIs(absl::StatusCode::kUnknown));
  EXPECT_THAT(client_->Call("fine?", no, kLong), StatusIs(absl::StatusCode::kUnknown, "m"));
  EXPECT_THAT(client_->Call("none", no, kLong), StatusIs(absl::StatusCode::kInternal));
}

TEST_F(ControlClientTest, NotifiesWithoutAnId) {
  Start();
  ASSERT_THAT(client_->Notify("metric", Json{{"step", 1}}), IsOk());
  EXPECT_TRUE(client_->Flush(kLong));
  const FakeAgentChannel::Request request = agent_.WaitFor("metric");
  EXPECT_EQ(request.id, std::nullopt);
  EXPECT_EQ(request.params, (Json{{"step", 1}}));
}

TEST_F(ControlClientTest, GivesEachOfManyThreadsItsOwnReplyWhilePushesCome) {
  constexpr int kThreads = 8;
  constexpr int kCalls = 50;
  agent_.Answer("echo", [this](const Json& params) -> std::optional<absl::StatusOr<Json>> {
    agent_.Push(Json{{"push", "noise"}});
    return params;
  });
  Start();
  std::atomic<int> right{0};
  {
    std::vector<Thread> threads;
    for (int t = 0; t < kThreads; ++t) {
      threads.emplace_back("caller", [&, t] {
        for (int i = 0; i < kCalls; ++i) {
          // Some larger than the socket's buffer.
          const std::string pad(t + i == 7 ? 1 << 18 : 9, 'x');
          const Json params{{"t", t}, {"i", i}, {"pad", pad}};
          const absl::StatusOr<Json> reply = client_->Call("echo", params, kLong);
          if (reply.ok() && *reply == params) ++right;
        }
      });
    }
  }
  EXPECT_EQ(right, kThreads * kCalls);
  EXPECT_EQ(WaitForPushes(kThreads * kCalls).size(), size_t{kThreads * kCalls});
}

TEST_F(ControlClientTest, MatchesRepliesThatComeInAnotherOrder) {
  agent_.Answer("slow", [](const Json&) { return std::nullopt; });
  agent_.Answer("quick", [this](const Json&) -> std::optional<absl::StatusOr<Json>> {
    agent_.Reply(*agent_.WaitFor("quick").id, Json("q"));
    agent_.Reply(*agent_.WaitFor("slow").id, Json("s"));
    return std::nullopt;
  });
  Start();
  absl::StatusOr<Json> slow;
  Thread thread("slow", [&] { slow = client_->Call("slow", Json::object(), kLong); });
  (void)agent_.WaitFor("slow");
  EXPECT_THAT(client_->Call("quick", Json::object(), kLong), IsOkAndHolds(Json("q")));
  thread.Join();
  EXPECT_THAT(slow, IsOkAndHolds(Json("s")));
}

TEST_F(ControlClientTest, KeepsTheOrderOfPushes) {
  Start();
  for (int i = 0; i < 3; ++i) agent_.Push(Json{{"push", "p"}, {"i", i}});
  const std::vector<Json> pushes = WaitForPushes(3);
  ASSERT_EQ(pushes.size(), 3u);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(pushes[i]["i"], i);
}

TEST_F(ControlClientTest, TicksAgainAndAgainOnceItIsToldTo) {
  Start();
  agent_.Push(Json{{"push", "p"}});
  (void)WaitForPushes(1);
  EXPECT_EQ(WaitForTicks(0), 0);
  client_->StartTicks(absl::Milliseconds(1));
  EXPECT_GE(WaitForTicks(3), 3);
  EXPECT_THAT(client_->Call("ping", Json::object(), kLong), IsOk());
}

TEST_F(ControlClientTest, ReadsBetweenTicksThatTakeLongerThanTheirInterval) {
  tick_takes_ = absl::Milliseconds(3);
  Start();
  client_->StartTicks(absl::Milliseconds(1));
  EXPECT_GE(WaitForTicks(3), 3);
  EXPECT_THAT(client_->Call("ping", Json::object(), kLong), IsOk());
}

TEST_F(ControlClientTest, GivesUpAfterTheTimeoutAndIgnoresTheLateReply) {
  agent_.Answer("never", [](const Json&) { return std::nullopt; });
  agent_.Answer("next", [this](const Json&) {
    agent_.Reply(1, Json("late"));
    return Json("now");
  });
  Start();
  EXPECT_THAT(
      client_->Call("never", Json::object(), absl::Milliseconds(20)),
      StatusIs(absl::StatusCode::kDeadlineExceeded, "the agent did not answer never within 20ms"));
  EXPECT_THAT(client_->Call("never", Json::object(), absl::ZeroDuration()),
              StatusIs(absl::StatusCode::kDeadlineExceeded));
  EXPECT_THAT(client_->Call("never", Json::object(), -absl::InfiniteDuration()),
              StatusIs(absl::StatusCode::kDeadlineExceeded));
  EXPECT_THAT(client_->Call("next", Json::object(), absl::InfiniteDuration()),
              IsOkAndHolds(Json("now")));
}

TEST_F(ControlClientTest, IgnoresRepliesToNobody) {
  Start();
  for (const char* frame : {R"({"id": 99, "result": {}})", R"({"id": -1, "result": {}})",
                            R"({"id": "1", "result": {}})", R"({"result": {}})", "{}"}) {
    agent_.SendBytes(ControlFrame(frame));
  }
  EXPECT_THAT(client_->Call("kv.set", Json::object(), kLong), IsOk());
}

TEST_F(ControlClientTest, ReadsFramesThatComeByteByByte) {
  Start();
  const std::string frames =
      absl::StrCat(ControlFrame(R"({"push": "a"})"), ControlFrame(R"({"push": "b"})"));
  for (const char c : frames) agent_.SendBytes(absl::string_view(&c, 1));
  EXPECT_THAT(WaitForPushes(2), ElementsAre(Json{{"push", "a"}}, Json{{"push", "b"}}));
}

TEST_F(ControlClientTest, TakesTheLargestFrameBothWays) {
  agent_.Answer("echo", [](const Json& params) { return params; });
  Start();
  const size_t around = DumpJson(Json{{"id", 1}, {"method", "echo"}, {"params", ""}}).size();
  const std::string largest(kMaxControlFrameBytes - around, 'x');
  EXPECT_THAT(client_->Call("echo", Json(largest), kLong), IsOkAndHolds(Json(largest)));
  EXPECT_THAT(client_->Call("echo", Json(largest + "x"), kLong),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("over the limit")));
  EXPECT_EQ(agent_.requests().size(), 1u);
}

// ---- the end ------------------------------------------------------------------------------------

TEST_F(ControlClientTest, FailsCallsAndTellsTheOwnerWhenTheAgentIsGone) {
  agent_.Answer("kv.get", [this](const Json&) {
    agent_.Close();
    return std::nullopt;
  });
  Start();
  const auto gone = StatusIs(absl::StatusCode::kUnavailable, "the agent is gone");
  EXPECT_THAT(client_->Call("kv.get", Json::object(), kLong), gone);
  EXPECT_THAT(WaitForEnd(), gone);
  EXPECT_THAT(client_->Call("kv.get", Json::object(), kLong), gone);
  EXPECT_THAT(client_->Notify("metric", Json::object()), gone);
  EXPECT_FALSE(client_->Flush(kLong));
}

TEST_F(ControlClientTest, SaysTheSameWhenTheAgentDiesWithOurFramesUnread) {
  int fds[2];
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds), 0);
  UniqueFd agent(fds[1]);
  Start(UniqueFd(fds[0]));
  ASSERT_THAT(client_->Notify("metric", Json::object()), IsOk());
  agent.reset();  // the node's read fails with ECONNRESET
  EXPECT_THAT(WaitForEnd(), StatusIs(absl::StatusCode::kUnavailable, "the agent is gone"));
}

TEST_F(ControlClientTest, DeliversWhatTheAgentWroteBeforeItsEnd) {
  EXPECT_THAT(EndAfter(ControlFrame(R"({"push": "last"})")),
              StatusIs(absl::StatusCode::kUnavailable));
  EXPECT_THAT(WaitForPushes(1), ElementsAre(Json{{"push", "last"}}));
}

TEST_F(ControlClientTest, EndsWhenTheChannelEndsInsideTheLength) {
  EXPECT_THAT(EndAfter(absl::string_view("\x05\x00", 2)),
              StatusIs(absl::StatusCode::kDataLoss, "the agent ended inside a control frame"));
}

TEST_F(ControlClientTest, EndsWhenTheChannelEndsInsideAFrame) {
  EXPECT_THAT(EndAfter(absl::string_view("\x05\x00\x00\x00{", 5)),
              StatusIs(absl::StatusCode::kDataLoss, "the agent ended inside a control frame"));
}

TEST_F(ControlClientTest, EndsAtAnOversizedFrameWithoutReadingIt) {
  Start();
  agent_.SendBytes(absl::string_view("\x01\x00\x40\x00", 4));  // 4 MiB and 1
  EXPECT_THAT(WaitForEnd(),
              StatusIs(absl::StatusCode::kDataLoss, HasSubstr("a control frame of 4194305 bytes")));
}

TEST_F(ControlClientTest, EndsAtFramesThatAreNoObjects) {
  for (const char* text : {"", "[]", "7", "{", "\xff", "{} {}"}) {
    FakeAgentChannel agent;
    Notification closed;
    absl::Status end;
    auto client =
        ControlClient::Start(agent.TakeNodeEnd(), {.on_closed = [&](const absl::Status& status) {
                               end = status;
                               closed.Notify();
                             }});
    ASSERT_THAT(client, IsOk());
    agent.SendBytes(ControlFrame(text));
    ASSERT_TRUE(closed.WaitForNotificationWithTimeout(kLong)) << text;
    EXPECT_THAT(end, StatusIs(absl::StatusCode::kDataLoss, HasSubstr("no JSON object"))) << text;
    EXPECT_THAT((*client)->Call("x", Json::object(), kLong), StatusIs(absl::StatusCode::kDataLoss));
  }
}

TEST_F(ControlClientTest, CancelsCallsThatWaitWhenItIsDestroyed) {
  agent_.Answer("barrier", [](const Json&) { return std::nullopt; });
  Start();
  std::vector<absl::Status> outcomes(4);
  std::vector<Thread> threads;
  for (absl::Status& outcome : outcomes) {
    threads.emplace_back("caller", [client = client_.get(), &outcome] {
      outcome = client->Call("barrier", Json::object(), absl::InfiniteDuration()).status();
    });
  }
  (void)agent_.WaitFor("barrier", outcomes.size());
  client_.reset();
  threads.clear();
  for (const absl::Status& outcome : outcomes) {
    EXPECT_THAT(outcome, StatusIs(absl::StatusCode::kCancelled, "the control channel was closed"));
  }
  EXPECT_FALSE(closed_.HasBeenNotified());  // the owner knows
  agent_.WaitForEnd();
}

// ---- an agent that does not read ----------------------------------------------------------------

class StuckAgentTest : public ControlClientTest {
 protected:
  StuckAgentTest() {
    int fds[2];
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds), 0);
    agent_end_.reset(fds[1]);
    Start(UniqueFd(fds[0]));
  }
  // Until there is no room for one of a MiB.
  void Fill() {
    const Json megabyte(std::string(1 << 20, 'x'));
    int sent = 0;
    absl::Status status;
    while ((status = client_->Notify("log", megabyte)).ok()) ASSERT_LT(++sent, 20);
    EXPECT_GE(sent, 7);
    EXPECT_THAT(status, StatusIs(absl::StatusCode::kResourceExhausted,
                                 "the agent does not read: log was not sent"));
  }

  UniqueFd agent_end_;
};

TEST_F(StuckAgentTest, BlocksNobodyBeyondHisTimeoutAndGetsTheRestOnceItReadsAgain) {
  Fill();
  const Json megabyte(std::string(1 << 20, 'x'));
  EXPECT_THAT(
      client_->Call("kv.set", megabyte, absl::Milliseconds(20)),
      StatusIs(absl::StatusCode::kDeadlineExceeded, "the agent did not answer kv.set within 20ms"));
  EXPECT_FALSE(client_->Flush(absl::Milliseconds(20)));

  std::atomic<uint64_t> received{0};
  Thread reader("reader", [&] {
    std::vector<char> buffer(1 << 16);
    ssize_t got = 0;
    while ((got = ::read(agent_end_.get(), buffer.data(), buffer.size())) > 0) {
      received += static_cast<uint64_t>(got);
    }
  });
  EXPECT_TRUE(client_->Flush(kLong));
  EXPECT_THAT(client_->Notify("log", Json("after")), IsOk());
  EXPECT_TRUE(client_->Flush(kLong));
  client_.reset();
  reader.Join();
  EXPECT_GT(received, uint64_t{7} << 20);
}

TEST_F(StuckAgentTest, IsNotWaitedForByTheDestructor) {
  ASSERT_THAT(client_->Notify("log", Json(std::string(1 << 20, 'x'))), IsOk());
  EXPECT_FALSE(client_->Flush(absl::ZeroDuration()));
  client_.reset();
}

TEST_F(StuckAgentTest, FailsWaitingSendersWhenItDies) {
  Fill();
  const Json megabyte(std::string(1 << 20, 'x'));
  absl::Status outcome;
  Thread caller("caller", [&] {
    outcome = client_->Call("kv.set", megabyte, absl::InfiniteDuration()).status();
  });
  agent_end_.reset();
  caller.Join();
  EXPECT_THAT(outcome, StatusIs(absl::StatusCode::kUnavailable, "the agent is gone"));
  EXPECT_THAT(WaitForEnd(), StatusIs(absl::StatusCode::kUnavailable, "the agent is gone"));
}

// ---- the descriptor -----------------------------------------------------------------------------

TEST(ControlSocketTest, IsCloseOnExecAndLeavesItsFlagsAlone) {
  FakeAgentChannel agent;
  UniqueFd fd = agent.TakeNodeEnd();
  const int number = fd.get();
  ASSERT_EQ(::fcntl(number, F_SETFD, 0), 0);  // as it is inherited
  const int status_flags = ::fcntl(number, F_GETFL);
  auto client = ControlClient::Start(std::move(fd), {});
  ASSERT_THAT(client, IsOk());
  EXPECT_EQ(::fcntl(number, F_GETFD), FD_CLOEXEC);
  EXPECT_EQ(::fcntl(number, F_GETFL), status_flags);
}

TEST(ControlSocketTest, RefusesWhatIsNoChannel) {
  const auto refused = [](int fd) {
    return StatusIs(absl::StatusCode::kFailedPrecondition,
                    absl::StrCat("descriptor ", fd, " is not the control channel of an agent"));
  };
  EXPECT_THAT(ControlClient::Start(UniqueFd(), {}), refused(-1));
  UniqueFd file(::open("/dev/null", O_RDWR | O_CLOEXEC));
  EXPECT_THAT(CheckControlSocket(file.get()), refused(file.get()));
  UniqueFd tcp(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  EXPECT_THAT(CheckControlSocket(tcp.get()), refused(tcp.get()));
  UniqueFd unconnected(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  EXPECT_THAT(CheckControlSocket(unconnected.get()), refused(unconnected.get()));
  UniqueFd packets(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  EXPECT_THAT(CheckControlSocket(packets.get()), refused(packets.get()));
}

}  // namespace
}  // namespace millrace
