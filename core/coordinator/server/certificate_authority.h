// File: core/coordinator/server/certificate_authority.h
//
// The CA of one cluster: it makes the coordinator's certificate and signs the leaf of each node.
// Its key is made at start, stays in this process's memory and is never written.
//
// Defines: CertificateAuthority.
//
//   MILLRACE_ASSIGN_OR_RETURN(auto ca, CertificateAuthority::Create({.cluster_id = id}));
//   MILLRACE_ASSIGN_OR_RETURN(auto server, ca->IssueServer());         // DNS name "millrace"
//   MILLRACE_ASSIGN_OR_RETURN(auto viewer, ca->MakeClient("viewer"));
//   MILLRACE_ASSIGN_OR_RETURN(std::string leaf,
//                             ca->SignNodeKey(public_key, "worker-1.node.millrace"));
//
// Everything is ECDSA over P-256 with SHA-256. A client that pins ca_pem() and checks the name
// knows that it talks to the coordinator: only the coordinator has the name "millrace", since it
// chooses all names.

#ifndef CORE_COORDINATOR_SERVER_CERTIFICATE_AUTHORITY_H_
#define CORE_COORDINATOR_SERVER_CERTIFICATE_AUTHORITY_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "core/base/clock.h"

namespace millrace {

// Thread safety: thread-safe after Create(). Blocking: never; a signature takes some 0.1 ms of CPU.
class CertificateAuthority {
 public:
  static constexpr absl::string_view kServerName = "millrace";

  struct Options {
    std::string cluster_id;  // goes into the CA's name
    // Certificates are valid from 25 hours before they are made (clocks of hosts differ), for:
    absl::Duration validity = absl::Hours(24 * 3650);
    Clock* clock = RealClock();  // not owned
  };

  struct Identity {
    std::string certificate_pem;
    std::string private_key_pem;  // a secret

    // Both in one text, as they are passed on. A secret.
    [[nodiscard]] std::string ToPem() const { return private_key_pem + certificate_pem; }
  };

  // Returns INTERNAL if OpenSSL fails.
  [[nodiscard]] static absl::StatusOr<std::unique_ptr<CertificateAuthority>> Create(
      const Options& options);
  // That of an earlier Create(), by its ca_pem() and key_pem(). Returns INVALID_ARGUMENT if they
  // are none, or do not belong together.
  [[nodiscard]] static absl::StatusOr<std::unique_ptr<CertificateAuthority>> Restore(
      const Options& options, absl::string_view ca_pem, absl::string_view key_pem);
  ~CertificateAuthority();

  CertificateAuthority(const CertificateAuthority&) = delete;
  CertificateAuthority& operator=(const CertificateAuthority&) = delete;

  // The CA's own certificate: what everybody pins.
  [[nodiscard]] const std::string& ca_pem() const { return ca_pem_; }

  // The CA's private key: a secret, for the state folder of a driver that may be replaced.
  [[nodiscard]] absl::StatusOr<std::string> key_pem() const;

  // A fresh key with a certificate for kServerName (serverAuth).
  [[nodiscard]] absl::StatusOr<Identity> IssueServer() const;

  // A fresh key with a certificate for "<kind>.client.millrace" (clientAuth), signed by itself:
  // without one of those that it knows the coordinator ends a TLS handshake. `kind`: a DNS label.
  [[nodiscard]] absl::StatusOr<Identity> MakeClient(absl::string_view kind) const;

  // Signs a node's public key under the one DNS name `dns_name` (serverAuth and clientAuth, no CA).
  // `public_key`: as PublicKeyPoint() of core/net/certificate.h encodes it.
  //
  // Returns INVALID_ARGUMENT if it is no such point on P-256, or if the name is none.
  [[nodiscard]] absl::StatusOr<std::string> SignNodeKey(absl::string_view public_key,
                                                        absl::string_view dns_name) const;

 private:
  struct Key;  // owns the CA's EVP_PKEY and X509

  CertificateAuthority(Options options, std::unique_ptr<Key> key, std::string ca_pem);

  // For a fresh key, under one name; signed by the CA, or by itself.
  [[nodiscard]] absl::StatusOr<Identity> Issue(const std::string& name,
                                               const std::string& extended_key_usage,
                                               bool signed_by_ca) const;

  const Options options_;
  const std::unique_ptr<Key> key_;
  const std::string ca_pem_;
};

}  // namespace millrace

#endif  // CORE_COORDINATOR_SERVER_CERTIFICATE_AUTHORITY_H_
