#include "core/agent/node_key.h"

#include <openssl/pem.h>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "core/base/openssl.h"

namespace millrace {
namespace {

absl::Status OpenSslError(absl::string_view what) {
  return absl::InternalError(absl::StrCat(what, ": ", TakeOpenSslError()));
}

}  // namespace

absl::StatusOr<NodeKey> MakeNodeKey() {
  const UniqueKey key(EVP_EC_gen("P-256"));
  if (key == nullptr) return OpenSslError("cannot make a key for the node");
  const UniqueRequest request(X509_REQ_new());
  if (request == nullptr || X509_REQ_set_version(request.get(), 0) != 1 ||
      X509_REQ_set_pubkey(request.get(), key.get()) != 1 ||
      X509_REQ_sign(request.get(), key.get(), EVP_sha256()) <= 0) {
    return OpenSslError("cannot make a certificate request for the node");
  }
  const UniqueBio key_pem(BIO_new(BIO_s_secmem()));
  const UniqueBio csr_pem(BIO_new(BIO_s_mem()));
  if (key_pem == nullptr || csr_pem == nullptr ||
      PEM_write_bio_PKCS8PrivateKey(key_pem.get(), key.get(), nullptr, nullptr, 0, nullptr,
                                    nullptr) != 1 ||
      PEM_write_bio_X509_REQ(csr_pem.get(), request.get()) != 1) {
    return OpenSslError("cannot encode the node's key");
  }
  return NodeKey{BioText(key_pem.get()), BioText(csr_pem.get())};
}

}  // namespace millrace
