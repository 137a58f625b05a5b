#include "testing/compatibility/local_server.h"

#include <openssl/x509.h>

#include <chrono>  // grpc::Server::Shutdown() takes a time_point

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "core/net/certificate.h"
#include "core/net/openssl.h"
#include "grpcpp/security/server_credentials.h"
#include "grpcpp/server_builder.h"
#include "millrace/status_macros.h"

namespace millrace::compatibility {

absl::StatusOr<std::unique_ptr<LocalServer>> LocalServer::Start(
    const std::vector<grpc::Service*>& services) {
  std::unique_ptr<LocalServer> local(new LocalServer());
  MILLRACE_ASSIGN_OR_RETURN(const UniqueKey key, MakeP256Key());
  const CertificateProfile profile = {.common_name = "millrace",
                                      .dns_name = "millrace",
                                      .key_usage = "critical,digitalSignature,keyCertSign",
                                      .extended_key_usage = "",
                                      .constraints = "critical,CA:TRUE",
                                      .validity = absl::Hours(24)};
  MILLRACE_ASSIGN_OR_RETURN(
      const UniqueCertificate certificate,
      MakeCertificate(
          profile, absl::Now(), [&](X509* x509) { return X509_set_pubkey(x509, key.get()) == 1; },
          nullptr, key.get()));
  MILLRACE_ASSIGN_OR_RETURN(local->certificate_, CertificatePem(certificate.get()));
  MILLRACE_ASSIGN_OR_RETURN(local->key_, PrivateKeyPem(key.get()));
  grpc::SslServerCredentialsOptions tls;
  tls.pem_key_cert_pairs.push_back({local->key_, local->certificate_});
  int port = 0;
  grpc::ServerBuilder builder;
  builder.AddListeningPort("127.0.0.1:0", grpc::SslServerCredentials(tls), &port);
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS, 5000);
  for (grpc::Service* service : services) builder.RegisterService(service);
  local->server_ = builder.BuildAndStart();
  if (local->server_ == nullptr) return absl::UnavailableError("gRPC did not make a server");
  local->address_ = absl::StrCat("127.0.0.1:", port);
  return local;
}

LocalServer::~LocalServer() {
  if (server_ == nullptr) return;
  server_->Shutdown(std::chrono::system_clock::now());
  server_->Wait();
}

}  // namespace millrace::compatibility
