#include "core/net/certificate.h"

#include <openssl/asn1.h>
#include <openssl/ec.h>
#include <openssl/err.h>
#include <openssl/pem.h>

#include <ctime>
#include <optional>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "core/base/random.h"

namespace millrace {
namespace {

absl::Status OpenSslError(absl::string_view what) {
  return absl::InternalError(absl::StrCat("OpenSSL: ", what, ": ", TakeOpenSslError()));
}

// A PEM may say that it is encrypted; OpenSSL would ask the terminal for a password.
int NoPassword(char*, int, int, void*) { return 0; }

bool AddExtension(X509* certificate, X509* issuer, int nid, const std::string& value) {
  X509V3_CTX context;
  X509V3_set_ctx_nodb(&context);
  X509V3_set_ctx(&context, issuer, certificate, nullptr, nullptr, 0);
  const UniqueExtension extension(X509V3_EXT_conf_nid(nullptr, &context, nid, value.c_str()));
  return extension != nullptr && X509_add_ext(certificate, extension.get(), -1) == 1;
}

bool SetSerial(X509* certificate) {
  std::string bytes = RandomBytes(16);
  bytes[0] = static_cast<char>((bytes[0] & 0x3f) | 0x40);  // positive, never short
  const UniqueBn number(BN_bin2bn(reinterpret_cast<const unsigned char*>(bytes.data()),
                                  static_cast<int>(bytes.size()), nullptr));
  return number != nullptr &&
         BN_to_ASN1_INTEGER(number.get(), X509_get_serialNumber(certificate)) != nullptr;
}

bool SetName(X509_NAME* name, const std::string& common_name) {
  return X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_UTF8,
                                    reinterpret_cast<const unsigned char*>(common_name.data()),
                                    static_cast<int>(common_name.size()), -1, 0) == 1;
}

std::optional<absl::Time> TimeOf(const ASN1_TIME* time) {
  tm fields{};
  if (ASN1_TIME_to_tm(time, &fields) != 1) return std::nullopt;
  return absl::FromTM(fields, absl::UTCTimeZone());
}

std::string Text(absl::Time time) {
  return absl::FormatTime("%Y-%m-%dT%H:%M:%SZ", time, absl::UTCTimeZone());
}

// The first certificate in `pem`; null if there is none.
UniqueCertificate FirstCertificate(absl::string_view pem) {
  const UniqueBio bio(BIO_new_mem_buf(pem.data(), static_cast<int>(pem.size())));
  if (bio == nullptr) return nullptr;
  UniqueCertificate certificate(PEM_read_bio_X509(bio.get(), nullptr, NoPassword, nullptr));
  ERR_clear_error();
  return certificate;
}

UniqueKey FirstKey(absl::string_view pem) {
  const UniqueBio bio(BIO_new_mem_buf(pem.data(), static_cast<int>(pem.size())));
  if (bio == nullptr) return nullptr;
  UniqueKey key(PEM_read_bio_PrivateKey(bio.get(), nullptr, NoPassword, nullptr));
  ERR_clear_error();
  return key;
}

}  // namespace

absl::StatusOr<UniqueKey> MakeP256Key() {
  UniqueKey key(EVP_EC_gen("P-256"));
  if (key == nullptr) return OpenSslError("cannot make a P-256 key");
  return key;
}

absl::StatusOr<std::string> PublicKeyPoint(EVP_PKEY* key) {
  unsigned char* data = nullptr;
  const size_t size = EVP_PKEY_get1_encoded_public_key(key, &data);
  std::string point(reinterpret_cast<const char*>(data), size);
  OPENSSL_free(data);
  if (size != kPublicKeyPointBytes) return OpenSslError("cannot encode a public key");
  return point;
}

absl::StatusOr<UniqueCertificate> MakeCertificate(const CertificateProfile& profile, absl::Time now,
                                                  absl::FunctionRef<bool(X509*)> set_public_key,
                                                  X509* issuer, EVP_PKEY* issuer_key) {
  UniqueCertificate certificate(X509_new());
  if (certificate == nullptr) return OpenSslError("no memory");
  X509* const x509 = certificate.get();
  X509* const signer = issuer == nullptr ? x509 : issuer;
  const time_t from = absl::ToTimeT(now - kCertificateBackdate);
  const time_t until = absl::ToTimeT(now + profile.validity);
  bool ok = X509_set_version(x509, X509_VERSION_3) == 1 && SetSerial(x509) &&
            set_public_key(x509) && SetName(X509_get_subject_name(x509), profile.common_name) &&
            X509_set_issuer_name(x509, X509_get_subject_name(signer)) == 1 &&
            ASN1_TIME_set(X509_getm_notBefore(x509), from) != nullptr &&
            ASN1_TIME_set(X509_getm_notAfter(x509), until) != nullptr;
  ok = ok && AddExtension(x509, signer, NID_basic_constraints, profile.constraints) &&
       AddExtension(x509, signer, NID_key_usage, profile.key_usage) &&
       AddExtension(x509, signer, NID_subject_key_identifier, "hash") &&
       AddExtension(x509, signer, NID_authority_key_identifier, "keyid:always");
  if (!profile.extended_key_usage.empty()) {
    ok = ok && AddExtension(x509, signer, NID_ext_key_usage, profile.extended_key_usage);
  }
  if (!profile.dns_name.empty()) {
    ok = ok && AddExtension(x509, signer, NID_subject_alt_name, "DNS:" + profile.dns_name);
  }
  if (!ok || X509_sign(x509, issuer_key, EVP_sha256()) <= 0) {
    return OpenSslError("cannot make a certificate");
  }
  ERR_clear_error();
  return certificate;
}

absl::StatusOr<std::string> CertificatePem(X509* certificate) {
  const UniqueBio bio(BIO_new(BIO_s_mem()));
  if (bio == nullptr || PEM_write_bio_X509(bio.get(), certificate) != 1) {
    return OpenSslError("cannot write a certificate");
  }
  return BioText(bio.get());
}

absl::StatusOr<std::string> PrivateKeyPem(EVP_PKEY* key) {
  const UniqueBio bio(BIO_new(BIO_s_secmem()));
  if (bio == nullptr ||
      PEM_write_bio_PKCS8PrivateKey(bio.get(), key, nullptr, nullptr, 0, nullptr, nullptr) != 1) {
    return OpenSslError("cannot write a key");
  }
  return BioText(bio.get());
}

absl::StatusOr<CertificateValidity> ReadCertificateValidity(absl::string_view pem) {
  const UniqueCertificate certificate = FirstCertificate(pem);
  if (certificate == nullptr) return absl::InvalidArgumentError("no certificate in PEM");
  const std::optional<absl::Time> from = TimeOf(X509_get0_notBefore(certificate.get()));
  const std::optional<absl::Time> until = TimeOf(X509_get0_notAfter(certificate.get()));
  if (!from.has_value() || !until.has_value()) {
    return absl::InvalidArgumentError("a certificate without times");
  }
  return CertificateValidity{.from = *from, .until = *until};
}

std::string ClockMismatch(absl::string_view pem, absl::Time now) {
  const absl::StatusOr<CertificateValidity> valid = ReadCertificateValidity(pem);
  if (!valid.ok() || (valid->from <= now && now <= valid->until)) return "";
  return absl::StrCat("this host's clock says ", Text(now),
                      ", and that of the host which made the certificate said ",
                      Text(valid->from + kCertificateBackdate), " then: it is valid from ",
                      Text(valid->from), " to ", Text(valid->until),
                      "; set the clocks of both hosts (NTP)");
}

absl::StatusOr<UniqueCertificate> ReadCertificate(absl::string_view pem) {
  UniqueCertificate certificate = FirstCertificate(pem);
  if (certificate == nullptr) return absl::InvalidArgumentError("no certificate in PEM");
  return certificate;
}

absl::StatusOr<UniqueKey> ReadPrivateKey(absl::string_view pem) {
  UniqueKey key = FirstKey(pem);
  if (key == nullptr) return absl::InvalidArgumentError("no private key in PEM");
  return key;
}

bool IsKeyOfCertificate(absl::string_view certificate_pem, absl::string_view key_pem) {
  const UniqueCertificate certificate = FirstCertificate(certificate_pem);
  const UniqueKey key = FirstKey(key_pem);
  const bool is = certificate != nullptr && key != nullptr &&
                  X509_check_private_key(certificate.get(), key.get()) == 1;
  ERR_clear_error();
  return is;
}

}  // namespace millrace
