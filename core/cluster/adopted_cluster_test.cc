// Clusters of agents that listen, each on a loopback address of its own as on a host.

#include <signal.h>
#include <stdlib.h>
#include <sys/stat.h>

#include <algorithm>
#include <map>
#include <memory>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "core/agent/agent_secret.h"
#include "core/base/file.h"
#include "core/base/mutex.h"
#include "core/base/status_macros.h"
#include "core/base/status_matchers.h"
#include "core/cluster/adopting_launcher.h"
#include "core/cluster/cluster.h"
#include "feed/batch.h"
#include "feed/batch_builder.h"
#include "feed/memory_source.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "resolver/scripted_resolver.h"
#include "testing/listening_agent.h"

namespace millrace {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::SizeIs;

constexpr absl::Duration kLong = absl::Seconds(60);

// Rows x = 0, 1, 2, ... in partitions of about equal size.
std::shared_ptr<MemorySource> Rows(int64_t rows, int partitions) {
  std::vector<int64_t> x(rows);
  std::iota(x.begin(), x.end(), 0);
  BatchBuilder builder;
  builder.AddColumn("x", x);
  return std::make_shared<MemorySource>(*MemorySource::Split(*builder.Build(), partitions));
}

class AdoptedClusterTest : public ::testing::Test {
 protected:
  AdoptedClusterTest() : dir_(*TempDir::Create("adopted")) {
    secret_ = WriteSecret("secret.json");
    options_.input_mode = InputMode::kFeed;
    options_.reservation_timeout = kLong;
    options_.restart.initial_backoff = absl::Milliseconds(50);
    options_.on_metric = [this](absl::string_view, absl::string_view name, int64_t step, double value) {
      MutexLock lock(&mu_);
      steps_[std::string(name)] += step;
      sums_[std::string(name)] += value;
    };
    launcher_options_.secret.file = secret_;
    launcher_options_.poll_interval = absl::Milliseconds(20);
  }

  std::string WriteSecret(const std::string& name) {
    const std::string path = JoinPath(dir_.path(), name);
    EXPECT_THAT(WriteAgentSecretFile(path, *MakeAgentSecret()), IsOk());
    return path;
  }

  // One more agent, on an address of its own.
  std::unique_ptr<ListeningAgent> StartAgent() {
    auto agent = ListeningAgent::Start(absl::StrCat("127.0.0.", next_host_++), secret_);
    EXPECT_THAT(agent, IsOk());
    return agent.ok() ? *std::move(agent) : nullptr;
  }

  // worker:0, worker:1, ... at these addresses.
  static ClusterSpec Workers(const ClusterSpec::TaskList& addresses) {
    return *ClusterSpec::Create({{"worker", addresses}});
  }

  absl::StatusOr<std::unique_ptr<Cluster>> Start(ClusterResolver* resolver, int workers,
                                                 const std::string& what = "sum") {
    launcher_ = std::make_unique<AdoptingLauncher>(resolver, launcher_options_);
    NodeProgram program = NodeProgram::File(
        absl::StrCat(::getenv("TEST_SRCDIR"), "/millrace/core/cluster/cluster_test_node"));
    program.Args({what});
    options_.num_executors = workers;
    return Cluster::Run(*launcher_, program, options_);
  }
  double sum(const std::string& name) {
    MutexLock lock(&mu_);
    return sums_[name];
  }

  const TempDir dir_;
  std::string secret_;
  int next_host_ = 2;
  ClusterOptions options_;
  AdoptingLauncherOptions launcher_options_;
  std::unique_ptr<AdoptingLauncher> launcher_;  // outlives the clusters of a test
  Mutex mu_;
  std::map<std::string, int64_t> steps_ ABSL_GUARDED_BY(mu_);
  std::map<std::string, double> sums_ ABSL_GUARDED_BY(mu_);
};

TEST_F(AdoptedClusterTest, TrainsOnAgentsThatListenAndLeavesThemFreeForTheNext) {
  const auto first = StartAgent();
  const auto second = StartAgent();
  ScriptedResolver resolver(Workers({first->address(), second->address()}));
  for (int round = 1; round <= 2; ++round) {
    auto cluster = Start(&resolver, 2);
    ASSERT_THAT(cluster, IsOk());
    const ClusterStatus status = (*cluster)->Status();
    ASSERT_THAT(status.slots, SizeIs(2));
    EXPECT_THAT(status.slots[0].address, ::testing::StartsWith("127.0.0.2:"));
    EXPECT_THAT(status.slots[1].address, ::testing::StartsWith("127.0.0.3:"));
    ASSERT_THAT((*cluster)->Train(Rows(1000, 4), {.end_of_feed = true}), IsOk());
    EXPECT_THAT((*cluster)->Shutdown(), IsOk());
    EXPECT_EQ(sum("sum"), round * 999.0 * 1000 / 2);
    EXPECT_THAT(first->WaitFor("adopted as executor 0 of cluster", kLong), IsOk());
    EXPECT_THAT(first->WaitFor("free again", kLong), IsOk());
    EXPECT_THAT(second->WaitFor("free again", kLong), IsOk());
  }
}

}  // namespace
}  // namespace millrace
