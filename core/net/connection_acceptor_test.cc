#include "core/net/connection_acceptor.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include <cstdio>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "core/base/mutex.h"
#include "core/base/status_matchers.h"
#include "core/process/descriptor_limit.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace millrace {
namespace {

using ::testing::HasSubstr;

constexpr absl::Duration kPatience = absl::Seconds(30);
constexpr char kHello[] = "\x16\x03\x01";

// A connection to `port` on 127.0.0.1 from `source`.
UniqueFd Connect(int port, const char* source = "127.0.0.1") {
  UniqueFd fd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  inet_pton(AF_INET, source, &address.sin_addr);
  if (bind(fd.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)) != 0)
    return UniqueFd();
  inet_pton(AF_INET, "127.0.0.1", &address.sin_addr);
  address.sin_port = htons(static_cast<uint16_t>(port));
  if (connect(fd.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)) != 0) {
    return UniqueFd();
  }
  return fd;
}

std::string PeerOf(const UniqueFd& client) {
  sockaddr_in address{};
  socklen_t size = sizeof(address);
  EXPECT_EQ(getsockname(client.get(), reinterpret_cast<sockaddr*>(&address), &size), 0);
  char text[INET_ADDRSTRLEN] = {};
  inet_ntop(AF_INET, &address.sin_addr, text, sizeof(text));
  return absl::StrCat("ipv4:", text, ":", ntohs(address.sin_port));
}

void Say(const UniqueFd& client, const std::string& bytes) {
  EXPECT_EQ(send(client.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL),
            static_cast<ssize_t>(bytes.size()));
}

// Whether the other end closes the connection in time.
bool Ends(const UniqueFd& client, absl::Duration timeout = kPatience) {
  pollfd item{client.get(), POLLIN, 0};
  if (poll(&item, 1, static_cast<int>(absl::ToInt64Milliseconds(timeout))) != 1) return false;
  char byte;
  return recv(client.get(), &byte, 1, 0) <= 0;
}

bool IsOpen(const UniqueFd& client) { return !Ends(client, absl::ZeroDuration()); }

// What was handed on, kept open as a server would; an end that is seen closes it.
class Server {
 public:
  explicit Server(ConnectionAcceptor::Options options) {
    options.address = {"127.0.0.1", 0};
    auto acceptor = ConnectionAcceptor::Listen(options);
    EXPECT_THAT(acceptor, IsOk());
    acceptor_ = *std::move(acceptor);
    acceptor_->Start([this](int, UniqueFd fd) {
      MutexLock lock(&mu_);
      taken_.push_back(std::move(fd));
      ++count_;
      changed_.SignalAll();
    });
  }
  ~Server() { acceptor_->Stop(); }

  ConnectionAcceptor& acceptor() { return *acceptor_; }
  [[nodiscard]] int port() const { return acceptor_->port(); }

  // Reads what the taken connections have, and closes those that have ended.
  void Serve() {
    MutexLock lock(&mu_);
    for (UniqueFd& fd : taken_) {
      char bytes[64];
      if (fd.valid() && recv(fd.get(), bytes, sizeof(bytes), MSG_DONTWAIT) == 0) fd.reset();
    }
  }

  bool WaitForCount(int count) {
    const absl::Time deadline = absl::Now() + kPatience;
    while (absl::Now() < deadline) {
      Serve();
      MutexLock lock(&mu_);
      if (count_ >= count) return true;
      changed_.WaitWithTimeout(&mu_, absl::Milliseconds(10));
    }
    return false;
  }
  int count() {
    MutexLock lock(&mu_);
    return count_;
  }

 private:
  std::unique_ptr<ConnectionAcceptor> acceptor_;
  Mutex mu_;
  CondVar changed_;
  std::vector<UniqueFd> taken_ ABSL_GUARDED_BY(mu_);
  int count_ ABSL_GUARDED_BY(mu_) = 0;
};

TEST(ConnectionAcceptorTest, HandsOnWhoBeginsATlsHandshakeOnly) {
  Server server({});
  const UniqueFd silent = Connect(server.port());
  const UniqueFd plain = Connect(server.port());
  Say(plain, "PRI * HTTP/2.0\r\n\r\n");
  EXPECT_TRUE(Ends(plain));
  const UniqueFd talker = Connect(server.port());
  Say(talker, kHello);
  EXPECT_TRUE(server.WaitForCount(1));
  EXPECT_TRUE(IsOpen(talker));
  EXPECT_TRUE(IsOpen(silent));
  EXPECT_EQ(server.count(), 1);
}

TEST(ConnectionAcceptorTest, SilentOnesMakeRoomOldestFirst) {
  Server server({.max_waiting = 16});
  std::vector<UniqueFd> silent;
  for (int i = 0; i < 40; ++i) silent.push_back(Connect(server.port()));
  EXPECT_TRUE(Ends(silent[0]));
  const UniqueFd talker = Connect(server.port());
  Say(talker, kHello);
  EXPECT_TRUE(server.WaitForCount(1));
  EXPECT_TRUE(IsOpen(silent.back()));
}

TEST(ConnectionAcceptorTest, WhoStaysSilentIsClosed) {
  Server server({.silence_timeout = absl::Milliseconds(50)});
  const UniqueFd silent = Connect(server.port());
  EXPECT_TRUE(Ends(silent));
}

TEST(ConnectionAcceptorTest, AHandshakeThatStandsStillMakesRoomForWhoWaits) {
  Server server({.max_handshakes = 2, .stall_timeout = absl::Milliseconds(100)});
  std::vector<UniqueFd> stalled;
  for (int i = 0; i < 2; ++i) {
    stalled.push_back(Connect(server.port()));
    Say(stalled.back(), kHello);
  }
  ASSERT_TRUE(server.WaitForCount(2));
  const UniqueFd next = Connect(server.port());
  Say(next, kHello);
  EXPECT_TRUE(server.WaitForCount(3));
  EXPECT_TRUE(IsOpen(next));
}

TEST(ConnectionAcceptorTest, WhoseCallIsAdmittedStaysAndOthersDoNot) {
  Server server({.admission_timeout = absl::Seconds(2)});
  const UniqueFd member = Connect(server.port());
  const UniqueFd stranger = Connect(server.port());
  Say(member, kHello);
  Say(stranger, kHello);
  ASSERT_TRUE(server.WaitForCount(2));
  server.acceptor().Admitted(PeerOf(member));
  server.acceptor().Admitted("ipv4:127.0.0.1:1");  // nobody
  server.acceptor().Admitted("unix:");
  EXPECT_TRUE(Ends(stranger));
  EXPECT_TRUE(IsOpen(member));
}

// An admitted connection counts no more: another one may have its place.
TEST(ConnectionAcceptorTest, AnAdmittedCallLetsTheNextOneIn) {
  Server server({.max_handshakes = 1});
  std::vector<UniqueFd> clients;
  for (int i = 0; i < 5; ++i) {
    clients.push_back(Connect(server.port()));
    Say(clients.back(), kHello);
    ASSERT_TRUE(server.WaitForCount(i + 1));
    server.acceptor().Admitted(PeerOf(clients.back()));
  }
  for (const UniqueFd& client : clients) EXPECT_TRUE(IsOpen(client));
}

TEST(ConnectionAcceptorTest, AnotherHostHasAtMostHalfOfThePlaces) {
  Server server({.max_handshakes = 4});
  std::vector<UniqueFd> foreign;
  for (int i = 0; i < 10; ++i) {
    foreign.push_back(Connect(server.port(), "127.0.0.2"));
    if (!foreign.back().valid()) GTEST_SKIP() << "this host has no 127.0.0.2";
    Say(foreign.back(), kHello);
  }
  ASSERT_TRUE(server.WaitForCount(2));
  const UniqueFd own = Connect(server.port());
  Say(own, kHello);
  EXPECT_TRUE(server.WaitForCount(3));
  // Own host's come last and are there: of the others no third one was handed on before.
  EXPECT_EQ(server.count(), 3);
}

TEST(ConnectionAcceptorTest, NamesTheAddressThatItCannotHave) {
  EXPECT_THAT(ConnectionAcceptor::Listen({.address = {"203.0.113.7", 0}}),
              StatusIs(absl::StatusCode::kUnavailable, HasSubstr("203.0.113.7")));
  EXPECT_THAT(ConnectionAcceptor::Listen({.address = {"some.host", 0}}),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("no numeric address")));
  auto first = ConnectionAcceptor::Listen({.address = {"127.0.0.1", 0}});
  ASSERT_THAT(first, IsOk());
  const auto port = static_cast<uint16_t>((*first)->port());
  EXPECT_THAT(ConnectionAcceptor::Listen({.address = {"127.0.0.1", port}}),
              StatusIs(absl::StatusCode::kUnavailable, HasSubstr("in use")));
}

TEST(ConnectionAcceptorTest, TheWildcardTakesBothFamilies) {
  auto acceptor = ConnectionAcceptor::Listen({.address = {"0.0.0.0", 0}});
  ASSERT_THAT(acceptor, IsOk());
  EXPECT_TRUE(Connect((*acceptor)->port()).valid());
}

// ---- without descriptors, in a process of its own -----------------------------------------------

// Returns what the child printed; "" is well.
template <typename Body>
std::string InChild(Body body) {
  int ends[2];
  EXPECT_EQ(pipe(ends), 0);
  const pid_t pid = fork();
  if (pid == 0) {
    const std::string problem = body();
    (void)!write(ends[1], problem.data(), problem.size());
    _exit(0);
  }
  close(ends[1]);
  std::string text;
  char buffer[512];
  for (ssize_t n; (n = read(ends[0], buffer, sizeof(buffer))) > 0;) {
    text.append(buffer, static_cast<size_t>(n));
  }
  close(ends[0]);
  int status = 0;
  waitpid(pid, &status, 0);
  if (status != 0) absl::StrAppend(&text, "; wait status ", status);
  return text;
}

TEST(ConnectionAcceptorTest, WithoutDescriptorsItTurnsAwaySaysSoAndGoesOn) {
  EXPECT_EQ(
      InChild([]() -> std::string {
        rlimit limit{64, 64};
        if (setrlimit(RLIMIT_NOFILE, &limit) != 0) return "setrlimit";
        Server server({});
        // Sockets that are to connect while there are no descriptors left.
        std::vector<UniqueFd> clients;
        for (int i = 0; i < 8; ++i) {
          clients.emplace_back(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
        }
        std::vector<UniqueFd> hoard;
        while (true) {
          UniqueFd fd(open("/dev/null", O_RDONLY | O_CLOEXEC));
          if (!fd.valid()) break;
          hoard.push_back(std::move(fd));
        }
        sockaddr_in address{};
        address.sin_family = AF_INET;
        address.sin_port = htons(static_cast<uint16_t>(server.port()));
        address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        for (const UniqueFd& client : clients) {
          if (connect(client.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)) != 0) {
            return "connect";
          }
          if (!Ends(client)) return "a connection that cannot be taken was left to wait";
        }
        const std::string said(server.acceptor().Shortage().message());
        if (said.find("EMFILE") == std::string::npos || said.find("64") == std::string::npos) {
          return "said: " + said;
        }
        hoard.clear();
        clients.clear();
        const UniqueFd talker = Connect(server.port());
        Say(talker, kHello);
        return server.WaitForCount(1) ? "" : "nobody gets in again";
      }),
      "");
}

// Silent connections do not use up the descriptors: 200 at a limit of 64.
TEST(ConnectionAcceptorTest, SilentConnectionsDoNotUseUpTheDescriptors) {
  int port_pipe[2];
  int end_pipe[2];
  ASSERT_EQ(pipe(port_pipe), 0);
  ASSERT_EQ(pipe(end_pipe), 0);
  const pid_t pid = fork();
  if (pid == 0) {
    close(end_pipe[1]);
    rlimit limit{64, 64};
    setrlimit(RLIMIT_NOFILE, &limit);
    Server server({});
    const int port = server.port();
    (void)!write(port_pipe[1], &port, sizeof(port));
    const bool taken = server.WaitForCount(1);
    const bool calm = server.acceptor().Shortage().ok();
    _exit(taken && calm ? 0 : 1);
  }
  int port = 0;
  ASSERT_EQ(read(port_pipe[0], &port, sizeof(port)), static_cast<ssize_t>(sizeof(port)));
  std::vector<UniqueFd> silent;
  for (int i = 0; i < 200; ++i) silent.push_back(Connect(port));
  const UniqueFd talker = Connect(port);
  Say(talker, kHello);
  int status = 0;
  waitpid(pid, &status, 0);
  EXPECT_EQ(status, 0);
  for (const int fd : {port_pipe[0], port_pipe[1], end_pipe[0], end_pipe[1]}) close(fd);
}

}  // namespace
}  // namespace millrace
