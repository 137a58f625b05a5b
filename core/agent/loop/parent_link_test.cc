#include "core/agent/loop/parent_link.h"

#include <fcntl.h>
#include <unistd.h>

#include <memory>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "core/agent/loop/event_loop.h"
#include "core/base/unique_fd.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace millrace {
namespace {

class ParentLinkTest : public ::testing::Test {
 protected:
  ParentLinkTest() : loop_(*EventLoop::Create()) {
    int in[2];
    int out[2];
    EXPECT_EQ(pipe2(in, O_CLOEXEC), 0);
    EXPECT_EQ(pipe2(out, O_CLOEXEC), 0);
    in_.reset(in[0]);
    to_agent_.reset(in[1]);
    from_agent_.reset(out[0]);
    out_.reset(out[1]);
  }

  void Start(int in_fd) {
    link_ = std::make_unique<ParentLink>(
        loop_.get(), in_fd, out_.get(),
        ParentLink::Callbacks{
            .on_request =
                [this](const Json& id, const std::string&, const Json&) {
                  ++requests_;
                  link_->Reply(id, Json{{"text", std::string(1000, 'x')}});
                },
            .on_end = [this](const absl::Status& status) { ends_.push_back(status); }});
    link_->Start();
  }

  std::unique_ptr<EventLoop> loop_;
  UniqueFd in_;
  UniqueFd out_;
  UniqueFd to_agent_;
  UniqueFd from_agent_;
  int requests_ = 0;
  std::vector<absl::Status> ends_;
  std::unique_ptr<ParentLink> link_;
};

TEST_F(ParentLinkTest, ParentThatDoesNotReadBlocksNobodyAndIsNotReadEither) {
  Start(in_.get());
  const std::string request = "{\"id\":1,\"method\":\"status\"}\n";
  // The parent writes for as long as somebody reads.
  fcntl(to_agent_.get(), F_SETFL, O_NONBLOCK);
  int idle_rounds = 0;
  while (idle_rounds < 5) {
    const ssize_t n = write(to_agent_.get(), request.data(), request.size());
    if (n < 0) {
      const int before = requests_;
      loop_->RunUntil([&] { return requests_ > before; }, absl::Milliseconds(20));
      idle_rounds = requests_ == before ? idle_rounds + 1 : 0;
    }
  }
  EXPECT_GT(requests_, 500);
  EXPECT_LT(requests_, 5000);  // about 1 MiB of replies, and what one read held
  // When it reads again, everything comes.
  fcntl(from_agent_.get(), F_SETFL, O_NONBLOCK);
  std::vector<char> buffer(1 << 20);
  const int before = requests_;
  EXPECT_TRUE(loop_->RunUntil(
      [&] {
        (void)!read(from_agent_.get(), buffer.data(), buffer.size());
        return requests_ > before;
      },
      absl::Seconds(40)));
}

TEST_F(ParentLinkTest, EndOfInputIsReportedOnce) {
  Start(in_.get());
  to_agent_.reset();
  EXPECT_TRUE(loop_->RunUntil([&] { return !ends_.empty(); }, absl::Seconds(40)));
  loop_->RunUntil([] { return false; }, absl::Milliseconds(5));
  ASSERT_EQ(ends_.size(), 1u);
  EXPECT_TRUE(ends_[0].ok());
}

TEST_F(ParentLinkTest, InputMayBeAFile) {
  const UniqueFd null(open("/dev/null", O_RDONLY | O_CLOEXEC));
  Start(null.get());
  EXPECT_TRUE(loop_->RunUntil([&] { return !ends_.empty(); }, absl::Seconds(40)));
}

}  // namespace
}  // namespace millrace
