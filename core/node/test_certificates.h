// File: core/node/test_certificates.h
//
// A CA as a cluster's coordinator has one, and the certificates of its nodes. Test only.
//
// Defines: TestCertificateAuthority.
//
//   TestCertificateAuthority ca;
//   config.tls = ca.Issue("ps-0.node.millrace");

#ifndef CORE_NODE_TEST_CERTIFICATES_H_
#define CORE_NODE_TEST_CERTIFICATES_H_

#include <openssl/evp.h>
#include <openssl/x509.h>

#include <memory>
#include <string>

#include "core/node/node_config.h"

namespace millrace {

// Keys on P-256, signatures with SHA-256, valid for a day. Ends the process if OpenSSL fails.
class TestCertificateAuthority {
 public:
  TestCertificateAuthority();
  ~TestCertificateAuthority();
  TestCertificateAuthority(const TestCertificateAuthority&) = delete;
  TestCertificateAuthority& operator=(const TestCertificateAuthority&) = delete;

  [[nodiscard]] const std::string& ca_pem() const { return ca_pem_; }
  // A fresh key and its certificate for the one DNS name `dns_name`, serverAuth and clientAuth.
  [[nodiscard]] NodeTls Issue(const std::string& dns_name) const;

 private:
  EVP_PKEY* const key_;
  X509* const certificate_;
  const std::string ca_pem_;
};

}  // namespace millrace

#endif  // CORE_NODE_TEST_CERTIFICATES_H_
