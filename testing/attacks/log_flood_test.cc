// Anybody who reaches a coordinator's port can be refused as often as he likes. What that writes to
// the operator's terminal stays short, and holds nothing of his that a terminal obeys.

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <string>

#include "core/agent/agent_harness.h"
#include "core/base/json.h"
#include "core/base/unique_fd.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace millrace {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr int kConnections = 2000;

// Sends `bytes` and waits until the server has closed the connection.
bool IsRefused(int port, const std::string& bytes) {
  const UniqueFd fd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0) {
    return false;
  }
  if (send(fd.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL) < 0) return false;
  char buffer[4096];
  while (recv(fd.get(), buffer, sizeof(buffer), 0) > 0) {
  }
  return true;
}

TEST(LogFloodTest, WhoIsRefusedAgainAndAgainFillsNoTerminal) {
  AgentHarness coordinator({"coordinator", "--parent=stdin"});
  coordinator.Send(R"({"id":1,"method":"start",)"
                   R"("params":{"num_executors":1,"program":"/bin/true","cluster_file":false}})");
  const Json started = coordinator.ReadReply();
  ASSERT_TRUE(started.contains("result")) << DumpJson(started);
  const int port = started["result"].value("port", 0);
  ASSERT_GT(port, 0);
  for (int i = 0; i < kConnections; ++i) {
    ASSERT_TRUE(
        IsRefused(port, "GET / HTTP/1.1\r\nX: \x1b]0;mine\x07\n2024-01-01 E forged\r\n\r\n"));
  }
  coordinator.CloseStdin();
  EXPECT_EQ(coordinator.WaitExit(), 0);
  const std::string text = coordinator.stderr_text();
  EXPECT_LT(std::count(text.begin(), text.end(), '\n'), kConnections / 2) << text.substr(0, 4096);
  EXPECT_LT(text.size(), 200'000u);
  EXPECT_THAT(text, Not(HasSubstr("\x1b")));
  EXPECT_THAT(text, Not(HasSubstr("\n2024-01-01 E forged")));
}

}  // namespace
}  // namespace millrace
