#include "core/agent/node/output_capture.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <csignal>
#include <memory>
#include <string>
#include <vector>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "core/agent/loop/event_loop.h"
#include "core/agent/node/log_counts.h"
#include "core/base/file.h"
#include "core/base/status_matchers.h"
#include "core/base/unique_fd.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace millrace {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class OutputCaptureTest : public ::testing::Test {
 protected:
  OutputCaptureTest() : dir_(*TempDir::Create()), loop_(*EventLoop::Create()) {}

  void Start(const std::string& path) {
    int out[2];
    int err[2];
    ASSERT_EQ(pipe2(out, O_CLOEXEC | O_NONBLOCK), 0);
    ASSERT_EQ(pipe2(err, O_CLOEXEC | O_NONBLOCK), 0);
    out_.reset(out[1]);
    err_.reset(err[1]);
    capture_ = std::make_unique<OutputCapture>(
        loop_.get(), path,
        OutputCapture::Callbacks{
            .on_line = [this](OutputCapture::Source, std::string line) { lines_.push_back(line); },
            .on_warning = [this](const std::string& text) { warnings_.push_back(text); }},
        counts_);
    ASSERT_THAT(capture_->Start(UniqueFd(out[0]), UniqueFd(err[0])), IsOk());
  }

  TempDir dir_;
  std::unique_ptr<EventLoop> loop_;
  UniqueFd out_;
  UniqueFd err_;
  std::vector<std::string> lines_;
  std::vector<std::string> warnings_;
  const std::shared_ptr<LogCounts> counts_ = std::make_shared<LogCounts>();
  std::unique_ptr<OutputCapture> capture_;
};

TEST_F(OutputCaptureTest, BothStreamsGoToOneFileInAFolderThatIsMade) {
  const std::string path = JoinPath(dir_.path(), "a/b/node.log");
  Start(path);
  ASSERT_EQ(write(out_.get(), "out\n", 4), 4);
  ASSERT_TRUE(loop_->RunUntil([&] { return lines_.size() == 1; }, absl::Seconds(40)));
  ASSERT_EQ(write(err_.get(), "err\nrest", 8), 8);
  out_.reset();
  err_.reset();
  ASSERT_TRUE(loop_->RunUntil([&] { return capture_->ended(); }, absl::Seconds(40)));
  capture_->Finish();
  EXPECT_TRUE(capture_->Flush(absl::Seconds(40)));
  EXPECT_THAT(lines_, ElementsAre("out", "err", "rest"));
  EXPECT_THAT(capture_->StderrTail(), ElementsAre("err", "rest"));
  EXPECT_THAT(ReadFile(path), IsOkAndHolds("out\nerr\nrest"));
  EXPECT_EQ(counts_->written_bytes, 12u);
  EXPECT_EQ(counts_->lost_bytes, 0u);
}

TEST_F(OutputCaptureTest, FullDiskIsOneWarningAndTheRelayGoesOn) {
  // The kernel's limit of a file's size stands for the end of the disk.
  signal(SIGXFSZ, SIG_IGN);
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  rlimit none = before;
  none.rlim_cur = 7;  // one line and a part of the next
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &none), 0);
  const absl::Cleanup restore = [&before] { setrlimit(RLIMIT_FSIZE, &before); };
  Start(JoinPath(dir_.path(), "node.log"));
  for (int i = 0; i < 3; ++i) {
    ASSERT_EQ(write(err_.get(), "line\n", 5), 5);
    const size_t want = lines_.size() + 1;
    ASSERT_TRUE(loop_->RunUntil([&] { return lines_.size() == want; }, absl::Seconds(40)));
    EXPECT_TRUE(capture_->Flush(absl::Seconds(40)));
  }
  ASSERT_TRUE(loop_->RunUntil([&] { return !warnings_.empty(); }, absl::Seconds(40)));
  EXPECT_THAT(warnings_, ElementsAre(HasSubstr("/node.log: File too large")));
  EXPECT_EQ(counts_->written_bytes, 7u);
  EXPECT_EQ(counts_->lost_bytes, 8u);
}

// In a log folder that others may write to.
TEST_F(OutputCaptureTest, ALogThatIsALinkOrAPipeIsOneWarningAndTheRelayGoesOn) {
  const std::string target = JoinPath(dir_.path(), "target");
  ASSERT_THAT(WriteFileAtomic(target, "mine"), IsOk());
  ASSERT_EQ(symlink(target.c_str(), JoinPath(dir_.path(), "link").c_str()), 0);
  ASSERT_EQ(mkfifo(JoinPath(dir_.path(), "pipe").c_str(), 0666), 0);
  for (const char* name : {"link", "pipe"}) {
    lines_.clear();
    warnings_.clear();
    Start(JoinPath(dir_.path(), name));
    ASSERT_EQ(write(out_.get(), "line\n", 5), 5);
    ASSERT_TRUE(loop_->RunUntil([&] { return lines_.size() == 1 && !warnings_.empty(); },
                                absl::Seconds(40)));
    EXPECT_TRUE(capture_->Flush(absl::Seconds(40)));
    EXPECT_THAT(warnings_, ElementsAre(HasSubstr(JoinPath(dir_.path(), name))));
  }
  EXPECT_THAT(ReadFile(target), IsOkAndHolds("mine"));
  EXPECT_EQ(counts_->written_bytes, 0u);
  EXPECT_EQ(counts_->lost_bytes, 10u);
}

TEST_F(OutputCaptureTest, TailKeepsTheLast50LinesEachAtMost2KiB) {
  Start(JoinPath(dir_.path(), "node.log"));
  for (int i = 0; i < 60; ++i) {
    const std::string line = absl::StrCat(i, i == 59 ? std::string(5000, 'x') : "", "\n");
    ASSERT_EQ(write(err_.get(), line.data(), line.size()), static_cast<ssize_t>(line.size()));
    // The last one comes in three parts.
    const size_t want = i == 59 ? 62 : size_t(i) + 1;
    ASSERT_TRUE(loop_->RunUntil([&] { return lines_.size() == want; }, absl::Seconds(40)));
  }
  const std::vector<std::string> tail = capture_->StderrTail();
  ASSERT_EQ(tail.size(), 50u);
  EXPECT_EQ(tail.front(), "12");
  EXPECT_EQ(tail[48].size(), 2048u);
  EXPECT_EQ(tail[49].size(), 5002u - 2 * 2048);
}

}  // namespace
}  // namespace millrace
