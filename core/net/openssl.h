// File: core/net/openssl.h
//
// Owners of OpenSSL's objects, and its errors as text. For those who call OpenSSL themselves.
//
// Defines: UniqueOpenSsl and its aliases, TakeOpenSslError(), BioText().
//
//   UniqueKey key(EVP_EC_gen("P-256"));
//   if (key == nullptr) return absl::InternalError(TakeOpenSslError());

#ifndef CORE_NET_OPENSSL_H_
#define CORE_NET_OPENSSL_H_

#include <openssl/bio.h>
#include <openssl/bn.h>
#include <openssl/evp.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>

#include <memory>
#include <string>

namespace millrace {

template <auto kFree>
struct OpenSslDeleter {
  template <typename T>
  void operator()(T* object) const {
    kFree(object);
  }
};
// UniqueOpenSsl<SSL, SSL_free>
template <typename T, auto kFree>
using UniqueOpenSsl = std::unique_ptr<T, OpenSslDeleter<kFree>>;

using UniqueBio = UniqueOpenSsl<BIO, BIO_free_all>;
using UniqueBn = UniqueOpenSsl<BIGNUM, BN_free>;
using UniqueCertificate = UniqueOpenSsl<X509, X509_free>;
using UniqueExtension = UniqueOpenSsl<X509_EXTENSION, X509_EXTENSION_free>;
using UniqueKey = UniqueOpenSsl<EVP_PKEY, EVP_PKEY_free>;

// The reason of the first error in OpenSSL's queue of the calling thread, "unknown error" if there
// is none. Empties the queue, so that nothing is left for the next user (gRPC).
[[nodiscard]] std::string TakeOpenSslError();

// What has been written to a memory BIO.
[[nodiscard]] std::string BioText(BIO* bio);

}  // namespace millrace

#endif  // CORE_NET_OPENSSL_H_
