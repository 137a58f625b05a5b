#include "core/coordinator/certificate_authority.h"

#include <openssl/asn1.h>
#include <openssl/bio.h>
#include <openssl/ec.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>

#include <ctime>
#include <utility>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "core/base/openssl.h"
#include "core/base/random.h"
#include "core/base/status_macros.h"

namespace millrace {
namespace {

// A clock that is set to local time is up to 14 hours off, and one that is a day off is found
// often.
constexpr absl::Duration kBackdate = absl::Hours(25);

absl::Status OpenSslError(absl::string_view what) {
  return absl::InternalError(absl::StrCat("OpenSSL: ", what, ": ", TakeOpenSslError()));
}

absl::Status BadRequest(absl::string_view what) {
  ERR_clear_error();
  return absl::InvalidArgumentError(absl::StrCat("certificate request: ", what));
}

// A PEM may say that it is encrypted; OpenSSL would ask the terminal for a password.
int NoPassword(char*, int, int, void*) { return 0; }

absl::StatusOr<UniqueKey> MakeKey() {
  UniqueKey key(EVP_EC_gen("P-256"));
  if (key == nullptr) return OpenSslError("cannot make a P-256 key");
  return key;
}

absl::StatusOr<std::string> CertificatePem(X509* certificate) {
  UniqueBio bio(BIO_new(BIO_s_mem()));
  if (bio == nullptr || PEM_write_bio_X509(bio.get(), certificate) != 1) {
    return OpenSslError("cannot write a certificate");
  }
  return BioText(bio.get());
}

absl::StatusOr<std::string> PrivateKeyPem(EVP_PKEY* key) {
  UniqueBio bio(BIO_new(BIO_s_secmem()));
  if (bio == nullptr ||
      PEM_write_bio_PKCS8PrivateKey(bio.get(), key, nullptr, nullptr, 0, nullptr, nullptr) != 1) {
    return OpenSslError("cannot write a key");
  }
  return BioText(bio.get());
}

bool AddExtension(X509* certificate, X509* issuer, int nid, const std::string& value) {
  X509V3_CTX context;
  X509V3_set_ctx_nodb(&context);
  X509V3_set_ctx(&context, issuer, certificate, nullptr, nullptr, 0);
  UniqueExtension extension(X509V3_EXT_conf_nid(nullptr, &context, nid, value.c_str()));
  return extension != nullptr && X509_add_ext(certificate, extension.get(), -1) == 1;
}

bool SetSerial(X509* certificate) {
  std::string bytes = RandomBytes(16);
  bytes[0] = static_cast<char>((bytes[0] & 0x3f) | 0x40);  // positive, never short
  UniqueBn number(BN_bin2bn(reinterpret_cast<const unsigned char*>(bytes.data()),
                            static_cast<int>(bytes.size()), nullptr));
  return number != nullptr &&
         BN_to_ASN1_INTEGER(number.get(), X509_get_serialNumber(certificate)) != nullptr;
}

bool SetName(X509_NAME* name, const std::string& common_name) {
  return X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_UTF8,
                                    reinterpret_cast<const unsigned char*>(common_name.data()),
                                    static_cast<int>(common_name.size()), -1, 0) == 1;
}

// The key of a request, which must be on P-256, as its bytes. X509_set_pubkey() would encode the key and
// decode it again by searching all decoders, which takes longer than the two signatures.
bool CopyPublicKey(X509_REQ* request, X509* certificate) {
  const unsigned char* point = nullptr;
  int size = 0;
  if (X509_PUBKEY_get0_param(nullptr, &point, &size, nullptr, X509_REQ_get_X509_PUBKEY(request)) != 1) {
    return false;
  }
  auto* copy = static_cast<unsigned char*>(OPENSSL_memdup(point, static_cast<size_t>(size)));
  if (copy == nullptr) return false;
  if (X509_PUBKEY_set0_param(X509_get_X509_PUBKEY(certificate), OBJ_nid2obj(NID_X9_62_id_ecPublicKey),
                             V_ASN1_OBJECT, OBJ_nid2obj(NID_X9_62_prime256v1), copy, size) == 1) {
    return true;  // the certificate owns the copy
  }
  OPENSSL_free(copy);
  return false;
}

struct Profile {
  std::string common_name;  // at most 64 bytes
  std::string dns_name;     // empty: none (the CA)
  std::string key_usage;
  std::string extended_key_usage;  // empty: none
  std::string constraints;
};

// For the key that `set_public_key` puts in. `issuer` null: self-signed.
absl::StatusOr<UniqueCertificate> MakeCertificate(const Profile& profile,
                                                  absl::FunctionRef<bool(X509*)> set_public_key,
                                                  X509* issuer, EVP_PKEY* issuer_key,
                                                  const CertificateAuthority::Options& options) {
  UniqueCertificate certificate(X509_new());
  if (certificate == nullptr) return OpenSslError("no memory");
  X509* x509 = certificate.get();
  X509* signer = issuer == nullptr ? x509 : issuer;
  const absl::Time now = options.clock->Now();
  const time_t from = absl::ToTimeT(now - kBackdate);
  const time_t until = absl::ToTimeT(now + options.validity);
  bool ok = X509_set_version(x509, X509_VERSION_3) == 1 && SetSerial(x509) &&
            set_public_key(x509) &&
            SetName(X509_get_subject_name(x509), profile.common_name) &&
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

bool IsP256(EVP_PKEY* key) {
  if (EVP_PKEY_get_base_id(key) != EVP_PKEY_EC) return false;
  char group[64];
  size_t size = 0;
  return EVP_PKEY_get_group_name(key, group, sizeof(group), &size) == 1 &&
         absl::string_view(group, size) == "prime256v1";
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
};

CertificateAuthority::CertificateAuthority(Options options, std::unique_ptr<Key> key,
                                           std::string ca_pem)
    : options_(std::move(options)), key_(std::move(key)), ca_pem_(std::move(ca_pem)) {}

CertificateAuthority::~CertificateAuthority() = default;

absl::StatusOr<std::unique_ptr<CertificateAuthority>> CertificateAuthority::Create(
    const Options& options) {
  auto key = std::make_unique<Key>();
  MILLRACE_ASSIGN_OR_RETURN(key->key, MakeKey());
  const Profile profile = {
      .common_name = absl::StrCat("millrace cluster ", options.cluster_id).substr(0, 64),
      .dns_name = "",
      .key_usage = "critical,keyCertSign,cRLSign",
      .extended_key_usage = "",
      .constraints = "critical,CA:TRUE,pathlen:0",
  };
  EVP_PKEY* const own = key->key.get();
  MILLRACE_ASSIGN_OR_RETURN(
      key->certificate,
      MakeCertificate(
          profile, [own](X509* x509) { return X509_set_pubkey(x509, own) == 1; }, nullptr, own,
          options));
  MILLRACE_ASSIGN_OR_RETURN(std::string pem, CertificatePem(key->certificate.get()));
  return std::unique_ptr<CertificateAuthority>(
      new CertificateAuthority(options, std::move(key), std::move(pem)));
}

absl::StatusOr<CertificateAuthority::Identity> CertificateAuthority::IssueServer() const {
  return Issue(std::string(kServerName), "serverAuth");
}

absl::StatusOr<CertificateAuthority::Identity> CertificateAuthority::IssueClient(
    absl::string_view kind) const {
  return Issue(absl::StrCat(kind, ".client.", kServerName), "clientAuth");
}

absl::StatusOr<CertificateAuthority::Identity> CertificateAuthority::Issue(
    const std::string& name, const std::string& extended_key_usage) const {
  MILLRACE_ASSIGN_OR_RETURN(UniqueKey key, MakeKey());
  const Profile profile = {
      .common_name = name,
      .dns_name = name,
      .key_usage = "critical,digitalSignature",
      .extended_key_usage = extended_key_usage,
      .constraints = "critical,CA:FALSE",
  };
  MILLRACE_ASSIGN_OR_RETURN(
      UniqueCertificate certificate,
      MakeCertificate(
          profile, [&](X509* x509) { return X509_set_pubkey(x509, key.get()) == 1; },
          key_->certificate.get(), key_->key.get(), options_));
  Identity identity;
  MILLRACE_ASSIGN_OR_RETURN(identity.certificate_pem, CertificatePem(certificate.get()));
  MILLRACE_ASSIGN_OR_RETURN(identity.private_key_pem, PrivateKeyPem(key.get()));
  return identity;
}

absl::StatusOr<std::string> CertificateAuthority::SignNodeRequest(
    absl::string_view csr_pem, absl::string_view dns_name) const {
  if (!IsDnsName(dns_name)) {
    return absl::InvalidArgumentError(
        absl::StrCat("\"", dns_name, "\" cannot be a node's DNS name"));
  }
  if (csr_pem.size() > kMaxRequestBytes) {
    return BadRequest(absl::StrCat(csr_pem.size(), " bytes: at most ", kMaxRequestBytes));
  }
  UniqueBio bio(BIO_new_mem_buf(csr_pem.data(), static_cast<int>(csr_pem.size())));
  if (bio == nullptr) return OpenSslError("no memory");
  UniqueRequest request(PEM_read_bio_X509_REQ(bio.get(), nullptr, NoPassword, nullptr));
  if (request == nullptr) return BadRequest("not a PKCS#10 request in PEM");
  EVP_PKEY* key = X509_REQ_get0_pubkey(request.get());  // owned by the request
  if (key == nullptr || !IsP256(key)) return BadRequest("its key is not on P-256");
  if (X509_REQ_verify(request.get(), key) != 1) return BadRequest("not signed by its own key");
  const Profile profile = {
      .common_name = std::string(dns_name.substr(0, 64)),
      .dns_name = std::string(dns_name),
      .key_usage = "critical,digitalSignature",
      .extended_key_usage = "serverAuth,clientAuth",
      .constraints = "critical,CA:FALSE",
  };
  MILLRACE_ASSIGN_OR_RETURN(
      UniqueCertificate certificate,
      MakeCertificate(
          profile, [&](X509* x509) { return CopyPublicKey(request.get(), x509); },
          key_->certificate.get(), key_->key.get(), options_));
  return CertificatePem(certificate.get());
}

}  // namespace millrace
