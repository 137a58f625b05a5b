#include "core/coordinator/certificate_authority.h"

#include <openssl/bio.h>
#include <openssl/ec.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/x509.h>

#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "core/base/certificate.h"
#include "core/base/openssl.h"
#include "core/base/status_macros.h"

namespace millrace {
namespace {

absl::Status BadRequest(absl::string_view what) {
  ERR_clear_error();
  return absl::InvalidArgumentError(absl::StrCat("certificate request: ", what));
}

// A PEM may say that it is encrypted; OpenSSL would ask the terminal for a password.
int NoPassword(char*, int, int, void*) { return 0; }

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

absl::StatusOr<CertificateAuthority::Identity> CertificateAuthority::IssueServer() const {
  return Issue(std::string(kServerName), "serverAuth");
}

absl::StatusOr<CertificateAuthority::Identity> CertificateAuthority::IssueClient(
    absl::string_view kind) const {
  return Issue(absl::StrCat(kind, ".client.", kServerName), "clientAuth");
}

absl::StatusOr<CertificateAuthority::Identity> CertificateAuthority::Issue(
    const std::string& name, const std::string& extended_key_usage) const {
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
                                key_->certificate.get(), key_->key.get()));
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
  if (bio == nullptr) return absl::InternalError(TakeOpenSslError());
  UniqueRequest request(PEM_read_bio_X509_REQ(bio.get(), nullptr, NoPassword, nullptr));
  if (request == nullptr) return BadRequest("not a PKCS#10 request in PEM");
  EVP_PKEY* key = X509_REQ_get0_pubkey(request.get());  // owned by the request
  if (key == nullptr || !IsP256(key)) return BadRequest("its key is not on P-256");
  if (X509_REQ_verify(request.get(), key) != 1) return BadRequest("not signed by its own key");
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
                                [&](X509* x509) { return CopyPublicKey(request.get(), x509); },
                                key_->certificate.get(), key_->key.get()));
  return CertificatePem(certificate.get());
}

}  // namespace millrace
