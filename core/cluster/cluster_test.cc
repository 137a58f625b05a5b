#include "millrace/cluster.h"

#include <signal.h>
#include <stdlib.h>

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "core/base/file.h"
#include "core/base/mutex.h"
#include "core/base/status_matchers.h"
#include "core/base/thread.h"
#include "core/cluster/cluster_rows_testing.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "millrace/batch.h"
#include "millrace/batch_builder.h"
#include "millrace/client.h"
#include "millrace/cluster_file.h"
#include "millrace/local_launcher.h"
#include "millrace/source.h"
#include "millrace/status_macros.h"
#include "testing/eventually.h"

namespace millrace {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;
using ::testing::StartsWith;

std::vector<int64_t> Doubled(const std::vector<RecordBatch>& batches) {
  std::vector<int64_t> values;
  for (const RecordBatch& rows : batches) {
    const Batch batch = *Batch::Create(rows);
    const std::span<const int64_t> column = batch.column<int64_t>("doubled");
    values.insert(values.end(), column.begin(), column.end());
  }
  return values;
}

class ClusterTest : public ::testing::Test {
 protected:
  ClusterTest() {
    ::setenv("MILLRACE_CLUSTERS_DIR", JoinPath(::testing::TempDir(), "clusters").c_str(), 1);
    options_.num_executors = 3;
    options_.observer.on_output = [this](const NodeOutput& output) {
      MutexLock lock(&mu_);
      for (const std::string& line : output.lines) {
        lines_.push_back(absl::StrCat(output.node, ": ", line));
      }
    };
    options_.observer.on_metric = [this](absl::string_view, absl::string_view name, int64_t step,
                                         double value) {
      MutexLock lock(&mu_);
      steps_[std::string(name)] += step;
      sums_[std::string(name)] += value;
    };
  }

  absl::StatusOr<std::unique_ptr<Cluster>> Start(const std::string& what) {
    NodeProgram program = NodeProgram::File(
        absl::StrCat(::getenv("TEST_SRCDIR"), "/millrace/core/cluster/cluster_test_node"));
    program.Args({what});
    return Cluster::Run(launcher_, program, options_);
  }
  absl::StatusOr<std::unique_ptr<Cluster>> StartShell(const std::string& script) {
    NodeProgram program = NodeProgram::Path("sh");
    program.Args({"-c", script}).Env({{"GREETING", "good morning"}});
    return Cluster::Run(launcher_, program, options_);
  }
  std::vector<std::string> lines() {
    MutexLock lock(&mu_);
    return lines_;
  }

  // Waits for it.
  bool HasLine(const std::string& line) {
    return Eventually([&] {
      const std::vector<std::string> now = lines();
      return std::find(now.begin(), now.end(), line) != now.end();
    });
  }

  Mutex mu_;
  std::vector<std::string> lines_;
  std::map<std::string, int64_t> steps_;
  std::map<std::string, double> sums_;
  ClusterOptions options_;
  LocalLauncher launcher_;
};

TEST_F(ClusterTest, DirectNodesKnowTheirPlaceAndRunToTheirEnd) {
  options_.num_executors = 4;
  options_.num_ps = 1;
  options_.master_node = "chief";
  options_.node.default_fs = "hdfs://nn:8020";
  options_.node.working_dir = "/";
  absl::StatusOr<std::unique_ptr<Cluster>> cluster = Start("describe");
  ASSERT_THAT(cluster, IsOk());
  // A ps is stopped when the workers have ended, however far it has come.
  EXPECT_TRUE(HasLine("ps:0: name=ps:0 executor=0 workers=3 rank=-1 chief=0 fd=0"));
  EXPECT_THAT((*cluster)->Shutdown(), IsOk());
  EXPECT_THAT(lines(),
              AllOf(Contains("chief:0: name=chief:0 executor=1 workers=3 rank=0 chief=1 fd=0"),
                    Contains("worker:0: name=worker:0 executor=2 workers=3 rank=1 chief=0 fd=0"),
                    Contains("worker:1: name=worker:1 executor=3 workers=3 rank=2 chief=0 fd=0"),
                    Contains("worker:1: cwd=/")));
  for (const SlotStatus& slot : (*cluster)->Status().slots) {
    EXPECT_EQ(slot.state, SlotState::kFinished) << slot.role.ToString();
    EXPECT_GT(slot.ReachedAt(SlotState::kRunning), slot.ReachedAt(SlotState::kRequested));
  }
}

TEST_F(ClusterTest, SaysWhatItIs) {
  options_.num_ps = 1;
  absl::StatusOr<std::unique_ptr<Cluster>> cluster = Start("wait");
  ASSERT_THAT(cluster, IsOk());
  EXPECT_THAT((*cluster)->cluster_id(), ::testing::Not(IsEmpty()));
  EXPECT_THAT((*cluster)->server_address(), StartsWith("127.0.0.1:"));
  EXPECT_THAT((*cluster)->cluster_spec().jobs(), SizeIs(2));
  EXPECT_EQ((*cluster)->options().num_executors, 3);
  EXPECT_THAT((*cluster)->options().feed.queues, ElementsAre("input", "output", "error"));
  EXPECT_EQ((*cluster)->options().node.working_dir, std::filesystem::current_path().string());
  const ClusterStatus status = (*cluster)->Status();
  ASSERT_THAT(status.slots, SizeIs(3));
  EXPECT_EQ(status.slots[0].role.ToString(), "ps:0");
  EXPECT_GT(status.slots[0].node_pid, 0);
  EXPECT_EQ(status.slots[2].address, *(*cluster)->cluster_spec().TaskAddress("worker", 1));
}

TEST_F(ClusterTest, APlainProgramReadsItsEnvironment) {
  options_.num_executors = 2;
  absl::StatusOr<std::unique_ptr<Cluster>> cluster =
      StartShell("echo \"$GREETING $RANK/$WORLD_SIZE\"; echo \"$TF_CONFIG\"");
  ASSERT_THAT(cluster, IsOk());
  EXPECT_THAT((*cluster)->Shutdown(), IsOk());
  EXPECT_THAT(lines(),
              AllOf(Contains("worker:0: good morning 0/2"), Contains("worker:1: good morning 1/2"),
                    Contains(AllOf(StartsWith("worker:1: {"), HasSubstr("\"index\":1")))));
}

TEST_F(ClusterTest, AHeldPortIsInherited) {
  options_.node.release_port = false;
  absl::StatusOr<std::unique_ptr<Cluster>> cluster = Start("describe");
  ASSERT_THAT(cluster, IsOk());
  EXPECT_THAT((*cluster)->Shutdown(), IsOk());
  EXPECT_THAT(lines(),
              Contains("worker:2: name=worker:2 executor=2 workers=3 rank=2 chief=0 fd=1"));
}

TEST_F(ClusterTest, NodesMeetThroughKeysAndABarrier) {
  absl::StatusOr<std::unique_ptr<Cluster>> cluster = Start("rendezvous");
  ASSERT_THAT(cluster, IsOk());
  EXPECT_THAT((*cluster)->Shutdown(), IsOk());
  EXPECT_THAT(lines(), AllOf(Contains("worker:0: met 3"), Contains("worker:1: met 3"),
                             Contains("worker:2: met 3")));
}

// So many agents share a connection to the coordinator.
TEST_F(ClusterTest, ManyNodesMeetAndAreFedAsFewAre) {
  options_.num_executors = 8;
  absl::StatusOr<std::unique_ptr<Cluster>> cluster = Start("rendezvous");
  ASSERT_THAT(cluster, IsOk());
  EXPECT_THAT((*cluster)->Shutdown(), IsOk());
  EXPECT_THAT(lines(), AllOf(Contains("worker:0: met 8"), Contains("worker:7: met 8")));

  options_.input_mode = InputMode::kFeed;
  cluster = Start("sum");
  ASSERT_THAT(cluster, IsOk());
  absl::StatusOr<TrainResult> result = (*cluster)->Train(Rows(1000, 11), {.num_epochs = 3});
  ASSERT_THAT(result, IsOk());
  EXPECT_TRUE(result->exactly_once);
  EXPECT_THAT((*cluster)->Shutdown(), IsOk());
  MutexLock lock(&mu_);
  EXPECT_EQ(steps_["sum"], 3000);
  EXPECT_EQ(sums_["sum"], 3 * 999 * 1000 / 2);
}

TEST_F(ClusterTest, OutputIsKeptInLogDir) {
  options_.num_executors = 1;
  options_.log_dir = JoinPath(::testing::TempDir(), "logs");
  absl::StatusOr<std::unique_ptr<Cluster>> cluster = StartShell("echo out; echo err >&2");
  ASSERT_THAT(cluster, IsOk());
  EXPECT_THAT((*cluster)->Shutdown(), IsOk());
  EXPECT_THAT(ReadFile(JoinPath(options_.log_dir, "worker-0.0.log")),
              IsOkAndHolds(AllOf(HasSubstr("out\n"), HasSubstr("err\n"))));
}

TEST_F(ClusterTest, LogDirMayBeAFileUrlButNoOther) {
  const std::string folder = JoinPath(::testing::TempDir(), "url_logs");
  options_.num_executors = 1;
  options_.log_dir = absl::StrCat("file://", folder);
  absl::StatusOr<std::unique_ptr<Cluster>> cluster = StartShell("echo out");
  ASSERT_THAT(cluster, IsOk());
  EXPECT_THAT((*cluster)->Shutdown(), IsOk());
  EXPECT_EQ((*cluster)->options().log_dir, folder);
  EXPECT_THAT(ReadFile(JoinPath(folder, "worker-0.0.log")), IsOkAndHolds("out\n"));
  for (const char* const url : {"hdfs://nn/logs", "file://host/logs"}) {
    options_.log_dir = url;
    EXPECT_THAT(StartShell("true"),
                StatusIs(absl::StatusCode::kInvalidArgument,
                         absl::StrCat("log_dir ", url,
                                      ": logs are files of the nodes' hosts: write a path, or "
                                      "file:///PATH")));
  }
}

TEST_F(ClusterTest, TheAddressOfASidecarIsKnown) {
  options_.num_executors = 1;
  options_.node.sidecars = {{.name = "tensorboard",
                             .program = "python3",
                             .args = {"-m", "http.server", "--bind", "{host}", "{port}"}}};
  const std::string end = JoinPath(::testing::TempDir(), "sidecar_end");
  absl::StatusOr<std::unique_ptr<Cluster>> cluster =
      StartShell(absl::StrCat("until [ -e ", end, " ]; do sleep 0.05; done"));
  ASSERT_THAT(cluster, IsOk());
  EXPECT_TRUE(Eventually([&] { return !(*cluster)->tensorboard_url().empty(); }, absl::Minutes(2)));
  EXPECT_THAT((*cluster)->tensorboard_url(), StartsWith("http://127.0.0.1:"));
  ASSERT_THAT(WriteFileAtomic(end, ""), IsOk());
  EXPECT_THAT((*cluster)->Shutdown(), IsOk());
}

TEST_F(ClusterTest, TrainFeedsEveryRowOnceAnEpoch) {
  options_.input_mode = InputMode::kFeed;
  absl::StatusOr<std::unique_ptr<Cluster>> cluster = Start("sum");
  ASSERT_THAT(cluster, IsOk());
  // 1,000 rows divide neither by 7 nor by 11; there are more partitions than nodes.
  absl::StatusOr<TrainResult> result = (*cluster)->Train(Rows(1000, 11), {.num_epochs = 3});
  ASSERT_THAT(result, IsOk());
  EXPECT_EQ(result->rows, 3000);
  EXPECT_EQ(result->rows_refed, 0);
  EXPECT_TRUE(result->exactly_once);
  EXPECT_FALSE(result->terminated);
  EXPECT_GT(result->elapsed, absl::ZeroDuration());
  ASSERT_THAT((*cluster)->Train(Rows(5, 9)), IsOk());  // most partitions are empty
  EXPECT_THAT((*cluster)->Shutdown(), IsOk());
  MutexLock lock(&mu_);
  EXPECT_EQ(steps_["sum"], 3005);
  EXPECT_EQ(sums_["sum"], 3 * 999 * 1000 / 2 + 10);
}

TEST_F(ClusterTest, InferenceReturnsAResultForEveryRowInOrder) {
  options_.input_mode = InputMode::kFeed;
  options_.num_ps = 1;
  absl::StatusOr<std::unique_ptr<Cluster>> cluster = Start("sum");
  ASSERT_THAT(cluster, IsOk());
  ASSERT_THAT((*cluster)->Train(Rows(10, 2), {.end_of_feed = true}), IsOk());
  absl::StatusOr<InferenceResult> result =
      (*cluster)->Inference(std::make_shared<MemorySource>(Rows(333, 7)));
  ASSERT_THAT(result, IsOk());
  EXPECT_EQ(result->num_partitions(), 7);
  std::vector<int64_t> expected(333);
  for (int64_t i = 0; i < 333; ++i) expected[i] = 2 * i;
  for (int call = 0; call < 2; ++call) {  // each call feeds anew
    absl::StatusOr<std::vector<RecordBatch>> batches = result->Collect();
    ASSERT_THAT(batches, IsOk());
    EXPECT_EQ(Doubled(*batches), expected);
  }
  std::vector<RecordBatch> streamed;
  int last_partition = 0;
  EXPECT_THAT(result->ForEach([&](int partition, const RecordBatch& rows) {
    EXPECT_GE(partition, last_partition);
    last_partition = partition;
    streamed.push_back(rows);
    return absl::OkStatus();
  }),
              IsOk());
  EXPECT_EQ(Doubled(streamed), expected);
  EXPECT_THAT(result->ForEach([](int, const RecordBatch&) { return absl::AbortedError("enough"); }),
              StatusIs(absl::StatusCode::kAborted, HasSubstr("enough")));
  EXPECT_THAT((*cluster)->Shutdown(), IsOk());
}

TEST_F(ClusterTest, NodesAreFedOverCurveAsOnOtherHosts) {
  options_.input_mode = InputMode::kFeed;
  options_.feed.curve_only = true;
  absl::StatusOr<std::unique_ptr<Cluster>> cluster = Start("sum");
  ASSERT_THAT(cluster, IsOk());
  absl::StatusOr<TrainResult> result = (*cluster)->Train(Rows(1000, 5), {.end_of_feed = true});
  ASSERT_THAT(result, IsOk());
  EXPECT_EQ(result->rows, 1000);
  absl::StatusOr<InferenceResult> inference =
      (*cluster)->Inference(std::make_shared<MemorySource>(Rows(100, 3)));
  ASSERT_THAT(inference, IsOk());
  std::vector<int64_t> expected(100);
  for (int64_t i = 0; i < 100; ++i) expected[i] = 2 * i;
  absl::StatusOr<std::vector<RecordBatch>> batches = inference->Collect();
  ASSERT_THAT(batches, IsOk());
  EXPECT_EQ(Doubled(*batches), expected);
  EXPECT_THAT((*cluster)->Shutdown(), IsOk());
  MutexLock lock(&mu_);
  EXPECT_EQ(sums_["sum"], 999 * 1000 / 2);
}

// What a reader sees of the batches for worker:0, once they are all counted.
NodeFeedStatus FeedOfWorker(const Cluster& cluster, uint64_t rows) {
  const absl::StatusOr<ClusterFile> file = FindClusterFile(cluster.cluster_id());
  EXPECT_THAT(file, IsOk());
  if (!file.ok()) return {};
  const auto client = *ClusterClient::Connect(ClusterClientOptionsFrom(*file));
  NodeFeedStatus feed;
  EXPECT_TRUE(Eventually([&] {
    const absl::StatusOr<ClusterSnapshot> now = client->Snapshot();
    if (!now.ok() || !now->node_feeds.contains("worker:0")) return false;
    feed = now->node_feeds.at("worker:0");
    return feed.rows == rows;
  }));
  return feed;
}

TEST_F(ClusterTest, RowsGoThroughSharedMemoryIfTheClusterHasThat) {
  options_.input_mode = InputMode::kFeed;
  options_.num_executors = 1;
  for (const bool shared : {false, true}) {
    options_.feed.shared_memory = shared;
    absl::StatusOr<std::unique_ptr<Cluster>> cluster = Start("sum");
    ASSERT_THAT(cluster, IsOk());
    // The feeder maps the memory while it sends the first rows.
    for (int call = 0; call < 2; ++call) {
      ASSERT_THAT((*cluster)->Train(Rows(200'000, 2), {.batch_bytes = 100'000}), IsOk());
    }
    const NodeFeedStatus feed = FeedOfWorker(**cluster, 400'000);
    EXPECT_GT(feed.batches, 20u);
    if (shared) {
      EXPECT_GT(feed.batches_placed, feed.batches / 4);
    } else {
      EXPECT_EQ(feed.batches_placed, 0u);
    }
    EXPECT_EQ(feed.why_not_shared, "");
    EXPECT_THAT((*cluster)->Shutdown(), IsOk());
  }
  MutexLock lock(&mu_);
  EXPECT_EQ(sums_["sum"], 4.0 * 199'999 * 100'000);
}

TEST_F(ClusterTest, RowsThatCannotGoThroughSharedMemorySayWhy) {
  options_.input_mode = InputMode::kFeed;
  options_.num_executors = 1;
  options_.feed.shared_memory = true;
  const std::string node =
      absl::StrCat(::getenv("TEST_SRCDIR"), "/millrace/core/cluster/cluster_test_node");
  // Memory files count as files.
  absl::StatusOr<std::unique_ptr<Cluster>> cluster =
      StartShell(absl::StrCat("ulimit -f 1000; exec ", node, " sum"));
  ASSERT_THAT(cluster, IsOk());
  ASSERT_THAT((*cluster)->Train(Rows(200'000, 2), {.batch_bytes = 100'000}), IsOk());
  const NodeFeedStatus feed = FeedOfWorker(**cluster, 200'000);
  EXPECT_EQ(feed.batches_placed, 0u);
  EXPECT_THAT(feed.why_not_shared, HasSubstr("ulimit -f"));
  EXPECT_THAT((*cluster)->Shutdown(), IsOk());
}

TEST_F(ClusterTest, WhatCannotBeFedSaysWhy) {
  options_.input_mode = InputMode::kFeed;
  options_.num_executors = 1;
  absl::StatusOr<std::unique_ptr<Cluster>> cluster = Start("sum");
  ASSERT_THAT(cluster, IsOk());
  EXPECT_THAT((*cluster)->Train(Rows(1, 1), {.queue = "nope"}),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("input, output, error")));
  EXPECT_THAT((*cluster)->Train(Rows(1, 1), {.num_epochs = 0}),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("num_epochs")));
  EXPECT_THAT((*cluster)->EndFeed(), IsOk());
  EXPECT_THAT((*cluster)->Train(Rows(1, 1)),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("has ended")));
  EXPECT_THAT((*cluster)->Shutdown(), IsOk());
}

TEST_F(ClusterTest, ADirectClusterIsNotFed) {
  options_.num_executors = 1;
  absl::StatusOr<std::unique_ptr<Cluster>> cluster = Start("wait");
  ASSERT_THAT(cluster, IsOk());
  EXPECT_THAT((*cluster)->Train(Rows(1, 1)),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("InputMode FEED")));
  EXPECT_THAT((*cluster)->Inference(std::make_shared<MemorySource>(Rows(1, 1))).status(),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("InputMode FEED")));
}

TEST_F(ClusterTest, AFailureAfterTheDataIsTheErrorOfShutdown) {
  options_.input_mode = InputMode::kFeed;
  absl::StatusOr<std::unique_ptr<Cluster>> cluster = Start("fail_late");
  ASSERT_THAT(cluster, IsOk());
  ASSERT_THAT((*cluster)->Train(Rows(100, 3)), IsOk());
  const absl::Status status = (*cluster)->Shutdown();
  EXPECT_THAT(status,
              StatusIs(absl::StatusCode::kInternal,
                       AllOf(HasSubstr("worker:1"), HasSubstr("could not save the model"))));
  EXPECT_EQ((*cluster)->Shutdown(), status);  // again: the same
}

TEST_F(ClusterTest, EveryCallOnAFailedClusterEndsWithItsFirstCauseThoughOtherNodesRun) {
  std::atomic<bool> told = false;
  options_.input_mode = InputMode::kFeed;
  options_.num_executors = 2;
  options_.observer.on_failure = [&told](const NodeFailure&) { told.store(true); };
  absl::StatusOr<std::unique_ptr<Cluster>> cluster = Start("sum");
  ASSERT_THAT(cluster, IsOk());
  ASSERT_THAT((*cluster)->Train(Rows(10, 2)), IsOk());
  ASSERT_EQ(::kill(static_cast<pid_t>((*cluster)->Status().slots[1].node_pid), SIGKILL), 0);
  EXPECT_TRUE(Eventually([&] { return told.load(); }));
  const auto is_first_cause =
      StatusIs(absl::StatusCode::kAborted, AllOf(HasSubstr("worker:1"), HasSubstr("SIGKILL")));
  EXPECT_THAT((*cluster)->Train(Rows(10, 2)), is_first_cause);
  EXPECT_THAT((*cluster)->EndFeed(), is_first_cause);
  EXPECT_THAT((*cluster)->Inference(std::make_shared<MemorySource>(Rows(10, 2))).status(),
              is_first_cause);
  EXPECT_EQ((*cluster)->Status().slots[0].state, SlotState::kRunning);
  EXPECT_THAT((*cluster)->Shutdown(), is_first_cause);
}

TEST_F(ClusterTest, WorkersThatAreNotFedEndWhenTheirWorkIsDoneWhateverTheGrace) {
  options_.num_ps = 1;
  const std::string model = JoinPath(::testing::TempDir(), "model");
  const std::string go = JoinPath(::testing::TempDir(), "train");
  absl::StatusOr<std::unique_ptr<Cluster>> cluster =
      StartShell(absl::StrCat("[ -z \"$RANK\" ] && exec sleep 1000; "  // the ps
                              "until [ -e ",
                              go, " ]; do sleep 0.05; done; echo trained > ", model, ".$RANK"));
  ASSERT_THAT(cluster, IsOk());
  const Thread work("work", [&] {
    const auto is_asked_to_stop = [&] {
      const ClusterStatus status = (*cluster)->Status();
      return std::any_of(status.slots.begin(), status.slots.end(),
                         [](const SlotStatus& slot) { return slot.state > SlotState::kRunning; });
    };
    // For fifty times the grace.
    EXPECT_FALSE(Eventually(is_asked_to_stop, absl::Milliseconds(500)));
    EXPECT_THAT(WriteFileAtomic(go, ""), IsOk());
  });
  EXPECT_THAT((*cluster)->Shutdown({.grace = absl::Milliseconds(10)}), IsOk());
  for (const char* index : {".0", ".1"}) {
    EXPECT_THAT(ReadFile(absl::StrCat(model, index)), IsOkAndHolds("trained\n"));
  }
}

class EvaluatorTest : public ClusterTest, public ::testing::WithParamInterface<InputMode> {
 protected:
  EvaluatorTest() {
    options_.num_executors = 3;
    options_.num_ps = 1;
    options_.eval_node = true;
    options_.input_mode = GetParam();
    options_.log_dir = JoinPath(::testing::TempDir(), "logs");
  }

  // Waits for it.
  static bool WorkerEnds(const Cluster& cluster) {
    const auto worker_ended = [&] {
      const ClusterStatus status = cluster.Status();
      return std::any_of(status.slots.begin(), status.slots.end(), [](const SlotStatus& slot) {
        return slot.role.job_name == "worker" && slot.state == SlotState::kFinished;
      });
    };
    return Eventually(worker_ended, absl::Minutes(2));
  }
};

TEST_P(EvaluatorTest, HasTheGraceFromTheEndOfTheWorkersOn) {
  const std::string score = JoinPath(::testing::TempDir(), "score");
  const std::string go = JoinPath(::testing::TempDir(), "evaluate");
  std::filesystem::remove(go);
  std::filesystem::remove(score);
  absl::StatusOr<std::unique_ptr<Cluster>> cluster =
      StartShell(absl::StrCat("[ -n \"$RANK\" ] && exit; "
                              "case $TF_CONFIG in *'\"type\":\"ps\"'*) exec sleep 1000;; esac; "
                              "until [ -e ",
                              go, " ]; do sleep 0.05; done; echo 7 > ", score));
  ASSERT_THAT(cluster, IsOk());
  // What it has left to do begins when the worker has ended.
  const Thread begin("begin", [&] {
    EXPECT_TRUE(WorkerEnds(**cluster));
    EXPECT_THAT(WriteFileAtomic(go, ""), IsOk());
  });
  // The ps, which never ends by itself, is not waited for.
  EXPECT_THAT((*cluster)->Shutdown({.grace = absl::Minutes(15)}), IsOk());
  EXPECT_THAT(ReadFile(score), IsOkAndHolds("7\n"));
}

TEST_P(EvaluatorTest, IsStoppedAfterTheGraceWhichIsItsNormalEndAndIsLogged) {
  absl::StatusOr<std::unique_ptr<Cluster>> cluster =
      StartShell("[ -n \"$RANK\" ] || exec sleep 1000");
  ASSERT_THAT(cluster, IsOk());
  // A fed worker has the same grace, and more to do in it than a busy machine may get done.
  ASSERT_TRUE(WorkerEnds(**cluster));
  ::testing::internal::CaptureStderr();
  const absl::Status status = (*cluster)->Shutdown({.grace = absl::Milliseconds(50)});
  const std::string log = ::testing::internal::GetCapturedStderr();
  EXPECT_THAT(status, IsOk());
  const std::string why = "the evaluator's grace of 50ms is over";
  EXPECT_THAT(log, HasSubstr("evaluator:0 had not ended by itself and is asked to stop: " + why));
  EXPECT_THAT(ReadFile(JoinPath(options_.log_dir, "events.jsonl")),
              IsOkAndHolds(HasSubstr("ps and evaluator are asked to end: " + why)));
}

INSTANTIATE_TEST_SUITE_P(Modes, EvaluatorTest,
                         ::testing::Values(InputMode::kDirect, InputMode::kFeed),
                         [](const auto& info) {
                           return info.param == InputMode::kFeed ? "Fed" : "Direct";
                         });

TEST_F(ClusterTest, WhoDoesNotEndByItselfIsStoppedAndNamed) {
  options_.num_ps = 1;
  absl::StatusOr<std::unique_ptr<Cluster>> direct =
      StartShell("[ \"$RANK\" = 0 ] || exec sleep 1000");
  ASSERT_THAT(direct, IsOk());
  EXPECT_THAT(
      (*direct)->Shutdown({.grace = absl::ZeroDuration(), .timeout = absl::Seconds(3)}),
      StatusIs(absl::StatusCode::kDeadlineExceeded,
               AllOf(HasSubstr("its timeout of 3s was over: 1 node has not ended"),
                     HasSubstr("worker:1 (executor 2"), ::testing::Not(HasSubstr("worker:0")))));

  options_.num_ps = 0;
  options_.input_mode = InputMode::kFeed;
  LocalLauncher other;
  NodeProgram program = NodeProgram::Path("sleep");
  absl::StatusOr<std::unique_ptr<Cluster>> fed =
      Cluster::Run(other, program.Args({"1000"}), options_);
  ASSERT_THAT(fed, IsOk());
  EXPECT_THAT((*fed)->Shutdown({.grace = absl::Milliseconds(50)}),
              StatusIs(absl::StatusCode::kDeadlineExceeded,
                       AllOf(HasSubstr("its grace of 50ms was over: 3 nodes have not ended"),
                             HasSubstr("worker:0"), HasSubstr("worker:2"))));
  for (const SlotStatus& slot : (*fed)->Status().slots) {
    EXPECT_EQ(slot.state, SlotState::kFinished) << slot.role.ToString();
  }
}

// Rows without end, until somebody cancels the call; asks for that itself once many were read.
class EndlessSource final : public PartitionedSource {
 public:
  explicit EndlessSource(StopRequest* stop) : stop_(stop) {}
  int num_partitions() const override { return 2; }
  absl::StatusOr<std::unique_ptr<RecordBatchReader>> Open(int, int64_t) const override {
    return std::make_unique<Reader>(stop_);
  }
  bool deterministic() const override { return true; }

 private:
  class Reader final : public RecordBatchReader {
   public:
    explicit Reader(StopRequest* stop) : stop_(stop) {
      BatchBuilder builder;
      builder.AddColumn("x", std::vector<int64_t>(1000, 1));
      rows_.push_back(*builder.Build());
    }
    const Schema& schema() const override { return rows_[0].schema(); }
    absl::StatusOr<std::optional<RecordBatch>> Next() override {
      if (++read_ == 100) stop_->Request("enough");
      return rows_[0];
    }

   private:
    StopRequest* const stop_;
    std::vector<RecordBatch> rows_;
    int read_ = 0;
  };
  StopRequest* const stop_;
};

TEST_F(ClusterTest, ACallThatIsStoppedEndsAloneAndTheClusterGoesOn) {
  options_.input_mode = InputMode::kFeed;
  absl::StatusOr<std::unique_ptr<Cluster>> cluster = Start("sum");
  ASSERT_THAT(cluster, IsOk());
  for (int round = 0; round < 2; ++round) {
    StopRequest stop;
    EXPECT_THAT((*cluster)->Train(EndlessSource(&stop), {.stop_request = &stop}),
                StatusIs(absl::StatusCode::kCancelled, "enough"));
  }
  const absl::StatusOr<TrainResult> trained = (*cluster)->Train(Rows(1000, 4));
  ASSERT_THAT(trained, IsOk());
  EXPECT_EQ(trained->rows, 1000);
  ASSERT_THAT((*cluster)->EndFeed(), IsOk());

  StopRequest stop;
  absl::StatusOr<InferenceResult> endless =
      (*cluster)->Inference(std::make_shared<EndlessSource>(&stop), {.stop_request = &stop});
  ASSERT_THAT(endless, IsOk());
  EXPECT_THAT(endless->Collect(), StatusIs(absl::StatusCode::kCancelled, "enough"));
  absl::StatusOr<InferenceResult> results =
      (*cluster)->Inference(std::make_shared<MemorySource>(Rows(20, 3)));
  ASSERT_THAT(results, IsOk());
  const absl::StatusOr<std::vector<RecordBatch>> batches = results->Collect();
  ASSERT_THAT(batches, IsOk());
  EXPECT_THAT(Doubled(*batches), SizeIs(20));
  EXPECT_THAT((*cluster)->Shutdown(), IsOk());
}

TEST_F(ClusterTest, ACallThatWaitsForAnotherOnItsQueueCanBeStopped) {
  options_.input_mode = InputMode::kFeed;
  absl::StatusOr<std::unique_ptr<Cluster>> cluster = Start("sum");
  ASSERT_THAT(cluster, IsOk());
  StopRequest first, second, feeds;
  Thread endless("endless", [&] {
    EXPECT_THAT((*cluster)->Train(EndlessSource(&feeds), {.stop_request = &first}),
                StatusIs(absl::StatusCode::kCancelled, "enough"));
  });
  EXPECT_TRUE(Eventually([&] { return feeds.requested(); }));
  Thread user("user", [&second] { second.Request("changed my mind"); });
  EXPECT_THAT((*cluster)->Train(Rows(10, 1), {.stop_request = &second}),
              StatusIs(absl::StatusCode::kCancelled, "changed my mind"));
  user.Join();
  first.Request("enough");
  endless.Join();
  EXPECT_THAT((*cluster)->Shutdown(), IsOk());
}

TEST_F(ClusterTest, ACallThatWaitsForFeedsCanBeStopped) {
  options_.input_mode = InputMode::kFeed;
  absl::StatusOr<std::unique_ptr<Cluster>> cluster = StartShell("exec sleep 1000");
  ASSERT_THAT(cluster, IsOk());
  StopRequest stop;
  Thread user("user", [&stop] { stop.Request("changed my mind"); });
  EXPECT_THAT((*cluster)->Train(Rows(10, 1), {.stop_request = &stop}),
              StatusIs(absl::StatusCode::kCancelled, "changed my mind"));
  user.Join();
}

// The observer's thread tells it and looks whether the cluster is being shut down, while the
// program lets go of the cluster: nothing orders the two, as ThreadSanitizer sees it.
TEST_F(ClusterTest, IsGivenUpWhileAFailureIsTold) {
  const std::string end = JoinPath(::testing::TempDir(), "given_up");
  std::filesystem::remove(end);
  std::atomic<bool> told = false;
  options_.num_executors = 1;
  options_.observer.on_failure = [&told](const NodeFailure&) {
    told.store(true, std::memory_order_relaxed);
  };
  absl::StatusOr<std::unique_ptr<Cluster>> cluster =
      StartShell(absl::StrCat("until test -e ", end, "; do sleep 0.05; done; exit 3"));
  ASSERT_THAT(cluster, IsOk());
  ASSERT_THAT(WriteFileAtomic(end, "", 0600), IsOk());
  EXPECT_TRUE(Eventually([&] { return told.load(std::memory_order_relaxed); }));
  cluster->reset();
  std::filesystem::remove(end);
}

TEST_F(ClusterTest, OneDriverRunsSeveralClusters) {
  options_.num_executors = 1;
  absl::StatusOr<std::unique_ptr<Cluster>> first = Start("wait");
  ASSERT_THAT(first, IsOk());
  LocalLauncher other;
  absl::StatusOr<std::unique_ptr<Cluster>> second =
      Cluster::Run(other, NodeProgram::Path("true"), options_);
  ASSERT_THAT(second, IsOk());
  EXPECT_NE((*first)->cluster_id(), (*second)->cluster_id());
  EXPECT_THAT((*second)->Shutdown(), IsOk());
  EXPECT_EQ((*first)->Status().slots[0].state, SlotState::kRunning);
}

}  // namespace
}  // namespace millrace
