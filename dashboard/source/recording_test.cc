#include "dashboard/source/recording.h"

#include <sys/stat.h>
#include <unistd.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "core/base/file.h"
#include "core/base/status_matchers.h"
#include "dashboard/model/dashboard_model.h"
#include "dashboard/source/demo_source.h"
#include "dashboard/source/update_source_testing.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace millrace::dashboard {
namespace {

using ::testing::HasSubstr;

const absl::Time kStarted = absl::FromUnixSeconds(1'700'000'000);

class Recording : public testing::Test {
 protected:
  Recording() : dir_(*TempDir::Create("recording")), path_(JoinPath(dir_.path(), "run.mrec")) {}

  // What a demo of so many seconds gives; its model is left in live_.
  void Record(const std::string& scenario, int seconds) {
    DemoOptions options;
    options.scenario = scenario;
    options.begin_at = absl::Seconds(seconds);
    options.started = kStarted;
    auto source = MakeDemoSource(options);
    ASSERT_THAT(source, IsOk());
    auto writer = RecordingWriter::Create(path_);
    ASSERT_THAT(writer, IsOk());
    std::vector<SourceUpdate> updates;
    (*source)->Poll(kStarted + absl::Seconds(seconds), 100'000, &updates);
    for (const SourceUpdate& update : updates) {
      ASSERT_THAT((*writer)->Add(update), IsOk());
      live_.Apply(update);
    }
    live_.Advance(kStarted + absl::Seconds(seconds));
    ASSERT_THAT((*writer)->Flush(), IsOk());
    auto bytes = ReadFile(path_);
    ASSERT_THAT(bytes, IsOk());
    EXPECT_EQ((*writer)->bytes_written(), bytes->size());
    bytes_ = *std::move(bytes);
  }

  void Write(const std::string& bytes) { ASSERT_THAT(WriteFileAtomic(path_, bytes), IsOk()); }

  TempDir dir_;
  const std::string path_;
  std::string bytes_;
  DashboardModel live_;
};

TEST_F(Recording, GivesTheModelThatWasSeen) {
  Record("oom-cascade", 60);
  auto source = OpenRecording(path_);
  ASSERT_THAT(source, IsOk());
  EXPECT_EQ((*source)->title(), "run.mrec");
  Playback* playback = (*source)->playback();
  EXPECT_EQ(playback->begin(), kStarted);
  EXPECT_EQ(playback->end(), kStarted + absl::Seconds(60));
  DashboardModel model;
  const absl::Time now = absl::FromUnixSeconds(5);
  PollAll(source->get(), now, &model);
  EXPECT_EQ(model.data_time(), kStarted);
  PollAll(source->get(), now + absl::Seconds(60), &model);
  EXPECT_EQ(FormatVerdict(model.verdict()), FormatVerdict(live_.verdict()));
  EXPECT_EQ(model.logs().size(), live_.logs().size());
  EXPECT_EQ(model.timeline().events().size(), live_.timeline().events().size());
  EXPECT_EQ(model.health().link.kind, LinkState::Kind::kLive);
  // It stays there.
  PollAll(source->get(), now + absl::Seconds(600), &model);
  EXPECT_EQ(model.now(), kStarted + absl::Seconds(60));
  EXPECT_FALSE(model.health().stale);
}

TEST_F(Recording, IsSoughtFromASnapshotWithinIt) {
  Record("slow-node", 600);
  auto source = OpenRecording(path_);
  ASSERT_THAT(source, IsOk());
  (*source)->playback()->SetPaused(true);
  (*source)->playback()->Seek(kStarted + absl::Seconds(590));
  std::vector<SourceUpdate> updates;
  const absl::Time now = absl::FromUnixSeconds(5);
  (*source)->Poll(now, 100'000, &updates);
  // Five minutes before it, not from the beginning.
  EXPECT_TRUE(updates.front().restart);
  EXPECT_LT(updates.size(), 370u);
  DashboardModel model;
  for (const SourceUpdate& update : updates) model.Apply(update);
  model.Advance((*source)->ModelTime(now));
  EXPECT_EQ(model.data_time(), kStarted + absl::Seconds(590));
  EXPECT_EQ(model.nodes().size(), 8u);
  EXPECT_EQ(model.nodes()[7].name, live_.nodes()[7].name);
  EXPECT_EQ(model.membership().epoch(), live_.membership().epoch());
  EXPECT_EQ(model.verdict().gpus.text, live_.verdict().gpus.text);
  // Back to where there is no snapshot before.
  (*source)->playback()->Seek(kStarted + absl::Seconds(3));
  PollAll(source->get(), now, &model);
  EXPECT_EQ(model.data_time(), kStarted + absl::Seconds(3));
}

TEST_F(Recording, IsCompact) {
  Record("", 60);
  // Eight nodes with eight GPUs each, sampled each second.
  EXPECT_LT(bytes_.size(), 60u * 8 * 8 * 100);
}

TEST_F(Recording, PlaysUpToWhereItIsCutShort) {
  Record("", 30);
  Write(bytes_.substr(0, bytes_.size() - 100));
  auto source = OpenRecording(path_);
  ASSERT_THAT(source, IsOk());
  DashboardModel model;
  const absl::Time now = absl::FromUnixSeconds(5);
  PollAll(source->get(), now, &model);
  PollAll(source->get(), now + absl::Seconds(60), &model);
  EXPECT_EQ(model.data_time(), kStarted + absl::Seconds(29));
  EXPECT_EQ(model.health().link.kind, LinkState::Kind::kEnded);
  EXPECT_THAT(model.health().link.reason, HasSubstr("is cut short"));
}

TEST_F(Recording, PlaysUpToWhereItIsDamaged) {
  Record("", 30);
  bytes_[bytes_.size() * 2 / 3] ^= 0x40;
  Write(bytes_);
  auto source = OpenRecording(path_);
  ASSERT_THAT(source, IsOk());
  DashboardModel model;
  PollAll(source->get(), absl::FromUnixSeconds(5), &model);
  PollAll(source->get(), absl::FromUnixSeconds(65), &model);
  EXPECT_EQ(model.health().link.kind, LinkState::Kind::kEnded);
  EXPECT_THAT(model.health().link.reason, HasSubstr("is damaged at byte"));
}

TEST_F(Recording, SurvivesAnyTruncation) {
  Record("", 2);
  for (size_t size = 0; size < bytes_.size(); size += 1 + size / 40) {
    Write(bytes_.substr(0, size));
    const auto source = OpenRecording(path_);
    if (!source.ok()) {
      EXPECT_THAT(std::string(source.status().message()), HasSubstr("run.mrec")) << size;
      continue;
    }
    std::vector<SourceUpdate> updates;
    (*source)->playback()->Seek((*source)->playback()->end());
    (*source)->Poll(absl::FromUnixSeconds(5), 1000, &updates);
    EXPECT_FALSE(updates.empty()) << size;
  }
}

TEST_F(Recording, DoesNotBelieveASizeThatZlibCannotReach) {
  // 8 bytes that claim to have been 500 MB, and a kind that is none.
  const std::string payload(8, 'x');
  const std::string rest(12, '\0');  // arrival and checksum
  Write(absl::StrCat("MRECORD1", absl::string_view("\x08\0\0\0\0\0\0\x1e\x01", 9), rest, payload));
  EXPECT_THAT(OpenRecording(path_),
              StatusIs(absl::StatusCode::kDataLoss, HasSubstr("damaged at byte 8;")));
  Write(absl::StrCat("MRECORD1", absl::string_view("\x08\0\0\0\x08\0\0\0\xff", 9), rest, payload));
  EXPECT_THAT(OpenRecording(path_),
              StatusIs(absl::StatusCode::kDataLoss, HasSubstr("damaged at byte 8;")));
}

TEST_F(Recording, RefusesWhatIsNone) {
  EXPECT_THAT(OpenRecording(path_), StatusIs(absl::StatusCode::kNotFound, HasSubstr("run.mrec")));
  Write("");
  EXPECT_THAT(OpenRecording(path_),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("no recording")));
  Write("{\"json\": \"it is not\"}");
  EXPECT_THAT(OpenRecording(path_),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("no recording")));
  Write("MRECORD7 and more");
  EXPECT_THAT(OpenRecording(path_),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("format 7")));
  Write("MRECORD1");
  EXPECT_THAT(OpenRecording(path_),
              StatusIs(absl::StatusCode::kDataLoss, HasSubstr("holds no update")));
  EXPECT_THAT(RecordingWriter::Create(JoinPath(dir_.path(), "no/such/folder")),
              StatusIs(absl::StatusCode::kNotFound));
}

TEST_F(Recording, NothingIsWrittenThroughALink) {
  const std::string other = JoinPath(dir_.path(), "other");
  ASSERT_THAT(WriteFileAtomic(other, "mine"), IsOk());
  ASSERT_EQ(symlink(other.c_str(), path_.c_str()), 0);
  EXPECT_THAT(RecordingWriter::Create(path_),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr(path_)));
  EXPECT_EQ(*ReadFile(other), "mine");
}

TEST_F(Recording, APipeInItsPlaceHoldsNobodyUp) {
  ASSERT_EQ(mkfifo(path_.c_str(), 0600), 0);
  EXPECT_THAT(RecordingWriter::Create(path_),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr(path_)));
  EXPECT_THAT(OpenRecording(path_),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr(path_)));
}

TEST_F(Recording, OfAShorterSessionHoldsNothingOfTheOneBefore) {
  ASSERT_THAT(WriteFileAtomic(path_, std::string(100'000, 'x')), IsOk());
  const auto writer = RecordingWriter::Create(path_);
  ASSERT_THAT(writer, IsOk());
  EXPECT_EQ(ReadFile(path_)->size(), (*writer)->bytes_written());
}

}  // namespace
}  // namespace millrace::dashboard
