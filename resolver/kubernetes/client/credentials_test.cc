#include "resolver/kubernetes/client/credentials.h"

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "core/base/fake_clock.h"
#include "core/base/file.h"
#include "core/base/status_matchers.h"
#include "core/base/thread.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "testing/eventually.h"

namespace millrace {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr absl::Duration kLong = absl::Minutes(2);

class CredentialsTest : public testing::Test {
 protected:
  std::string Path(const std::string& name) const { return JoinPath(dir_.path(), name); }

  void Write(const std::string& name, const std::string& text) const {
    ASSERT_THAT(WriteFileAtomic(Path(name), text, 0700), IsOk());
  }

  static std::unique_ptr<CredentialSource> Make(CredentialOptions options) {
    auto source = CredentialSource::Create(std::move(options));
    EXPECT_THAT(source, IsOk());
    return *std::move(source);
  }

  // A plugin whose answers count its runs: "token-1", "token-2", ...
  CredentialOptions CountingPlugin(const std::string& more_status = "") const {
    Write("plugin",
          absl::StrCat("#!/bin/sh\necho run >> ", Path("runs"), "\nn=$(wc -l < ", Path("runs"),
                       ")\necho '{\"apiVersion\":\"client.authentication.k8s.io/v1\","
                       "\"kind\":\"ExecCredential\",\"status\":{\"token\":\"token-'$n'\"",
                       more_status, "}}'\n"));
    CredentialOptions options;
    options.exec =
        ExecPlugin{.api_version = "client.authentication.k8s.io/v1", .command = Path("plugin")};
    return options;
  }

  static std::string Token(CredentialSource& source) {
    const auto credentials = source.Get(kLong, {});
    return credentials.ok() ? credentials->token : credentials.status().ToString();
  }

  const TempDir dir_ = *TempDir::Create("credentials");
};

TEST_F(CredentialsTest, NothingIsAnonymous) {
  const auto source = Make({});
  const auto credentials = source->Get(kLong, {});
  ASSERT_THAT(credentials, IsOk());
  EXPECT_TRUE(credentials->empty());
  EXPECT_EQ(source->Describe(), "anonymous");
}

TEST_F(CredentialsTest, ATokenFileIsReadEachTime) {
  const auto source = Make({.token_file = Path("token")});
  EXPECT_EQ(source->Describe(), absl::StrCat("token file ", Path("token")));
  EXPECT_THAT(source->Get(kLong, {}),
              StatusIs(absl::StatusCode::kUnauthenticated,
                       AllOf(HasSubstr("token file cannot be read"), HasSubstr(Path("token")))));
  Write("token", " \n");
  EXPECT_THAT(source->Get(kLong, {}),
              StatusIs(absl::StatusCode::kUnauthenticated, HasSubstr("is empty")));
  Write("token", "first\n");
  EXPECT_EQ(Token(*source), "first");
  Write("token", "second\n");
  EXPECT_EQ(Token(*source), "second");
}

TEST_F(CredentialsTest, ATokenThatWouldBreakTheHeaderIsRefused) {
  Write("token", "abc\r\nX-Evil: 1\n");
  EXPECT_THAT(
      Make({.token_file = Path("token")})->Get(kLong, {}),
      StatusIs(absl::StatusCode::kUnauthenticated,
               AllOf(HasSubstr("holds blanks or control characters"), Not(HasSubstr("abc")))));
}

TEST_F(CredentialsTest, CertificateFilesAreReadEachTime) {
  const auto source =
      Make({.client_certificate_file = Path("crt"), .client_key_file = Path("key")});
  Write("crt", "CERT");
  EXPECT_THAT(source->Get(kLong, {}),
              StatusIs(absl::StatusCode::kUnauthenticated, HasSubstr("client key file")));
  Write("key", "KEY");
  auto credentials = source->Get(kLong, {});
  ASSERT_THAT(credentials, IsOk());
  EXPECT_EQ(credentials->client_certificate_pem, "CERT");
  EXPECT_EQ(credentials->client_key_pem, "KEY");
  EXPECT_FALSE(credentials->empty());
}

TEST_F(CredentialsTest, ContradictionsAreRefused) {
  const auto invalid = [](const std::string& part) {
    return StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(part));
  };
  EXPECT_THAT(CredentialSource::Create({.token = "t", .token_file = "f"}), invalid("not both"));
  EXPECT_THAT(CredentialSource::Create({.client_certificate_pem = "c"}), invalid("needs its key"));
  EXPECT_THAT(CredentialSource::Create({.client_key_file = "k"}), invalid("needs its key"));
}

TEST_F(CredentialsTest, APluginWithoutExpiryRunsOnce) {
  const auto source = Make(CountingPlugin());
  EXPECT_EQ(Token(*source), "token-1");
  EXPECT_EQ(Token(*source), "token-1");
}

TEST_F(CredentialsTest, APluginRunsAgainShortlyBeforeItsAnswerExpires) {
  FakeClock clock;
  CredentialOptions options = CountingPlugin(absl::StrCat(
      ",\"expirationTimestamp\":\"",
      absl::FormatTime(absl::RFC3339_sec, clock.Now() + absl::Hours(1), absl::UTCTimeZone()),
      "\""));
  options.clock = &clock;
  const auto source = Make(options);
  EXPECT_EQ(Token(*source), "token-1");
  clock.Advance(absl::Minutes(59));
  EXPECT_EQ(Token(*source), "token-1");
  clock.Advance(absl::Seconds(55));
  EXPECT_EQ(Token(*source), "token-2");
}

TEST_F(CredentialsTest, ARefusedAnswerIsAskedForAnew) {
  const auto source = Make(CountingPlugin());
  const auto first = source->Get(kLong, {});
  ASSERT_THAT(first, IsOk());
  source->Refuse(*first);
  EXPECT_EQ(Token(*source), "token-2");
  // Somebody else's request was refused with what is no longer kept.
  source->Refuse(*first);
  EXPECT_EQ(Token(*source), "token-2");
}

TEST_F(CredentialsTest, APluginRunsOnceForAllWhoWait) {
  const auto source = Make(CountingPlugin());
  std::vector<Thread> threads;
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back("asker", [&] { EXPECT_EQ(Token(*source), "token-1"); });
  }
  threads.clear();
}

TEST_F(CredentialsTest, WhoWaitsForAPluginCanBeStopped) {
  Write("plugin", absl::StrCat("#!/bin/sh\ntouch ", Path("started"), "\nexec sleep 1000\n"));
  CredentialOptions options;
  options.exec =
      ExecPlugin{.api_version = "client.authentication.k8s.io/v1", .command = Path("plugin")};
  const auto source = Make(options);
  std::stop_source stop_runner;
  Thread runner("runner", [&] {
    EXPECT_THAT(source->Get(kLong, stop_runner.get_token()),
                StatusIs(absl::StatusCode::kCancelled));
  });
  EXPECT_TRUE(Eventually([&] { return ReadFile(Path("started")).ok(); }));
  EXPECT_THAT(
      source->Get(absl::Milliseconds(50), {}),
      StatusIs(absl::StatusCode::kDeadlineExceeded, HasSubstr("has not ended within 50ms")));
  std::stop_source stop_waiter;
  Thread waiter("waiter", [&] {
    EXPECT_THAT(source->Get(kLong, stop_waiter.get_token()),
                StatusIs(absl::StatusCode::kCancelled));
  });
  stop_waiter.request_stop();
  waiter.Join();
  stop_runner.request_stop();
}

TEST_F(CredentialsTest, HeadersAreAddedToWhateverElse) {
  CredentialOptions options = CountingPlugin();
  options.headers = {{"Impersonate-User", "ann"}};
  const auto source = Make(options);
  const auto credentials = source->Get(kLong, {});
  ASSERT_THAT(credentials, IsOk());
  EXPECT_EQ(credentials->headers, options.headers);
}

}  // namespace
}  // namespace millrace
