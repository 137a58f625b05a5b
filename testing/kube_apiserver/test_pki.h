// File: testing/kube_apiserver/test_pki.h
//
// Certificates for a server and clients of a test: a CA of its own, P-256 keys, valid for a day.
//
// Defines: TestPki.
//
//   MILLRACE_ASSIGN_OR_RETURN(const auto pki, TestPki::Create("test-ca"));
//   MILLRACE_ASSIGN_OR_RETURN(const TestPki::Identity server,
//                             pki->Issue({.common_name = "server", .names = {"127.0.0.1"}}));

#ifndef TESTING_KUBE_APISERVER_TEST_PKI_H_
#define TESTING_KUBE_APISERVER_TEST_PKI_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace millrace {

// Thread safety: thread-safe. Errors: INTERNAL, if OpenSSL fails.
class TestPki {
 public:
  struct Identity {
    std::string certificate_pem;
    std::string private_key_pem;
  };
  struct Request {
    std::string common_name;
    std::string organization;        // Kubernetes reads it as a group
    std::vector<std::string> names;  // DNS names and IP addresses; empty: a client
    absl::Duration valid_from = -absl::Hours(1);
    absl::Duration valid_until = absl::Hours(24);
  };

  [[nodiscard]] static absl::StatusOr<std::unique_ptr<TestPki>> Create(const std::string& name);
  ~TestPki();
  TestPki(const TestPki&) = delete;
  TestPki& operator=(const TestPki&) = delete;

  [[nodiscard]] const std::string& ca_pem() const { return ca_pem_; }
  [[nodiscard]] absl::StatusOr<Identity> Issue(const Request& request) const;

  // A private key and its public half.
  struct KeyPair {
    std::string private_key_pem;
    std::string public_key_pem;
  };
  [[nodiscard]] static absl::StatusOr<KeyPair> MakeKeyPair();

 private:
  struct Key;  // owns the CA's EVP_PKEY and X509

  explicit TestPki(std::unique_ptr<Key> key, std::string ca_pem);

  const std::unique_ptr<Key> key_;
  const std::string ca_pem_;
};

}  // namespace millrace

#endif  // TESTING_KUBE_APISERVER_TEST_PKI_H_
