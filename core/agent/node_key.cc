#include "core/agent/node_key.h"

#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509.h>

#include <memory>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace millrace {
namespace {

struct Free {
  void operator()(BIO* bio) const { BIO_free_all(bio); }
  void operator()(EVP_PKEY* key) const { EVP_PKEY_free(key); }
  void operator()(X509_REQ* request) const { X509_REQ_free(request); }
};
using BioPtr = std::unique_ptr<BIO, Free>;
using KeyPtr = std::unique_ptr<EVP_PKEY, Free>;
using RequestPtr = std::unique_ptr<X509_REQ, Free>;

absl::Status OpenSslError(absl::string_view what) {
  char reason[256] = "no reason given";
  if (const unsigned long code = ERR_get_error(); code != 0) {
    ERR_error_string_n(code, reason, sizeof(reason));
  }
  ERR_clear_error();
  return absl::InternalError(absl::StrCat(what, ": ", reason));
}

std::string TakeText(BIO* bio) {
  char* data = nullptr;
  const long size = BIO_get_mem_data(bio, &data);
  return size <= 0 ? std::string() : std::string(data, static_cast<size_t>(size));
}

}  // namespace

absl::StatusOr<NodeKey> MakeNodeKey() {
  const KeyPtr key(EVP_EC_gen("P-256"));
  if (key == nullptr) return OpenSslError("cannot make a key for the node");
  const RequestPtr request(X509_REQ_new());
  if (request == nullptr || X509_REQ_set_version(request.get(), 0) != 1 ||
      X509_REQ_set_pubkey(request.get(), key.get()) != 1 ||
      X509_REQ_sign(request.get(), key.get(), EVP_sha256()) <= 0) {
    return OpenSslError("cannot make a certificate request for the node");
  }
  const BioPtr key_pem(BIO_new(BIO_s_secmem()));
  const BioPtr csr_pem(BIO_new(BIO_s_mem()));
  if (key_pem == nullptr || csr_pem == nullptr ||
      PEM_write_bio_PKCS8PrivateKey(key_pem.get(), key.get(), nullptr, nullptr, 0, nullptr,
                                    nullptr) != 1 ||
      PEM_write_bio_X509_REQ(csr_pem.get(), request.get()) != 1) {
    return OpenSslError("cannot encode the node's key");
  }
  return NodeKey{TakeText(key_pem.get()), TakeText(csr_pem.get())};
}

}  // namespace millrace
