// Two nodes that use the C interface from several threads each, as its header allows.

#include <stdlib.h>

#include <cstdint>
#include <map>
#include <memory>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "core/base/mutex.h"
#include "core/base/status_matchers.h"
#include "gtest/gtest.h"
#include "millrace/batch_builder.h"
#include "millrace/cluster.h"
#include "millrace/local_launcher.h"
#include "millrace/record_batch.h"
#include "millrace/source.h"

namespace millrace {
namespace {

constexpr int64_t kNodes = 2;
constexpr int64_t kPartitions = 9;
constexpr int64_t kRows = 101;  // of each

MemorySource Rows() {
  std::vector<std::vector<RecordBatch>> partitions;
  for (int64_t p = 0; p < kPartitions; ++p) {
    std::vector<int64_t> x(kRows);
    std::iota(x.begin(), x.end(), p * kRows);
    partitions.push_back({*BatchBuilder().AddColumn("x", x).Build()});
  }
  return **MemorySource::Create(std::move(partitions));
}

TEST(ThreadsTest, ANodeAndItsFeedAreUsedByManyThreads) {
  Mutex mu;
  std::map<std::string, std::pair<int64_t, double>> metrics;  // sums of steps and values
  ClusterOptions options;
  options.num_executors = kNodes;
  options.input_mode = InputMode::kFeed;
  options.cluster_file = false;
  options.observer.on_metric = [&](absl::string_view, absl::string_view name, int64_t step,
                                   double value) {
    MutexLock lock(&mu);
    auto& [steps, values] = metrics[std::string(name)];
    steps += step;
    values += value;
  };
  LocalLauncher launcher;
  const NodeProgram program = NodeProgram::Path(
      absl::StrCat(::getenv("TEST_SRCDIR"), "/millrace/millrace/c/threads_test_node"));
  absl::StatusOr<std::unique_ptr<Cluster>> cluster = Cluster::Run(launcher, program, options);
  ASSERT_THAT(cluster, IsOk());
  ASSERT_THAT((*cluster)->Train(Rows(), {.num_epochs = 2, .end_of_feed = true}), IsOk());
  absl::StatusOr<InferenceResult> result =
      (*cluster)->Inference(std::make_shared<MemorySource>(Rows()));
  ASSERT_THAT(result, IsOk());
  const absl::StatusOr<std::vector<RecordBatch>> answers = result->Collect();
  ASSERT_THAT(answers, IsOk());
  int64_t next = 0;
  for (const RecordBatch& rows : *answers) {
    const int64_t* x = rows.column(0).values<int64_t>();
    for (int64_t i = 0; i < rows.num_rows(); ++i) ASSERT_EQ(x[i], next++);
  }
  EXPECT_EQ(next, kPartitions * kRows);
  EXPECT_THAT((*cluster)->EndFeed(), IsOk());
  EXPECT_THAT((*cluster)->Shutdown(), IsOk());
  MutexLock lock(&mu);
  const int64_t rows = kPartitions * kRows;
  EXPECT_EQ(metrics["sum"].first, 2 * rows);
  EXPECT_EQ(metrics["sum"].second, 2.0 * static_cast<double>(rows * (rows - 1) / 2));
  EXPECT_EQ(metrics["turns"].first, kNodes * kNodes * 4 * 20);
}

}  // namespace
}  // namespace millrace
