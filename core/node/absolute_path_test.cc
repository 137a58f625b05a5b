#include "core/node/absolute_path.h"

#include <pwd.h>
#include <stdlib.h>
#include <unistd.h>

#include <map>
#include <optional>
#include <string>

#include "gtest/gtest.h"

namespace millrace {
namespace {

struct Row {
  const char* path;
  const char* default_fs;
  const char* expected;
};

class AbsolutePathRows : public testing::TestWithParam<Row> {};

TEST_P(AbsolutePathRows, FollowsTheRulesOfHdfsPath) {
  const Row& row = GetParam();
  EXPECT_EQ(AbsolutePath(row.path, row.default_fs, "/job/dir", "ann"), row.expected)
      << row.path << " on " << row.default_fs;
}

INSTANTIATE_TEST_SUITE_P(WithScheme, AbsolutePathRows,
                         testing::Values(Row{"adl://a/x", "hdfs://nn:8020", "adl://a/x"},
                                         Row{"file:///tmp/x", "hdfs://nn:8020", "file:///tmp/x"},
                                         Row{"hdfs://other/x", "hdfs://nn:8020", "hdfs://other/x"},
                                         Row{"oss://b/x", "file://", "oss://b/x"},
                                         Row{"s3://b/x", "file://", "s3://b/x"},
                                         Row{"s3a://b/x", "file://", "s3a://b/x"},
                                         Row{"s3n://b/x", "file://", "s3n://b/x"},
                                         Row{"swift://c.s/x", "file://", "swift://c.s/x"},
                                         Row{"viewfs://v/x", "file://", "viewfs://v/x"},
                                         Row{"wasb://c@a/x", "file://", "wasb://c@a/x"},
                                         // Not among TFNode's ten.
                                         Row{"gs://b/x", "hdfs://nn", "gs://b/x"},
                                         Row{"abfs://c@a/x", "hdfs://nn", "abfs://c@a/x"},
                                         Row{"abfss://c@a/x", "viewfs://v", "abfss://c@a/x"},
                                         Row{"wasbs://c@a/x", "hdfs://nn", "wasbs://c@a/x"},
                                         Row{"file:/tmp/x", "hdfs://nn", "file:/tmp/x"}));

INSTANTIATE_TEST_SUITE_P(
    AbsoluteWithoutScheme, AbsolutePathRows,
    testing::Values(Row{"/data/x", "hdfs://nn:8020", "hdfs://nn:8020/data/x"},
                    Row{"/data/x", "viewfs://v", "viewfs://v/data/x"},
                    Row{"/data/x", "file://", "file:///data/x"},
                    Row{"/data/x", "s3a://bucket", "s3a://bucket/data/x"},
                    Row{"/data/x", "gs://bucket", "gs://bucket/data/x"},
                    Row{"/data/x", "abfs://c@a", "abfs://c@a/data/x"},
                    Row{"/", "hdfs://nn", "hdfs://nn/"},
                    // TFCluster cuts the slash of "file:///"; so do we, of every file system.
                    Row{"/data/x", "file:///", "file:///data/x"},
                    Row{"/data/x", "hdfs://nn:8020/", "hdfs://nn:8020/data/x"},
                    Row{"/data/x", "", "file:///data/x"}));

INSTANTIATE_TEST_SUITE_P(
    Relative, AbsolutePathRows,
    testing::Values(
        Row{"mnist/x", "hdfs://nn:8020", "hdfs://nn:8020/user/ann/mnist/x"},
        Row{"mnist/x", "hdfs://nn:8020/", "hdfs://nn:8020/user/ann/mnist/x"},
        Row{"mnist", "viewfs://v", "viewfs://v/user/ann/mnist"},
        Row{"mnist", "file://", "file:///job/dir/mnist"},
        Row{"mnist", "file:///", "file:///job/dir/mnist"},
        Row{"mnist", "s3a://bucket", "s3a://bucket/mnist"},
        Row{"mnist", "gs://bucket", "gs://bucket/mnist"},
        Row{"mnist", "abfs://c@a", "abfs://c@a/mnist"}, Row{"mnist", "", "file:///job/dir/mnist"},
        // No schemes: nothing, a digit or a space before the colon.
        Row{"://x", "s3a://b", "s3a://b/://x"}, Row{"1s://x", "s3a://b", "s3a://b/1s://x"},
        Row{"a b://x", "s3a://b", "s3a://b/a b://x"}, Row{"a:b", "s3a://b", "s3a://b/a:b"},
        Row{"", "hdfs://nn", "hdfs://nn/user/ann/"}));

TEST(AbsolutePathTest, SlashesAroundTheWorkingDirectoryDoNotMatter) {
  EXPECT_EQ(AbsolutePath("m", "file://", "/", "ann"), "file:///m");
  EXPECT_EQ(AbsolutePath("m", "file://", "", "ann"), "file:///m");
  EXPECT_EQ(AbsolutePath("m", "file://", "/w/d//", "ann"), "file:///w/d/m");
}

// Sets the variables that PathUser reads, and puts them back.
class PathUserTest : public testing::Test {
 protected:
  PathUserTest() {
    for (const char* name : kNames) {
      if (const char* value = ::getenv(name)) before_[name] = value;
      ::unsetenv(name);
    }
  }
  ~PathUserTest() override {
    for (const char* name : kNames) {
      ::unsetenv(name);
      const auto found = before_.find(name);
      if (found != before_.end()) ::setenv(name, found->second.c_str(), 1);
    }
  }

  static constexpr const char* kNames[] = {"LOGNAME", "USER", "LNAME", "USERNAME"};
  std::map<std::string, std::string> before_;
};

TEST_F(PathUserTest, IsTheFirstVariableThatIsNotEmpty) {
  ::setenv("USERNAME", "d", 1);
  EXPECT_EQ(PathUser(), "d");
  ::setenv("LNAME", "c", 1);
  EXPECT_EQ(PathUser(), "c");
  ::setenv("USER", "b", 1);
  EXPECT_EQ(PathUser(), "b");
  ::setenv("LOGNAME", "", 1);
  EXPECT_EQ(PathUser(), "b");
  ::setenv("LOGNAME", "a", 1);
  EXPECT_EQ(PathUser(), "a");
}

TEST_F(PathUserTest, IsTheAccountWithoutVariables) {
  const passwd* entry = ::getpwuid(::getuid());
  EXPECT_EQ(PathUser(), entry != nullptr ? entry->pw_name : "nobody");
}

}  // namespace
}  // namespace millrace
