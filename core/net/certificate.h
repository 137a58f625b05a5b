// File: core/net/certificate.h
//
// X.509 certificates with keys on P-256: how ours are made, and whether a clock agrees with one.
//
// Defines: kCertificateBackdate, MakeP256Key(), PublicKeyPoint(), CertificateProfile,
// MakeCertificate(), CertificatePem(), PrivateKeyPem(), CertificateValidity,
// ReadCertificateValidity(), ClockMismatch(), IsKeyOfCertificate().
//
// Thread safety: thread-safe. Blocking: never. A function that fails leaves nothing in OpenSSL's
// error queue.

#ifndef CORE_NET_CERTIFICATE_H_
#define CORE_NET_CERTIFICATE_H_

#include <cstddef>
#include <string>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "core/net/openssl.h"

namespace millrace {

// How long before it is made a certificate begins to be valid: a clock that is set to local time is
// up to 14 hours off, and one that is a day off is found often.
inline constexpr absl::Duration kCertificateBackdate = absl::Hours(25);

// Returns INTERNAL if OpenSSL fails, as all that follow.
[[nodiscard]] absl::StatusOr<UniqueKey> MakeP256Key();

// Its public key: an uncompressed point of kPublicKeyPointBytes (SEC 1, section 2.3.3).
inline constexpr size_t kPublicKeyPointBytes = 65;
[[nodiscard]] absl::StatusOr<std::string> PublicKeyPoint(EVP_PKEY* key);

// Usages and constraints as OpenSSL's configuration has them: "critical,digitalSignature".
struct CertificateProfile {
  std::string common_name;  // at most 64 bytes
  std::string dns_name;     // empty: none
  std::string key_usage;
  std::string extended_key_usage;  // empty: none
  std::string constraints;
  absl::Duration validity;  // from `now` on
};

// For the key that `set_public_key` puts in; its serial number is random. `issuer` null: signed by
// itself.
[[nodiscard]] absl::StatusOr<UniqueCertificate> MakeCertificate(
    const CertificateProfile& profile, absl::Time now,
    absl::FunctionRef<bool(X509*)> set_public_key, X509* issuer, EVP_PKEY* issuer_key);

[[nodiscard]] absl::StatusOr<std::string> CertificatePem(X509* certificate);
[[nodiscard]] absl::StatusOr<std::string> PrivateKeyPem(EVP_PKEY* key);
// The first of each in `pem`. Return INVALID_ARGUMENT if there is none.
[[nodiscard]] absl::StatusOr<UniqueCertificate> ReadCertificate(absl::string_view pem);
[[nodiscard]] absl::StatusOr<UniqueKey> ReadPrivateKey(absl::string_view pem);

struct CertificateValidity {
  absl::Time from;
  absl::Time until;
};
// Of the first certificate in `pem`. Returns INVALID_ARGUMENT if there is none.
[[nodiscard]] absl::StatusOr<CertificateValidity> ReadCertificateValidity(absl::string_view pem);

// What to do if the first certificate in `pem`, which MakeCertificate() made, is not valid at `now`
// because clocks differ: both clocks in words. Empty if it is valid, or is no certificate.
[[nodiscard]] std::string ClockMismatch(absl::string_view pem, absl::Time now);

// Whether `key_pem` is the private key of the first certificate in `certificate_pem`. False also if
// either is not PEM.
[[nodiscard]] bool IsKeyOfCertificate(absl::string_view certificate_pem, absl::string_view key_pem);

}  // namespace millrace

#endif  // CORE_NET_CERTIFICATE_H_
