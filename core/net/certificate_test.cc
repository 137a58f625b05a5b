#include "core/net/certificate.h"

#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "core/base/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace millrace {
namespace {

using ::testing::StartsWith;

constexpr absl::Duration kDay = absl::Hours(24);

class CertificateTest : public ::testing::Test {
 protected:
  CertificateTest() : key_(*MakeP256Key()) {
    const CertificateProfile profile = {.common_name = "c",
                                        .dns_name = "c.test",
                                        .key_usage = "critical,digitalSignature",
                                        .extended_key_usage = "serverAuth",
                                        .constraints = "critical,CA:FALSE",
                                        .validity = 30 * kDay};
    const auto certificate = MakeCertificate(
        profile, now_, [this](X509* x509) { return X509_set_pubkey(x509, key_.get()) == 1; },
        nullptr, key_.get());
    pem_ = *CertificatePem(certificate->get());
  }

  const absl::Time now_ = absl::FromUnixSeconds(1704067200);  // 2024-01-01T00:00:00Z
  const UniqueKey key_;
  std::string pem_;
};

TEST_F(CertificateTest, IsValidFromADayBeforeItIsMade) {
  const auto valid = ReadCertificateValidity(pem_);
  ASSERT_THAT(valid, IsOk());
  EXPECT_EQ(valid->from, now_ - absl::Hours(25));
  EXPECT_EQ(valid->until, now_ + 30 * kDay);
  EXPECT_THAT(*PrivateKeyPem(key_.get()), StartsWith("-----BEGIN PRIVATE KEY-----"));
}

TEST_F(CertificateTest, AHostWhoseClockIsADayBehindBelievesIt) {
  EXPECT_EQ(ClockMismatch(pem_, now_ - kDay), "");
  EXPECT_EQ(ClockMismatch(pem_, now_ + kDay), "");
}

TEST_F(CertificateTest, BothClocksAreNamedWhereTheyDifferMore) {
  EXPECT_EQ(ClockMismatch(pem_, now_ - 2 * kDay),
            "this host's clock says 2023-12-30T00:00:00Z, and that of the host which made the "
            "certificate said 2024-01-01T00:00:00Z then: it is valid from 2023-12-30T23:00:00Z to "
            "2024-01-31T00:00:00Z; set the clocks of both hosts (NTP)");
  EXPECT_THAT(ClockMismatch(pem_, now_ + 31 * kDay),
              StartsWith("this host's clock says 2024-02-01T00:00:00Z, and that of the host"));
}

TEST_F(CertificateTest, WhatIsNoCertificateHasNoTime) {
  std::string encrypted = pem_;
  encrypted.insert(encrypted.find('\n') + 1,
                   "Proc-Type: 4,ENCRYPTED\nDEK-Info: AES-256-CBC,00112233445566778899AABBCCDDEEFF"
                   "\n\n");
  for (const std::string& text :
       {std::string(), std::string("x"), pem_.substr(0, 200), encrypted}) {
    EXPECT_THAT(ReadCertificateValidity(text), StatusIs(absl::StatusCode::kInvalidArgument));
    EXPECT_EQ(ClockMismatch(text, now_), "");
  }
}

}  // namespace
}  // namespace millrace
