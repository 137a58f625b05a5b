// Clusters that are fed, whose drivers are killed and replaced: real drivers (fed_driver.cc),
// agents that listen, and nodes that write down every row (fed_node.cc).

#include <signal.h>

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/time/time.h"
#include "core/base/file.h"
#include "core/base/status_matchers.h"
#include "core/coordinator/journal/state_image.h"
#include "core/coordinator/journal/state_journal.h"
#include "core/launch/agent_secret.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "testing/child_process.h"
#include "testing/eventually.h"
#include "testing/listening_agent.h"

namespace millrace {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::SizeIs;
using ::testing::StartsWith;

constexpr absl::Duration kLong = absl::Seconds(60);

class FedDriverTest : public ::testing::Test {
 protected:
  FedDriverTest() {
    EXPECT_THAT(WriteAgentSecretFile(Path("secret.json"), *MakeAgentSecret()), IsOk());
    for (int host : {2, 3}) {
      auto agent = ListeningAgent::Start(absl::StrCat("127.0.0.", host), Path("secret.json"));
      EXPECT_THAT(agent, IsOk());
      if (agent.ok()) agents_.push_back(*std::move(agent));
    }
  }

  std::string Path(const std::string& name) const { return JoinPath(dir_.path(), name); }

  std::unique_ptr<ChildProcess> StartDriver(const std::vector<std::string>& more = {}) {
    std::vector<std::string> addresses;
    for (const auto& agent : agents_) addresses.push_back(agent->address());
    std::vector<std::string> argv = {RunfilePath("testing/driver_kills/fed_driver"),
                                     "--state=" + Path("state"),
                                     "--secret=" + Path("secret.json"),
                                     "--folder=" + dir_.path(),
                                     "--agents=" + absl::StrJoin(addresses, ","),
                                     "--node=" + RunfilePath("testing/driver_kills/fed_node")};
    argv.insert(argv.end(), flags_.begin(), flags_.end());
    argv.insert(argv.end(), more.begin(), more.end());
    auto driver = ChildProcess::Start(argv);
    EXPECT_THAT(driver, IsOk());
    return *std::move(driver);
  }
  static std::string WaitLine(ChildProcess& driver, const std::string& head) {
    const auto line = driver.WaitForLine(head, kLong);
    EXPECT_THAT(line, IsOk());
    return line.value_or("");
  }
  static void Kill(ChildProcess& driver) {
    driver.Kill(SIGKILL);
    ASSERT_THAT(driver.Wait(kLong), IsOk());
  }
  void Allow(const std::string& what, int64_t count) const {
    ASSERT_THAT(WriteFileAtomic(Path(what), absl::StrCat(count)), IsOk());
  }
  void Release(const std::string& what) const { std::filesystem::remove(Path(what)); }

  // How often nodes were given each row.
  std::map<int64_t, int> Given() const {
    std::map<int64_t, int> given;
    for (const auto& entry : std::filesystem::directory_iterator(dir_.path())) {
      if (!absl::StartsWith(entry.path().filename().string(), "rows-")) continue;
      const std::string text = ReadFile(entry.path().string()).value_or("");
      for (const auto line : absl::StrSplit(text, '\n', absl::SkipEmpty())) {
        int64_t id = 0;
        if (absl::SimpleAtoi(line, &id)) ++given[id];
      }
    }
    return given;
  }
  bool WaitGiven(size_t rows) const {
    return Eventually([&] { return Given().size() >= rows; });
  }
  // As the driver that lives has written it.
  bool WaitJournal(const std::function<bool(const StateImage&)>& holds) const {
    return Eventually([&] {
      const auto copy = TempDir::Create("journal");
      const std::string folder = JoinPath(copy->path(), "state");
      std::filesystem::create_directory(folder);
      std::filesystem::permissions(folder, std::filesystem::perms::owner_all);
      std::error_code error;
      for (const auto& entry : std::filesystem::directory_iterator(Path("state"), error)) {
        if (entry.path().filename() == "lock") continue;
        std::filesystem::copy(entry.path(), folder, error);
      }
      const auto journal = StateJournal::Resume(folder);
      return journal.ok() && holds((*journal)->restored());
    });
  }
  // Every row of `calls` calls of Train was given; how often one was that had been given already.
  int64_t CheckAllGiven(int64_t calls, int64_t epochs, int64_t partitions, int64_t rows) const {
    const std::map<int64_t, int> given = Given();
    int64_t missing = 0, found = 0, doubled = 0;
    for (int64_t call = 0; call < calls; ++call) {
      for (int64_t epoch = 0; epoch < epochs; ++epoch) {
        for (int64_t partition = 0; partition < partitions; ++partition) {
          for (int64_t row = 0; row < rows; ++row) {
            const auto id = given.find(((call * 100 + epoch) * 100 + partition) * 100'000 + row);
            if (id == given.end()) ++missing;
            if (id == given.end()) continue;
            ++found;
            doubled += id->second - 1;
          }
        }
      }
    }
    EXPECT_EQ(missing, 0);
    EXPECT_EQ(found, given.size()) << "and no others";
    return doubled;
  }
  void ExpectEnd(ChildProcess& driver) {
    EXPECT_EQ(WaitLine(driver, "ended with "), "ended with OK: ");
    EXPECT_THAT(driver.Wait(kLong), IsOk());
    for (const auto& agent : agents_) EXPECT_THAT(agent->WaitFor("free again", kLong), IsOk());
    std::error_code error;
    EXPECT_TRUE(std::filesystem::is_empty(Path("state"), error));
  }

  const TempDir dir_ = *TempDir::Create("fed-driver");
  std::vector<std::unique_ptr<ListeningAgent>> agents_;
  std::vector<std::string> flags_ = {"--partitions=6", "--rows=100"};
};

TEST_F(FedDriverTest, KilledBeforeASessionIsOpened) {
  Allow("start", 0);
  const auto first = StartDriver();
  WaitLine(*first, "new ");
  ASSERT_TRUE(WaitJournal([](const StateImage& image) { return image.feeds().size() == 1; }));
  Kill(*first);
  Release("start");
  const auto second = StartDriver();
  WaitLine(*second, "resumed ");
  EXPECT_EQ(WaitLine(*second, "trained 0"), "trained 0 rows 600 refed 0 exactly 1");
  ExpectEnd(*second);
  EXPECT_EQ(CheckAllGiven(1, 1, 6, 100), 0);
}

TEST_F(FedDriverTest, KilledInItsRowsAgainAndAgain) {
  for (const int64_t rows : {30, 50, 70}) {
    Allow("rows", rows);
    const auto driver = StartDriver();
    WaitLine(*driver, rows == 30 ? "new " : "resumed ");
    // Six partitions, two at a time; a node's last batch is not full.
    ASSERT_TRUE(WaitGiven(2 * rows - 14)) << Given().size();
    Kill(*driver);
  }
  Release("rows");
  const auto last = StartDriver();
  EXPECT_EQ(WaitLine(*last, "trained 0"), "trained 0 rows 600 refed 0 exactly 1");
  ExpectEnd(*last);
  EXPECT_EQ(CheckAllGiven(1, 1, 6, 100), 0);
}

// All rows are with the nodes, which have used few of them.
TEST_F(FedDriverTest, KilledAfterTheEndOfTheFeed) {
  flags_.push_back("--epochs=2");
  Allow("batches", 3);
  const auto first = StartDriver();
  ASSERT_TRUE(WaitJournal([](const StateImage& image) {
    return image.feeds().size() == 1 && image.feeds()[0].feed.rounds() == 1;
  }));
  ASSERT_TRUE(WaitGiven(42));
  Kill(*first);
  Allow("batches", 5);
  const auto second = StartDriver();
  ASSERT_TRUE(WaitJournal([](const StateImage& image) {
    return image.feeds().size() == 1 && image.feeds()[0].feed.rounds() == 2;
  }));
  ASSERT_TRUE(WaitGiven(70));
  Kill(*second);
  Release("batches");
  const auto third = StartDriver();
  EXPECT_EQ(WaitLine(*third, "trained 0"), "trained 0 rows 1200 refed 0 exactly 1");
  ExpectEnd(*third);
  EXPECT_EQ(CheckAllGiven(1, 2, 6, 100), 0);
}

TEST_F(FedDriverTest, KilledBetweenTwoCallsAndAfterTheLast) {
  flags_.push_back("--trains=2");
  Allow("calls", 1);
  const auto first = StartDriver();
  WaitLine(*first, "trained 0");
  Kill(*first);
  Allow("calls", 2);
  const auto second = StartDriver();
  EXPECT_EQ(WaitLine(*second, "trained 0"), "trained 0 rows 600 refed 0 exactly 1");
  EXPECT_EQ(WaitLine(*second, "trained 1"), "trained 1 rows 600 refed 0 exactly 1");
  Kill(*second);
  Release("calls");
  const auto third = StartDriver();
  EXPECT_EQ(WaitLine(*third, "trained 0"), "trained 0 rows 600 refed 0 exactly 1");
  EXPECT_EQ(WaitLine(*third, "trained 1"), "trained 1 rows 600 refed 0 exactly 1");
  ExpectEnd(*third);
  EXPECT_EQ(CheckAllGiven(2, 1, 6, 100), 0);
}

TEST_F(FedDriverTest, KilledInTheSecondCall) {
  flags_.push_back("--trains=3");
  Allow("calls", 1);
  const auto first = StartDriver();
  WaitLine(*first, "trained 0");
  Allow("rows", 40);
  Allow("calls", 2);
  ASSERT_TRUE(WaitGiven(600 + 2 * 40 - 14));
  Kill(*first);
  Release("rows");
  Release("calls");
  const auto second = StartDriver();
  EXPECT_EQ(WaitLine(*second, "trained 2"), "trained 2 rows 600 refed 0 exactly 1");
  ExpectEnd(*second);
  EXPECT_EQ(CheckAllGiven(3, 1, 6, 100), 0);
}

// A node that dies while there is no driver takes what it knew of its rows along.
TEST_F(FedDriverTest, WhatANodeHadThatDiedWithTheDriverIsFedAgainAndCounted) {
  flags_.push_back("--restarts=1");
  Allow("rows", 50);
  const auto first = StartDriver();
  ASSERT_TRUE(WaitGiven(2 * 50 - 14));
  Kill(*first);
  int64_t pid = 0;
  ASSERT_TRUE(absl::SimpleAtoi(ReadFile(Path("pid-0")).value_or(""), &pid));
  ASSERT_EQ(::kill(static_cast<pid_t>(pid), SIGKILL), 0);
  Release("rows");
  const auto second = StartDriver();
  const std::string trained = WaitLine(*second, "trained 0");
  EXPECT_THAT(trained, AllOf(StartsWith("trained 0 rows 600 refed "), HasSubstr("exactly 0")));
  const std::vector<std::string> words = absl::StrSplit(trained, ' ');
  int64_t refed = 0;
  ASSERT_TRUE(absl::SimpleAtoi(words[5], &refed));
  ExpectEnd(*second);
  const int64_t doubled = CheckAllGiven(1, 1, 6, 100);
  EXPECT_GT(doubled, 0);
  EXPECT_LE(doubled, refed);
  EXPECT_LE(refed, 600);
}

TEST_F(FedDriverTest, OtherDataAreRefused) {
  Allow("rows", 50);
  const auto first = StartDriver();
  ASSERT_TRUE(WaitGiven(2 * 50 - 14));
  Kill(*first);
  flags_ = {"--partitions=5", "--rows=100"};
  const auto second = StartDriver();
  EXPECT_THAT(WaitLine(*second, "ended with "),
              AllOf(StartsWith("ended with FAILED_PRECONDITION: Train call 1 on queue 'input' had "
                               "6 partitions in 1 epoch"),
                    HasSubstr("has 5 partitions")));
}

TEST_F(FedDriverTest, ASourceThatIsNotDeterministicIsFedAgainAndCounted) {
  flags_.push_back("--unstable");
  Allow("rows", 50);
  const auto first = StartDriver();
  ASSERT_TRUE(WaitGiven(2 * 50 - 14));
  Kill(*first);
  Release("rows");
  const auto second = StartDriver();
  EXPECT_EQ(WaitLine(*second, "trained 0"), "trained 0 rows 600 refed 200 exactly 0");
  ExpectEnd(*second);
  EXPECT_LE(CheckAllGiven(1, 1, 6, 100), 200);
}

TEST_F(FedDriverTest, InferenceThatWasCutIsRunAgain) {
  flags_ = {"--partitions=6", "--rows=100", "--infer"};
  Allow("calls", 1);
  const auto first = StartDriver();
  WaitLine(*first, "trained 0");
  Allow("rows", 50);
  Allow("calls", 2);
  ASSERT_TRUE(WaitJournal([](const StateImage& image) { return !image.ended_queues().empty(); }));
  Kill(*first);
  Release("rows");
  const auto second = StartDriver();
  EXPECT_EQ(WaitLine(*second, "asked about"), "asked about 600 rows");
  ExpectEnd(*second);
  EXPECT_EQ(CheckAllGiven(1, 1, 6, 100), 0);
}

TEST_F(FedDriverTest, EquallyManyBatchesAreRefused) {
  flags_.push_back("--node-args=7,0,equal");
  const auto driver = StartDriver();
  EXPECT_THAT(WaitLine(*driver, "ended with "),
              AllOf(StartsWith("ended with UNIMPLEMENTED: worker:"),
                    HasSubstr("resume.state_folder"), HasSubstr("DataFeedOptions::equal")));
}

TEST_F(FedDriverTest, WhereNobodyComesNodesEndWithTheirLease) {
  flags_.push_back("--lease-ms=2000");
  Allow("rows", 50);
  const auto first = StartDriver();
  ASSERT_TRUE(WaitGiven(2 * 50 - 14));
  Kill(*first);
  for (const auto& agent : agents_) EXPECT_THAT(agent->WaitFor("free again", kLong), IsOk());
  const auto second = StartDriver();
  EXPECT_THAT(WaitLine(*second, "ended with "), StartsWith("ended with UNAVAILABLE: worker:"));
}

}  // namespace
}  // namespace millrace
