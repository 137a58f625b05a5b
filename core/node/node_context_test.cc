#include "core/node/node_context.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <sched.h>
#include <sys/socket.h>

#include <atomic>
#include <cmath>
#include <filesystem>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "core/base/file.h"
#include "core/base/json.h"
#include "core/base/mutex.h"
#include "core/base/status_matchers.h"
#include "core/base/thread.h"
#include "core/base/unique_fd.h"
#include "core/base/version.h"
#include "core/node/fake_agent_channel.h"
#include "core/node/node_config.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "millrace/cluster_spec.h"
#include "millrace/data_feed.h"
#include "millrace/node.h"

namespace millrace {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::StartsWith;

constexpr absl::Duration kLong = absl::Minutes(1);
using Outcome = std::optional<absl::StatusOr<Json>>;

NodeConfig Config(const std::string& job, int index, std::optional<int> rank) {
  NodeConfig config;
  config.cluster_id = "c1";
  config.executor_id = 3;
  config.job_name = job;
  config.task_index = index;
  config.attempt = 2;
  config.nonce = "0123456789abcdef";
  config.epoch = 4;
  config.cluster_spec = *ClusterSpec::Create({{"worker", ClusterSpec::TaskList{"h:1", "h:2"}}});
  config.num_workers = 2;
  config.rank = rank;
  config.queues = {"input", "output"};
  config.default_fs = "file://";
  config.working_dir = "/work";
  config.log_dir = "/log";
  config.address = "h:2";
  config.port = 2;
  config.feed_budget_bytes = 1 << 20;
  return config;
}

class NodeContextTest : public testing::Test {
 protected:
  absl::Status TryCreate(NodeConfig config) {
    absl::StatusOr<std::unique_ptr<NodeContext>> context =
        CreateNodeContext(std::move(config), agent_.TakeNodeEnd(), [this](const absl::Status& why) {
          gone_status_ = why;
          gone_.Notify();
        });
    if (!context.ok()) return context.status();
    context_ = *std::move(context);
    return absl::OkStatus();
  }
  NodeContext& Create(NodeConfig config) {
    const absl::Status status = TryCreate(std::move(config));
    EXPECT_THAT(status, IsOk());
    return *context_;
  }
  NodeContext& CreateWorker() { return Create(Config("worker", 1, 1)); }

  std::vector<std::string> Methods() const {
    std::vector<std::string> methods;
    for (const FakeAgentChannel::Request& request : agent_.requests()) {
      methods.push_back(request.method);
    }
    return methods;
  }
  // Returns when the context has handled every push sent so far: one thread does both.
  void AwaitPushes() { EXPECT_THAT(context_->kv().Delete("sync"), IsOk()); }

  FakeAgentChannel agent_;
  Notification gone_;
  absl::Status gone_status_;
  std::unique_ptr<NodeContext> context_;  // last: its thread uses the rest
};

// ---- identity -----------------------------------------------------------------------------------

TEST_F(NodeContextTest, KnowsItsPlace) {
  const NodeContext& node = CreateWorker();
  EXPECT_EQ(node.cluster_id(), "c1");
  EXPECT_EQ(node.executor_id(), 3);
  EXPECT_EQ(node.job_name(), "worker");
  EXPECT_EQ(node.task_index(), 1);
  EXPECT_EQ(node.name(), "worker:1");
  EXPECT_EQ(node.attempt(), 2);
  EXPECT_EQ(node.num_workers(), 2);
  EXPECT_EQ(node.rank(), 1);
  EXPECT_EQ(node.epoch(), 4u);
  EXPECT_THAT(node.cluster_spec().TaskAddress("worker", 1), IsOkAndHolds("h:2"));
  EXPECT_EQ(node.default_fs(), "file://");
  EXPECT_EQ(node.working_dir(), "/work");
  EXPECT_EQ(node.log_dir(), "/log");
  EXPECT_EQ(node.address(), "h:2");
  EXPECT_EQ(node.AbsolutePath("m"), "file:///work/m");
  EXPECT_EQ(node.AbsolutePath("s3a://b/m"), "s3a://b/m");
}

struct ChiefRow {
  const char* job;
  int index;
  std::optional<int> rank;
  bool is_chief;
};

class IsChief : public testing::TestWithParam<ChiefRow> {};

TEST_P(IsChief, IsOneNodeOfEachCluster) {
  const ChiefRow& row = GetParam();
  FakeAgentChannel agent;
  const auto context = CreateNodeContext(Config(row.job, row.index, row.rank), agent.TakeNodeEnd(),
                                         [](const absl::Status&) {});
  ASSERT_THAT(context, IsOk());
  EXPECT_EQ((*context)->is_chief(), row.is_chief) << row.job << ":" << row.index;
  EXPECT_EQ((*context)->rank(), row.rank.value_or(-1));
}

INSTANTIATE_TEST_SUITE_P(Matrix, IsChief,
                         testing::Values(ChiefRow{"chief", 0, 0, true},
                                         ChiefRow{"master", 0, 0, true},
                                         ChiefRow{"worker", 0, 0, true},   // neither exists
                                         ChiefRow{"worker", 0, 1, false},  // one of them does
                                         ChiefRow{"worker", 1, 1, false},
                                         ChiefRow{"ps", 0, std::nullopt, false},
                                         ChiefRow{"evaluator", 0, std::nullopt, false}));

// ---- start --------------------------------------------------------------------------------------

TEST_F(NodeContextTest, SaysHelloAndThenReady) {
  CreateWorker();
  EXPECT_THAT(Methods(), testing::ElementsAre("hello", "ready"));
  EXPECT_EQ(
      agent_.WaitFor("hello").params,
      (Json{{"protocol", 1}, {"sdk", "millrace-c++"}, {"version", std::string(kMillraceVersion)}}));
  EXPECT_EQ(agent_.WaitFor("ready").params, (Json{{"other", Json::object()}}));
}

TEST_F(NodeContextTest, PublishesWhereItIsFed) {
  NodeConfig config = Config("worker", 1, 1);
  config.input_feed = true;
  NodeContext& node = Create(config);
  const Json feed = agent_.WaitFor("ready").params["feed"];
  EXPECT_THAT(GetString(feed, "tcp"), IsOkAndHolds(StartsWith("tcp://127.0.0.1:")));
  EXPECT_THAT(GetString(feed, "ipc"), IsOkAndHolds(StartsWith("ipc://@")));
  EXPECT_THAT(GetString(feed, "key"), IsOkAndHolds(testing::Not(IsEmpty())));
  EXPECT_THAT(GetString(feed, "curve"), IsOkAndHolds(StartsWith("tcp://")));
  EXPECT_THAT(GetString(feed, "curve_key"), IsOkAndHolds(testing::SizeIs(40)));
  EXPECT_THAT(node.TryGetDataFeed(), IsOk());
}

TEST_F(NodeContextTest, HasNoReceiverWhereNothingIsFed) {
  NodeConfig config = Config("ps", 0, std::nullopt);
  config.input_feed = true;
  NodeContext& node = Create(config);
  EXPECT_FALSE(agent_.WaitFor("ready").params.contains("feed"));
  EXPECT_THAT(node.TryGetDataFeed(),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       "ps:0 is not fed: only chief, master and workers are"));
}

TEST_F(NodeContextTest, SaysHowToRunAClusterThatFeeds) {
  EXPECT_THAT(CreateWorker().TryGetDataFeed(),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       "worker:1 is not fed: the cluster runs in InputMode DIRECT; run it with "
                       "InputMode FEED"));
}

TEST_F(NodeContextTest, TellsTheAgentWhenTheReceiverCannotStart) {
  NodeConfig config = Config("worker", 1, 1);
  config.input_feed = true;
  config.queues = {};  // no receiver without queues
  EXPECT_THAT(TryCreate(config),
              StatusIs(absl::StatusCode::kInvalidArgument, StartsWith("receiving the feed: ")));
  const Json exit = agent_.WaitFor("exit").params;
  EXPECT_THAT(GetString(exit, "code"), IsOkAndHolds("INVALID_ARGUMENT"));
  agent_.WaitForEnd();
  EXPECT_FALSE(gone_.HasBeenNotified());
}

TEST_F(NodeContextTest, ReturnsTheAgentsRefusal) {
  agent_.Answer("hello", [](const Json&) { return absl::FailedPreconditionError("another one"); });
  EXPECT_THAT(TryCreate(Config("worker", 1, 1)),
              StatusIs(absl::StatusCode::kFailedPrecondition, "another one"));
}

// ---- key-value ----------------------------------------------------------------------------------

// The coordinator's store, as far as these tests need it.
class KeyValueTest : public NodeContextTest {
 protected:
  KeyValueTest() {
    agent_.Answer("kv.set", [this](const Json& params) -> Outcome {
      store_[params["key"]] = params["value"];
      return Json::object();
    });
    agent_.Answer("kv.get", [this](const Json& params) -> Outcome {
      const auto found = store_.find(params["key"]);
      if (found == store_.end()) return absl::NotFoundError("no such key");
      return Json{{"value", found->second}};
    });
    CreateWorker();
  }
  std::map<std::string, std::string> store_;  // the fake's thread only
};

TEST_F(KeyValueTest, CarriesAnyBytesAsBase64) {
  std::string all;
  for (int i = 0; i < 256; ++i) all.push_back(static_cast<char>(i));
  for (const std::string& value :
       {std::string(), std::string("a"), std::string("\0", 1), all, std::string(1 << 20, '\xff')}) {
    ASSERT_THAT(context_->kv().Set("k", value), IsOk());
    EXPECT_THAT(context_->kv().Get("k"), IsOkAndHolds(value));
  }
  EXPECT_EQ(agent_.WaitFor("kv.set", 2).params, (Json{{"key", "k"}, {"value", "YQ=="}}));
}

TEST_F(KeyValueTest, PassesErrorsOn) {
  EXPECT_THAT(context_->kv().Get("absent"), StatusIs(absl::StatusCode::kNotFound, "no such key"));
  agent_.Answer("kv.delete", [](const Json&) { return absl::NotFoundError("no such key"); });
  EXPECT_THAT(context_->kv().Delete("absent"), StatusIs(absl::StatusCode::kNotFound));
  agent_.Answer("kv.add", [](const Json&) { return absl::InvalidArgumentError("no number"); });
  EXPECT_THAT(context_->kv().Add("k", 1), StatusIs(absl::StatusCode::kInvalidArgument));
}

TEST_F(KeyValueTest, SendsTheTimeoutInWholeMillisecondsRoundedUp) {
  const std::vector<std::pair<absl::Duration, int64_t>> rows = {
      {absl::ZeroDuration(), 0},        {absl::Microseconds(1), 1},
      {absl::Milliseconds(1500), 1500}, {-absl::Seconds(1), 0},
      {-absl::InfiniteDuration(), 0},   {absl::InfiniteDuration(), int64_t{36500} * 86400 * 1000}};
  size_t count = 0;
  for (const auto& [timeout, expected_ms] : rows) {
    EXPECT_THAT(context_->kv().Get("absent", timeout), StatusIs(absl::StatusCode::kNotFound));
    EXPECT_EQ(agent_.WaitFor("kv.get", ++count).params["timeout_ms"], expected_ms) << timeout;
  }
}

TEST_F(KeyValueTest, ReadsCountersAsNumbersAndAsDecimals) {
  NodeKeyValue& kv = context_->kv();
  const int64_t least = std::numeric_limits<int64_t>::min();
  for (const Json& value : {Json(least), Json(absl::StrCat(least))}) {
    agent_.Answer("kv.add", [value](const Json&) { return Json{{"value", value}}; });
    EXPECT_THAT(kv.Add("counter", -1), IsOkAndHolds(least));
  }
  EXPECT_EQ(agent_.WaitFor("kv.add").params, (Json{{"key", "counter"}, {"delta", -1}}));
  for (const Json& value : {Json("x"), Json(1.5), Json()}) {
    agent_.Answer("kv.add", [value](const Json&) { return Json{{"value", value}}; });
    EXPECT_THAT(kv.Add("counter", 1), StatusIs(absl::StatusCode::kInternal));
  }
}

TEST_F(KeyValueTest, RefusesAValueThatIsNoBase64) {
  for (const Json& value : {Json("?"), Json(1)}) {
    agent_.Answer("kv.get", [value](const Json&) { return Json{{"value", value}}; });
    EXPECT_THAT(context_->kv().Get("k"),
                StatusIs(absl::StatusCode::kInternal, "the agent's value of \"k\" is no base64"));
  }
}

TEST_F(KeyValueTest, RefusesKeysThatJsonWouldChange) {
  NodeKeyValue& kv = context_->kv();
  const auto refused =
      StatusIs(absl::StatusCode::kInvalidArgument, "the key \"a\\xff\" is not UTF-8");
  EXPECT_THAT(kv.Set("a\xff", "v"), refused);
  EXPECT_THAT(kv.Get("a\xff"), refused);
  EXPECT_THAT(kv.Add("a\xff", 1), refused);
  EXPECT_THAT(kv.Delete("a\xff"), refused);
  EXPECT_THAT(Methods(), testing::ElementsAre("hello", "ready"));
  EXPECT_THAT(kv.Set("schlüssel", "v"), IsOk());
}

// ---- barrier, metrics ---------------------------------------------------------------------------

class Barrier : public testing::TestWithParam<std::pair<const char*, bool>> {};

TEST_P(Barrier, IsForFedNodesOnly) {
  const auto& [job, takes_part] = GetParam();
  FakeAgentChannel agent;
  const auto context =
      CreateNodeContext(Config(job, 0, takes_part ? std::optional<int>(0) : std::nullopt),
                        agent.TakeNodeEnd(), [](const absl::Status&) {});
  ASSERT_THAT(context, IsOk());
  const absl::Status status = (*context)->Barrier("warm", absl::Seconds(2));
  if (takes_part) {
    EXPECT_THAT(status, IsOk());
    EXPECT_EQ(agent.WaitFor("barrier").params, (Json{{"name", "warm"}, {"timeout_ms", 2000}}));
  } else {
    EXPECT_THAT(status, StatusIs(absl::StatusCode::kFailedPrecondition,
                                 absl::StrCat(job,
                                              ":0 cannot wait at barrier \"warm\": only "
                                              "chief, master and workers take part")));
  }
}

INSTANTIATE_TEST_SUITE_P(Roles, Barrier,
                         testing::Values(std::pair("chief", true), std::pair("master", true),
                                         std::pair("worker", true), std::pair("ps", false),
                                         std::pair("evaluator", false)));

TEST_F(NodeContextTest, ReturnsWhoBrokeTheBarrier) {
  agent_.Answer("barrier", [](const Json&) { return absl::AbortedError("worker:0 has ended"); });
  NodeContext& node = CreateWorker();
  EXPECT_THAT(node.Barrier("warm"), StatusIs(absl::StatusCode::kAborted, "worker:0 has ended"));
  EXPECT_THAT(node.Barrier("\xff"), StatusIs(absl::StatusCode::kInvalidArgument));
}

TEST_F(NodeContextTest, ReportsMetricsThatJsonCanCarry) {
  NodeContext& node = CreateWorker();
  node.ReportMetric("loss", 1, std::nan(""));
  node.ReportMetric("loss", 2, std::numeric_limits<double>::infinity());
  node.ReportMetric("loss", 3, 0.5);
  const FakeAgentChannel::Request request = agent_.WaitFor("metric");
  EXPECT_EQ(request.id, std::nullopt);
  EXPECT_EQ(request.params, (Json{{"name", "loss"}, {"step", 3}, {"value", 0.5}}));
}

// ---- pushes -------------------------------------------------------------------------------------

TEST_F(NodeContextTest, FollowsTheSpecToLaterEpochsOnly) {
  NodeContext& node = CreateWorker();
  const auto push = [this](const Json& epoch, const char* address) {
    agent_.Push(
        Json{{"push", "spec"}, {"epoch", epoch}, {"cluster_spec", {{"worker", {"h:1", address}}}}});
    AwaitPushes();
    return *context_->cluster_spec().TaskAddress("worker", 1);
  };
  EXPECT_EQ(push(3, "older"), "h:2");
  EXPECT_EQ(push(4, "same"), "h:2");
  EXPECT_EQ(push(-1, "negative"), "h:2");
  EXPECT_EQ(push("9", "no number"), "h:2");
  EXPECT_EQ(push(6, "newer"), "newer");
  EXPECT_EQ(node.epoch(), 6u);
  EXPECT_EQ(push(5, "late"), "newer");
  EXPECT_EQ(node.epoch(), 6u);
  agent_.Push(Json{{"push", "spec"}, {"epoch", 7}, {"cluster_spec", {{"worker", 1}}}});
  agent_.Push(Json{{"push", "spec"}, {"epoch", 8}});
  AwaitPushes();
  EXPECT_EQ(node.epoch(), 6u);
}

TEST_F(NodeContextTest, TellsWhoWasReplaced) {
  NodeContext& node = CreateWorker();
  std::vector<std::pair<uint64_t, std::vector<MembershipChange>>> told;
  node.OnMembershipChange([&](uint64_t epoch, const std::vector<MembershipChange>& changes) {
    told.emplace_back(epoch, changes);
  });
  const auto push = [this](int epoch, const char* address, const Json& changes) {
    Json frame{
        {"push", "spec"}, {"epoch", epoch}, {"cluster_spec", {{"worker", {"h:1", address}}}}};
    if (!changes.is_null()) frame["changes"] = changes;
    agent_.Push(frame);
  };
  EXPECT_FALSE(node.WaitForEpoch(7, absl::Milliseconds(1)));
  const Json restarted{
      {"job_name", "worker"}, {"task_index", 1}, {"address", "h:2"}, {"attempt", 1}};
  push(5, "h:2", Json::array({restarted}));
  push(6, "h:3", Json());
  push(7, "h:3", Json::array({Json{{"job_name", 1}}}));  // not told, but true
  EXPECT_TRUE(node.WaitForEpoch(7));
  AwaitPushes();
  node.OnMembershipChange(nullptr);
  push(8, "h:4", Json());
  AwaitPushes();
  EXPECT_EQ(node.epoch(), 8u);
  ASSERT_EQ(told.size(), 2u);
  EXPECT_EQ(told[0].first, 5u);
  EXPECT_EQ(told[0].second, (std::vector<MembershipChange>{{"worker", 1, "h:2", "h:2", 1}}));
  EXPECT_EQ(told[1].first, 6u);
  EXPECT_EQ(told[1].second, (std::vector<MembershipChange>{{"worker", 1, "h:2", "h:3", -1}}));
}

TEST_F(NodeContextTest, StopsWhenAsked) {
  NodeContext& node = CreateWorker();
  EXPECT_FALSE(node.stop_requested());
  EXPECT_FALSE(node.WaitForStop(absl::Milliseconds(1)));
  bool stopped = false;
  Thread waiter("waiter", [&] { stopped = node.WaitForStop(); });
  agent_.Push(Json{{"push", "stop"}, {"reason", "shutdown"}});
  waiter.Join();
  EXPECT_TRUE(stopped);
  EXPECT_TRUE(node.stop_requested());
  agent_.Push(Json{{"push", "stop"}});
  AwaitPushes();
  EXPECT_TRUE(node.WaitForStop(absl::ZeroDuration()));
}

TEST_F(NodeContextTest, EndsWaitsForOthersWhenItIsStopped) {
  NodeContext& node = CreateWorker();
  agent_.Answer("kv.get", [](const Json&) { return std::nullopt; });
  agent_.Answer("barrier", [](const Json&) { return std::nullopt; });
  const auto cancelled = StatusIs(absl::StatusCode::kCancelled, HasSubstr("enough"));
  Thread get("get", [&] { EXPECT_THAT(node.kv().Get("k", kLong), cancelled); });
  Thread barrier("barrier", [&] { EXPECT_THAT(node.Barrier("warm", kLong), cancelled); });
  EXPECT_EQ(agent_.WaitFor("kv.get").method, "kv.get");
  EXPECT_EQ(agent_.WaitFor("barrier").method, "barrier");
  agent_.Push(Json{{"push", "stop"}, {"reason", "enough"}});
  get.Join();
  barrier.Join();
  EXPECT_THAT(node.Barrier("warm", kLong), cancelled);
  // What does not wait for others goes on: a program may put its things away.
  agent_.Answer("kv.get", [](const Json&) { return Json{{"value", "dg=="}}; });
  EXPECT_THAT(node.kv().Get("k"), IsOkAndHolds("v"));
}

TEST_F(NodeContextTest, IgnoresPushesThatItDoesNotUnderstand) {
  CreateWorker();
  agent_.Push(Json{{"push", "from_a_later_version"}});
  agent_.Push(Json{{"push", 7}});
  agent_.Push(Json{{"push", "feed_end"}});
  agent_.Push(Json{{"push", "feed_end"}, {"feed_id", "f"}});
  agent_.Push(Json{{"push", "end_feed"}, {"queue", 7}});
  agent_.Push(Json{{"push", "end_feed"}});
  agent_.Push(Json{{"push", "feeder_keys"}});
  agent_.Push(Json{{"push", "feeder_keys"}, {"keys", {{"feeder/1", 7}, {"x", "y"}}}});
  AwaitPushes();
  EXPECT_FALSE(context_->stop_requested());
  EXPECT_FALSE(gone_.HasBeenNotified());
}

class FedNodeTest : public NodeContextTest {
 protected:
  FedNodeTest() {
    NodeConfig config = Config("worker", 1, 1);
    config.input_feed = true;
    Create(config);
  }
  // Nothing comes, and the reading thread is told so.
  static void ExpectEnd(DataFeed* feed) {
    const absl::StatusOr<Batch> batch = feed->NextBatch(1);
    ASSERT_THAT(batch, IsOk());
    EXPECT_TRUE(batch->empty());
    EXPECT_TRUE(feed->ShouldStop());
  }
};

TEST_F(FedNodeTest, EndsOneQueueOrAllOfThem) {
  const std::unique_ptr<DataFeed> input = context_->GetDataFeed();
  const std::unique_ptr<DataFeed> output = context_->GetDataFeed({.queue = "output"});
  agent_.Push(Json{{"push", "end_feed"}, {"queue", "output"}});
  ExpectEnd(output.get());
  EXPECT_FALSE(input->ShouldStop());
  agent_.Push(Json{{"push", "end_feed"}, {"queue", ""}});
  ExpectEnd(input.get());
}

TEST_F(FedNodeTest, EndsItsFeedsWhenItIsStopped) {
  const std::unique_ptr<DataFeed> input = context_->GetDataFeed();
  agent_.Push(Json{{"push", "stop"}, {"reason", "shutdown"}});
  ExpectEnd(input.get());
  EXPECT_TRUE(context_->WaitForStop(kLong));
}

TEST_F(FedNodeTest, NamesTheQueuesThereAre) {
  EXPECT_THAT(context_->TryGetDataFeed({.queue = "inptu"}),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("input")));
}

// ---- the reserved port --------------------------------------------------------------------------

class ReservedPortTest : public NodeContextTest {
 protected:
  ReservedPortTest() : config_(Config("worker", 1, 1)) {
    const int fd = ::socket(AF_INET, SOCK_STREAM, 0);
    EXPECT_GE(fd, 0);
    config_.port_fd = fd;
  }
  static bool IsOpen(int fd) { return ::fcntl(fd, F_GETFD) >= 0; }
  size_t Releases() const {
    size_t count = 0;
    for (const std::string& method : Methods()) count += method == "release_port" ? 1 : 0;
    return count;
  }
  NodeConfig config_;
};

TEST_F(ReservedPortTest, IsReleasedOnce) {
  const int fd = *config_.port_fd;
  NodeContext& node = Create(config_);
  EXPECT_EQ(node.port_fd(), fd);
  EXPECT_EQ(::fcntl(fd, F_GETFD), FD_CLOEXEC);
  EXPECT_THAT(node.ReleasePort(), IsOk());
  EXPECT_EQ(node.port_fd(), -1);
  EXPECT_FALSE(IsOpen(fd));
  EXPECT_EQ(Releases(), 1u);
  EXPECT_THAT(node.ReleasePort(), IsOk());
  EXPECT_EQ(Releases(), 1u);
}

TEST_F(ReservedPortTest, IsReleasedAgainAfterAFailure) {
  agent_.Answer("release_port", [](const Json&) { return absl::UnavailableError("busy"); });
  NodeContext& node = Create(config_);
  EXPECT_THAT(node.ReleasePort(), StatusIs(absl::StatusCode::kUnavailable, "busy"));
  agent_.Answer("release_port", [](const Json&) { return Json::object(); });
  EXPECT_THAT(node.ReleasePort(), IsOk());
  EXPECT_THAT(node.ReleasePort(), IsOk());
  EXPECT_EQ(Releases(), 2u);
}

TEST_F(ReservedPortTest, IsClosedWithTheContext) {
  const int fd = *config_.port_fd;
  Create(config_);
  context_.reset();
  EXPECT_FALSE(IsOpen(fd));
}

TEST_F(ReservedPortTest, NeedsNothingWhereNoneIsHeld) {
  UniqueFd unused(*config_.port_fd);
  config_.port_fd.reset();
  NodeContext& node = Create(config_);
  EXPECT_EQ(node.port_fd(), -1);
  EXPECT_THAT(node.ReleasePort(), IsOk());
  EXPECT_EQ(Releases(), 0u);
}

TEST_F(ReservedPortTest, MustBeOpen) {
  UniqueFd closed(*config_.port_fd);
  closed.reset();
  EXPECT_THAT(TryCreate(config_), StatusIs(absl::StatusCode::kFailedPrecondition,
                                           absl::StrCat("descriptor ", *config_.port_fd,
                                                        ", the reserved port of the context, is "
                                                        "not open")));
}

// ---- models, GPUs -------------------------------------------------------------------------------

TEST(ExportModelTest, WritesOnTheChiefOnly) {
  const absl::StatusOr<TempDir> dir = TempDir::Create("node_context");
  ASSERT_THAT(dir, IsOk());
  for (const bool chief : {false, true}) {
    NodeConfig config = chief ? Config("chief", 0, 0) : Config("worker", 0, 1);
    config.working_dir = dir->path();
    FakeAgentChannel agent;
    const auto context = CreateNodeContext(config, agent.TakeNodeEnd(), [](const absl::Status&) {});
    ASSERT_THAT(context, IsOk());
    bool written = false;
    EXPECT_THAT((*context)->ExportModel("model",  // relative: in working_dir
                                        [&](const std::string& directory) {
                                          written = true;
                                          return WriteFileAtomic(JoinPath(directory, "w"), "x");
                                        }),
                IsOk());
    EXPECT_EQ(written, chief);
    EXPECT_EQ(std::filesystem::exists(JoinPath(dir->path(), "model/w")), chief);
  }
}

TEST_F(NodeContextTest, ClaimsAndReleasesGpus) {
  NodeConfig config = Config("worker", 1, 2);
  config.gpus = {"GPU-1"};
  agent_.Answer("gpu.claim", [](const Json& params) -> std::optional<absl::StatusOr<Json>> {
    if (params.contains("ids")) return absl::ResourceExhaustedError("held by chief:0");
    EXPECT_EQ(params["count"], 2);
    return Json{{"ids", {"GPU-2", "GPU-3"}}};
  });
  NodeContext& node = Create(config);
  EXPECT_THAT(node.gpus(), ElementsAre("GPU-1"));
  EXPECT_THAT(node.ClaimGpus(2), IsOkAndHolds(ElementsAre("GPU-2", "GPU-3")));
  EXPECT_THAT(node.ClaimGpus({"0"}),
              StatusIs(absl::StatusCode::kResourceExhausted, "held by chief:0"));
  EXPECT_THAT(node.ClaimGpus(0), StatusIs(absl::StatusCode::kInvalidArgument));
  EXPECT_THAT(node.ClaimGpus(std::vector<std::string>()),
              StatusIs(absl::StatusCode::kInvalidArgument));
  EXPECT_THAT(node.gpus(), ElementsAre("GPU-1", "GPU-2", "GPU-3"));
  EXPECT_THAT(node.ReleaseGpus({"GPU-2"}), IsOk());
  EXPECT_EQ(agent_.WaitFor("gpu.release").params, (Json{{"ids", {"GPU-2"}}}));
  EXPECT_THAT(node.gpus(), ElementsAre("GPU-1", "GPU-3"));
}

// ---- the end ------------------------------------------------------------------------------------

// Whether this process has a thread of that name.
bool HasThread(const std::string& name) {
  std::error_code error;
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task", error)) {
    // NOT_FOUND if it ends right now.
    if (ReadFile(JoinPath(task.path().string(), "comm")).value_or("") == name + "\n") return true;
  }
  return false;
}

TEST_F(NodeContextTest, TellsTheAgentHowItEnds) {
  NodeContext& node = CreateWorker();
  const absl::Status failed = absl::DataLossError(std::string(10000, 'x'));
  EXPECT_EQ(FinishNode(node, failed), failed);
  const FakeAgentChannel::Request exit = agent_.WaitFor("exit");
  EXPECT_EQ(exit.id, std::nullopt);
  EXPECT_EQ(exit.params["code"], "DATA_LOSS");
  EXPECT_THAT(GetString(exit.params, "message"), IsOkAndHolds(testing::SizeIs(testing::Le(8192u))));
  EXPECT_THAT(FinishNode(node, absl::OkStatus()), IsOk());  // the first one counts
  context_.reset();
  agent_.WaitForEnd();
  EXPECT_EQ(Methods(), (std::vector<std::string>{"hello", "ready", "exit"}));
}

TEST_F(NodeContextTest, TellsTheAgentOfSuccessToo) {
  EXPECT_THAT(FinishNode(CreateWorker(), absl::OkStatus()), IsOk());
  EXPECT_EQ(agent_.WaitFor("exit").params, (Json{{"code", "OK"}, {"message", ""}}));
}

TEST(NodeContextLifeTest, TakesPushesFromItsFirstMomentToItsLast) {
  for (int round = 0; round < 30; ++round) {
    FakeAgentChannel agent;
    agent.Answer("hello", [](const Json&) { return Json{{"sample_interval_ms", 1}}; });
    std::atomic<bool> over{false};
    NodeConfig config = Config("worker", 1, 1);
    config.input_feed = true;
    absl::StatusOr<Thread> pusher = Thread::Start("pusher", [&] {
      while (!over.load()) agent.Push(Json{{"push", "feeder_keys"}, {"keys", Json::object()}});
    });
    ASSERT_THAT(pusher, IsOk());
    auto context =
        CreateNodeContext(std::move(config), agent.TakeNodeEnd(), [](const absl::Status&) {});
    EXPECT_THAT(context, IsOk());
    // Unasked, twice: it comes again.
    (void)agent.WaitFor("sample", 2);
    context->reset();
    over.store(true);
    pusher->Join();
  }
}

TEST_F(NodeContextTest, NoticesThatTheAgentIsGone) {
  CreateWorker();
  agent_.Close();
  ASSERT_TRUE(gone_.WaitForNotificationWithTimeout(kLong));
  EXPECT_THAT(gone_status_, StatusIs(absl::StatusCode::kUnavailable, "the agent is gone"));
}

TEST_F(NodeContextTest, LetsTheAgentGoAfterItsEnd) {
  NodeContext& node = CreateWorker();
  EXPECT_THAT(FinishNode(node, absl::OkStatus()), IsOk());
  agent_.Close();
  // The last thing that the channel's thread does is to call whom it calls.
  while (HasThread("mr-control")) ::sched_yield();
  EXPECT_FALSE(gone_.HasBeenNotified());
}

}  // namespace
}  // namespace millrace
