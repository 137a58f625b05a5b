#include "core/launch/agent_secret.h"

#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "core/base/file.h"
#include "core/base/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace millrace {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

class AgentSecretTest : public ::testing::Test {
 protected:
  AgentSecretTest() : dir_(*TempDir::Create("secret")), secret_(*MakeAgentSecret()) {}
  std::string Path(const std::string& name) const { return JoinPath(dir_.path(), name); }

  const TempDir dir_;
  const AgentSecret secret_;
};

TEST_F(AgentSecretTest, IsFreshEachTime) {
  EXPECT_EQ(secret_.token.size(), 64u);
  EXPECT_THAT(secret_.certificate_pem, StartsWith("-----BEGIN CERTIFICATE-----"));
  EXPECT_THAT(secret_.key_pem, StartsWith("-----BEGIN PRIVATE KEY-----"));
  const AgentSecret other = *MakeAgentSecret();
  EXPECT_NE(other.token, secret_.token);
  EXPECT_NE(other.certificate_pem, secret_.certificate_pem);
}

TEST_F(AgentSecretTest, ComesBackFromAFileAndFromAFolder) {
  ASSERT_THAT(WriteAgentSecretFile(Path("s.json"), secret_), IsOk());
  ASSERT_THAT(WriteAgentSecretDir(Path("d/e"), secret_), IsOk());
  for (const SecretPlace& place :
       {SecretPlace{.file = Path("s.json")}, SecretPlace{.dir = Path("d/e")}}) {
    const auto read = ReadAgentSecret(place);
    ASSERT_THAT(read, IsOk());
    EXPECT_EQ(*read, secret_);
  }
  struct stat info {};
  ASSERT_EQ(::stat(Path("s.json").c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0600u);
  std::filesystem::remove(Path("d/e/tls.key"));
  EXPECT_EQ(ReadAgentSecret({.dir = Path("d/e")}).status().code(), absl::StatusCode::kNotFound);
}

TEST_F(AgentSecretTest, WhatOthersMayReadIsRefused) {
  ASSERT_THAT(WriteAgentSecretFile(Path("s.json"), secret_), IsOk());
  ASSERT_EQ(::chmod(Path("s.json").c_str(), 0644), 0);
  const auto read = ReadAgentSecret({.file = Path("s.json")});
  EXPECT_EQ(read.status().code(), absl::StatusCode::kPermissionDenied);
  EXPECT_THAT(std::string(read.status().message()),
              AllOf(HasSubstr(Path("s.json")), HasSubstr("chmod 600")));
  ASSERT_EQ(::chmod(Path("s.json").c_str(), 0620), 0);
  EXPECT_EQ(ReadAgentSecret({.file = Path("s.json")}).status().code(),
            absl::StatusCode::kPermissionDenied);
  ASSERT_EQ(::chmod(Path("s.json").c_str(), 0440), 0);  // as a pod's group reads it
  EXPECT_THAT(ReadAgentSecret({.file = Path("s.json")}), IsOk());
}

TEST_F(AgentSecretTest, WhatAnotherUserCanChangeIsRefused) {
  ASSERT_THAT(WriteAgentSecretFile(Path("s.json"), secret_), IsOk());
  if (::chown(Path("s.json").c_str(), 65534, static_cast<gid_t>(-1)) != 0) {
    GTEST_SKIP() << "only root, outside of a user namespace, can give a file away";
  }
  const auto read = ReadAgentSecret({.file = Path("s.json")});
  EXPECT_EQ(read.status().code(), absl::StatusCode::kPermissionDenied);
  EXPECT_THAT(std::string(read.status().message()), HasSubstr("belongs to user 65534"));
}

TEST_F(AgentSecretTest, APipeInItsPlaceHoldsNobodyUp) {
  ASSERT_EQ(::mkfifo(Path("s.json").c_str(), 0600), 0);
  EXPECT_EQ(ReadAgentSecret({.file = Path("s.json")}).status().code(),
            absl::StatusCode::kInvalidArgument);
}

TEST_F(AgentSecretTest, TheLastMonthOfItsYearIsToldOf) {
  const SecretPlace file = {.file = "s.json"};
  const absl::Time now = absl::Now();
  EXPECT_EQ(RenewalNotice(secret_, file, now), "");
  EXPECT_EQ(RenewalNotice(secret_, file, now + absl::Hours(24 * 334)), "");
  EXPECT_THAT(RenewalNotice(secret_, file, now + absl::Hours(24 * 336)),
              AllOf(StartsWith("the agents' secret s.json expires on 20"),
                    HasSubstr("`millrace agent-secret --file s.json --replace`")));
  EXPECT_THAT(RenewalNotice(secret_, {.dir = "d"}, now + absl::Hours(24 * 336)),
              HasSubstr("`millrace agent-secret --dir d --replace` makes a new one (--kubernetes"));
}

TEST_F(AgentSecretTest, AnExpiredOneIsRefusedAndSaysWhatToRun) {
  const AgentSecret expired = *MakeAgentSecret(-absl::Hours(1));
  ASSERT_THAT(WriteAgentSecretFile(Path("s.json"), expired), IsOk());
  EXPECT_THAT(ReadAgentSecret({.file = Path("s.json")}),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       AllOf(HasSubstr("has expired on 20"),
                             HasSubstr(absl::StrCat("`millrace agent-secret --file ",
                                                    Path("s.json"), " --replace`")))));
}

TEST_F(AgentSecretTest, WhatIsNoSecretIsRefusedWithoutBeingQuoted) {
  for (const std::string& text :
       {std::string(), std::string("hunter2"), std::string("[]"), std::string("{}"),
        std::string(R"({"token": "hunter2", "certificate": "x", "key": "y"})"),
        absl::StrCat(R"({"token": ")", std::string(32, 'h'),
                     R"(", "certificate": "-----BEGIN CERTIFICATE-----hunter2",)",
                     R"( "key": "PRIVATE KEY-----"})"),
        std::string(100000, 'x')}) {
    ASSERT_THAT(WriteFileAtomic(Path("s.json"), text), IsOk());
    const auto read = ReadAgentSecret({.file = Path("s.json")});
    ASSERT_FALSE(read.ok());
    EXPECT_THAT(std::string(read.status().message()),
                AllOf(HasSubstr(Path("s.json")), Not(HasSubstr("hunter2"))));
  }
  EXPECT_EQ(ReadAgentSecret({.file = Path("none.json")}).status().code(),
            absl::StatusCode::kNotFound);
  EXPECT_EQ(ReadAgentSecret({}).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(ReadAgentSecret({.file = "a", .dir = "b"}).status().code(),
            absl::StatusCode::kInvalidArgument);
}

// As a folder is while its files are replaced one by one.
TEST_F(AgentSecretTest, AKeyOfAnotherCertificateIsRefused) {
  AgentSecret mixed = secret_;
  mixed.key_pem = MakeAgentSecret()->key_pem;
  ASSERT_THAT(WriteAgentSecretDir(Path("mixed"), mixed), IsOk());
  EXPECT_THAT(ReadAgentSecret({.dir = Path("mixed")}),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       AllOf(HasSubstr(Path("mixed")),
                             HasSubstr("its key is not that of its certificate"))));
  mixed.key_pem = "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n";
  ASSERT_THAT(WriteAgentSecretDir(Path("mixed"), mixed), IsOk());
  EXPECT_THAT(ReadAgentSecret({.dir = Path("mixed")}),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("its key is not")));
}

TEST_F(AgentSecretTest, TheManifestIsAKubernetesSecret) {
  const auto manifest = AgentSecretManifest(secret_, "millrace-agent", "ml");
  ASSERT_THAT(manifest, IsOk());
  EXPECT_THAT(*manifest,
              AllOf(HasSubstr("kind: Secret\n"), HasSubstr("  name: millrace-agent\n"),
                    HasSubstr("  namespace: ml\n"), HasSubstr("\n  tls.crt: LS0tLS1CRUdJTi"),
                    Not(HasSubstr(secret_.token))));
  EXPECT_EQ(AgentSecretManifest(secret_, "Not A Name", "").status().code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(AgentSecretManifest(secret_, "", "").status().code(),
            absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace millrace
