#include "testing/kube_apiserver/test_pki.h"

#include <openssl/asn1.h>
#include <openssl/ec.h>
#include <openssl/pem.h>

#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/clock.h"
#include "core/base/random.h"
#include "core/net/openssl.h"
#include "millrace/status_macros.h"

namespace millrace {
namespace {

absl::Status OpenSslError(absl::string_view what) {
  return absl::InternalError(absl::StrCat("OpenSSL: ", what, ": ", TakeOpenSslError()));
}

absl::StatusOr<UniqueKey> MakeKey() {
  UniqueKey key(EVP_EC_gen("P-256"));
  if (key == nullptr) return OpenSslError("cannot make a key");
  return key;
}

// What `write` puts into a BIO.
template <typename Write>
absl::StatusOr<std::string> Pem(Write write) {
  UniqueBio bio(BIO_new(BIO_s_mem()));
  if (bio == nullptr || write(bio.get()) != 1) return OpenSslError("cannot write PEM");
  return BioText(bio.get());
}

absl::StatusOr<std::string> CertificatePem(X509* certificate) {
  return Pem([&](BIO* bio) { return PEM_write_bio_X509(bio, certificate); });
}

absl::StatusOr<std::string> PrivateKeyPem(EVP_PKEY* key) {
  return Pem([&](BIO* bio) {
    return PEM_write_bio_PKCS8PrivateKey(bio, key, nullptr, nullptr, 0, nullptr, nullptr);
  });
}

bool AddExtension(X509* certificate, X509* issuer, int nid, const std::string& value) {
  X509V3_CTX context;
  X509V3_set_ctx_nodb(&context);
  X509V3_set_ctx(&context, issuer, certificate, nullptr, nullptr, 0);
  UniqueExtension extension(X509V3_EXT_conf_nid(nullptr, &context, nid, value.c_str()));
  return extension != nullptr && X509_add_ext(certificate, extension.get(), -1) == 1;
}

bool AddName(X509_NAME* name, const char* field, const std::string& value) {
  return value.empty() ||
         X509_NAME_add_entry_by_txt(name, field, MBSTRING_UTF8,
                                    reinterpret_cast<const unsigned char*>(value.data()),
                                    static_cast<int>(value.size()), -1, 0) == 1;
}

bool IsIpAddress(const std::string& name) {
  return name.find_first_not_of("0123456789.") == std::string::npos ||
         name.find(':') != std::string::npos;
}

bool AddAlternativeNames(X509* certificate, X509* issuer, const std::vector<std::string>& names) {
  if (names.empty()) return true;
  const std::string list = absl::StrJoin(names, ",", [](std::string* out, const std::string& name) {
    absl::StrAppend(out, IsIpAddress(name) ? "IP:" : "DNS:", name);
  });
  return AddExtension(certificate, issuer, NID_subject_alt_name, list);
}

// `issuer` null: a CA that signs itself.
absl::StatusOr<UniqueCertificate> MakeCertificate(const TestPki::Request& request, EVP_PKEY* key,
                                                  X509* issuer, EVP_PKEY* issuer_key) {
  UniqueCertificate certificate(X509_new());
  if (certificate == nullptr) return OpenSslError("no memory");
  X509* const x509 = certificate.get();
  X509* const signer = issuer == nullptr ? x509 : issuer;
  const bool is_ca = issuer == nullptr;
  const absl::Time now = absl::Now();
  const UniqueBn serial(BN_new());
  bool ok = serial != nullptr && BN_set_word(serial.get(), RandomU64() >> 1) == 1 &&
            BN_to_ASN1_INTEGER(serial.get(), X509_get_serialNumber(x509)) != nullptr;
  ok = ok && X509_set_version(x509, X509_VERSION_3) == 1 && X509_set_pubkey(x509, key) == 1 &&
       AddName(X509_get_subject_name(x509), "O", request.organization) &&
       AddName(X509_get_subject_name(x509), "CN", request.common_name) &&
       X509_set_issuer_name(x509, X509_get_subject_name(signer)) == 1 &&
       ASN1_TIME_set(X509_getm_notBefore(x509), absl::ToTimeT(now + request.valid_from)) !=
           nullptr &&
       ASN1_TIME_set(X509_getm_notAfter(x509), absl::ToTimeT(now + request.valid_until)) != nullptr;
  const char* const usage = is_ca ? "critical,keyCertSign,cRLSign" : "critical,digitalSignature";
  ok = ok &&
       AddExtension(x509, signer, NID_basic_constraints, is_ca ? "critical,CA:TRUE" : "CA:FALSE") &&
       AddExtension(x509, signer, NID_key_usage, usage) &&
       AddExtension(x509, signer, NID_subject_key_identifier, "hash") &&
       AddAlternativeNames(x509, signer, request.names);
  if (!is_ca) {
    const char* const extended = request.names.empty() ? "clientAuth" : "serverAuth";
    ok = ok && AddExtension(x509, signer, NID_ext_key_usage, extended);
  }
  if (!ok || X509_sign(x509, issuer_key, EVP_sha256()) <= 0) {
    return OpenSslError("cannot make a certificate");
  }
  return certificate;
}

}  // namespace

struct TestPki::Key {
  UniqueKey key;
  UniqueCertificate certificate;
};

TestPki::TestPki(std::unique_ptr<Key> key, std::string ca_pem)
    : key_(std::move(key)), ca_pem_(std::move(ca_pem)) {}

TestPki::~TestPki() = default;

absl::StatusOr<std::unique_ptr<TestPki>> TestPki::Create(const std::string& name) {
  auto key = std::make_unique<Key>();
  MILLRACE_ASSIGN_OR_RETURN(key->key, MakeKey());
  EVP_PKEY* const own = key->key.get();
  MILLRACE_ASSIGN_OR_RETURN(key->certificate,
                            MakeCertificate({.common_name = name}, own, nullptr, own));
  MILLRACE_ASSIGN_OR_RETURN(std::string pem, CertificatePem(key->certificate.get()));
  return std::unique_ptr<TestPki>(new TestPki(std::move(key), std::move(pem)));
}

absl::StatusOr<TestPki::Identity> TestPki::Issue(const Request& request) const {
  MILLRACE_ASSIGN_OR_RETURN(const UniqueKey key, MakeKey());
  MILLRACE_ASSIGN_OR_RETURN(
      const UniqueCertificate certificate,
      MakeCertificate(request, key.get(), key_->certificate.get(), key_->key.get()));
  Identity identity;
  MILLRACE_ASSIGN_OR_RETURN(identity.certificate_pem, CertificatePem(certificate.get()));
  MILLRACE_ASSIGN_OR_RETURN(identity.private_key_pem, PrivateKeyPem(key.get()));
  return identity;
}

absl::StatusOr<TestPki::KeyPair> TestPki::MakeKeyPair() {
  MILLRACE_ASSIGN_OR_RETURN(const UniqueKey key, MakeKey());
  KeyPair pair;
  MILLRACE_ASSIGN_OR_RETURN(pair.private_key_pem, PrivateKeyPem(key.get()));
  MILLRACE_ASSIGN_OR_RETURN(pair.public_key_pem,
                            Pem([&](BIO* bio) { return PEM_write_bio_PUBKEY(bio, key.get()); }));
  return pair;
}

}  // namespace millrace
