#include "core/base/file.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <limits>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "core/base/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace millrace {
namespace {

using absl::StatusCode;
using testing::HasSubstr;

class FileTest : public testing::Test {
 protected:
  void SetUp() override {
    absl::StatusOr<TempDir> dir = TempDir::Create("file-test");
    ASSERT_THAT(dir, IsOk());
    dir_.emplace(*std::move(dir));
  }
  std::string In(absl::string_view name) const { return JoinPath(dir_->path(), name); }
  int Entries() const {
    return static_cast<int>(std::distance(std::filesystem::directory_iterator(dir_->path()), {}));
  }
  std::optional<TempDir> dir_;
};

TEST_F(FileTest, WhatIsWrittenIsRead) {
  const std::string contents = std::string("a\0\xff", 3) + std::string(300000, 'x');
  ASSERT_THAT(WriteFileAtomic(In("f"), contents), IsOk());
  EXPECT_THAT(ReadFile(In("f")), IsOkAndHolds(contents));
  ASSERT_THAT(WriteFileAtomic(In("f"), ""), IsOk());
  EXPECT_THAT(ReadFile(In("f")), IsOkAndHolds(""));
  EXPECT_EQ(Entries(), 1);  // no temporary file is left
}

TEST_F(FileTest, TheModeIsExactWhateverTheUmask) {
  const mode_t before = umask(0077);
  struct stat info {};
  ASSERT_THAT(WriteFileAtomic(In("open"), "x", 0755), IsOk());
  ASSERT_THAT(WriteFileAtomic(In("secret"), "x"), IsOk());
  umask(before);
  ASSERT_EQ(stat(In("open").c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 07777, 0755u);
  ASSERT_EQ(stat(In("secret").c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 07777, 0600u);
}

TEST_F(FileTest, AFailedWriteLeavesTheOldFileAndNoTemporary) {
  ASSERT_EQ(mkdir(In("folder").c_str(), 0700), 0);
  EXPECT_THAT(WriteFileAtomic(In("folder"), "x"),
              testing::AllOf(testing::Not(IsOk()),
                             StatusIs(StatusCode::kFailedPrecondition, HasSubstr("folder"))));
  EXPECT_EQ(Entries(), 1);
  EXPECT_THAT(WriteFileAtomic(In("absent/f"), "x"), StatusIs(StatusCode::kNotFound));
}

TEST_F(FileTest, ReadsAreBounded) {
  ASSERT_THAT(WriteFileAtomic(In("f"), "12345"), IsOk());
  EXPECT_THAT(ReadFile(In("f"), 5), IsOkAndHolds("12345"));
  EXPECT_THAT(ReadFile(In("f"), 4), StatusIs(StatusCode::kResourceExhausted, HasSubstr("limit")));
  EXPECT_THAT(ReadFile(In("f"), std::numeric_limits<size_t>::max()), IsOkAndHolds("12345"));
  EXPECT_THAT(ReadFile("/dev/zero", 1000), StatusIs(StatusCode::kResourceExhausted));
}

TEST_F(FileTest, ReadsFilesThatDoNotKnowTheirSize) {
  const auto contents = ReadFile("/proc/self/status");
  ASSERT_THAT(contents, IsOk());
  EXPECT_THAT(*contents, HasSubstr("Pid:"));
}

TEST_F(FileTest, ErrorsNameThePath) {
  EXPECT_THAT(ReadFile(In("absent")), StatusIs(StatusCode::kNotFound, HasSubstr(In("absent"))));
  EXPECT_THAT(ReadFile(dir_->path()), testing::Not(IsOk()));  // a folder
}

TEST_F(FileTest, ATempDirIsPrivateAndRemovesItselfWithoutFollowingLinks) {
  ASSERT_THAT(WriteFileAtomic(In("kept"), "x"), IsOk());
  std::string path;
  {
    absl::StatusOr<TempDir> dir = TempDir::Create();
    ASSERT_THAT(dir, IsOk());
    path = dir->path();
    struct stat info {};
    ASSERT_EQ(stat(path.c_str(), &info), 0);
    EXPECT_EQ(info.st_mode & 07777, 0700u);
    ASSERT_EQ(mkdir(JoinPath(path, "sub").c_str(), 0700), 0);
    ASSERT_THAT(WriteFileAtomic(JoinPath(path, "sub/f"), "x"), IsOk());
    ASSERT_EQ(symlink(dir_->path().c_str(), JoinPath(path, "link").c_str()), 0);
    TempDir moved = *std::move(dir);
    EXPECT_EQ(moved.path(), path);
  }
  EXPECT_FALSE(std::filesystem::exists(path));
  EXPECT_THAT(ReadFile(In("kept")), IsOkAndHolds("x"));
}

TEST_F(FileTest, AReleasedTempDirStays) {
  absl::StatusOr<TempDir> dir = TempDir::Create();
  ASSERT_THAT(dir, IsOk());
  const std::string path = dir->Release();
  dir = absl::CancelledError();
  EXPECT_TRUE(std::filesystem::exists(path));
  std::filesystem::remove_all(path);
}

TEST_F(FileTest, TempDirsLiveUnderTmpdir) {
  const char* before = getenv("TMPDIR");
  const std::string saved = before == nullptr ? "" : before;
  setenv("TMPDIR", dir_->path().c_str(), 1);
  {
    const absl::StatusOr<TempDir> dir = TempDir::Create("p");
    ASSERT_THAT(dir, IsOk());
    EXPECT_THAT(dir->path(), testing::StartsWith(dir_->path() + "/p."));
  }
  setenv("TMPDIR", In("absent").c_str(), 1);
  EXPECT_THAT(TempDir::Create("p"), StatusIs(StatusCode::kNotFound));
  if (before == nullptr) {
    unsetenv("TMPDIR");
  } else {
    setenv("TMPDIR", saved.c_str(), 1);
  }
  EXPECT_THAT(TempDir::Create("a/b"), StatusIs(StatusCode::kInvalidArgument));
}

TEST(JoinPathTest, PutsOneSlash) {
  EXPECT_EQ(JoinPath("a", "b"), "a/b");
  EXPECT_EQ(JoinPath("a/", "b"), "a/b");
  EXPECT_EQ(JoinPath("/", "b"), "/b");
  EXPECT_EQ(JoinPath("a", "/b"), "/b");
  EXPECT_EQ(JoinPath("", "b"), "b");
  EXPECT_EQ(JoinPath("a", ""), "a");
}

}  // namespace
}  // namespace millrace
