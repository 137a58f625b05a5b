#include "core/coordinator/view/cluster_recorder.h"

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/time/time.h"
#include "core/base/fake_clock.h"
#include "core/base/file.h"
#include "core/base/status_matchers.h"
#include "core/coordinator/state/coordinator_options.h"
#include "core/coordinator/state/feed_ledger.h"
#include "core/coordinator/view/event_log.h"
#include "core/coordinator/view/view_store.h"
#include "core/proto/watch.pb.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "millrace/cluster_spec.h"
#include "millrace/cluster_status.h"

namespace millrace {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;
using ::testing::StartsWith;

// A cluster of two workers, and a reader that sees everything.
class ClusterRecorderTest : public ::testing::Test {
 protected:
  ClusterRecorderTest()
      : store_({.num_slots = 2, .incarnation = "abc", .clock = &clock_}),
        recorder_(MakeOptions(), &store_, /*log=*/nullptr),
        cursor_(store_.Resume({.level = v1::WATCH_LEVEL_ALL})) {
    for (int i = 0; i < 2; ++i) recorder_.Slot(Slot(i, SlotState::kRequested));
  }

  CoordinatorOptions MakeOptions() {
    CoordinatorOptions options;
    options.cluster_id = "blue";
    options.roles = {{"worker", 0}, {"worker", 1}};
    options.program.path = "/bin/train";
    options.log_dir = "/logs";
    options.input_mode = InputMode::kFeed;
    options.clock = &clock_;
    return options;
  }

  static SlotStatus Slot(int executor_id, SlotState state, uint32_t attempt = 0) {
    SlotStatus slot;
    slot.executor_id = executor_id;
    slot.role = {"worker", executor_id};
    slot.state = state;
    slot.attempt = attempt;
    slot.host = "h1";
    slot.node_pid = 77;
    slot.attached = true;
    return slot;
  }
  static NodeFailure Failure(int executor_id, absl::Status status) {
    NodeFailure failure;
    failure.executor_id = executor_id;
    failure.role = {"worker", executor_id};
    failure.attempt = 1;
    failure.status = std::move(status);
    return failure;
  }
  static FeedSummary Feed(int64_t partitions, int64_t done) {
    FeedSummary feed;
    feed.feed_id = "feed-1";
    feed.queue = "input";
    feed.partitions = partitions;
    feed.done = done;
    return feed;
  }

  // What a reader sees since the last call. The cluster's values stay in cluster_.
  v1::WatchUpdate Next() {
    v1::WatchUpdate update = store_.Next(&cursor_);
    if (update.has_cluster()) cluster_ = update.cluster();
    return update;
  }
  // "kind severity: text" of each event since the last call.
  std::vector<std::string> Events() {
    std::vector<std::string> texts;
    const v1::WatchUpdate update = Next();
    for (const v1::Event& event : update.events()) {
      texts.push_back(absl::StrCat(event.kind(), " ", SeverityOf(event), ": ", event.text()));
    }
    return texts;
  }
  v1::ClusterInfo::Phase Phase() {
    Next();
    return cluster_.phase();
  }
  static std::string SeverityOf(const v1::Event& event) {
    switch (event.severity()) {
      case v1::Event::SEVERITY_INFO:
        return "info";
      case v1::Event::SEVERITY_WARNING:
        return "warning";
      case v1::Event::SEVERITY_ERROR:
        return "error";
      default:
        return "none";
    }
  }
  void AllRun() {
    for (int i = 0; i < 2; ++i) recorder_.Slot(Slot(i, SlotState::kRunning));
    recorder_.AllRunning();
  }

  FakeClock clock_;
  ViewStore store_;
  ClusterRecorder recorder_;
  ViewCursor cursor_;
  v1::ClusterInfo cluster_;
};

TEST_F(ClusterRecorderTest, ANewClusterSaysWhatItIsAndWaitsForItsNodes) {
  EXPECT_THAT(Events(), ElementsAre("cluster info: cluster blue waits for 2 nodes of train"));
  EXPECT_EQ(cluster_.cluster_id(), "blue");
  EXPECT_EQ(cluster_.phase(), v1::ClusterInfo::PHASE_RESERVING);
  EXPECT_EQ(cluster_.input_mode(), v1::INPUT_MODE_FEED);
  EXPECT_EQ(cluster_.program(), "/bin/train");
  EXPECT_EQ(cluster_.log_dir(), "/logs");
  EXPECT_THAT(cluster_.queues(), ElementsAre("input", "output", "error"));
  EXPECT_EQ(cluster_.started().seconds(), absl::ToUnixSeconds(clock_.Now()));
  EXPECT_GT(cluster_.driver_pid(), 0);
}

TEST_F(ClusterRecorderTest, AClusterThatRunsAndEndsGoesThroughItsPhasesOnce) {
  Events();
  AllRun();
  recorder_.AllRunning();
  EXPECT_THAT(Events(),
              ElementsAre("slot info: worker:0 (executor 0, attempt 0) runs on h1, pid 77",
                          "slot info: worker:1 (executor 1, attempt 0) runs on h1, pid 77",
                          "cluster info: all 2 nodes have been started"));
  EXPECT_EQ(cluster_.phase(), v1::ClusterInfo::PHASE_RUNNING);
  recorder_.Slot(Slot(0, SlotState::kFinished));
  EXPECT_EQ(Phase(), v1::ClusterInfo::PHASE_RUNNING);
  recorder_.Slot(Slot(1, SlotState::kDraining));
  recorder_.Slot(Slot(1, SlotState::kFinished));
  EXPECT_THAT(Events(), ElementsAre("slot info: worker:1 (executor 1, attempt 0) was asked to end",
                                    "slot info: worker:1 (executor 1, attempt 0) has finished",
                                    "cluster info: all nodes have ended"));
  EXPECT_EQ(cluster_.phase(), v1::ClusterInfo::PHASE_ENDED);
  recorder_.Ended();
  EXPECT_THAT(Events(), ElementsAre("cluster info: the coordinator has ended"));
  EXPECT_EQ(cluster_.phase(), v1::ClusterInfo::PHASE_ENDED);
}

TEST_F(ClusterRecorderTest, ANodeThatIsStartedAgainTakesAnEndedClusterBack) {
  AllRun();
  for (int i = 0; i < 2; ++i) recorder_.Slot(Slot(i, SlotState::kFinished));
  EXPECT_EQ(Phase(), v1::ClusterInfo::PHASE_ENDED);
  recorder_.Slot(Slot(1, SlotState::kRequested, /*attempt=*/1));
  EXPECT_THAT(Events(), ElementsAre("restart info: worker:1 (executor 1, attempt 1) begins"));
  EXPECT_EQ(cluster_.phase(), v1::ClusterInfo::PHASE_RUNNING);
}

TEST_F(ClusterRecorderTest, ASlotThatIsToldAgainWithoutAChangeIsNoEvent) {
  AllRun();
  Events();
  recorder_.Slot(Slot(0, SlotState::kRunning));
  EXPECT_THAT(Events(), IsEmpty());
}

TEST_F(ClusterRecorderTest, StopsAndConnectionsOfARunningNodeAreEvents) {
  AllRun();
  Events();
  SlotStatus slot = Slot(1, SlotState::kRunning);
  slot.stopped = true;
  recorder_.Slot(slot);
  slot.stopped = false;
  recorder_.Slot(slot);
  slot.attached = false;
  recorder_.Slot(slot);
  slot.attached = true;
  recorder_.Slot(slot);
  const std::string name = "worker:1 (executor 1, attempt 0) ";
  EXPECT_THAT(Events(),
              ElementsAre(absl::StrCat("node warning: ", name, "is stopped by a signal"),
                          absl::StrCat("node info: ", name, "goes on after it was stopped"),
                          absl::StrCat("agent warning: ", name, "has lost its agent's connection"),
                          absl::StrCat("agent info: ", name, "has its agent's connection again")));
}

TEST_F(ClusterRecorderTest, ALostNodeSaysWhyAndComesBack) {
  AllRun();
  Events();
  SlotStatus slot = Slot(0, SlotState::kLost);
  slot.attached = false;
  slot.error = absl::UnavailableError("no heartbeat for 5s");
  recorder_.Slot(slot);
  recorder_.Slot(Slot(0, SlotState::kRunning));
  EXPECT_THAT(
      Events(),
      ElementsAre("slot warning: worker:0 (executor 0, attempt 0) is lost: no heartbeat for 5s",
                  "agent info: worker:0 (executor 0, attempt 0) is back and runs"));
}

TEST_F(ClusterRecorderTest, TheFirstCauseIsTheClustersAndLaterFailuresAreFolded) {
  AllRun();
  Events();
  const NodeFailure cause = Failure(1, absl::AbortedError("exited with code 3"));
  recorder_.Failure(cause, /*cause_known=*/false);
  recorder_.FirstCause(cause, /*folded=*/0);
  recorder_.Failure(Failure(0, absl::UnavailableError("lost its peer")), /*cause_known=*/true);
  const v1::WatchUpdate update = Next();
  ASSERT_EQ(update.events_size(), 3);
  EXPECT_EQ(update.events(0).severity(), v1::Event::SEVERITY_ERROR);
  EXPECT_FALSE(update.events(0).folded());
  EXPECT_EQ(update.events(0).executor_id(), 1);
  EXPECT_EQ(update.events(0).attempt(), 1u);
  EXPECT_EQ(update.events(1).kind(), "cluster");
  EXPECT_TRUE(update.events(1).first_cause());
  EXPECT_THAT(update.events(1).text(), AllOf(StartsWith("the cluster has failed: worker:1 "),
                                             HasSubstr("exited with code 3")));
  EXPECT_EQ(update.events(2).severity(), v1::Event::SEVERITY_WARNING);
  EXPECT_TRUE(update.events(2).folded());
  EXPECT_FALSE(update.events(2).first_cause());
  EXPECT_EQ(cluster_.phase(), v1::ClusterInfo::PHASE_FAILED);
  EXPECT_EQ(cluster_.first_cause_executor(), 1);
  EXPECT_THAT(cluster_.first_cause().message(), HasSubstr("exited with code 3"));
  EXPECT_EQ(cluster_.folded_failures(), 1);
}

TEST_F(ClusterRecorderTest, AFailedClusterStaysFailedWhateverFollows) {
  AllRun();
  recorder_.FirstCause(Failure(1, absl::AbortedError("exited with code 3")), /*folded=*/0);
  recorder_.Stopping(NodeFilter::kAll, "worker:1 failed", /*now=*/false);
  for (int i = 0; i < 2; ++i) recorder_.Slot(Slot(i, SlotState::kFailed));
  recorder_.Ended();
  EXPECT_EQ(Phase(), v1::ClusterInfo::PHASE_FAILED);
}

TEST_F(ClusterRecorderTest, ARestartSaysWhenAndHowManyAreLeft) {
  Events();
  recorder_.Restart(Failure(1, absl::AbortedError("exited with code 3")), absl::Milliseconds(1234),
                    /*used=*/1, /*max=*/3);
  EXPECT_THAT(Events(),
              ElementsAre(AllOf(StartsWith("restart warning: worker:1 is started again in 1.2s "
                                           "(restart 1 of 3): worker:1 (executor 1, attempt 1) "),
                                HasSubstr("exited with code 3"))));
}

TEST_F(ClusterRecorderTest, AHostIsNamedOnceWhileItIsInQuarantine) {
  Events();
  const absl::Time until = clock_.Now() + absl::Seconds(90);
  recorder_.Quarantined({{"h1", until}});
  EXPECT_THAT(Events(), ElementsAre("restart warning: restarts keep off host h1 for 1m30s: too "
                                    "many failures there"));
  recorder_.Quarantined({{"h1", until}, {"h2", until}});
  EXPECT_THAT(Events(), ElementsAre(HasSubstr("host h2 ")));
  ASSERT_EQ(cluster_.quarantined_size(), 2);
  EXPECT_EQ(cluster_.quarantined(0).host(), "h1");
  EXPECT_EQ(cluster_.quarantined(0).until().seconds(), absl::ToUnixSeconds(until));
  recorder_.Quarantined({});
  EXPECT_THAT(Events(), IsEmpty());
  EXPECT_EQ(cluster_.quarantined_size(), 0);
  recorder_.Quarantined({{"h1", until}});
  EXPECT_THAT(Events(), ElementsAre(HasSubstr("host h1 ")));
}

TEST_F(ClusterRecorderTest, MembershipIsToldWithItsEpoch) {
  Events();
  const absl::StatusOr<ClusterSpec> spec =
      ClusterSpec::Create({{"worker", ClusterSpec::TaskList{"h1:1", "h1:2"}}});
  ASSERT_THAT(spec, IsOk());
  recorder_.Spec(*spec, 1);
  recorder_.SpecChange({"worker", 1}, "h2:9", /*attempt=*/1, 2);
  const v1::WatchUpdate update = Next();
  ASSERT_EQ(update.events_size(), 2);
  EXPECT_EQ(update.events(0).text(), "epoch 1: 2 nodes are registered");
  EXPECT_EQ(update.events(1).text(), "epoch 2: worker:1 is at h2:9");
  EXPECT_EQ(cluster_.epoch(), 2u);
}

TEST_F(ClusterRecorderTest, EndpointsAreToldWhenThereAreSome) {
  Events();
  recorder_.Endpoints(1, 0, {{"tensorboard", "h1:6006"}, {"profiler", "h1:6007"}});
  EXPECT_THAT(Events(), ElementsAre("node info: worker:1 (executor 1, attempt 0) publishes "
                                    "profiler at h1:6007, tensorboard at h1:6006"));
  recorder_.Endpoints(1, 0, {});
  const v1::WatchUpdate update = Next();
  EXPECT_EQ(update.events_size(), 0);
  ASSERT_EQ(update.nodes_size(), 1);
  EXPECT_THAT(update.nodes(0).endpoints(), IsEmpty());
}

TEST_F(ClusterRecorderTest, AStopIsToldOnceForEachReason) {
  AllRun();
  Events();
  recorder_.StopRequested("maintenance", /*now=*/false);
  recorder_.Stopping(NodeFilter::kFed, "all is fed", /*now=*/false);
  recorder_.Stopping(NodeFilter::kFed, "all is fed", /*now=*/false);
  recorder_.Stopping(NodeFilter::kPsAndEvaluator, "workers have ended", /*now=*/false);
  recorder_.Stopping(NodeFilter::kAll, "timeout", /*now=*/true);
  EXPECT_THAT(Events(),
              ElementsAre("cluster warning: an operator stops the cluster: maintenance",
                          "cluster info: chief and workers are asked to end: all is fed",
                          "cluster info: ps and evaluator are asked to end: workers have ended",
                          "cluster info: all nodes are killed: timeout"));
  EXPECT_EQ(cluster_.phase(), v1::ClusterInfo::PHASE_STOPPING);
  recorder_.RestartRequested(1, "stuck");
  EXPECT_THAT(Events(), ElementsAre("restart warning: an operator restarts worker:1: stuck"));
}

TEST_F(ClusterRecorderTest, TextOfOthersIsEscapedAndCutOff) {
  Events();
  recorder_.StopRequested(absl::StrCat("\x1b[2J\n", std::string(100'000, 'x')), /*now=*/false);
  const std::vector<std::string> events = Events();
  ASSERT_THAT(events, SizeIs(1));
  EXPECT_THAT(events[0], Not(HasSubstr("\x1b")));
  EXPECT_THAT(events[0], Not(HasSubstr("\n")));
  EXPECT_LT(events[0].size(), 600u);
}

TEST_F(ClusterRecorderTest, CountersChangeTheClusterOnlyWhenTheyDo) {
  Next();
  recorder_.Counters(3, 1);
  Next();
  EXPECT_EQ(cluster_.fenced_updates(), 3u);
  EXPECT_EQ(cluster_.illegal_updates(), 1u);
  recorder_.Counters(3, 1);
  EXPECT_FALSE(store_.HasNews(cursor_));
}

TEST_F(ClusterRecorderTest, AFeedIsToldFromItsBeginningToItsEnd) {
  Events();
  recorder_.FeedOpened(Feed(/*partitions=*/2, /*done=*/0));
  FeedSummary feed = Feed(2, 2);
  feed.rows_acked = 40;
  recorder_.FeedChanged(feed);
  recorder_.FeedClosed(feed);
  v1::WatchUpdate update = Next();
  ASSERT_EQ(update.events_size(), 2);
  EXPECT_EQ(update.events(0).text(), "feed feed-1 is open on queue input: 2 partitions");
  EXPECT_EQ(update.events(1).text(),
            "feed feed-1 has ended: 2 of 2 partitions done, 40 rows acknowledged");
  EXPECT_EQ(update.events(1).severity(), v1::Event::SEVERITY_INFO);
  ASSERT_EQ(update.feeds_size(), 1);
  EXPECT_EQ(update.feeds(0).rows_acked(), 40u);
  recorder_.FeedRemoved("feed-1");
  update = Next();
  EXPECT_THAT(update.removed_feeds(), ElementsAre("feed-1"));
}

TEST_F(ClusterRecorderTest, AFeedThatWasNotWholeEndsWithAWarningThatCountsRowsFedAgain) {
  Events();
  FeedSummary feed = Feed(3, 2);
  feed.rows_acked = 40;
  feed.exactly_once = false;
  feed.rows_refed = 7;
  recorder_.PartitionRefed(feed, /*partition=*/2, /*executor_id=*/1, "worker:1 was killed");
  recorder_.FeedClosed(feed);
  EXPECT_THAT(Events(), ElementsAre("feed warning: feed feed-1: partition 2 is fed again from row "
                                    "0: worker:1 was killed",
                                    "feed warning: feed feed-1 has ended: 2 of 3 partitions done, "
                                    "40 rows acknowledged, 7 rows fed again"));
}

TEST_F(ClusterRecorderTest, WhatANodeWasFedIsTheNodes) {
  Next();
  QueueLedger queue;
  queue.queue = "input";
  queue.rows_received = 9;
  queue.rows_refed = 2;
  recorder_.NodeFed(1, {queue});
  const v1::WatchUpdate update = Next();
  ASSERT_EQ(update.nodes_size(), 1);
  EXPECT_EQ(update.nodes(0).executor_id(), 1);
  ASSERT_EQ(update.nodes(0).ledger_size(), 1);
  EXPECT_EQ(update.nodes(0).ledger(0).rows_received(), 9u);
  EXPECT_EQ(update.nodes(0).ledger(0).rows_refed(), 2u);
}

TEST_F(ClusterRecorderTest, RefusalsAreToldTenAMinuteAndTheRestIsCounted) {
  Events();
  const auto refuse = [this] {
    recorder_.Refused("Watch", "ipv4:10.0.0.9:1", absl::UnauthenticatedError("wrong token"));
  };
  for (int i = 0; i < ClusterRecorder::kRefusals + 5; ++i) refuse();
  const std::vector<std::string> first = Events();
  ASSERT_THAT(first, SizeIs(ClusterRecorder::kRefusals));
  EXPECT_EQ(first.back(), "security warning: Watch was refused to ipv4:10.0.0.9:1: wrong token");
  clock_.Advance(absl::Seconds(61));
  refuse();
  refuse();
  EXPECT_THAT(Events(), ElementsAre("security warning: Watch was refused to ipv4:10.0.0.9:1: wrong "
                                    "token; 5 more were refused before",
                                    first.back()));
}

TEST_F(ClusterRecorderTest, TheEventLogHasTheSameEventsInTheSameOrder) {
  absl::StatusOr<TempDir> folder = TempDir::Create();
  ASSERT_THAT(folder, IsOk());
  absl::StatusOr<std::unique_ptr<EventLog>> log =
      EventLog::Open({.folder = folder->path(), .cluster_id = "blue"});
  ASSERT_THAT(log, IsOk());
  ClusterRecorder recorder(MakeOptions(), &store_, log->get());
  recorder.StopRequested("maintenance", /*now=*/true);
  recorder.Ended();
  (*log)->Stop();
  const absl::StatusOr<std::string> text = ReadFile((*log)->path());
  ASSERT_THAT(text, IsOk());
  const std::vector<std::string> lines = absl::StrSplit(*text, '\n', absl::SkipEmpty());
  EXPECT_THAT(lines, ElementsAre(HasSubstr("cluster blue waits for 2 nodes"),
                                 HasSubstr("an operator stops the cluster now: maintenance"),
                                 HasSubstr("the coordinator has ended")));
}

}  // namespace
}  // namespace millrace
