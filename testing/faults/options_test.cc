// Options that make no sense: a typed error that names the option, and nothing is started or
// harmed.

#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "core/base/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "testing/faults/fault_test.h"
#include "testing/faults/golden_text.h"
#include "testing/faults/rows.h"

namespace millrace::faults {
namespace {

using ::testing::IsEmpty;

class OptionsTest : public FaultTest {};

struct ClusterCase {
  std::function<void(ClusterOptions*)> change;
  std::string line;
};

TEST_F(OptionsTest, ClusterOptionsOutOfRangeAreNamedAndStartNothing) {
  const std::vector<ClusterCase> cases = {
      {[](ClusterOptions* o) { o->num_executors = 0; },
       "num_executors is 0: it must be in 1..131072"},
      {[](ClusterOptions* o) { o->num_executors = -1; },
       "num_executors is -1: it must be in 1..131072"},
      {[](ClusterOptions* o) { o->num_executors = 131073; },
       "num_executors is 131073: it must be in 1..131072"},
      {[](ClusterOptions* o) { o->num_ps = -1; }, "num_ps is -1: it must not be negative"},
      {[](ClusterOptions* o) { o->num_ps = 2; },
       "num_executors is 2, of which num_ps takes 2: none is left for a chief, master or worker; "
       "raise num_executors to at least 3"},
      {[](ClusterOptions* o) { o->num_ps = std::numeric_limits<int>::max(); },
       "num_executors is 2, of which num_ps takes 2147483647: none is left for a chief, master or "
       "worker; raise num_executors to at least 2147483648"},
      {[](ClusterOptions* o) {
         o->num_ps = 1;
         o->eval_node = true;
       },
       "num_executors is 2, of which num_ps takes 1 and eval_node 1: none is left for a chief, "
       "master or worker; raise num_executors to at least 3"},
      {[](ClusterOptions* o) { o->master_node = "boss"; },
       "master_node is \"boss\": must be \"chief\", \"master\" or empty"},
      {[](ClusterOptions* o) { o->feed.queues = {}; },
       "feed.queues must name at least one queue in InputMode FEED"},
      {[](ClusterOptions* o) {
         o->feed.queues = {"input", ""};
       },
       "feed.queues: a queue needs a name"},
      {[](ClusterOptions* o) {
         o->feed.queues = {"input", "input"};
       },
       "feed.queues names 'input' twice"},
      {[](ClusterOptions* o) { o->reservation_timeout = absl::ZeroDuration(); },
       "reservation_timeout must be greater than zero, found 0; use absl::InfiniteDuration() for "
       "no "
       "limit"},
      {[](ClusterOptions* o) { o->reservation_timeout = -absl::Seconds(1); },
       "reservation_timeout must be greater than zero, found -1s; use absl::InfiniteDuration() for "
       "no limit"},
      {[](ClusterOptions* o) { o->failure.stop_grace = -absl::InfiniteDuration(); },
       "failure.stop_grace must be greater than zero, found -inf; use absl::InfiniteDuration() for "
       "no "
       "limit"},
      {[](ClusterOptions* o) { o->failure.stop_timeout = absl::ZeroDuration(); },
       "failure.stop_timeout must be greater than zero, found 0; use absl::InfiniteDuration() for "
       "no "
       "limit"},
      {[](ClusterOptions* o) { o->feed.budget_bytes = 0; },
       "feed.budget_bytes must be at least 1, found 0"},
      {[](ClusterOptions* o) { o->feed.budget_bytes = -1; },
       "feed.budget_bytes must be at least 1, found -1"},
      {[](ClusterOptions* o) { o->node.log_bytes_per_second = 0; },
       "node.log_bytes_per_second must be at least 1, found 0"},
  };
  for (const ClusterCase& each : cases) {
    ClusterOptions options = Options(2);
    each.change(&options);
    EXPECT_THAT(Run(options, Program()), FailsWith(absl::StatusCode::kInvalidArgument, each.line));
    EXPECT_THAT(leaks_.Leftovers(), IsEmpty()) << each.line;
  }
}

TEST_F(OptionsTest, ANodeProgramThatMakesNoSenseIsNamedAndStartsNothing) {
  const std::string no_path = "the node program has no path; NodeProgram::File and ::Path take one";
  const std::vector<std::pair<NodeProgram, std::string>> cases = {
      {NodeProgram::File(""), no_path},
      {NodeProgram::Path(""), no_path},
      {Program().Args({std::string("a\0b", 3)}), "program.args: an argument holds a zero byte"},
      {Program().Env({{"A=B", "c"}}), "program.env: \"A=B\" cannot be in an environment"},
      {Program().Env({{"", "c"}}), "program.env: \"\" cannot be in an environment"},
      {Program().Env({{"A", std::string("c\0d", 3)}}),
       "program.env: \"A\" cannot be in an environment"},
  };
  for (const auto& [program, line] : cases) {
    EXPECT_THAT(Run(Options(1), program), FailsWith(absl::StatusCode::kInvalidArgument, line));
    EXPECT_THAT(leaks_.Leftovers(), IsEmpty()) << line;
  }
}

struct TrainCase {
  TrainOptions options;
  absl::StatusCode code;
  std::string line;
};

TEST_F(OptionsTest, CallOptionsOutOfRangeAreNamedAndTheClusterGoesOn) {
  auto cluster = Run(1);
  ASSERT_THAT(cluster, IsOk());
  constexpr auto kInvalid = absl::StatusCode::kInvalidArgument;
  const std::string no_queue =
      "there is no queue 'inputs'; FeedOptions::queues has input, output, error";
  const std::string feed_timeout_0 =
      "feed_timeout must be greater than zero, found 0; use absl::InfiniteDuration() for no limit";
  const std::string batch_bytes_0 = "batch_bytes must be at least 1, found 0";
  const std::vector<TrainCase> cases = {
      {{.num_epochs = 0}, kInvalid, "num_epochs must be at least 1, found 0"},
      {{.num_epochs = -3}, kInvalid, "num_epochs must be at least 1, found -3"},
      {{.feed_timeout = absl::ZeroDuration()}, kInvalid, feed_timeout_0},
      {{.queue = "inputs"}, absl::StatusCode::kNotFound, no_queue},
      {{.queue = ""},
       absl::StatusCode::kNotFound,
       "there is no queue ''; FeedOptions::queues has input, output, error"},
      {{.batch_bytes = 0}, kInvalid, batch_bytes_0},
  };
  for (const TrainCase& each : cases) {
    EXPECT_THAT((*cluster)->Train(RowSource(10, 1), each.options), FailsWith(each.code, each.line));
  }
  EXPECT_THAT((*cluster)->Inference(nullptr), FailsWith(kInvalid, "Inference: there is no source"));
  const auto rows = std::make_shared<MemorySource>(RowSource(10, 1));
  EXPECT_THAT((*cluster)->Inference(rows, {.feed_timeout = absl::ZeroDuration()}),
              FailsWith(kInvalid, feed_timeout_0));
  EXPECT_THAT((*cluster)->Inference(rows, {.queue = "inputs"}),
              FailsWith(absl::StatusCode::kNotFound, no_queue));
  EXPECT_THAT((*cluster)->Inference(rows, {.batch_bytes = 0}), FailsWith(kInvalid, batch_bytes_0));
  EXPECT_THAT((*cluster)->EndFeed("inputs"), FailsWith(absl::StatusCode::kNotFound, no_queue));
  EXPECT_THAT((*cluster)->Shutdown({.timeout = absl::ZeroDuration()}),
              FailsWith(kInvalid,
                        "timeout must be greater than zero, found 0; use absl::InfiniteDuration() "
                        "for no limit"));
  EXPECT_THAT((*cluster)->Shutdown({.grace = -absl::Seconds(1)}),
              FailsWith(kInvalid, "grace must not be negative, found -1s"));
  ExpectTrainsAndShutsDown(**cluster);
}

TEST_F(OptionsTest, AClusterInDirectModeIsNotFed) {
  ClusterOptions options = Options(1);
  options.input_mode = InputMode::kDirect;
  auto cluster = Run(options, Program("never_reads"));
  ASSERT_THAT(cluster, IsOk());
  const std::string line =
      "this cluster is not fed: its nodes read their own data (InputMode DIRECT); run it with "
      "InputMode FEED";
  constexpr auto kPrecondition = absl::StatusCode::kFailedPrecondition;
  EXPECT_THAT((*cluster)->Train(RowSource(10, 1)), FailsWith(kPrecondition, line));
  EXPECT_THAT((*cluster)->Inference(std::make_shared<MemorySource>(RowSource(10, 1))),
              FailsWith(kPrecondition, line));
  EXPECT_THAT((*cluster)->EndFeed(), FailsWith(kPrecondition, line));
}

TEST_F(OptionsTest, ALauncherServesOneClusterAtATime) {
  auto first = Run(1);
  ASSERT_THAT(first, IsOk());
  EXPECT_THAT(Run(1), FailsWith(absl::StatusCode::kFailedPrecondition,
                                "this LocalLauncher runs a cluster already; use another"));
  ExpectTrainsAndShutsDown(**first);
}

}  // namespace
}  // namespace millrace::faults
