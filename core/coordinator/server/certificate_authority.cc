#include "core/coordinator/server/certificate_authority.h"

#include <openssl/ec.h>
#include <openssl/err.h>
#include <openssl/objects.h>
#include <openssl/x509.h>

#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "core/net/certificate.h"
#include "core/net/openssl.h"
#include "millrace/status_macros.h"

namespace millrace {
namespace {

// Puts in a key on P-256 as its bytes. X509_set_pubkey() would encode the key and decode it again
// by searching all decoders, which takes longer than the signature.
bool SetPublicKey(X509* certificate, absl::string_view point) {
  auto* copy = static_cast<unsigned char*>(OPENSSL_memdup(point.data(), point.size()));
  if (copy == nullptr) return false;
  if (X509_PUBKEY_set0_param(
          X509_get_X509_PUBKEY(certificate), OBJ_nid2obj(NID_X9_62_id_ecPublicKey), V_ASN1_OBJECT,
          OBJ_nid2obj(NID_X9_62_prime256v1), copy, static_cast<int>(point.size())) == 1) {
    return true;  // the certificate owns the copy
  }
  OPENSSL_free(copy);
  return false;
}

// As PublicKeyPoint() encodes a key on P-256.
bool IsPoint(const EC_GROUP* p256, absl::string_view bytes) {
  if (bytes.size() != kPublicKeyPointBytes || bytes[0] != POINT_CONVERSION_UNCOMPRESSED)
    return false;
  const UniqueOpenSsl<EC_POINT, EC_POINT_free> point(EC_POINT_new(p256));
  const bool on_curve =
      point != nullptr &&
      EC_POINT_oct2point(p256, point.get(), reinterpret_cast<const unsigned char*>(bytes.data()),
                         bytes.size(), nullptr) == 1;
  ERR_clear_error();
  return on_curve;
}

// The name goes into OpenSSL's configuration syntax, where a comma starts another name.
bool IsDnsName(absl::string_view name) {
  if (name.empty() || name.size() > 253) return false;
  for (char c : name) {
    const bool ok = (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == '.';
    if (!ok) return false;
  }
  return true;
}

}  // namespace

struct CertificateAuthority::Key {
  UniqueKey key;
  UniqueCertificate certificate;
  // For the keys of nodes.
  UniqueOpenSsl<EC_GROUP, EC_GROUP_free> p256{EC_GROUP_new_by_curve_name(NID_X9_62_prime256v1)};
};

CertificateAuthority::CertificateAuthority(Options options, std::unique_ptr<Key> key,
                                           std::string ca_pem)
    : options_(std::move(options)), key_(std::move(key)), ca_pem_(std::move(ca_pem)) {}

CertificateAuthority::~CertificateAuthority() = default;

absl::StatusOr<std::unique_ptr<CertificateAuthority>> CertificateAuthority::Create(
    const Options& options) {
  auto key = std::make_unique<Key>();
  if (key->p256 == nullptr) return absl::InternalError(TakeOpenSslError());
  MILLRACE_ASSIGN_OR_RETURN(key->key, MakeP256Key());
  const CertificateProfile profile = {
      .common_name = absl::StrCat("millrace cluster ", options.cluster_id).substr(0, 64),
      .dns_name = "",
      .key_usage = "critical,keyCertSign,cRLSign",
      .extended_key_usage = "",
      .constraints = "critical,CA:TRUE,pathlen:0",
      .validity = options.validity,
  };
  EVP_PKEY* const own = key->key.get();
  MILLRACE_ASSIGN_OR_RETURN(
      key->certificate,
      MakeCertificate(
          profile, options.clock->Now(),
          [own](X509* x509) { return X509_set_pubkey(x509, own) == 1; }, nullptr, own));
  MILLRACE_ASSIGN_OR_RETURN(std::string pem, CertificatePem(key->certificate.get()));
  return std::unique_ptr<CertificateAuthority>(
      new CertificateAuthority(options, std::move(key), std::move(pem)));
}

absl::StatusOr<std::unique_ptr<CertificateAuthority>> CertificateAuthority::Restore(
    const Options& options, absl::string_view ca_pem, absl::string_view key_pem) {
  if (!IsKeyOfCertificate(ca_pem, key_pem)) {
    return absl::InvalidArgumentError("the CA's certificate and key do not belong together");
  }
  auto key = std::make_unique<Key>();
  if (key->p256 == nullptr) return absl::InternalError(TakeOpenSslError());
  MILLRACE_ASSIGN_OR_RETURN(key->key, ReadPrivateKey(key_pem));
  MILLRACE_ASSIGN_OR_RETURN(key->certificate, ReadCertificate(ca_pem));
  return std::unique_ptr<CertificateAuthority>(
      new CertificateAuthority(options, std::move(key), std::string(ca_pem)));
}

absl::StatusOr<std::string> CertificateAuthority::key_pem() const {
  return PrivateKeyPem(key_->key.get());
}

absl::StatusOr<CertificateAuthority::Identity> CertificateAuthority::IssueServer() const {
  return Issue(std::string(kServerName), "serverAuth", true);
}

absl::StatusOr<CertificateAuthority::Identity> CertificateAuthority::MakeClient(
    absl::string_view kind) const {
  return Issue(absl::StrCat(kind, ".client.", kServerName), "clientAuth", false);
}

absl::StatusOr<CertificateAuthority::Identity> CertificateAuthority::Issue(
    const std::string& name, const std::string& extended_key_usage, bool signed_by_ca) const {
  MILLRACE_ASSIGN_OR_RETURN(UniqueKey key, MakeP256Key());
  const CertificateProfile profile = {
      .common_name = name,
      .dns_name = name,
      .key_usage = "critical,digitalSignature",
      .extended_key_usage = extended_key_usage,
      .constraints = "critical,CA:FALSE",
      .validity = options_.validity,
  };
  MILLRACE_ASSIGN_OR_RETURN(UniqueCertificate certificate,
                            MakeCertificate(
                                profile, options_.clock->Now(),
                                [&](X509* x509) { return X509_set_pubkey(x509, key.get()) == 1; },
                                signed_by_ca ? key_->certificate.get() : nullptr,
                                signed_by_ca ? key_->key.get() : key.get()));
  Identity identity;
  MILLRACE_ASSIGN_OR_RETURN(identity.certificate_pem, CertificatePem(certificate.get()));
  MILLRACE_ASSIGN_OR_RETURN(identity.private_key_pem, PrivateKeyPem(key.get()));
  return identity;
}

absl::StatusOr<std::string> CertificateAuthority::SignNodeKey(absl::string_view public_key,
                                                              absl::string_view dns_name) const {
  if (!IsDnsName(dns_name)) {
    return absl::InvalidArgumentError(
        absl::StrCat("\"", dns_name, "\" cannot be a node's DNS name"));
  }
  if (!IsPoint(key_->p256.get(), public_key)) {
    return absl::InvalidArgumentError(
        "the node's public key is not an uncompressed point on P-256");
  }
  const CertificateProfile profile = {
      .common_name = std::string(dns_name.substr(0, 64)),
      .dns_name = std::string(dns_name),
      .key_usage = "critical,digitalSignature",
      .extended_key_usage = "serverAuth,clientAuth",
      .constraints = "critical,CA:FALSE",
      .validity = options_.validity,
  };
  MILLRACE_ASSIGN_OR_RETURN(UniqueCertificate certificate,
                            MakeCertificate(
                                profile, options_.clock->Now(),
                                [&](X509* x509) { return SetPublicKey(x509, public_key); },
                                key_->certificate.get(), key_->key.get()));
  return CertificatePem(certificate.get());
}

}  // namespace millrace
