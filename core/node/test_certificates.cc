#include "core/node/test_certificates.h"

#include <openssl/bio.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>

#include "absl/strings/str_cat.h"
#include "core/base/log.h"

namespace millrace {
namespace {

constexpr long kHourSeconds = 3600;

std::string Pem(int (*write)(BIO*, const void*), const void* object) {
  BIO* const bio = BIO_new(BIO_s_mem());
  MILLRACE_CHECK(write(bio, object) == 1);
  char* data = nullptr;
  const long size = BIO_get_mem_data(bio, &data);
  std::string text(data, static_cast<size_t>(size));
  BIO_free(bio);
  return text;
}

std::string CertificatePem(X509* certificate) {
  return Pem(
      [](BIO* bio, const void* object) {
        return PEM_write_bio_X509(bio, const_cast<X509*>(static_cast<const X509*>(object)));
      },
      certificate);
}

std::string KeyPem(EVP_PKEY* key) {
  return Pem(
      [](BIO* bio, const void* object) {
        return PEM_write_bio_PrivateKey(bio,
                                        const_cast<EVP_PKEY*>(static_cast<const EVP_PKEY*>(object)),
                                        nullptr, nullptr, 0, nullptr, nullptr);
      },
      key);
}

EVP_PKEY* MakeKey() {
  EVP_PKEY* const key = EVP_EC_gen("P-256");
  MILLRACE_CHECK(key != nullptr);
  return key;
}

void AddExtension(X509* certificate, X509* issuer, int nid, const std::string& value) {
  X509V3_CTX context;
  X509V3_set_ctx(&context, issuer, certificate, nullptr, nullptr, 0);
  X509_EXTENSION* const extension = X509V3_EXT_conf_nid(nullptr, &context, nid, value.c_str());
  MILLRACE_CHECK(extension != nullptr) << value;
  MILLRACE_CHECK(X509_add_ext(certificate, extension, -1) == 1);
  X509_EXTENSION_free(extension);
}

// Neither extensions nor signature yet.
X509* MakeCertificate(EVP_PKEY* key, const std::string& name, X509* issuer) {
  static long next_serial = 1;
  X509* const certificate = X509_new();
  X509_set_version(certificate, 2);
  ASN1_INTEGER_set(X509_get_serialNumber(certificate), next_serial++);
  X509_gmtime_adj(X509_getm_notBefore(certificate), -kHourSeconds);
  X509_gmtime_adj(X509_getm_notAfter(certificate), 24 * kHourSeconds);
  X509_NAME_add_entry_by_txt(X509_get_subject_name(certificate), "CN", MBSTRING_ASC,
                             reinterpret_cast<const unsigned char*>(name.c_str()), -1, -1, 0);
  X509_set_issuer_name(certificate,
                       X509_get_subject_name(issuer != nullptr ? issuer : certificate));
  X509_set_pubkey(certificate, key);
  return certificate;
}

X509* MakeCa(EVP_PKEY* key) {
  X509* const certificate = MakeCertificate(key, "test ca", nullptr);
  AddExtension(certificate, certificate, NID_basic_constraints, "critical,CA:TRUE");
  AddExtension(certificate, certificate, NID_key_usage, "critical,keyCertSign");
  MILLRACE_CHECK(X509_sign(certificate, key, EVP_sha256()) > 0);
  return certificate;
}

}  // namespace

TestCertificateAuthority::TestCertificateAuthority()
    : key_(MakeKey()), certificate_(MakeCa(key_)), ca_pem_(CertificatePem(certificate_)) {}

TestCertificateAuthority::~TestCertificateAuthority() {
  X509_free(certificate_);
  EVP_PKEY_free(key_);
}

NodeTls TestCertificateAuthority::Issue(const std::string& dns_name) const {
  EVP_PKEY* const key = MakeKey();
  X509* const leaf = MakeCertificate(key, "node", certificate_);
  AddExtension(leaf, certificate_, NID_basic_constraints, "critical,CA:FALSE");
  AddExtension(leaf, certificate_, NID_ext_key_usage, "serverAuth,clientAuth");
  AddExtension(leaf, certificate_, NID_subject_alt_name, absl::StrCat("DNS:", dns_name));
  MILLRACE_CHECK(X509_sign(leaf, key_, EVP_sha256()) > 0);
  NodeTls tls{ca_pem_, CertificatePem(leaf), KeyPem(key)};
  X509_free(leaf);
  EVP_PKEY_free(key);
  return tls;
}

}  // namespace millrace
