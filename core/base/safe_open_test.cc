#include "core/base/safe_open.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <string>

#include "core/base/file.h"
#include "core/base/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace millrace {
namespace {

using ::testing::HasSubstr;

constexpr uid_t kAnother = 65534;

class SafeOpenTest : public ::testing::Test {
 protected:
  SafeOpenTest() : dir_(*TempDir::Create()) {}

  std::string Path(const std::string& name) const { return JoinPath(dir_.path(), name); }

  std::string Make(const std::string& name, mode_t mode) const {
    EXPECT_THAT(WriteFileAtomic(Path(name), "before\n", mode), IsOk());
    return Path(name);
  }

  void RefusesToAppend(const std::string& path, const std::string& why) const {
    const auto file = OpenForAppend(path, 0640);
    EXPECT_EQ(file.status().code(), absl::StatusCode::kFailedPrecondition);
    EXPECT_THAT(file.status().message(), HasSubstr(path));
    EXPECT_THAT(file.status().message(), HasSubstr(why));
  }

  // What a test says of its own folder holds only where nobody can change those above it.
  bool AboveIsSafe() const { return CheckOnlyOwnerCanChange(dir_.path()).ok(); }

  TempDir dir_;
};

TEST_F(SafeOpenTest, AFileIsMadeOnceAndAppendedTo) {
  const mode_t mask = umask(0);
  for (const char* text : {"one ", "two"}) {
    const auto file = OpenForAppend(Path("log"), 0640);
    ASSERT_THAT(file, IsOk());
    ASSERT_GT(write(file->get(), text, std::strlen(text)), 0);
  }
  umask(mask);
  EXPECT_EQ(*ReadFile(Path("log")), "one two");
  struct stat info {};
  ASSERT_EQ(stat(Path("log").c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0640u);
}

TEST_F(SafeOpenTest, NothingIsAppendedThroughALink) {
  const std::string target = Make("target", 0600);
  std::filesystem::create_symlink(target, Path("symbolic"));
  std::filesystem::create_hard_link(target, Path("hard"));
  std::filesystem::create_symlink(Path("nothing"), Path("dangling"));
  RefusesToAppend(Path("symbolic"), "symbolic link");
  RefusesToAppend(Path("hard"), "hard link");
  RefusesToAppend(Path("dangling"), "symbolic link");
  EXPECT_FALSE(std::filesystem::exists(Path("nothing")));
}

TEST_F(SafeOpenTest, APipeWithAndWithoutAReaderIsRefused) {
  ASSERT_EQ(mkfifo(Path("pipe").c_str(), 0666), 0);
  RefusesToAppend(Path("pipe"), "no regular file");
  const UniqueFd reader(open(Path("pipe").c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
  ASSERT_TRUE(reader.valid());
  RefusesToAppend(Path("pipe"), "no regular file");
  EXPECT_THAT(OpenForRead(Path("pipe")).status().message(), HasSubstr("no regular file"));
}

TEST_F(SafeOpenTest, NothingIsAppendedToAnothersFile) {
  const std::string log = Make("log", 0666);
  if (chown(log.c_str(), kAnother, kAnother) != 0) GTEST_SKIP() << "only root gives files away";
  RefusesToAppend(log, "belongs to user 65534");
}

TEST_F(SafeOpenTest, WhatTheOwnerAloneCanChangeIsSafe) {
  if (!AboveIsSafe()) GTEST_SKIP() << CheckOnlyOwnerCanChange(dir_.path()).message();
  const std::string program = Make("program", 0755);
  EXPECT_THAT(CheckOnlyOwnerCanChange(program), IsOk());
  std::filesystem::create_symlink("./program", Path("link"));
  EXPECT_THAT(CheckOnlyOwnerCanChange(
                  Path("../" + dir_.path().substr(dir_.path().rfind('/') + 1) + "/link")),
              IsOk());
  ASSERT_EQ(mkdir(Path("sticky").c_str(), 0700), 0);
  ASSERT_EQ(chmod(Path("sticky").c_str(), 01777), 0);
  Make("sticky/program", 0755);
  EXPECT_THAT(CheckOnlyOwnerCanChange(Path("sticky/program")), IsOk());
}

TEST_F(SafeOpenTest, WhatOthersMayWriteToIsNotSafe) {
  for (const mode_t mode : {0775, 0757}) {
    Make("program", mode);
    EXPECT_THAT(CheckOnlyOwnerCanChange(Path("program")).message(),
                HasSubstr("other users may write to"));
  }
  ASSERT_EQ(mkdir(Path("open").c_str(), 0700), 0);
  Make("open/program", 0755);
  Make("closed", 0755);
  std::filesystem::create_symlink("../closed", Path("open/link"));
  ASSERT_EQ(chmod(Path("open").c_str(), 0777), 0);
  for (const char* name : {"open/program", "open/link", "open/../open/program"}) {
    EXPECT_THAT(CheckOnlyOwnerCanChange(Path(name)).message(),
                HasSubstr("other users may write to"));
  }
}

TEST_F(SafeOpenTest, WhatBelongsToAnotherIsNotSafe) {
  if (!AboveIsSafe()) GTEST_SKIP() << CheckOnlyOwnerCanChange(dir_.path()).message();
  ASSERT_EQ(mkdir(Path("theirs").c_str(), 0755), 0);
  Make("theirs/program", 0755);
  Make("ours", 0755);
  std::filesystem::create_symlink("ours", Path("link"));
  if (chown(Path("theirs").c_str(), kAnother, kAnother) != 0) {
    GTEST_SKIP() << "only root gives files away";
  }
  ASSERT_EQ(lchown(Path("link").c_str(), kAnother, kAnother), 0);
  for (const char* name : {"theirs/program", "link"}) {
    EXPECT_THAT(CheckOnlyOwnerCanChange(Path(name)).message(), HasSubstr("belongs to user 65534"));
  }
}

TEST_F(SafeOpenTest, ACircleOfLinksEnds) {
  std::filesystem::create_symlink("circle", Path("circle"));
  EXPECT_FALSE(CheckOnlyOwnerCanChange(Path("circle")).ok());
}

}  // namespace
}  // namespace millrace
