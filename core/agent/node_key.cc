#include "core/agent/node_key.h"

#include <openssl/pem.h>

#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "core/base/certificate.h"
#include "core/base/openssl.h"
#include "core/base/status_macros.h"

namespace millrace {
namespace {

absl::Status OpenSslError(absl::string_view what) {
  return absl::InternalError(absl::StrCat(what, ": ", TakeOpenSslError()));
}

}  // namespace

absl::StatusOr<NodeKey> MakeNodeKey() {
  MILLRACE_ASSIGN_OR_RETURN(const UniqueKey key, MakeP256Key());
  MILLRACE_ASSIGN_OR_RETURN(std::string key_pem, PrivateKeyPem(key.get()));
  const UniqueRequest request(X509_REQ_new());
  if (request == nullptr || X509_REQ_set_version(request.get(), 0) != 1 ||
      X509_REQ_set_pubkey(request.get(), key.get()) != 1 ||
      X509_REQ_sign(request.get(), key.get(), EVP_sha256()) <= 0) {
    return OpenSslError("cannot make a certificate request for the node");
  }
  const UniqueBio csr_pem(BIO_new(BIO_s_mem()));
  if (csr_pem == nullptr || PEM_write_bio_X509_REQ(csr_pem.get(), request.get()) != 1) {
    return OpenSslError("cannot encode the node's certificate request");
  }
  return NodeKey{std::move(key_pem), BioText(csr_pem.get())};
}

}  // namespace millrace
