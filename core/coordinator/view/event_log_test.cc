#include "core/coordinator/view/event_log.h"

#include <sys/resource.h>
#include <sys/stat.h>

#include <csignal>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "core/base/file.h"
#include "core/base/json.h"
#include "core/base/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "testing/eventually.h"

namespace millrace {
namespace {

using ::testing::HasSubstr;

std::shared_ptr<const v1::Event> MakeEvent(uint64_t number, const std::string& text) {
  auto event = std::make_shared<v1::Event>();
  event->set_number(number);
  event->mutable_time()->set_seconds(1700000000);
  event->mutable_time()->set_nanos(123456789);
  event->set_kind("slot");
  event->set_severity(v1::Event::SEVERITY_WARNING);
  event->set_executor_id(3);
  event->set_attempt(1);
  event->set_text(text);
  return event;
}

std::vector<std::string> LinesOf(const std::string& path) {
  const auto text = ReadFile(path);
  EXPECT_THAT(text, IsOk());
  std::vector<std::string> lines = absl::StrSplit(*text, '\n');
  EXPECT_EQ(lines.back(), "");  // whole lines only
  lines.pop_back();
  return lines;
}

TEST(EventLogTest, EachEventIsOneLineOfJson) {
  auto dir = TempDir::Create();
  ASSERT_THAT(dir, IsOk());
  const std::string folder = JoinPath(dir->path(), "new/logs");
  for (int run = 0; run < 2; ++run) {  // a second cluster goes on in the same file
    auto log = EventLog::Open({.folder = folder, .cluster_id = absl::StrCat("c", run)});
    ASSERT_THAT(log, IsOk());
    (*log)->Append(MakeEvent(0, "first"));
    (*log)->Append(MakeEvent(1, "two\nlines \"quoted\""));
    (*log)->Stop();
    (*log)->Append(MakeEvent(2, "late"));
    (*log)->Stop();
    EXPECT_EQ((*log)->lost(), 0u);
  }
  const std::vector<std::string> lines = LinesOf(JoinPath(folder, "events.jsonl"));
  ASSERT_EQ(lines.size(), 4u);
  EXPECT_EQ(lines[0],
            "{\"number\":0,\"time\":\"2023-11-14T22:13:20.123456Z\",\"cluster_id\":\"c0\","
            "\"kind\":\"slot\",\"severity\":\"warning\",\"executor_id\":3,\"attempt\":1,"
            "\"text\":\"first\"}");
  for (const std::string& line : lines) EXPECT_THAT(ParseJson(line), IsOk());
}

TEST(EventLogTest, AFileThatIsFullBecomesTheOldOne) {
  auto dir = TempDir::Create();
  ASSERT_THAT(dir, IsOk());
  auto log = EventLog::Open({.folder = dir->path(), .cluster_id = "c", .max_file_bytes = 2000});
  ASSERT_THAT(log, IsOk());
  for (int i = 0; i < 30; ++i) (*log)->Append(MakeEvent(i, "some text of some length"));
  (*log)->Stop();
  EXPECT_THAT(LinesOf((*log)->path()).back(), HasSubstr("\"number\":29"));
  for (const std::string& path : {(*log)->path(), (*log)->path() + ".1"}) {
    struct stat info {};
    ASSERT_EQ(stat(path.c_str(), &info), 0);
    EXPECT_LE(info.st_size, 2000);
  }
}

TEST(EventLogTest, AFullDiskLosesEventsAndNothingElse) {
  auto dir = TempDir::Create();
  ASSERT_THAT(dir, IsOk());
  // The kernel's limit of a file's size stands for the end of the disk.
  signal(SIGXFSZ, SIG_IGN);
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  rlimit small = before;
  small.rlim_cur = 1000;
  auto log = EventLog::Open({.folder = dir->path(), .cluster_id = "c"});
  ASSERT_THAT(log, IsOk());
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
  for (int i = 0; i < 100; ++i) (*log)->Append(MakeEvent(i, "some text of some length"));
  EXPECT_TRUE(Eventually([&] { return (*log)->lost() >= 90; })) << (*log)->lost();
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &before), 0);
  (*log)->Append(MakeEvent(100, "after"));
  (*log)->Stop();
  const std::vector<std::string> lines = LinesOf((*log)->path());
  EXPECT_THAT(lines.back(), HasSubstr("after"));
  EXPECT_THAT(lines[lines.size() - 2], HasSubstr("events before this one were not written"));
  int broken = 0;
  for (const std::string& line : lines) broken += ParseJson(line).ok() ? 0 : 1;
  EXPECT_LE(broken, 1);  // the one at the end of the disk
}

TEST(EventLogTest, TheFileHasTheModeOfANodesLog) {
  auto dir = TempDir::Create();
  ASSERT_THAT(dir, IsOk());
  const mode_t mask = umask(022);
  const auto log = EventLog::Open({.folder = dir->path(), .cluster_id = "c"});
  umask(mask);
  ASSERT_THAT(log, IsOk());
  struct stat info {};
  ASSERT_EQ(stat((*log)->path().c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0640u);
}

TEST(EventLogTest, APipeInItsPlaceIsRefused) {
  auto dir = TempDir::Create();
  ASSERT_THAT(dir, IsOk());
  ASSERT_EQ(mkfifo(JoinPath(dir->path(), "events.jsonl").c_str(), 0666), 0);
  const auto log = EventLog::Open({.folder = dir->path(), .cluster_id = "c"});
  EXPECT_THAT(log.status().message(), HasSubstr("is no regular file"));
}

TEST(EventLogTest, AFolderThatCannotBeUsedIsSaid) {
  const auto log = EventLog::Open({.folder = "/proc/nothing/here", .cluster_id = "c"});
  EXPECT_THAT(log.status().message(), HasSubstr("/proc/nothing/here/events.jsonl"));
}

}  // namespace
}  // namespace millrace
