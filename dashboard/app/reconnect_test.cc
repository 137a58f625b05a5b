// What a person reads while the network between the window and a real coordinator is cut, and
// after.

#include <atomic>
#include <memory>
#include <string>
#include <utility>

#include "absl/functional/function_ref.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "core/base/status_matchers.h"
#include "core/coordinator/coordinator.h"
#include "core/coordinator/fake_agent.h"
#include "dashboard/app/shell_testing.h"
#include "dashboard/app/text_audit.h"
#include "dashboard/model/format.h"
#include "dashboard/source/live_source.h"
#include "gtest/gtest.h"
#include "testing/eventually.h"
#include "testing/ledger/tcp_fault_proxy.h"

namespace millrace::dashboard {
namespace {

constexpr absl::Duration kLong = absl::Seconds(90);

class ReconnectTest : public ShellTest {
 protected:
  ReconnectTest() {
    CoordinatorOptions options;
    options.roles = *DealRoles({.num_executors = 1});
    options.program.path = "/bin/true";
    options.lost_after = absl::Seconds(300);  // a busy machine is not a lost host
    auto coordinator = Coordinator::Start(std::move(options));
    EXPECT_THAT(coordinator, IsOk());
    coordinator_ = *std::move(coordinator);
    auto proxy = TcpFaultProxy::Start(coordinator_->port(), [this](bool) {
      return TcpFault{.kind = fault_, .after_bytes = fault_ == TcpFault::Kind::kStall ? 15'000 : 0};
    });
    EXPECT_THAT(proxy, IsOk());
    proxy_ = *std::move(proxy);
    // The cluster itself has no trouble.
    FakeAgentOptions agent = FakeAgentOptions::For(*coordinator_);
    agent.executor_id = 0;
    agent_ = std::make_unique<FakeAgent>(agent);
    LiveOptions live;
    live.client.address = absl::StrCat("127.0.0.1:", proxy_->port());
    live.client.ca_pem = coordinator_->ca_pem();
    live.client.identity_pem = coordinator_->viewer_identity_pem();
    live.client.viewer_token = coordinator_->tokens().viewer;
    live.interval = absl::Milliseconds(100);
    auto source = MakeLiveSource(std::move(live));
    EXPECT_THAT(source, IsOk());
    Open(*std::move(source));
  }
  ~ReconnectTest() override { Close(); }  // before what it is connected to

  // Draws as a window does, until what it shows is as it should be.
  bool DrawUntil(absl::FunctionRef<bool(const std::string& letters)> condition) {
    const bool drawn = Eventually(
        [&] {
          session().Poll(absl::Now());
          Frame();
          return condition(VisibleLetters());
        },
        kLong);
    EXPECT_TRUE(drawn) << "shown at last: " << VisibleLetters();
    return drawn;
  }

  void Report(int step) {
    v1::AgentMessage message;
    message.mutable_metric()->set_name("loss");
    message.mutable_metric()->set_step(step);
    agent_->Send(message);
  }
  int Step() {
    const DashboardModel& model = session().model();
    return model.nodes().empty() ? -1 : static_cast<int>(model.nodes()[0].step);
  }

  std::atomic<TcpFault::Kind> fault_{TcpFault::Kind::kNone};
  std::unique_ptr<Coordinator> coordinator_;
  std::unique_ptr<TcpFaultProxy> proxy_;
  std::unique_ptr<FakeAgent> agent_;
};

// Text is looked for without its spaces.
bool Has(const std::string& letters, absl::string_view text) {
  return absl::StrContains(letters, text);
}

TEST_F(ReconnectTest, ACutNetworkIsSaidWithTheAgeOfTheDataAndFoundAgain) {
  ASSERT_TRUE(DrawUntil([](const std::string& letters) {
    return Has(letters, "1/1running") && Has(letters, "Theslotwasready");
  }));
  Report(7);
  ASSERT_TRUE(DrawUntil([this](const std::string&) { return Step() == 7; }));

  fault_ = TcpFault::Kind::kCut;
  const int before = proxy_->connections();
  const absl::Time cut = absl::Now();
  proxy_->CutAll();
  ASSERT_TRUE(DrawUntil([](const std::string& letters) {
    return Has(letters, "connectionlost") && Has(letters, "cannotreachthecoordinatorat127.0.0.1:");
  }));
  Report(8);  // nobody sees it yet
  ASSERT_TRUE(DrawUntil([this](const std::string& letters) {
    const absl::Duration age = session().model().health().data_age;
    const std::string told = absl::StrReplaceAll(FormatSpan(age), {{" ", ""}});
    return age > absl::Seconds(6) && Has(letters, absl::StrCat("dataage", told)) &&
           Has(letters, "whatisshownisasof");
  }));
  EXPECT_EQ(Step(), 7);
  // It keeps trying, and leaves more time each time: 0.1, 0.2, 0.4 s and so on up to 2 s.
  const int attempts = proxy_->connections() - before;
  EXPECT_GE(attempts, 2);
  EXPECT_LE(attempts, 12 + static_cast<int>((absl::Now() - cut) / absl::Seconds(1)));

  fault_ = TcpFault::Kind::kNone;
  ASSERT_TRUE(DrawUntil([this](const std::string& letters) {
    return Has(letters, "live") && !Has(letters, "connectionlost") && Step() == 8;
  }));
  EXPECT_EQ(session().model().health().link.reconnects, 1);
  EXPECT_FALSE(Has(VisibleLetters(), "cannotreach"));
  Report(9);
  EXPECT_TRUE(DrawUntil([this](const std::string&) { return Step() == 9; }));
  EXPECT_TRUE(errors_.empty()) << errors_.front();
}

// Nothing is reset and nothing comes: only the silence tells.
TEST_F(ReconnectTest, ANetworkThatSwallowsEverythingIsNoticed) {
  fault_ = TcpFault::Kind::kStall;
  proxy_->CutAll();  // the next connection stalls, once a little has passed
  int step = 0;
  ASSERT_TRUE(DrawUntil([&](const std::string& letters) {
    if (!Has(letters, "1/1running") || !Has(letters, "live")) return false;
    Report(++step);
    return proxy_->faults() > 0;
  }));
  fault_ = TcpFault::Kind::kCut;
  ASSERT_TRUE(DrawUntil([](const std::string& letters) {
    return Has(letters, "connectionlost") && Has(letters, "whatisshownisasof");
  }));
  fault_ = TcpFault::Kind::kNone;
  Report(++step);
  EXPECT_TRUE(DrawUntil([&](const std::string& letters) {
    return Has(letters, "live") && !Has(letters, "connectionlost") && Step() == step;
  }));
}

}  // namespace
}  // namespace millrace::dashboard
