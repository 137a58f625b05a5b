#include "core/base/unique_fd.h"

#include <fcntl.h>

#include <cerrno>
#include <utility>

#include "gtest/gtest.h"

namespace millrace {
namespace {

bool IsOpen(int fd) { return fcntl(fd, F_GETFD) != -1; }

int OpenNull() { return open("/dev/null", O_RDONLY | O_CLOEXEC); }

TEST(UniqueFdTest, ClosesAtTheEndOfItsScope) {
  int raw = -1;
  {
    const UniqueFd fd(OpenNull());
    ASSERT_TRUE(fd.valid());
    raw = fd.get();
    EXPECT_TRUE(IsOpen(raw));
  }
  EXPECT_FALSE(IsOpen(raw));
}

TEST(UniqueFdTest, MovesHandOverOwnership) {
  UniqueFd a(OpenNull());
  UniqueFd b(OpenNull());
  const int from = a.get();
  const int replaced = b.get();
  b = std::move(a);
  EXPECT_FALSE(a.valid());  // NOLINT(bugprone-use-after-move): documented
  EXPECT_EQ(b.get(), from);
  EXPECT_FALSE(IsOpen(replaced));
  UniqueFd& alias = b;
  b = std::move(alias);
  EXPECT_TRUE(IsOpen(b.get()));
  const UniqueFd c(std::move(b));
  EXPECT_EQ(c.get(), from);
}

TEST(UniqueFdTest, ReleaseLeavesItOpenAndResetKeepsErrno) {
  UniqueFd fd(OpenNull());
  const int raw = fd.release();
  EXPECT_FALSE(fd.valid());
  EXPECT_TRUE(IsOpen(raw));
  fd.reset(raw);
  errno = ENOTTY;
  fd.reset();
  EXPECT_EQ(errno, ENOTTY);
  EXPECT_FALSE(IsOpen(raw));
}

}  // namespace
}  // namespace millrace
