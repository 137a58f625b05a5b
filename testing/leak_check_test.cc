// A check that cannot fail is none: each kind of thing is left on purpose and must be named.

#include "testing/leak_check.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "core/base/file.h"
#include "core/base/status_matchers.h"
#include "core/base/unique_fd.h"
#include "core/process/process.h"
#include "gmock/gmock.h"
#include "gtest/gtest-spi.h"
#include "gtest/gtest.h"
#include "testing/eventually.h"

namespace millrace {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr absl::Duration kAtOnce = absl::ZeroDuration();
constexpr absl::Duration kSoon = absl::Seconds(20);  // far more than needed

// A child that runs `script` in sh.
pid_t Shell(const std::string& script) {
  const pid_t pid = ::fork();
  if (pid == 0) {
    ::execl("/bin/sh", "sh", "-c", script.c_str(), static_cast<char*>(nullptr));
    ::_exit(127);
  }
  return pid;
}

void KillAndReap(pid_t pid) {
  ::kill(pid, SIGKILL);
  ::waitpid(pid, nullptr, 0);
}

UniqueFd Listen(int* port) {
  UniqueFd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  EXPECT_EQ(::bind(fd.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
  EXPECT_EQ(::listen(fd.get(), 1), 0);
  socklen_t size = sizeof(address);
  ::getsockname(fd.get(), reinterpret_cast<sockaddr*>(&address), &size);
  *port = ntohs(address.sin_port);
  return fd;
}

UniqueFd ListenAbstract(const std::string& name) {
  UniqueFd fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path + 1, name.data(), name.size());
  const socklen_t size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  EXPECT_EQ(::bind(fd.get(), reinterpret_cast<sockaddr*>(&address), size), 0);
  EXPECT_EQ(::listen(fd.get(), 1), 0);
  return fd;
}

TEST(LeakCheckTest, NothingIsLeftAtFirst) {
  LeakCheck leaks;
  EXPECT_THAT(leaks.Leftovers(), IsEmpty());
  EXPECT_EQ(EnvOr("TMPDIR", ""), leaks.folder());
  EXPECT_EQ(absl::StrCat("MILLRACE_TEST_ID=", EnvOr("MILLRACE_TEST_ID", "")), leaks.marker());
}

TEST(LeakCheckTest, TheEnvironmentAndTheFolderGoWithIt) {
  const std::string tmp_before = EnvOr("TMPDIR", "");
  std::string folder;
  {
    LeakCheck leaks;
    folder = leaks.folder();
    EXPECT_EQ(::access(folder.c_str(), F_OK), 0);
  }
  EXPECT_NE(::access(folder.c_str(), F_OK), 0);
  EXPECT_EQ(EnvOr("TMPDIR", ""), tmp_before);
  EXPECT_EQ(::getenv("MILLRACE_TEST_ID"), nullptr);
}

TEST(LeakCheckTest, AChildThatStillRunsIsNamed) {
  LeakCheck leaks;
  const pid_t pid = Shell("exec sleep 987");
  EXPECT_THAT(leaks.Processes(), SizeIs(1));
  EXPECT_THAT(leaks.Leftovers(), ElementsAre(HasSubstr(absl::StrCat("process ", pid, " (state "))));
  KillAndReap(pid);
  EXPECT_THAT(leaks.Leftovers(), IsEmpty());
}

TEST(LeakCheckTest, AnOrphanIsKnownByTheMarkerOfItsEnvironment) {
  LeakCheck leaks;
  // The shell ends at once; what it started belongs to init then, in a session of its own.
  const pid_t pid = Shell("setsid sh -c 'echo $$ > $TMPDIR/pid; exec sleep 986' &");
  ::waitpid(pid, nullptr, 0);
  leaks.AllowPath("pid");
  EXPECT_TRUE(Eventually(
      [&] { return absl::StrContains(absl::StrJoin(leaks.Leftovers(), "\n"), "sleep 986"); },
      kSoon));
  const std::vector<ProcessInfo> processes = leaks.Processes();
  ASSERT_THAT(processes, SizeIs(1));
  EXPECT_NE(processes[0].parent, ::getpid());
  EXPECT_EQ(processes[0].command, "sleep 986");
  ::kill(processes[0].pid, SIGKILL);
  EXPECT_THAT(leaks.WaitUntilNothingLeft(kSoon), IsEmpty());
}

TEST(LeakCheckTest, AGrandchildWithoutTheMarkerIsKnownByItsParent) {
  LeakCheck leaks;
  const pid_t pid = Shell("env -i sleep 985; true");
  EXPECT_TRUE(Eventually([&] { return leaks.Processes().size() >= 2; }, kSoon));
  const std::vector<ProcessInfo> processes = leaks.Processes();
  ASSERT_THAT(processes, SizeIs(2));
  for (const ProcessInfo& process : processes) {
    if (process.pid != pid) ::kill(process.pid, SIGKILL);
  }
  ::waitpid(pid, nullptr, 0);
  EXPECT_THAT(leaks.WaitUntilNothingLeft(kSoon), IsEmpty());
}

TEST(LeakCheckTest, AZombieIsLeftToo) {
  LeakCheck leaks;
  const pid_t pid = Shell("exit 3");
  siginfo_t info{};
  ASSERT_EQ(::waitid(P_PID, static_cast<id_t>(pid), &info, WEXITED | WNOWAIT), 0);
  EXPECT_THAT(leaks.Leftovers(), ElementsAre(AllOf(HasSubstr(absl::StrCat("process ", pid)),
                                                   HasSubstr("state Z"), HasSubstr("[sh]"))));
  ::waitpid(pid, nullptr, 0);
  EXPECT_THAT(leaks.Leftovers(), IsEmpty());
}

TEST(LeakCheckTest, APortOfThisProcessIsNamed) {
  LeakCheck leaks;
  int port = 0;
  UniqueFd fd = Listen(&port);
  EXPECT_THAT(leaks.Leftovers(),
              ElementsAre(absl::StrCat("listening port 127.0.0.1:", port, " of this process")));
  fd.reset();
  EXPECT_THAT(leaks.Leftovers(), IsEmpty());
}

TEST(LeakCheckTest, APortOfAnotherProcessIsNamed) {
  LeakCheck leaks;
  int port = 0;
  pid_t pid = 0;
  {
    UniqueFd fd = Listen(&port);
    pid = ::fork();
    if (pid == 0) {
      while (true) ::pause();
    }
  }
  EXPECT_THAT(leaks.Leftovers(),
              ElementsAre(HasSubstr(absl::StrCat("process ", pid)),
                          absl::StrCat("listening port 127.0.0.1:", port, " of process ", pid)));
  KillAndReap(pid);
  EXPECT_THAT(leaks.Leftovers(), IsEmpty());
}

TEST(LeakCheckTest, WhatWasOpenBeforeDoesNotCount) {
  int port = 0;
  const UniqueFd before = Listen(&port);
  LeakCheck leaks;
  EXPECT_THAT(leaks.Leftovers(), IsEmpty());
}

TEST(LeakCheckTest, AnAbstractSocketIsNamed) {
  LeakCheck leaks;
  const std::string name = absl::StrCat("millrace-leak-check-", ::getpid());
  UniqueFd fd = ListenAbstract(name);
  EXPECT_THAT(leaks.Leftovers(),
              ElementsAre(absl::StrCat("abstract socket @", name, " of this process")));
  fd.reset();
  EXPECT_THAT(leaks.Leftovers(), IsEmpty());
}

TEST(LeakCheckTest, AFileIsNamedUnlessItIsAllowed) {
  LeakCheck leaks;
  ASSERT_THAT(WriteFileAtomic(JoinPath(leaks.folder(), "context.json"), "secret"), IsOk());
  EXPECT_THAT(leaks.Leftovers(),
              ElementsAre(absl::StrCat("file ", leaks.folder(), "/context.json")));
  leaks.AllowPath("context.json");
  EXPECT_THAT(leaks.Leftovers(), IsEmpty());
}

TEST(LeakCheckTest, ExpectNothingLeftFailsTheTestAndEndsWhatIsLeft) {
  LeakCheck leaks;
  const pid_t pid = Shell("exec sleep 984");
  EXPECT_NONFATAL_FAILURE(leaks.ExpectNothingLeft(kAtOnce), absl::StrCat("process ", pid));
  int status = 0;
  ASSERT_EQ(::waitpid(pid, &status, 0), pid);
  EXPECT_TRUE(WIFSIGNALED(status));
  leaks.ExpectNothingLeft(kAtOnce);
}

TEST(LeakCheckTest, ExpectNothingLeftWaitsForWhatIsEnding) {
  LeakCheck leaks;
  int port = 0;
  pid_t pid = 0;
  int go[2];
  ASSERT_EQ(::pipe2(go, O_CLOEXEC), 0);
  UniqueFd go_read(go[0]);
  UniqueFd go_write(go[1]);
  {
    UniqueFd fd = Listen(&port);
    // A child of init by the time that it ends: nobody here has to reap it.
    pid = ::fork();
    if (pid == 0) {
      if (::fork() != 0) ::_exit(0);
      ::close(go[1]);
      char byte = 0;
      static_cast<void>(!::read(go[0], &byte, 1));
      ::_exit(0);
    }
  }
  ::waitpid(pid, nullptr, 0);
  go_write.reset();
  leaks.ExpectNothingLeft(kSoon);
}

}  // namespace
}  // namespace millrace
