// Strangers at every port of a cluster: it goes on working, and trains to the end meanwhile.

#include <grpcpp/grpcpp.h>

#include <atomic>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "core/base/mutex.h"
#include "core/base/status_matchers.h"
#include "core/base/thread.h"
#include "core/proto/coordinator.grpc.pb.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "millrace/batch.h"
#include "testing/faults/fault_test.h"
#include "testing/faults/hostile_client.h"
#include "testing/faults/rows.h"

namespace millrace::faults {
namespace {

using ::testing::AnyOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

// A launcher that remembers what it was given: the way to address, CA and token.
class TicketLauncher : public Launcher {
 public:
  absl::Status Launch(const std::vector<AgentTicket>& tickets, Events events) override {
    ticket_ = tickets.at(0);
    return launcher_.Launch(tickets, std::move(events));
  }
  void Stop(absl::Duration grace) override { launcher_.Stop(grace); }
  [[nodiscard]] std::string DriverBindAddress() const override {
    return launcher_.DriverBindAddress();
  }

  [[nodiscard]] const AgentTicket& ticket() const { return ticket_; }

 private:
  LocalLauncher launcher_;
  AgentTicket ticket_;
};

class HostileBytesTest : public FaultTest {
 protected:
  void SetUp() override {
    ClusterOptions options = Options(3);
    options.num_ps = 1;
    auto cluster = Cluster::Run(tickets_, Program(), options);
    ASSERT_THAT(cluster, IsOk());
    cluster_ = *std::move(cluster);
    // The ps asks for nothing before it listens.
    ASSERT_TRUE(log_.WaitForLine("ps:0", "serving"));
    // Every node has published where it is fed.
    ASSERT_THAT(cluster_->Train(RowSource(10, 2)), IsOk());
  }

  void TearDown() override {
    if (cluster_ != nullptr) {
      EXPECT_THAT(cluster_->Train(RowSource(1000, 4), {.end_of_feed = true}), IsOk());
      ExpectInfersInOrder();
      EXPECT_THAT(cluster_->Shutdown({.timeout = kPatience}), IsOk());
    }
    cluster_.reset();
    FaultTest::TearDown();
  }

  void ExpectInfersInOrder() {
    auto result = cluster_->Inference(std::make_shared<MemorySource>(RowSource(500, 4)),
                                      {.feed_timeout = kPatience});
    ASSERT_THAT(result, IsOk());
    int64_t next = 0;
    EXPECT_THAT(result->ForEach([&next](int, const RecordBatch& batch) {
      for (const int64_t value : Batch::Create(batch)->column<int64_t>("doubled")) {
        EXPECT_EQ(value, 2 * next++);
      }
      return absl::OkStatus();
    }),
                IsOk());
    EXPECT_EQ(next, 500);
  }

  // The status of a call over `credentials` with `authorization` ("": no such metadata).
  grpc::Status Call(const std::shared_ptr<grpc::ChannelCredentials>& credentials,
                    const std::string& authorization) const {
    grpc::ChannelArguments arguments;
    arguments.SetSslTargetNameOverride("millrace");
    const auto channel =
        grpc::CreateCustomChannel(cluster_->server_address(), credentials, arguments);
    const auto stub = v1::Coordinator::NewStub(channel);
    grpc::ClientContext context;
    if (!authorization.empty()) context.AddMetadata("authorization", authorization);
    context.set_deadline(absl::ToChronoTime(absl::Now() + kPatience));
    v1::ClusterStatus reply;
    return stub->GetStatus(&context, v1::GetStatusRequest(), &reply);
  }

  std::shared_ptr<grpc::ChannelCredentials> Tls(const std::string& ca_pem,
                                                const std::string& identity_pem) const {
    grpc::SslCredentialsOptions options;
    options.pem_root_certs = ca_pem;
    options.pem_private_key = identity_pem;
    options.pem_cert_chain = identity_pem;
    return grpc::SslCredentials(options);
  }

  TicketLauncher tickets_;
  std::unique_ptr<Cluster> cluster_;
};

TEST_F(HostileBytesTest, EveryPortOfAClusterIsKnown) {
  std::map<std::string, int> counts;
  for (const BoundSocket& socket : leaks_.Sockets()) {
    ++counts[socket.kind == BoundSocket::Kind::kTcp ? "tcp" : "abstract"];
  }
  // Coordinator, feeder's replies, two feeds (PLAIN, CURVE) of each of two workers, the ps;
  // feeder's replies, two workers' feeds.
  EXPECT_EQ(counts["tcp"], 7);
  EXPECT_EQ(counts["abstract"], 3);
  // Nothing here is open to other hosts.
  for (const BoundSocket& socket : leaks_.Sockets()) {
    EXPECT_THAT(socket.address, AnyOf(HasSubstr("127.0.0.1"), HasSubstr("@millrace-")));
  }
}

TEST_F(HostileBytesTest, CallsWithoutTlsOrCertificateOrTokenAreRefused) {
  const std::string& token = tickets_.ticket().token;
  const std::string& ca_pem = tickets_.ticket().ca_pem;
  const std::string& identity = tickets_.ticket().identity_pem;
  EXPECT_EQ(Call(grpc::InsecureChannelCredentials(), absl::StrCat("Bearer ", token)).error_code(),
            grpc::StatusCode::UNAVAILABLE);
  EXPECT_EQ(Call(Tls("", identity), absl::StrCat("Bearer ", token)).error_code(),
            grpc::StatusCode::UNAVAILABLE);  // another CA
  EXPECT_EQ(Call(Tls(ca_pem, ""), absl::StrCat("Bearer ", token)).error_code(),
            grpc::StatusCode::UNAVAILABLE);  // the handshake ends
  for (const std::string& wrong : {std::string(), std::string("Bearer "), token,
                                   absl::StrCat("Bearer ", token, "0"), std::string("Bearer 00")}) {
    EXPECT_EQ(Call(Tls(ca_pem, identity), wrong).error_code(), grpc::StatusCode::UNAUTHENTICATED)
        << wrong;
  }
  // Known, but not for this.
  EXPECT_EQ(Call(Tls(ca_pem, identity), absl::StrCat("Bearer ", token)).error_code(),
            grpc::StatusCode::PERMISSION_DENIED);
}

TEST_F(HostileBytesTest, StrangersAtEveryPortDoNotDisturbTraining) {
  const std::vector<BoundSocket> sockets = leaks_.Sockets();
  ASSERT_THAT(sockets, Not(IsEmpty()));
  std::atomic<bool> over{false};
  std::atomic<int> thrown{0};
  Notification all_once;
  Thread thrower("thrower", [&] {
    std::vector<HostileConnection> kept;
    do {
      for (const BoundSocket& socket : sockets) {
        for (const HostileAttack& attack : HostileAttacks()) {
          auto connection = HostileConnection::Connect(socket);
          ASSERT_THAT(connection, IsOk()) << attack.name;
          connection->Send(attack.bytes);
          connection->Drain();
          ++thrown;
          // The first of each stays open to the end: half-open handshakes must cost others nothing.
          if (!all_once.HasBeenNotified()) kept.push_back(*std::move(connection));
        }
      }
      all_once.Notify();
    } while (!over);
  });
  // From the first attack on, and until each has been made at every port.
  int64_t rows = 0;
  do {
    const auto result = cluster_->Train(RowSource(5000, 8), {.feed_timeout = kPatience});
    EXPECT_THAT(result, IsOk());
    if (!result.ok()) break;
    rows += result->rows;
  } while (!all_once.HasBeenNotified());
  over = true;
  thrower.Join();
  EXPECT_EQ(rows % 5000, 0);
  EXPECT_GE(thrown, static_cast<int>(sockets.size() * HostileAttacks().size()));
  for (const SlotStatus& slot : cluster_->Status().slots) {
    EXPECT_EQ(slot.state, SlotState::kRunning) << slot.role.ToString();
  }
}

// Each attack at each port, one by one, and the cluster asked after each port.
TEST_F(HostileBytesTest, AfterNoiseAtOnePortTheClusterTrains) {
  for (const BoundSocket& socket : leaks_.Sockets()) {
    std::vector<HostileConnection> kept;
    for (const HostileAttack& attack : HostileAttacks()) {
      auto connection = HostileConnection::Connect(socket);
      ASSERT_THAT(connection, IsOk()) << attack.name << " at " << socket.address;
      connection->Send(attack.bytes);
      kept.push_back(*std::move(connection));
    }
    EXPECT_THAT(cluster_->Train(RowSource(100, 4), {.feed_timeout = kPatience}), IsOk())
        << socket.address;
  }
}

}  // namespace
}  // namespace millrace::faults
