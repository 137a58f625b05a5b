#include "core/coordinator/server/certificate_authority.h"

#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509.h>
#include <openssl/x509_vfy.h>
#include <openssl/x509v3.h>

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "core/base/fake_clock.h"
#include "core/base/status_matchers.h"
#include "core/net/certificate.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace millrace {
namespace {

using ::testing::HasSubstr;

struct Free {
  void operator()(EVP_PKEY* p) const { EVP_PKEY_free(p); }
  void operator()(X509* p) const { X509_free(p); }
  void operator()(BIO* p) const { BIO_free_all(p); }
  void operator()(X509_STORE* p) const { X509_STORE_free(p); }
  void operator()(X509_STORE_CTX* p) const { X509_STORE_CTX_free(p); }
};
template <typename T>
using Ptr = std::unique_ptr<T, Free>;

Ptr<X509> Parse(const std::string& pem) {
  Ptr<BIO> bio(BIO_new_mem_buf(pem.data(), static_cast<int>(pem.size())));
  return Ptr<X509>(PEM_read_bio_X509(bio.get(), nullptr, nullptr, nullptr));
}

// Whether `certificate` chains to `ca` for this purpose and name at this time.
bool Verifies(const std::string& certificate, const std::string& ca, int purpose,
              const std::string& name, absl::Time at) {
  Ptr<X509> leaf = Parse(certificate);
  Ptr<X509> root = Parse(ca);
  Ptr<X509_STORE> store(X509_STORE_new());
  X509_STORE_add_cert(store.get(), root.get());
  Ptr<X509_STORE_CTX> context(X509_STORE_CTX_new());
  X509_STORE_CTX_init(context.get(), store.get(), leaf.get(), nullptr);
  X509_STORE_CTX_set_purpose(context.get(), purpose);
  X509_VERIFY_PARAM* param = X509_STORE_CTX_get0_param(context.get());
  X509_VERIFY_PARAM_set_time(param, absl::ToTimeT(at));
  X509_VERIFY_PARAM_set1_host(param, name.c_str(), 0);
  const bool ok = X509_verify_cert(context.get()) == 1;
  ERR_clear_error();
  return ok;
}

class CertificateAuthorityTest : public testing::Test {
 protected:
  CertificateAuthorityTest() : key_(EVP_EC_gen("P-256")) {
    auto ca = CertificateAuthority::Create({.cluster_id = "c1", .clock = &clock_});
    EXPECT_THAT(ca, IsOk());
    ca_ = *std::move(ca);
  }

  FakeClock clock_;
  std::unique_ptr<CertificateAuthority> ca_;
  Ptr<EVP_PKEY> key_;
};

constexpr char kName[] = "worker-1.node.millrace";

TEST_F(CertificateAuthorityTest, TheServerIsMillraceAndNothingElse) {
  auto server = ca_->IssueServer();
  ASSERT_THAT(server, IsOk());
  const std::string& pem = server->certificate_pem;
  EXPECT_TRUE(Verifies(pem, ca_->ca_pem(), X509_PURPOSE_SSL_SERVER, "millrace", clock_.Now()));
  EXPECT_FALSE(Verifies(pem, ca_->ca_pem(), X509_PURPOSE_SSL_CLIENT, "millrace", clock_.Now()));
  EXPECT_FALSE(Verifies(pem, ca_->ca_pem(), X509_PURPOSE_SSL_SERVER, kName, clock_.Now()));
  EXPECT_THAT(server->private_key_pem, HasSubstr("BEGIN PRIVATE KEY"));
}

TEST_F(CertificateAuthorityTest, AClientIsNoServer) {
  auto viewer = ca_->MakeClient("viewer");
  ASSERT_THAT(viewer, IsOk());
  const std::string& pem = viewer->certificate_pem;
  const std::string name = "viewer.client.millrace";
  EXPECT_TRUE(Verifies(pem, pem, X509_PURPOSE_SSL_CLIENT, name, clock_.Now()));
  EXPECT_FALSE(Verifies(pem, pem, X509_PURPOSE_SSL_SERVER, name, clock_.Now()));
  EXPECT_FALSE(Verifies(pem, pem, X509_PURPOSE_SSL_CLIENT, "millrace", clock_.Now()));
  EXPECT_EQ(viewer->ToPem(), viewer->private_key_pem + pem);
}

TEST_F(CertificateAuthorityTest, AClientIsKnownByItsOwnCertificateAlone) {
  const auto viewer = ca_->MakeClient("viewer");
  const auto other = ca_->MakeClient("viewer");  // of the same name
  ASSERT_THAT(viewer, IsOk());
  ASSERT_THAT(other, IsOk());
  const auto leaf = ca_->SignNodeKey(*PublicKeyPoint(key_.get()), kName);
  ASSERT_THAT(leaf, IsOk());
  const auto believed = [&](const std::string& pem, const std::string& name) {
    return Verifies(pem, viewer->certificate_pem, X509_PURPOSE_SSL_CLIENT, name, clock_.Now());
  };
  EXPECT_TRUE(believed(viewer->certificate_pem, "viewer.client.millrace"));
  EXPECT_FALSE(believed(other->certificate_pem, "viewer.client.millrace"));
  EXPECT_FALSE(believed(*leaf, kName));
  EXPECT_FALSE(Verifies(viewer->certificate_pem, ca_->ca_pem(), X509_PURPOSE_SSL_CLIENT,
                        "viewer.client.millrace", clock_.Now()));
}

TEST_F(CertificateAuthorityTest, ANodesLeafCarriesItsKeyAndTheChosenName) {
  auto leaf = ca_->SignNodeKey(*PublicKeyPoint(key_.get()), kName);
  ASSERT_THAT(leaf, IsOk());
  for (int purpose : {X509_PURPOSE_SSL_SERVER, X509_PURPOSE_SSL_CLIENT}) {
    EXPECT_TRUE(Verifies(*leaf, ca_->ca_pem(), purpose, kName, clock_.Now()));
    EXPECT_FALSE(Verifies(*leaf, ca_->ca_pem(), purpose, "millrace", clock_.Now()));
  }
  Ptr<X509> certificate = Parse(*leaf);
  EXPECT_EQ(X509_check_ca(certificate.get()), 0);
  EXPECT_EQ(EVP_PKEY_eq(X509_get0_pubkey(certificate.get()), key_.get()), 1);
}

TEST_F(CertificateAuthorityTest, ValidityBeginsADayBackAndEndsAfterTenYears) {
  auto leaf = ca_->SignNodeKey(*PublicKeyPoint(key_.get()), kName);
  ASSERT_THAT(leaf, IsOk());
  auto valid = [&](absl::Duration after) {
    return Verifies(*leaf, ca_->ca_pem(), X509_PURPOSE_SSL_SERVER, kName, clock_.Now() + after);
  };
  EXPECT_TRUE(valid(-absl::Hours(24)));
  EXPECT_FALSE(valid(-absl::Hours(26)));
  EXPECT_TRUE(valid(absl::Hours(24 * 3649)));
  EXPECT_FALSE(valid(absl::Hours(24 * 3651)));
}

TEST_F(CertificateAuthorityTest, ClustersDoNotTrustEachOther) {
  auto other = CertificateAuthority::Create({.cluster_id = "c1", .clock = &clock_});
  ASSERT_THAT(other, IsOk());
  auto server = (*other)->IssueServer();
  ASSERT_THAT(server, IsOk());
  EXPECT_FALSE(Verifies(server->certificate_pem, ca_->ca_pem(), X509_PURPOSE_SSL_SERVER, "millrace",
                        clock_.Now()));
}

TEST_F(CertificateAuthorityTest, SerialsAreNeverUsedTwice) {
  const std::string point = *PublicKeyPoint(key_.get());
  Ptr<X509> a = Parse(*ca_->SignNodeKey(point, kName));
  Ptr<X509> b = Parse(*ca_->SignNodeKey(point, kName));
  EXPECT_NE(ASN1_INTEGER_cmp(X509_get0_serialNumber(a.get()), X509_get0_serialNumber(b.get())), 0);
}

TEST_F(CertificateAuthorityTest, HostileKeysAreRefused) {
  auto refused = [&](const std::string& point) {
    EXPECT_THAT(ca_->SignNodeKey(point, kName), StatusIs(absl::StatusCode::kInvalidArgument));
    EXPECT_EQ(ERR_peek_error(), 0u);
  };
  const std::string good = *PublicKeyPoint(key_.get());
  refused("garbage");
  refused(std::string(1 << 20, 'A'));
  refused(std::string(1, '\0'));  // the point at infinity
  refused(std::string(kPublicKeyPointBytes, '\0'));
  refused(std::string(kPublicKeyPointBytes, '\x04'));  // not on the curve
  refused('\x04' + std::string(64, '\xff'));           // coordinates beyond the field
  refused(good + '\0');
  for (size_t size = 0; size < good.size(); ++size) refused(good.substr(0, size));
  std::string other = good;
  other.back() = static_cast<char>(other.back() ^ 1);
  refused(other);
  const std::string odd(1, (good.back() & 1) != 0 ? '\x03' : '\x02');
  refused(odd + good.substr(1, 32));                        // compressed
  refused(static_cast<char>(odd[0] + 4) + good.substr(1));  // hybrid
  Ptr<EVP_PKEY> p521(EVP_EC_gen("P-521"));
  unsigned char* bytes = nullptr;
  const size_t size = EVP_PKEY_get1_encoded_public_key(p521.get(), &bytes);
  refused(std::string(reinterpret_cast<char*>(bytes), size));
  OPENSSL_free(bytes);
}

TEST_F(CertificateAuthorityTest, ANameCannotSmuggleAnother) {
  const std::string good = *PublicKeyPoint(key_.get());
  for (const std::string name : {"a,DNS:millrace", "", "a b", "A", "a\n", "*"}) {
    EXPECT_THAT(ca_->SignNodeKey(good, name), StatusIs(absl::StatusCode::kInvalidArgument));
  }
  EXPECT_THAT(ca_->SignNodeKey(good, std::string(254, 'a')),
              StatusIs(absl::StatusCode::kInvalidArgument));
}

}  // namespace
}  // namespace millrace
