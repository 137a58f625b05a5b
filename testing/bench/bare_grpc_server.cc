// The reference of //testing/bench:reservation: gRPC with TLS and nothing else. Each stream says
// one message and is answered by two: one of the size of Registered at once, one of the size of the
// spec when every stream is there, for before that a cluster has no spec to push. No token is
// checked, no certificate signed, no state kept but a count. With "mutual" each client shows a
// certificate.
//
// Further messages (heartbeats) are read and dropped.

#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "core/base/deadlock_detector.h"
#include "core/base/log.h"
#include "core/base/mutex.h"
#include "core/coordinator/server/certificate_authority.h"
#include "core/net/certificate.h"
#include "grpcpp/generic/async_generic_service.h"
#include "grpcpp/security/server_credentials.h"
#include "grpcpp/server.h"
#include "grpcpp/server_builder.h"
#include "grpcpp/support/byte_buffer.h"
#include "testing/bench/bench_server.h"
#include "testing/bench/json_child.h"

namespace millrace::bench {
namespace {

grpc::ByteBuffer BytesOf(size_t size) {
  const grpc::Slice slice(std::string(size, 'x'));
  return grpc::ByteBuffer(&slice, 1);
}

class Hub;

class BareStream final : public grpc::ServerGenericBidiReactor {
 public:
  explicit BareStream(Hub* hub) : hub_(hub) { StartRead(&incoming_); }

  // Everyone is there.
  void Push() {
    if (steps_.fetch_add(1) == 1) WriteSpec();
  }

  void OnReadDone(bool ok) override;
  void OnWriteDone(bool) override {
    if (steps_.fetch_add(1) == 1) WriteSpec();
  }
  void OnDone() override { delete this; }

 private:
  void WriteSpec();

  Hub* const hub_;
  grpc::ByteBuffer incoming_;
  bool arrived_ = false;
  std::atomic<int> steps_{0};  // the first write is done, all are there: the spec is due after both
};

// Counts who arrived.
class Hub {
 public:
  Hub(int agents, size_t first_bytes, size_t second_bytes)
      : agents_(agents), first_(BytesOf(first_bytes)), second_(BytesOf(second_bytes)) {}

  const grpc::ByteBuffer& first() const { return first_; }
  const grpc::ByteBuffer& second() const { return second_; }

  void Arrived(BareStream* stream) {
    std::vector<BareStream*> all;
    {
      MutexLock lock(&mu_);
      streams_.push_back(stream);
      if (static_cast<int>(streams_.size()) == agents_) all.swap(streams_);
    }
    for (BareStream* each : all) each->Push();
  }

 private:
  const int agents_;
  const grpc::ByteBuffer first_;
  const grpc::ByteBuffer second_;
  Mutex mu_;
  std::vector<BareStream*> streams_ ABSL_GUARDED_BY(mu_);
};

void BareStream::OnReadDone(bool ok) {
  if (!ok) {
    Finish(grpc::Status::OK);
    return;
  }
  if (!arrived_) {
    arrived_ = true;
    StartWrite(&hub_->first());
    hub_->Arrived(this);
  }
  StartRead(&incoming_);
}

void BareStream::WriteSpec() { StartWrite(&hub_->second()); }

class BareService final : public grpc::CallbackGenericService {
 public:
  explicit BareService(Hub* hub) : hub_(hub) {}
  grpc::ServerGenericBidiReactor* CreateReactor(grpc::GenericCallbackServerContext*) override {
    return new BareStream(hub_);
  }

 private:
  Hub* const hub_;
};

// One certificate of the CA for all clients, as the usual mutual TLS has it, with its key.
std::string ClientIdentity(const CertificateAuthority& ca) {
  const auto key = MakeP256Key();
  MILLRACE_CHECK(key.ok()) << key.status();
  const auto certificate = ca.SignNodeKey(*PublicKeyPoint(key->get()), "client.bare");
  MILLRACE_CHECK(certificate.ok()) << certificate.status();
  return *PrivateKeyPem(key->get()) + *certificate;
}

int Main() {
  StopDeadlockDetector();  // as the coordinator does
  RaiseFileLimit();
  JsonParent parent;
  const std::optional<Json> options = parent.Receive();
  if (!options.has_value()) return 1;
  Hub hub((*options)["agents"].get<int>(), (*options)["first_bytes"].get<size_t>(),
          (*options)["second_bytes"].get<size_t>());
  BareService service(&hub);

  const auto ca = CertificateAuthority::Create({.cluster_id = "bare"});
  MILLRACE_CHECK(ca.ok()) << ca.status();
  const auto identity = (*ca)->IssueServer();
  MILLRACE_CHECK(identity.ok()) << identity.status();
  const std::string client = ClientIdentity(**ca);
  const bool mutual = (*options)["mutual"].get<bool>();
  grpc::SslServerCredentialsOptions tls(
      mutual ? GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY
             : GRPC_SSL_DONT_REQUEST_CLIENT_CERTIFICATE);
  tls.pem_root_certs = (*ca)->ca_pem();
  tls.pem_key_cert_pairs.push_back({identity->private_key_pem, identity->certificate_pem});
  int port = 0;
  grpc::ServerBuilder builder;
  builder.AddListeningPort("127.0.0.1:0", grpc::SslServerCredentials(tls), &port);
  builder.RegisterCallbackGenericService(&service);
  const std::unique_ptr<grpc::Server> server = builder.BuildAndStart();
  MILLRACE_CHECK(server != nullptr);

  ServeUsage(&parent, Json{{"address", absl::StrCat("127.0.0.1:", port)},
                           {"ca_pem", (*ca)->ca_pem()},
                           {"identity_pem", mutual ? client : ""},
                           {"token", "none"}});
}

}  // namespace
}  // namespace millrace::bench

int main() { return millrace::bench::Main(); }
