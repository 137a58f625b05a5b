#include "core/client/cluster_file.h"

#include <sys/stat.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include <optional>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "core/base/file.h"
#include "core/base/status_matchers.h"
#include "core/process/process.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace millrace {
namespace {

using ::testing::HasSubstr;

class ClusterFileTest : public testing::Test {
 protected:
  void SetUp() override {
    auto dir = TempDir::Create();
    ASSERT_THAT(dir, IsOk());
    dir_.emplace(*std::move(dir));
    folder_ = JoinPath(dir_->path(), "a/clusters");
    setenv("MILLRACE_CLUSTERS_DIR", folder_.c_str(), 1);
  }
  void TearDown() override { unsetenv("MILLRACE_CLUSTERS_DIR"); }

  static ClusterFile Cluster(const std::string& id, absl::Time started = absl::Now()) {
    ClusterFile cluster;
    cluster.cluster_id = id;
    cluster.address = "10.0.0.1:1234";
    cluster.ca_pem = "-----BEGIN CERTIFICATE-----\n...\n";
    cluster.identity_pem = "-----BEGIN PRIVATE KEY-----\n-----BEGIN CERTIFICATE-----\n...\n";
    cluster.viewer_token = "viewer-secret";
    cluster.operator_token = "operator-secret";
    cluster.started = started;
    cluster.program = "/bin/train";
    return cluster;
  }
  static mode_t ModeOf(const std::string& path) {
    struct stat info {};
    EXPECT_EQ(lstat(path.c_str(), &info), 0) << path;
    return info.st_mode & 07777;
  }

  std::optional<TempDir> dir_;
  std::string folder_;
};

TEST_F(ClusterFileTest, WhatIsWrittenIsReadAndOnlyItsUserMay) {
  const absl::Time started = absl::FromUnixMicros(1700000000123456);
  const auto path = WriteClusterFile(Cluster("c1", started));
  ASSERT_THAT(path, IsOk());
  EXPECT_EQ(*path, JoinPath(folder_, "c1.json"));
  EXPECT_EQ(ModeOf(folder_), 0700u);
  EXPECT_EQ(ModeOf(*path), 0600u);
  EXPECT_EQ(ModeOf(JoinPath(folder_, "c1.operator")), 0600u);
  const auto text = ReadFile(*path);
  ASSERT_THAT(text, IsOk());
  EXPECT_THAT(*text, ::testing::Not(HasSubstr("operator-secret")));

  const auto cluster = ReadClusterFile(*path);
  ASSERT_THAT(cluster, IsOk());
  EXPECT_EQ(cluster->address, "10.0.0.1:1234");
  EXPECT_EQ(cluster->viewer_token, "viewer-secret");
  EXPECT_EQ(cluster->operator_token, "operator-secret");
  EXPECT_EQ(cluster->pid, getpid());
  EXPECT_EQ(cluster->started, started);
  EXPECT_EQ(cluster->program, "/bin/train");
  EXPECT_FALSE(ClusterOwnerGone(*cluster));
  // As a viewer has it: without the other file.
  ASSERT_EQ(unlink(JoinPath(folder_, "c1.operator").c_str()), 0);
  EXPECT_EQ(ReadClusterFile(*path)->operator_token, "");
  RemoveClusterFile(*path);
  EXPECT_THAT(ReadClusterFile(*path), StatusIs(absl::StatusCode::kNotFound));
  EXPECT_THAT(WriteClusterFile(Cluster("../x")), StatusIs(absl::StatusCode::kInvalidArgument));
}

TEST_F(ClusterFileTest, ClustersAreListedNewestFirstAndFoundByTheirBeginning) {
  EXPECT_THAT(NewestClusterFile(), StatusIs(absl::StatusCode::kNotFound));
  ASSERT_THAT(WriteClusterFile(Cluster("abc1", absl::FromUnixSeconds(10))), IsOk());
  ASSERT_THAT(WriteClusterFile(Cluster("abd2", absl::FromUnixSeconds(30))), IsOk());
  ASSERT_THAT(WriteClusterFile(Cluster("x", absl::FromUnixSeconds(20))), IsOk());
  const auto list = ListClusterFiles();
  ASSERT_THAT(list, IsOk());
  ASSERT_EQ(list->clusters.size(), 3u);
  EXPECT_EQ(list->clusters[0].cluster_id, "abd2");
  EXPECT_EQ(list->clusters[2].cluster_id, "abc1");
  EXPECT_EQ(NewestClusterFile()->cluster_id, "abd2");
  EXPECT_EQ(FindClusterFile("")->cluster_id, "abd2");
  EXPECT_EQ(FindClusterFile("abc")->cluster_id, "abc1");
  EXPECT_EQ(FindClusterFile(JoinPath(folder_, "x.json"))->cluster_id, "x");
  EXPECT_THAT(FindClusterFile("ab"),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("abd2, abc1")));
  EXPECT_THAT(FindClusterFile("q"), StatusIs(absl::StatusCode::kNotFound, HasSubstr("abd2")));
}

TEST_F(ClusterFileTest, TheFilesOfADriverThatIsGoneAreRemovedByTheNextProcess) {
  const pid_t child = fork();
  if (child == 0) _exit(WriteClusterFile(Cluster("dead")).ok() ? 0 : 1);
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  ASSERT_EQ(status, 0);
  const std::string path = JoinPath(folder_, "dead.json");
  EXPECT_TRUE(ClusterOwnerGone(*ReadClusterFile(path)));
  ASSERT_THAT(WriteClusterFile(Cluster("alive")), IsOk());
  EXPECT_THAT(ReadClusterFile(path), StatusIs(absl::StatusCode::kNotFound));
  EXPECT_NE(access(JoinPath(folder_, "dead.operator").c_str(), F_OK), 0);
  EXPECT_EQ(ListClusterFiles()->clusters.size(), 1u);
}

TEST_F(ClusterFileTest, LinksOpenModesAndGarbageAreRefusedWithAReason) {
  const auto path = WriteClusterFile(Cluster("c"));
  ASSERT_THAT(path, IsOk());
  const std::string link = JoinPath(folder_, "link.json");
  ASSERT_EQ(symlink(path->c_str(), link.c_str()), 0);
  EXPECT_THAT(ReadClusterFile(link),
              StatusIs(absl::StatusCode::kPermissionDenied, HasSubstr("symbolic link")));
  ASSERT_EQ(chmod(path->c_str(), 0644), 0);
  EXPECT_THAT(ReadClusterFile(*path),
              StatusIs(absl::StatusCode::kPermissionDenied, HasSubstr("chmod 600")));
  ASSERT_EQ(chmod(path->c_str(), 0600), 0);
  ASSERT_EQ(chmod(JoinPath(folder_, "c.operator").c_str(), 0640), 0);
  EXPECT_THAT(ReadClusterFile(*path), StatusIs(absl::StatusCode::kPermissionDenied));
  ASSERT_EQ(chmod(JoinPath(folder_, "c.operator").c_str(), 0600), 0);

  const std::string bad = JoinPath(folder_, "bad.json");
  for (const char* text : {"", "{", "[]", "{\"format\":2}", "{\"format\":1}",
                           "{\"format\":1,\"cluster_id\":\"../x\"}", "\xff\xfe"}) {
    ASSERT_THAT(WriteFileAtomic(bad, text), IsOk());
    EXPECT_THAT(ReadClusterFile(bad),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("bad.json")))
        << text;
  }
  ASSERT_THAT(WriteFileAtomic(bad, std::string(1 << 20, 'x')), IsOk());
  EXPECT_FALSE(ReadClusterFile(bad).ok());
  ASSERT_EQ(unlink(bad.c_str()), 0);
  ASSERT_EQ(mkfifo(bad.c_str(), 0600), 0);
  EXPECT_THAT(ReadClusterFile(bad), StatusIs(absl::StatusCode::kInvalidArgument));
  const auto list = ListClusterFiles();
  ASSERT_THAT(list, IsOk());
  EXPECT_EQ(list->clusters.size(), 1u);
  EXPECT_EQ(list->problems.size(), 2u);

  ASSERT_EQ(chmod(folder_.c_str(), 0755), 0);
  EXPECT_THAT(ListClusterFiles(),
              StatusIs(absl::StatusCode::kPermissionDenied, HasSubstr("chmod 700")));
  EXPECT_THAT(WriteClusterFile(Cluster("d")), StatusIs(absl::StatusCode::kPermissionDenied));
}

TEST_F(ClusterFileTest, AHomeWithoutClustersIsLeftAsItWas) {
  unsetenv("MILLRACE_CLUSTERS_DIR");
  const std::string home = EnvOr("HOME", "");
  setenv("HOME", dir_->path().c_str(), 1);
  const auto one = WriteClusterFile(Cluster("one"));
  const auto two = WriteClusterFile(Cluster("two"));
  ASSERT_THAT(one, IsOk());
  ASSERT_THAT(two, IsOk());
  RemoveClusterFile(*one);
  EXPECT_THAT(ReadClusterFile(*two), IsOk());
  RemoveClusterFile(*two);
  EXPECT_NE(access(JoinPath(dir_->path(), ".millrace").c_str(), F_OK), 0);
  unsetenv("HOME");
  EXPECT_THAT(ClustersDir(), StatusIs(absl::StatusCode::kFailedPrecondition));
  if (!home.empty()) setenv("HOME", home.c_str(), 1);
}

TEST_F(ClusterFileTest, ATokenWhoseClusterFileWasNeverWrittenGoesAfterAWhile) {
  ASSERT_THAT(WriteClusterFile(Cluster("c1")), IsOk());
  const std::string fresh = JoinPath(folder_, "fresh.operator");
  const std::string stale = JoinPath(folder_, "stale.operator");
  for (const std::string& path : {fresh, stale, JoinPath(folder_, "c1.operator")}) {
    ASSERT_THAT(WriteFileAtomic(path, "{}", 0600), IsOk());
    const timeval hours_ago{.tv_sec = time(nullptr) - (path == fresh ? 0 : 7200), .tv_usec = 0};
    const timeval times[] = {hours_ago, hours_ago};
    ASSERT_EQ(utimes(path.c_str(), times), 0);
  }
  ASSERT_THAT(ListClusterFiles(), IsOk());
  EXPECT_EQ(access(fresh.c_str(), F_OK), 0);
  EXPECT_NE(access(stale.c_str(), F_OK), 0);
  EXPECT_EQ(access(JoinPath(folder_, "c1.operator").c_str(), F_OK), 0);
}

}  // namespace
}  // namespace millrace
