#include "dashboard/source/cluster_finder.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <string>
#include <vector>

#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "core/base/status_matchers.h"
#include "core/client/cluster_file.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "testing/eventually.h"

namespace millrace::dashboard {
namespace {

using ::testing::HasSubstr;

class ClusterFinderTest : public testing::Test {
 protected:
  ClusterFinderTest() : folder_(testing::TempDir() + "/clusters") {
    EXPECT_EQ(setenv("MILLRACE_CLUSTERS_DIR", folder_.c_str(), 1), 0);
  }
  ~ClusterFinderTest() override {
    for (const std::string& path : paths_) RemoveClusterFile(path);
    rmdir(folder_.c_str());
  }

  std::string Begin(const std::string& id) {
    ClusterFile cluster;
    cluster.cluster_id = id;
    cluster.address = "127.0.0.1:1";
    cluster.ca_pem = "-----BEGIN CERTIFICATE-----";
    cluster.identity_pem = "-----BEGIN PRIVATE KEY----------BEGIN CERTIFICATE-----";
    cluster.viewer_token = "token";
    cluster.started = absl::Now();
    auto path = WriteClusterFile(cluster);
    EXPECT_THAT(path, IsOk());
    paths_.push_back(*path);
    return *path;
  }

  // Waits for one that is new.
  static std::string Next(ClusterFinder* finder) {
    std::vector<ClusterFile> found;
    if (!Eventually([&] {
          found = finder->TakeNew();
          return !found.empty();
        })) {
      return "none";
    }
    return found.size() == 1 ? found[0].cluster_id : "several";
  }

  const std::string folder_;
  std::vector<std::string> paths_;
};

constexpr absl::Duration kQuick = absl::Milliseconds(10);

TEST_F(ClusterFinderTest, FindsTheNewestAndThenEachThatBegins) {
  ClusterFinder early({.every = kQuick});
  EXPECT_TRUE(early.TakeNew().empty());  // there is not even a folder
  Begin("first");
  EXPECT_EQ(Next(&early), "first");
  Begin("second");
  EXPECT_EQ(Next(&early), "second");

  ClusterFinder late({.every = kQuick});
  EXPECT_EQ(Next(&late), "second");
  ClusterFinder only_new({.every = kQuick, .with_newest = false});
  ClusterFinder witness({.every = kQuick});
  EXPECT_EQ(Next(&witness), "second");
  Begin("third");
  EXPECT_EQ(Next(&late), "third");
  // It may have looked before or after the third began, but the first two are not new.
  for (const ClusterFile& found : only_new.TakeNew()) EXPECT_EQ(found.cluster_id, "third");
}

TEST_F(ClusterFinderTest, AnEndedClusterThatBeginsAgainIsNew) {
  ClusterFinder finder({.every = kQuick});
  const std::string path = Begin("again");
  EXPECT_EQ(Next(&finder), "again");
  RemoveClusterFile(path);
  Begin("again");
  EXPECT_EQ(Next(&finder), "again");
}

TEST_F(ClusterFinderTest, SaysWhatItMustNotRead) {
  ClusterFinder finder({.every = kQuick});
  const std::string path = Begin("open");
  EXPECT_EQ(Next(&finder), "open");
  EXPECT_THAT(finder.problem(), IsOk());
  ASSERT_EQ(chmod(path.c_str(), 0644), 0);
  ASSERT_TRUE(Eventually([&] { return !finder.problem().ok(); }));
  EXPECT_THAT(std::string(finder.problem().message()), HasSubstr("chmod 600"));
  ASSERT_EQ(chmod(path.c_str(), 0600), 0);
  EXPECT_TRUE(Eventually([&] { return finder.problem().ok(); }));
  EXPECT_TRUE(finder.TakeNew().empty());  // it was known
}

}  // namespace
}  // namespace millrace::dashboard
