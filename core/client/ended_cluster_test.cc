#include "core/client/ended_cluster.h"

#include <sys/stat.h>

#include <filesystem>
#include <string>

#include "absl/strings/str_cat.h"
#include "core/base/file.h"
#include "core/base/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace millrace {
namespace {

class EndedClusterTest : public testing::Test {
 protected:
  EndedClusterTest()
      : dir_(*TempDir::Create("ended")), clusters_(JoinPath(dir_.path(), "clusters")) {}

  static EndedCluster Ended(const std::string& id, int second) {
    return {.cluster_id = id,
            .program = "train",
            .log_dir = "/logs",
            .started = absl::FromUnixSeconds(1700000000),
            .ended = absl::FromUnixSeconds(1700000000 + second),
            .outcome = "failed",
            .cause = "worker:1 exited with code 3"};
  }

  const TempDir dir_;
  const std::string clusters_;
};

TEST_F(EndedClusterTest, WhatIsRecordedIsListedTheLastFirst) {
  EXPECT_TRUE(ListEndedClusters(clusters_).empty());
  ASSERT_THAT(RecordEndedCluster(clusters_, Ended("b", 2)), IsOk());
  ASSERT_THAT(RecordEndedCluster(clusters_, Ended("a", 1)), IsOk());
  const auto list = ListEndedClusters(clusters_);
  ASSERT_EQ(list.size(), 2u);
  EXPECT_EQ(list[0].cluster_id, "b");
  EXPECT_EQ(list[0].program, "train");
  EXPECT_EQ(list[0].log_dir, "/logs");
  EXPECT_EQ(list[0].outcome, "failed");
  EXPECT_EQ(list[0].cause, "worker:1 exited with code 3");
  EXPECT_EQ(list[0].ended, absl::FromUnixSeconds(1700000002));
  struct stat info {};
  ASSERT_EQ(::stat(JoinPath(clusters_, "ended/b.json").c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0600u);
  ASSERT_EQ(::stat(JoinPath(clusters_, "ended").c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0700u);
}

TEST_F(EndedClusterTest, TheOldestGo) {
  const int count = static_cast<int>(kMaxEndedClusters) + 5;
  for (int i = 0; i < count; ++i) {
    ASSERT_THAT(RecordEndedCluster(clusters_, Ended(absl::StrCat("c", i), i)), IsOk());
  }
  const auto list = ListEndedClusters(clusters_);
  ASSERT_EQ(list.size(), kMaxEndedClusters);
  EXPECT_EQ(list.front().cluster_id, absl::StrCat("c", count - 1));
  EXPECT_EQ(list.back().cluster_id, "c5");
}

TEST_F(EndedClusterTest, ADriverThatEndedWellWasNotLost) {
  ASSERT_THAT(RecordEndedCluster(clusters_, Ended("a", 1)), IsOk());
  EndedCluster lost = Ended("a", 2);
  lost.outcome = "lost";
  ASSERT_THAT(RecordEndedCluster(clusters_, lost), IsOk());
  EXPECT_EQ(ListEndedClusters(clusters_)[0].outcome, "failed");
}

TEST_F(EndedClusterTest, WhatIsNoRecordIsLeftOutAndLeftAlone) {
  ASSERT_THAT(RecordEndedCluster(clusters_, Ended("a", 1)), IsOk());
  for (const char* text : {"", "{", "[]", "{\"cluster_id\": \"a\"}"}) {
    ASSERT_THAT(WriteFileAtomic(JoinPath(clusters_, "ended/x.json"), text), IsOk());
    EXPECT_EQ(ListEndedClusters(clusters_).size(), 1u) << text;
  }
  // A record under another's name does not have that one removed.
  std::filesystem::copy(JoinPath(clusters_, "ended/a.json"), JoinPath(clusters_, "ended/y.json"));
  EXPECT_EQ(ListEndedClusters(clusters_).size(), 1u);
}

}  // namespace
}  // namespace millrace
