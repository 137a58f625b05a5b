#include "millrace/cluster_server.h"

#include <arpa/inet.h>
#include <grpcpp/client_context.h>
#include <grpcpp/create_channel.h>
#include <grpcpp/security/credentials.h>
#include <grpcpp/server_context.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <sys/socket.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "core/base/json.h"
#include "core/base/mutex.h"
#include "core/base/status_matchers.h"
#include "core/base/thread.h"
#include "core/base/unique_fd.h"
#include "core/node/cluster_server_test.grpc.pb.h"
#include "core/node/fake_agent_channel.h"
#include "core/node/node_config.h"
#include "core/node/node_context.h"
#include "core/node/test_certificates.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "millrace/cluster_spec.h"
#include "millrace/node.h"

namespace millrace {
namespace {

using cluster_server_test::Parameters;
using cluster_server_test::Tensor;
using ::testing::HasSubstr;

sockaddr_in Loopback(int port) {
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(static_cast<uint16_t>(port));
  return address;
}

// A port held as an agent holds it: bound alone, then shared, not listening.
struct Reservation {
  UniqueFd fd;
  int port = 0;

  Reservation() : fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address = Loopback(0);
    socklen_t size = sizeof(address);
    EXPECT_EQ(::bind(fd.get(), reinterpret_cast<sockaddr*>(&address), size), 0);
    EXPECT_EQ(::getsockname(fd.get(), reinterpret_cast<sockaddr*>(&address), &size), 0);
    port = ntohs(address.sin_port);
    Share();
  }
  void Share() const {
    const int on = 1;
    EXPECT_EQ(::setsockopt(fd.get(), SOL_SOCKET, SO_REUSEPORT, &on, sizeof(on)), 0);
  }
};

bool CanConnect(int port) {
  const UniqueFd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const sockaddr_in address = Loopback(port);
  return ::connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0;
}

class ParametersService final : public Parameters::Service {
 public:
  grpc::Status Get(grpc::ServerContext*, const Tensor* request, Tensor* reply) override {
    ++calls;
    *reply = *request;
    return grpc::Status::OK;
  }
  grpc::Status Wait(grpc::ServerContext* context, const Tensor*, Tensor*) override {
    waiting.Notify();
    // The synchronous API tells of cancellation by polling only.
    while (!context->IsCancelled()) woken_never_.WaitForNotificationWithTimeout(kTick);
    cancelled.Notify();
    return grpc::Status::CANCELLED;
  }
  std::atomic<int> calls{0};
  Notification waiting;
  Notification cancelled;

 private:
  static constexpr absl::Duration kTick = absl::Milliseconds(2);
  Notification woken_never_;
};

// A node with its agent, and the agent's hold of its port.
struct Node {
  FakeAgentChannel agent;
  Reservation agents_hold;
  std::unique_ptr<NodeContext> context;

  // The port's number is given to the node only if `held`.
  void Start(NodeConfig config, bool held) {
    if (held) {
      config.port_fd = ::dup(agents_hold.fd.get());
      agent.Answer("release_port", [this](const Json&) {
        served_while_held = CanConnect(agents_hold.port);
        agents_hold.fd.reset();
        return Json::object();
      });
    } else {
      agents_hold.fd.reset();
    }
    absl::StatusOr<std::unique_ptr<NodeContext>> created =
        CreateNodeContext(std::move(config), agent.TakeNodeEnd(), [](const absl::Status&) {});
    ASSERT_THAT(created, IsOk());
    context = *std::move(created);
  }
  std::atomic<bool> served_while_held{false};
};

class ClusterServerTest : public testing::Test {
 protected:
  NodeConfig Config(const std::string& job, const Node& node) const {
    NodeConfig config;
    config.job_name = job;
    config.epoch = 1;
    config.cluster_spec =
        *ClusterSpec::Create({{"ps", ClusterSpec::TaskList{Address(ps_)}},
                              {"worker", ClusterSpec::TaskList{Address(worker_)}}});
    config.address = Address(node);
    config.port = node.agents_hold.port;
    config.tls = ca_.Issue(absl::StrCat(job, "-0.node.millrace"));
    return config;
  }
  static std::string Address(const Node& node) {
    return absl::StrCat("127.0.0.1:", node.agents_hold.port);
  }
  void StartPs(bool held = true) { ps_.Start(Config("ps", ps_), held); }
  void StartWorker() { worker_.Start(Config("worker", worker_), true); }
  void Serve() {
    absl::StatusOr<std::unique_ptr<ClusterServer>> server =
        StartClusterServer(*ps_.context, {&service_});
    ASSERT_THAT(server, IsOk());
    server_ = *std::move(server);
  }
  std::unique_ptr<Parameters::Stub> StubOfWorker() {
    const auto channel = ConnectToNode(*worker_.context, "ps", 0);
    EXPECT_THAT(channel, IsOk());
    return Parameters::NewStub(*channel);
  }
  static grpc::Status Get(Parameters::Stub* stub, const std::string& data, bool wait = false) {
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + std::chrono::minutes(1));
    context.set_wait_for_ready(wait);
    Tensor request;
    request.set_data(data);
    Tensor reply;
    const grpc::Status status = stub->Get(&context, request, &reply);
    EXPECT_EQ(reply.data(), status.ok() ? data : "");
    return status;
  }
  static void ExpectOk(const grpc::Status& status) {
    EXPECT_TRUE(status.ok()) << status.error_code() << ": " << status.error_message();
  }
  // The server takes the call of nobody who looks like this.
  void ExpectRefused(const grpc::SslCredentialsOptions& tls) {
    grpc::ChannelArguments arguments;
    arguments.SetSslTargetNameOverride("ps-0.node.millrace");
    const auto stub = Parameters::NewStub(
        grpc::CreateCustomChannel(Address(ps_), grpc::SslCredentials(tls), arguments));
    const grpc::Status status = Get(stub.get(), "x");
    EXPECT_EQ(status.error_code(), grpc::UNAVAILABLE) << status.error_message();
    EXPECT_EQ(service_.calls, 0);
  }

  TestCertificateAuthority ca_;
  Node ps_;
  Node worker_;
  ParametersService service_;
  std::unique_ptr<ClusterServer> server_;
};

TEST_F(ClusterServerTest, ServesOnTheReservedPortAndThenReleasesIt) {
  StartPs();
  StartWorker();
  Serve();
  EXPECT_EQ(server_->port(), ps_.agents_hold.port);
  EXPECT_TRUE(ps_.served_while_held);
  EXPECT_EQ(ps_.context->port_fd(), -1);
  EXPECT_FALSE(ps_.agents_hold.fd.valid());
  const auto stub = StubOfWorker();
  ExpectOk(Get(stub.get(), "hello"));
  EXPECT_EQ(service_.calls, 1);
}

TEST_F(ClusterServerTest, ServesWhereThePortWasReleasedBefore) {
  StartPs(/*held=*/false);
  StartWorker();
  Serve();
  ExpectOk(Get(StubOfWorker().get(), "hello"));
}

TEST_F(ClusterServerTest, IsReachedByAPeerThatCalledTooEarly) {
  StartPs();
  StartWorker();
  const auto stub = StubOfWorker();
  EXPECT_EQ(Get(stub.get(), "x").error_code(), grpc::UNAVAILABLE);
  Serve();
  ExpectOk(Get(stub.get(), "x", /*wait=*/true));
}

TEST_F(ClusterServerTest, MayTakeItsTimeForTheHandshake) {
  StartPs();
  StartWorker();
  // Connections are taken, and nobody answers.
  ASSERT_EQ(::listen(ps_.agents_hold.fd.get(), 1), 0);
  const auto stub = StubOfWorker();
  grpc::ClientContext context;  // does not wait for ready: a failed attempt is UNAVAILABLE
  context.set_deadline(std::chrono::system_clock::now() + std::chrono::milliseconds(500));
  Tensor reply;
  EXPECT_EQ(stub->Get(&context, Tensor(), &reply).error_code(), grpc::DEADLINE_EXCEEDED);
}

TEST_F(ClusterServerTest, IsReachedWithoutTheProxyOfTheEnvironment) {
  const UniqueFd nobody(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));  // does not listen
  sockaddr_in address = Loopback(0);
  socklen_t size = sizeof(address);
  ASSERT_EQ(::bind(nobody.get(), reinterpret_cast<sockaddr*>(&address), size), 0);
  ASSERT_EQ(::getsockname(nobody.get(), reinterpret_cast<sockaddr*>(&address), &size), 0);
  for (const char* exception : {"no_grpc_proxy", "no_proxy"}) ::unsetenv(exception);
  ::setenv("grpc_proxy", absl::StrCat("http://127.0.0.1:", ntohs(address.sin_port)).c_str(), 1);
  StartPs();
  StartWorker();
  Serve();
  ExpectOk(Get(StubOfWorker().get(), "hello"));
  ::unsetenv("grpc_proxy");
}

TEST_F(ClusterServerTest, TakesMessagesUpToTheLimitOnly) {
  StartPs();
  StartWorker();
  absl::StatusOr<std::unique_ptr<ClusterServer>> server =
      StartClusterServer(*ps_.context, {&service_}, {.max_message_bytes = 8 << 20});
  ASSERT_THAT(server, IsOk());
  server_ = *std::move(server);
  const auto stub = StubOfWorker();
  ExpectOk(Get(stub.get(), std::string(7 << 20, 'x')));  // gRPC's own limit is 4 MiB
  EXPECT_EQ(Get(stub.get(), std::string(9 << 20, 'x')).error_code(), grpc::RESOURCE_EXHAUSTED);
}

// ---- who is let in ------------------------------------------------------------------------------

TEST_F(ClusterServerTest, RefusesAClientWithoutACertificate) {
  StartPs();
  Serve();
  grpc::SslCredentialsOptions tls;
  tls.pem_root_certs = ca_.ca_pem();
  ExpectRefused(tls);
}

TEST_F(ClusterServerTest, RefusesAClientOfAnotherCluster) {
  StartPs();
  Serve();
  const TestCertificateAuthority other;
  const NodeTls foreign = other.Issue("worker-0.node.millrace");
  grpc::SslCredentialsOptions tls;
  tls.pem_root_certs = ca_.ca_pem();
  tls.pem_cert_chain = foreign.certificate;
  tls.pem_private_key = foreign.key;
  ExpectRefused(tls);
}

TEST_F(ClusterServerTest, RefusesAClientThatDoesNotEncrypt) {
  StartPs();
  Serve();
  const auto stub =
      Parameters::NewStub(grpc::CreateChannel(Address(ps_), grpc::InsecureChannelCredentials()));
  EXPECT_EQ(Get(stub.get(), "x").error_code(), grpc::UNAVAILABLE);
  EXPECT_EQ(service_.calls, 0);
}

TEST_F(ClusterServerTest, IsNotCalledUnderTheNameOfAnotherNode) {
  NodeConfig config = Config("ps", ps_);
  config.tls = ca_.Issue("ps-1.node.millrace");  // of this cluster, but not ps:0
  ps_.Start(config, true);
  StartWorker();
  Serve();
  const grpc::Status status = Get(StubOfWorker().get(), "x");
  EXPECT_EQ(status.error_code(), grpc::UNAVAILABLE) << status.error_message();
  EXPECT_EQ(service_.calls, 0);
}

TEST_F(ClusterServerTest, IsNotCalledByNodesOfAnotherCluster) {
  const TestCertificateAuthority other;
  NodeConfig config = Config("ps", ps_);
  config.tls = other.Issue("ps-0.node.millrace");
  ps_.Start(config, true);
  StartWorker();
  Serve();
  EXPECT_EQ(Get(StubOfWorker().get(), "x").error_code(), grpc::UNAVAILABLE);
  EXPECT_EQ(service_.calls, 0);
}

// ---- errors -------------------------------------------------------------------------------------

TEST_F(ClusterServerTest, SaysThatThePortWasTaken) {
  // A stranger who would share: connections would be dealt between him and us.
  for (const bool shares : {false, true}) {
    Node node;
    const UniqueFd stranger(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    node.Start(Config("ps", node), /*held=*/false);
    const int on = 1;
    if (shares) {
      ASSERT_EQ(::setsockopt(stranger.get(), SOL_SOCKET, SO_REUSEPORT, &on, sizeof(on)), 0);
    }
    const sockaddr_in address = Loopback(node.agents_hold.port);
    ASSERT_EQ(::bind(stranger.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)),
              0);
    ASSERT_EQ(::listen(stranger.get(), 1), 0);
    EXPECT_THAT(StartClusterServer(*node.context, {&service_}),
                StatusIs(absl::StatusCode::kUnavailable,
                         absl::StrCat("ps:0 cannot serve on its port ", node.agents_hold.port,
                                      ": another process has taken it; run the cluster with "
                                      "release_port = false")));
  }
}

TEST_F(ClusterServerTest, KeepsTheReservationWhenItCannotServe) {
  NodeConfig config = Config("ps", ps_);
  config.tls.certificate = "no PEM";
  ps_.Start(config, true);
  EXPECT_THAT(StartClusterServer(*ps_.context, {&service_}),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("certificate or the key")));
  EXPECT_GE(ps_.context->port_fd(), 0);
  EXPECT_TRUE(ps_.agents_hold.fd.valid());
}

TEST_F(ClusterServerTest, NeedsACertificate) {
  NodeConfig config = Config("ps", ps_);
  config.tls = {};
  ps_.Start(config, true);
  const auto refused =
      StatusIs(absl::StatusCode::kFailedPrecondition,
               "ps:0 has no certificate: its agent did not give it one in the context file");
  EXPECT_THAT(StartClusterServer(*ps_.context, {&service_}), refused);
  EXPECT_THAT(ConnectToNode(*ps_.context, "ps", 0), refused);
}

TEST_F(ClusterServerTest, RefusesWhatMakesNoSense) {
  StartPs();
  EXPECT_THAT(StartClusterServer(*ps_.context, {}), StatusIs(absl::StatusCode::kInvalidArgument));
  EXPECT_THAT(ConnectToNode(*ps_.context, "ps", 1), StatusIs(absl::StatusCode::kNotFound));
  EXPECT_THAT(ConnectToNode(*ps_.context, "evaluator", 0), StatusIs(absl::StatusCode::kNotFound));
}

// ---- the end ------------------------------------------------------------------------------------

TEST_F(ClusterServerTest, SeesTheClientsDeadline) {
  StartPs();
  StartWorker();
  Serve();
  const auto stub = StubOfWorker();
  ExpectOk(Get(stub.get(), "connects"));
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + std::chrono::milliseconds(300));
  Tensor reply;
  EXPECT_EQ(stub->Wait(&context, Tensor(), &reply).error_code(), grpc::DEADLINE_EXCEEDED);
  EXPECT_TRUE(service_.cancelled.WaitForNotificationWithTimeout(absl::Minutes(1)));
}

TEST_F(ClusterServerTest, EndsCallsWhenItIsShutDown) {
  StartPs();
  StartWorker();
  Serve();
  const auto stub = StubOfWorker();
  grpc::Status status;
  Thread caller("caller", [&] {
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + std::chrono::minutes(1));
    Tensor reply;
    status = stub->Wait(&context, Tensor(), &reply);
  });
  ASSERT_TRUE(service_.waiting.WaitForNotificationWithTimeout(absl::Minutes(1)));
  server_->Shutdown();
  EXPECT_TRUE(service_.cancelled.HasBeenNotified());  // no handler runs any more
  caller.Join();
  EXPECT_TRUE(status.error_code() == grpc::UNAVAILABLE || status.error_code() == grpc::CANCELLED)
      << status.error_code();
  EXPECT_EQ(Get(stub.get(), "x").error_code(), grpc::UNAVAILABLE);
  server_->Shutdown(absl::InfiniteDuration());  // again, and there is nothing to wait for
  server_.reset();
}

}  // namespace
}  // namespace millrace
