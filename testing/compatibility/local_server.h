// File: testing/compatibility/local_server.h
//
// A gRPC server with the certificate of a coordinator, for services that stand in for one.
//
// Defines: LocalServer.

#ifndef TESTING_COMPATIBILITY_LOCAL_SERVER_H_
#define TESTING_COMPATIBILITY_LOCAL_SERVER_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "grpcpp/impl/codegen/service_type.h"
#include "grpcpp/server.h"

namespace millrace::compatibility {

// Asks for no client certificate and no token. Ownership: not of the services, which outlive it.
// Blocking: the destructor, for calls that are under way.
class LocalServer {
 public:
  // On 127.0.0.1, at a free port.
  [[nodiscard]] static absl::StatusOr<std::unique_ptr<LocalServer>> Start(
      const std::vector<grpc::Service*>& services);
  ~LocalServer();

  [[nodiscard]] const std::string& address() const { return address_; }
  [[nodiscard]] const std::string& ca_pem() const { return certificate_; }
  // Any will do.
  [[nodiscard]] std::string identity_pem() const { return key_ + certificate_; }

 private:
  LocalServer() = default;

  std::string certificate_;
  std::string key_;
  std::string address_;
  std::unique_ptr<grpc::Server> server_;
};

}  // namespace millrace::compatibility

#endif  // TESTING_COMPATIBILITY_LOCAL_SERVER_H_
