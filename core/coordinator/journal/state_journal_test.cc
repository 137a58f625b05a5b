#include "core/coordinator/journal/state_journal.h"

#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "core/base/file.h"
#include "core/base/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace millrace {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Pair;
using ::testing::SizeIs;

v1::StateRecord Kv(const std::string& key, const std::string& value) {
  v1::StateRecord record;
  record.mutable_kv()->set_key(key);
  record.mutable_kv()->set_value(value);
  return record;
}

class StateJournalTest : public ::testing::Test {
 protected:
  StateJournalTest() { head_.set_cluster_id("c1"); }

  std::unique_ptr<StateJournal> Create() {
    auto journal = StateJournal::Create(folder_, head_);
    EXPECT_THAT(journal.status(), IsOk());
    return journal.ok() ? *std::move(journal) : nullptr;
  }
  std::unique_ptr<StateJournal> Resume() {
    auto journal = StateJournal::Resume(folder_);
    EXPECT_THAT(journal.status(), IsOk());
    return journal.ok() ? *std::move(journal) : nullptr;
  }
  std::string Journal(int epoch) const {
    return JoinPath(folder_, absl::StrCat("journal.", epoch));
  }

  const TempDir dir_ = *TempDir::Create("journal");
  const std::string folder_ = JoinPath(dir_.path(), "state");
  v1::StateHead head_;
};

TEST_F(StateJournalTest, WhatWasAppendedIsThereForTheNextDriver) {
  ASSERT_THAT(Create()->Append({Kv("a", "1"), Kv("b", "2"), Kv("a", "3")}), IsOk());
  const auto next = Resume();
  EXPECT_EQ(next->head().cluster_id(), "c1");
  EXPECT_EQ(next->epoch(), 2);
  EXPECT_THAT(next->restored().kv(), ElementsAre(Pair("a", "3"), Pair("b", "2")));
}

TEST_F(StateJournalTest, NobodyElseMayReadIt) {
  const auto journal = Create();
  struct stat info = {};
  ASSERT_EQ(::stat(folder_.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0700);
  for (const auto& file : std::filesystem::directory_iterator(folder_)) {
    ASSERT_EQ(::stat(file.path().c_str(), &info), 0);
    EXPECT_EQ(info.st_mode & 0777, 0600) << file.path();
  }
}

TEST_F(StateJournalTest, AFolderThatOthersMayEnterIsRefused) {
  ASSERT_EQ(::mkdir(folder_.c_str(), 0700), 0);
  ASSERT_EQ(::chmod(folder_.c_str(), 0750), 0);
  EXPECT_THAT(StateJournal::Create(folder_, head_),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("chmod 700")));
}

TEST_F(StateJournalTest, ASecondDriverIsRefusedWhileTheFirstLives) {
  const auto first = Create();
  EXPECT_THAT(StateJournal::Resume(folder_),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       AllOf(HasSubstr("has a driver"), HasSubstr(absl::StrCat(::getpid())))));
  EXPECT_THAT(first->Append({Kv("a", "1")}), IsOk());
}

// As on a file system whose locks do nothing.
TEST_F(StateJournalTest, ADriverWhoseClusterWasTakenOverHearsOfIt) {
  const auto first = Create();
  ASSERT_THAT(first->Append({Kv("a", "1")}), IsOk());
  ASSERT_EQ(::unlink(JoinPath(folder_, "lock").c_str()), 0);
  const auto second = Resume();
  EXPECT_THAT(first->Append({Kv("a", "2")}),
              StatusIs(absl::StatusCode::kAborted, HasSubstr("another driver")));
  first->Remove();
  ASSERT_THAT(second->Append({Kv("b", "1")}), IsOk());
  ASSERT_EQ(::unlink(JoinPath(folder_, "lock").c_str()), 0);
  EXPECT_THAT(Resume()->restored().kv(), ElementsAre(Pair("a", "1"), Pair("b", "1")));
}

TEST_F(StateJournalTest, ADriverThatIsTheOneBeforeFindsOutAndRemovesNothing) {
  const auto first = Create();
  EXPECT_THAT(first->CheckFence(), IsOk());
  ASSERT_EQ(::unlink(JoinPath(folder_, "lock").c_str()), 0);
  const auto second = Resume();
  first->Remove();
  EXPECT_THAT(first->CheckFence(), StatusIs(absl::StatusCode::kAborted));
  EXPECT_THAT(second->CheckFence(), IsOk());
  EXPECT_THAT(StateJournal::HoldsCluster(folder_), IsOkAndHolds(true));
}

TEST_F(StateJournalTest, AClusterThatIsThereIsNotReplaced) {
  Create();
  EXPECT_THAT(StateJournal::Create(folder_, head_), StatusIs(absl::StatusCode::kAlreadyExists));
}

TEST_F(StateJournalTest, AfterTheEndThereIsNothingToResume) {
  ASSERT_THAT(Create()->Append({Kv("a", "1")}), IsOk());
  // Of drivers that were killed inside of a write.
  for (const char* name : {"journal.2.tmp.0123", "cluster.tmp.Ab01"}) {
    ASSERT_THAT(WriteFileAtomic(JoinPath(folder_, name), "x"), IsOk());
  }
  Resume()->Remove();
  EXPECT_TRUE(std::filesystem::is_empty(folder_));
  EXPECT_THAT(StateJournal::Resume(folder_), StatusIs(absl::StatusCode::kNotFound));
  EXPECT_EQ(Create()->epoch(), 1);
}

// A driver may be killed inside a write.
TEST_F(StateJournalTest, WhatIsTornAtTheEndIsLeftOut) {
  ASSERT_THAT(Create()->Append({Kv("a", "1")}), IsOk());
  {
    const auto longer = Resume();
    ASSERT_THAT(longer->Append({Kv("b", std::string(100, 'x'))}), IsOk());
  }
  const std::string both = *ReadFile(Journal(2));
  for (size_t cut = both.size() - 1; cut > both.size() - 100; --cut) {
    const TempDir dir = *TempDir::Create("torn");
    const std::string folder = JoinPath(dir.path(), "state");
    std::filesystem::copy(folder_, folder, std::filesystem::copy_options::recursive);
    ASSERT_EQ(::chmod(folder.c_str(), 0700), 0);
    std::filesystem::resize_file(JoinPath(folder, "journal.2"), cut);
    const auto torn = StateJournal::Resume(folder);
    ASSERT_THAT(torn.status(), IsOk()) << cut;
    EXPECT_THAT((*torn)->restored().kv(), ElementsAre(Pair("a", "1")));
  }
}

TEST_F(StateJournalTest, DamageBeforeTheEndIsSaid) {
  ASSERT_THAT(Create()->Append({Kv("a", "1"), Kv("b", "2")}), IsOk());
  std::string bytes = *ReadFile(Journal(1));
  bytes[bytes.size() - 25] ^= 1;
  ASSERT_THAT(WriteFileAtomic(Journal(1), bytes), IsOk());
  EXPECT_THAT(StateJournal::Resume(folder_), StatusIs(absl::StatusCode::kDataLoss));
}

// The cluster goes on, but what is on the disk would be old.
TEST_F(StateJournalTest, AFullDiskEndsWhatCanBeResumed) {
  const auto journal = Create();
  ASSERT_THAT(journal->Append({Kv("a", "1")}), IsOk());
  std::signal(SIGXFSZ, SIG_IGN);
  rlimit before = {};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  const rlimit full = {.rlim_cur = 4096, .rlim_max = before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &full), 0);
  const absl::Status status = journal->Append({Kv("b", std::string(8192, 'x'))});
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &before), 0);
  EXPECT_FALSE(status.ok());
  EXPECT_EQ(journal->Append({Kv("c", "1")}), status);
  EXPECT_THAT(StateJournal::HoldsCluster(folder_), IsOkAndHolds(false));
}

TEST_F(StateJournalTest, AJournalThatHasGrownBeginsAnew) {
  const auto journal = Create();
  const std::string value(1 << 20, 'x');
  for (int i = 0; i < 20; ++i) ASSERT_THAT(journal->Append({Kv("a", value)}), IsOk());
  EXPECT_LT(std::filesystem::file_size(Journal(1)), 8 << 20);
  EXPECT_THAT(journal->Append({Kv("b", "1")}), IsOk());
}

TEST(StateImageTest, APartitionIsBegunUntilItIsDoneAndACallUntilItReturns) {
  StateImage image;
  v1::StateRecord record;
  record.mutable_feed()->set_feed_id("f1");
  image.Apply(record);
  for (int partition : {0, 1}) {
    record.mutable_session()->set_feed_id("f1");
    record.mutable_session()->set_partition(partition);
    image.Apply(record);
  }
  record.mutable_done()->set_feed_id("f1");
  record.mutable_done()->set_partition(1);
  image.Apply(record);
  ASSERT_THAT(image.feeds(), SizeIs(1));
  EXPECT_THAT(image.feeds()[0].begun, SizeIs(1));
  EXPECT_THAT(image.feeds()[0].done, SizeIs(1));
  record.mutable_result()->set_feed_id("f1");
  image.Apply(record);
  EXPECT_THAT(image.feeds()[0].begun, IsEmpty());
  StateImage again;
  for (const v1::StateRecord& one : image.Records()) again.Apply(one);
  EXPECT_TRUE(again.feeds()[0].result.has_value());
}

// Also in a journal that was written anew, whose feed ends are the last ones only.
TEST(StateImageTest, ACallKnowsWhichOfItsRoundsHaveEnded) {
  StateImage image;
  v1::StateRecord record;
  for (const char* id : {"f1", "f10"}) {
    record.mutable_feed()->set_feed_id(id);
    image.Apply(record);
  }
  for (const char* ended : {"f1", "f1.1", "f1.x", "f1.2.3", "other"}) {
    record.mutable_feed_end()->set_feed_id(ended);
    image.Apply(record);
  }
  EXPECT_EQ(image.feeds()[0].feed.rounds(), 2);
  EXPECT_FALSE(image.feeds()[0].feed.aborted());
  EXPECT_EQ(image.feeds()[1].feed.rounds(), 0);
  record.mutable_feed_end()->set_feed_id("f10");
  record.mutable_feed_end()->set_aborted(true);
  image.Apply(record);
  for (size_t i = 0; i < StateImage::kMaxFeedEnds; ++i) {
    record.mutable_feed_end()->set_feed_id(absl::StrCat("later", i));
    image.Apply(record);
  }
  StateImage again;
  for (const v1::StateRecord& one : image.Records()) again.Apply(one);
  EXPECT_EQ(again.feeds()[0].feed.rounds(), 2);
  EXPECT_EQ(again.feeds()[1].feed.rounds(), 1);
  EXPECT_TRUE(again.feeds()[1].feed.aborted());
}

}  // namespace
}  // namespace millrace
