// Clusters of agents that listen, each on a loopback address of its own as on a host.

#include <grpcpp/grpcpp.h>
#include <signal.h>
#include <stdlib.h>

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "core/base/file.h"
#include "core/base/mutex.h"
#include "core/base/status_matchers.h"
#include "core/base/thread.h"
#include "core/cluster/cluster_rows_testing.h"
#include "core/launch/agent_secret.h"
#include "core/proto/adopt.grpc.pb.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "millrace/adopting_launcher.h"
#include "millrace/cluster.h"
#include "millrace/launcher.h"
#include "resolver/scripted_resolver.h"
#include "testing/eventually.h"
#include "testing/listening_agent.h"

namespace millrace {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::SizeIs;
using ::testing::StartsWith;

constexpr absl::Duration kLong = absl::Seconds(60);

// Tells the test when a slot has to wait, as the coordinator is told.
class AwaitingLauncher final : public AdoptingLauncher {
 public:
  using AdoptingLauncher::AdoptingLauncher;

  absl::Status Launch(const std::vector<AgentTicket>& tickets, Events events) override {
    events.on_awaited = [this, next = std::move(events.on_awaited)](int executor_id,
                                                                    const std::string& why) {
      if (absl::StrContains(why, " is taken: ") && !refused_.HasBeenNotified()) refused_.Notify();
      next(executor_id, why);
    };
    return AdoptingLauncher::Launch(tickets, std::move(events));
  }
  // Waits until an agent has refused this launcher because it serves another one.
  [[nodiscard]] bool WaitRefused() { return refused_.WaitForNotificationWithTimeout(kLong); }

 private:
  Notification refused_;
};

// An agent that takes every driver, as one of a version that does not ask for the driver's would,
// and says which version it is.
class OtherAgent final : public v1::AgentHost::Service {
 public:
  OtherAgent(const AgentSecret& secret, std::string version) : version_(std::move(version)) {
    grpc::SslServerCredentialsOptions tls(
        GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY);
    tls.pem_root_certs = secret.certificate_pem;
    tls.pem_key_cert_pairs.push_back({secret.key_pem, secret.certificate_pem});
    grpc::ServerBuilder builder;
    builder.RegisterService(this);
    builder.AddListeningPort("127.0.0.1:0", grpc::SslServerCredentials(tls), &port_);
    server_ = builder.BuildAndStart();
  }
  ~OtherAgent() override { server_->Shutdown(); }

  grpc::Status Adopt(grpc::ServerContext*,
                     grpc::ServerReaderWriter<v1::AdoptEvent, v1::AdoptRequest>* stream) override {
    v1::AdoptRequest request;
    if (!stream->Read(&request) || !request.has_hold()) return grpc::Status::CANCELLED;
    v1::AdoptEvent event;
    event.mutable_held()->set_host("host-3");
    event.mutable_held()->set_version(version_);
    event.mutable_held()->set_peer_host("127.0.0.1");
    stream->Write(event);
    while (stream->Read(&request)) {
      if (request.has_start() && !started_.HasBeenNotified()) started_.Notify();
    }
    return grpc::Status::OK;
  }

  [[nodiscard]] std::string address() const { return absl::StrCat("127.0.0.1:", port_); }
  // It was told to start its agent.
  [[nodiscard]] Notification& started() { return started_; }

 private:
  const std::string version_;
  Notification started_;
  int port_ = 0;
  std::unique_ptr<grpc::Server> server_;
};

class AdoptedClusterTest : public ::testing::Test {
 protected:
  AdoptedClusterTest() : dir_(*TempDir::Create("adopted")) {
    secret_ = WriteSecret("secret.json");
    options_.input_mode = InputMode::kFeed;
    options_.reservation_timeout = kLong;
    options_.failure.restart.initial_backoff = absl::Milliseconds(50);
    options_.observer.on_metric = [this](absl::string_view, absl::string_view name, int64_t step,
                                         double value) {
      MutexLock lock(&mu_);
      steps_[std::string(name)] += step;
      sums_[std::string(name)] += value;
    };
    launcher_options_.secret.file = secret_;
    launcher_options_.poll_interval = absl::Milliseconds(20);
  }

  std::string WriteSecret(const std::string& name) {
    const std::string path = JoinPath(dir_.path(), name);
    EXPECT_THAT(WriteAgentSecretFile(path, *MakeAgentSecret()), IsOk());
    return path;
  }

  // One more agent, on an address of its own.
  std::unique_ptr<ListeningAgent> StartAgent() {
    auto agent = ListeningAgent::Start(absl::StrCat("127.0.0.", next_host_++), secret_);
    EXPECT_THAT(agent, IsOk());
    return agent.ok() ? *std::move(agent) : nullptr;
  }

  // worker:0, worker:1, ... at these addresses.
  static ClusterSpec Workers(const ClusterSpec::TaskList& addresses) {
    return *ClusterSpec::Create({{"worker", addresses}});
  }

  absl::StatusOr<std::unique_ptr<Cluster>> Start(ClusterResolver& resolver, int workers,
                                                 const std::string& what = "sum") {
    launcher_ = std::make_unique<AdoptingLauncher>(resolver, launcher_options_);
    NodeProgram program = NodeProgram::File(
        absl::StrCat(::getenv("TEST_SRCDIR"), "/millrace/core/cluster/cluster_test_node"));
    program.Args({what});
    options_.num_executors = workers;
    return Cluster::Run(*launcher_, program, options_);
  }
  // Waits until the slot runs with at least this attempt.
  static bool RunsAgain(const Cluster& cluster, int executor_id, uint32_t attempt) {
    return Eventually([&] {
      const SlotStatus slot = cluster.Status().slots[executor_id];
      return slot.attempt >= attempt && slot.state == SlotState::kRunning;
    });
  }
  // Waits until the launcher has heard the resolver's present answer.
  static bool AskedAgain(const ScriptedResolver& resolver) {
    const int asked = resolver.asked();
    return Eventually([&] { return resolver.asked() != asked; });
  }
  double sum(const std::string& name) {
    MutexLock lock(&mu_);
    return sums_[name];
  }

  const TempDir dir_;
  std::string secret_;
  int next_host_ = 2;
  ClusterOptions options_;
  AdoptingLauncherOptions launcher_options_;
  std::unique_ptr<AdoptingLauncher> launcher_;  // outlives the clusters of a test
  Mutex mu_;
  std::map<std::string, int64_t> steps_ ABSL_GUARDED_BY(mu_);
  std::map<std::string, double> sums_ ABSL_GUARDED_BY(mu_);
};

TEST_F(AdoptedClusterTest, TrainsOnAgentsThatListenAndLeavesThemFreeForTheNext) {
  const auto first = StartAgent();
  const auto second = StartAgent();
  ScriptedResolver resolver(Workers({first->address(), second->address()}));
  for (int round = 1; round <= 2; ++round) {
    auto cluster = Start(resolver, 2);
    ASSERT_THAT(cluster, IsOk());
    const ClusterStatus status = (*cluster)->Status();
    ASSERT_THAT(status.slots, SizeIs(2));
    EXPECT_THAT(status.slots[0].address, StartsWith("127.0.0.2:"));
    EXPECT_THAT(status.slots[1].address, StartsWith("127.0.0.3:"));
    ASSERT_THAT((*cluster)->Train(Rows(1000, 4), {.end_of_feed = true}), IsOk());
    EXPECT_THAT((*cluster)->Shutdown(), IsOk());
    EXPECT_EQ(sum("sum"), round * 999.0 * 1000 / 2);
    EXPECT_THAT(first->WaitFor("adopted as executor 0 of cluster", kLong), IsOk());
    EXPECT_THAT(first->WaitFor("free again", kLong), IsOk());
    EXPECT_THAT(second->WaitFor("free again", kLong), IsOk());
  }
}

TEST_F(AdoptedClusterTest, ANodeWhoseAgentDiedStartsAgainWhereTheResolverSays) {
  options_.failure.restart.max_restarts = 2;
  const auto first = StartAgent();
  const auto second = StartAgent();
  const auto third = StartAgent();
  ScriptedResolver resolver(Workers({first->address(), second->address()}));
  auto cluster = Start(resolver, 2);
  ASSERT_THAT(cluster, IsOk());
  second->process().Kill(SIGKILL);
  resolver.Answer(Workers({first->address(), third->address()}));
  ASSERT_TRUE(RunsAgain(**cluster, 1, 1));
  EXPECT_THAT((*cluster)->Status().slots[1].address, StartsWith("127.0.0.4:"));
  EXPECT_EQ((*cluster)->Status().slots[0].attempt, 0u);
  ASSERT_THAT((*cluster)->Train(Rows(1000, 4), {.end_of_feed = true}), IsOk());
  EXPECT_THAT((*cluster)->Shutdown(), IsOk());
  EXPECT_EQ(sum("sum"), 999.0 * 1000 / 2);
}

// As a pod is deleted: its agent gets SIGTERM, its node goes with it, and the next is elsewhere.
TEST_F(AdoptedClusterTest, AnAgentThatIsToldToEndTakesItsNodeAlongAndAnotherTakesOver) {
  options_.failure.restart.max_restarts = 2;
  const auto first = StartAgent();
  auto second = StartAgent();
  ScriptedResolver resolver(Workers({first->address(), second->address()}));
  auto cluster = Start(resolver, 2);
  ASSERT_THAT(cluster, IsOk());
  second->process().Kill(SIGTERM);
  const auto ended = second->process().Wait(kLong);
  ASSERT_THAT(ended, IsOk());
  EXPECT_EQ(ended->code, 0);
  const auto third = StartAgent();
  resolver.Answer(Workers({first->address(), third->address()}));
  ASSERT_TRUE(RunsAgain(**cluster, 1, 1));
  EXPECT_THAT((*cluster)->Status().slots[1].address, StartsWith("127.0.0.4:"));
  EXPECT_THAT((*cluster)->EndFeed(), IsOk());
  EXPECT_THAT((*cluster)->Shutdown(), IsOk());
}

TEST_F(AdoptedClusterTest, WithoutRestartsTheEndOfAnAgentIsTheClustersFailure) {
  const auto first = StartAgent();
  const auto second = StartAgent();
  ScriptedResolver resolver(Workers({first->address(), second->address()}));
  auto cluster = Start(resolver, 2, "wait");
  ASSERT_THAT(cluster, IsOk());
  second->process().Kill(SIGTERM);
  const auto wait = (*cluster)->Train(Rows(10, 1));
  EXPECT_FALSE(wait.ok());
  EXPECT_THAT(std::string((*cluster)->Shutdown().message()), HasSubstr("worker:1"));
  EXPECT_THAT(first->WaitFor("free again", kLong), IsOk());
}

TEST_F(AdoptedClusterTest, AMemberThatMovesWhileItsAgentLivesIsMovedOnceTheResolverHasSettled) {
  options_.failure.restart.max_restarts = 2;
  launcher_options_.adoption.settle = absl::Milliseconds(300);
  const auto first = StartAgent();
  const auto second = StartAgent();
  const auto third = StartAgent();
  ScriptedResolver resolver(Workers({first->address(), second->address()}));
  auto cluster = Start(resolver, 2);
  ASSERT_THAT(cluster, IsOk());
  resolver.Answer(Workers({first->address(), third->address()}));
  EXPECT_THAT(second->WaitFor("free again", kLong), IsOk());
  ASSERT_TRUE(RunsAgain(**cluster, 1, 1));
  EXPECT_THAT((*cluster)->Status().slots[1].address, StartsWith("127.0.0.4:"));
  EXPECT_THAT((*cluster)->Shutdown(), IsOk());
}

TEST_F(AdoptedClusterTest, AResolverThatFlapsMovesNothing) {
  options_.failure.restart.max_restarts = 5;
  launcher_options_.adoption.settle = absl::Seconds(60);
  const auto first = StartAgent();
  const auto second = StartAgent();
  const auto third = StartAgent();
  const ClusterSpec here = Workers({first->address(), second->address()});
  ScriptedResolver resolver(here);
  auto cluster = Start(resolver, 2);
  ASSERT_THAT(cluster, IsOk());
  const std::vector<absl::StatusOr<ClusterSpec>> answers = {
      Workers({first->address(), third->address()}),
      absl::UnavailableError("the API server is away"), here};
  for (int round = 0; round < 10; ++round) {
    for (const absl::StatusOr<ClusterSpec>& answer : answers) {
      resolver.Answer(answer);
      ASSERT_TRUE(AskedAgain(resolver));
    }
  }
  ASSERT_THAT((*cluster)->Train(Rows(1000, 4), {.end_of_feed = true}), IsOk());
  EXPECT_THAT((*cluster)->Shutdown(), IsOk());
  EXPECT_EQ(sum("sum"), 999.0 * 1000 / 2);
  EXPECT_EQ((*cluster)->Status().slots[1].attempt, 0u);
}

TEST_F(AdoptedClusterTest, AClusterWaitsForAgentsThatAnotherOneHas) {
  const auto first = StartAgent();
  const auto second = StartAgent();
  ScriptedResolver resolver(Workers({first->address(), second->address()}));
  auto cluster = Start(resolver, 2, "wait");
  ASSERT_THAT(cluster, IsOk());

  AdoptingLauncherOptions impatient = launcher_options_;
  impatient.adoption.wait_when_busy = false;
  AdoptingLauncher refused(resolver, impatient);
  const auto second_cluster = Cluster::Run(refused, NodeProgram::Path("true"), options_);
  EXPECT_EQ(second_cluster.status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(second_cluster.status().message()),
              AllOf(HasSubstr(" is taken: "), HasSubstr((*cluster)->cluster_id())));

  absl::StatusOr<std::unique_ptr<Cluster>> third = absl::UnknownError("");
  AwaitingLauncher waiting(resolver, launcher_options_);
  ClusterOptions direct = options_;
  direct.input_mode = InputMode::kDirect;
  {
    const Thread starter("starter",
                         [&] { third = Cluster::Run(waiting, NodeProgram::Path("true"), direct); });
    EXPECT_TRUE(waiting.WaitRefused());
    EXPECT_THAT((*cluster)->Shutdown({.grace = absl::ZeroDuration()}),
                StatusIs(absl::StatusCode::kDeadlineExceeded, HasSubstr("worker:1")));
  }
  ASSERT_THAT(third, IsOk());
  EXPECT_THAT((*third)->Shutdown(), IsOk());
}

// ---- what is wrong is said in one line ----

TEST_F(AdoptedClusterTest, AnAgentWithAnotherSecretIsNotSpokenTo) {
  secret_ = WriteSecret("other.json");
  const auto agent = StartAgent();
  ScriptedResolver resolver(Workers({agent->address()}));
  const auto cluster = Start(resolver, 1);
  EXPECT_EQ(cluster.status().code(), absl::StatusCode::kPermissionDenied);
  EXPECT_THAT(std::string(cluster.status().message()),
              AllOf(HasSubstr(agent->address()), HasSubstr("does not have the certificate")));
}

TEST_F(AdoptedClusterTest, ASecretThatExpiresSoonIsToldToWhoMayCallTheLauncher) {
  ASSERT_THAT(WriteAgentSecretFile(secret_, *MakeAgentSecret(absl::Hours(24 * 7))), IsOk());
  const auto agent = StartAgent();
  ScriptedResolver resolver(Workers({agent->address()}));
  absl::Status asked;
  Notification told;
  launcher_options_.on_note = [&](const std::string& line) {
    if (!absl::StrContains(line, "expires on ") || told.HasBeenNotified()) return;
    asked = launcher_->Relaunch({.executor_id = 7});  // it has no such slot
    told.Notify();
  };
  const auto cluster = Start(resolver, 1);
  ASSERT_THAT(cluster, IsOk());
  ASSERT_TRUE(told.WaitForNotificationWithTimeout(kLong));
  EXPECT_THAT(asked, IsOk());
}

TEST_F(AdoptedClusterTest, ADriverWithAnotherTokenIsRefused) {
  const auto agent = StartAgent();
  AgentSecret secret = *ReadAgentSecret({.file = secret_});
  secret.token = MakeAgentSecret()->token;
  ASSERT_THAT(WriteAgentSecretFile(JoinPath(dir_.path(), "token.json"), secret), IsOk());
  launcher_options_.secret.file = JoinPath(dir_.path(), "token.json");
  ScriptedResolver resolver(Workers({agent->address()}));
  const auto cluster = Start(resolver, 1);
  EXPECT_EQ(cluster.status().code(), absl::StatusCode::kUnauthenticated);
  EXPECT_THAT(std::string(cluster.status().message()), HasSubstr("refused this driver"));
}

TEST_F(AdoptedClusterTest, WhereNobodyListensTheTimeoutSaysSo) {
  const auto agent = StartAgent();
  options_.reservation_timeout = absl::Seconds(2);
  ScriptedResolver resolver(Workers({agent->address(), "127.0.0.9:1"}));
  const auto cluster = Start(resolver, 2);
  EXPECT_EQ(cluster.status().code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_THAT(std::string(cluster.status().message()),
              AllOf(HasSubstr("worker:1"), HasSubstr("nobody listens on 127.0.0.9:1")));
}

TEST_F(AdoptedClusterTest, FewerMembersThanTheClusterHasAreNamed) {
  const auto agent = StartAgent();
  options_.reservation_timeout = absl::Seconds(1);
  ScriptedResolver resolver(Workers({agent->address()}));
  const auto waited = Start(resolver, 2);
  EXPECT_EQ(waited.status().code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_THAT(std::string(waited.status().message()),
              HasSubstr("the resolver names no worker:1; it names 1 of job worker"));
  launcher_options_.adoption.fixed_members = true;
  const auto refused = Start(resolver, 2);
  EXPECT_EQ(refused.status().code(), absl::StatusCode::kFailedPrecondition);
}

TEST_F(AdoptedClusterTest, AnAddressThatIsGivenTwiceIsRefused) {
  const auto agent = StartAgent();
  ScriptedResolver resolver(Workers({agent->address(), agent->address()}));
  const auto cluster = Start(resolver, 2);
  EXPECT_EQ(cluster.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(cluster.status().message()), HasSubstr("an agent serves one"));
}

TEST_F(AdoptedClusterTest, AResolverThatFailsIsWaitedForAndOneThatRefusesIsNot) {
  const auto agent = StartAgent();
  ScriptedResolver resolver(absl::UnavailableError("the API server is away"));
  options_.reservation_timeout = absl::Seconds(1);
  const auto waited = Start(resolver, 1);
  EXPECT_EQ(waited.status().code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_THAT(std::string(waited.status().message()), HasSubstr("the API server is away"));
  resolver.Answer(absl::PermissionDeniedError("no right to list pods"));
  options_.reservation_timeout = kLong;
  const auto refused = Start(resolver, 1);
  EXPECT_EQ(refused.status().code(), absl::StatusCode::kPermissionDenied);
  EXPECT_THAT(std::string(refused.status().message()), HasSubstr("no right to list pods"));
}

TEST_F(AdoptedClusterTest, ASecretThatWasReplacedIsTakenAndTheOldOneRefused) {
  const auto agent = StartAgent();
  const AgentSecret old = *ReadAgentSecret({.file = secret_});
  ASSERT_THAT(WriteAgentSecretFile(JoinPath(dir_.path(), "old.json"), old), IsOk());
  ScriptedResolver resolver(Workers({agent->address()}));
  options_.input_mode = InputMode::kDirect;
  auto running = Start(resolver, 1, "wait");
  ASSERT_THAT(running, IsOk());
  WriteSecret("secret.json");
  ASSERT_THAT(agent->WaitFor("the secret was replaced", kLong), IsOk());
  EXPECT_EQ((*running)->Status().slots[0].attempt, 0u);
  EXPECT_THAT((*running)->Shutdown({.timeout = absl::Milliseconds(1)}),
              StatusIs(absl::StatusCode::kDeadlineExceeded, HasSubstr("worker:0")));

  auto next = Start(resolver, 1, "describe");
  ASSERT_THAT(next, IsOk());
  EXPECT_THAT((*next)->Shutdown(), IsOk());
  launcher_options_.secret.file = JoinPath(dir_.path(), "old.json");
  EXPECT_EQ(Start(resolver, 1).status().code(), absl::StatusCode::kPermissionDenied);
}

TEST_F(AdoptedClusterTest, AnAgentOfAVersionTooFarAwayIsGivenBackBeforeItStartsAnything) {
  OtherAgent agent(*ReadAgentSecret({.file = secret_}), "9.9.9");
  ScriptedResolver resolver(Workers({agent.address()}));
  const auto cluster = Start(resolver, 1);
  EXPECT_EQ(cluster.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(cluster.status().message()),
              AllOf(HasSubstr("the agent on host-3 is version 9.9.9 of Millrace and this driver "),
                    HasSubstr("install the same version on both")));
  EXPECT_FALSE(agent.started().HasBeenNotified());
}

TEST_F(AdoptedClusterTest, AnAgentThatNamesNoVersionIsTaken) {
  OtherAgent agent(*ReadAgentSecret({.file = secret_}), "");
  ScriptedResolver resolver(Workers({agent.address()}));
  options_.reservation_timeout = absl::Seconds(2);
  EXPECT_EQ(Start(resolver, 1).status().code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_TRUE(agent.started().HasBeenNotified());
}

}  // namespace
}  // namespace millrace
