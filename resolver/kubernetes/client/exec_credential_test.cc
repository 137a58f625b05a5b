#include "resolver/kubernetes/client/exec_credential.h"

#include <signal.h>

#include <cstdlib>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "core/base/file.h"
#include "core/base/json.h"
#include "core/base/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "testing/eventually.h"

namespace millrace {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr char kV1[] = "client.authentication.k8s.io/v1";
constexpr char kV1Beta1[] = "client.authentication.k8s.io/v1beta1";
constexpr absl::Duration kLong = absl::Minutes(2);

class ExecCredentialTest : public testing::Test {
 protected:
  // A plugin that is this shell script.
  ExecPlugin Plugin(const std::string& script, const std::string& api_version = kV1) const {
    ExecPlugin plugin;
    plugin.api_version = api_version;
    plugin.command = JoinPath(dir_.path(), "plugin");
    EXPECT_THAT(WriteFileAtomic(plugin.command, absl::StrCat("#!/bin/sh\n", script, "\n"), 0700),
                IsOk());
    return plugin;
  }

  static std::string Prints(const std::string& status, const std::string& api_version = kV1) {
    return absl::StrCat("cat <<'END'\n{\"apiVersion\":\"", api_version,
                        "\",\"kind\":\"ExecCredential\",\"status\":", status, "}\nEND");
  }

  absl::StatusOr<ExecCredential> Run(const ExecPlugin& plugin, absl::Duration timeout = kLong) {
    return RunExecPlugin(plugin, timeout, {});
  }

  const TempDir dir_ = *TempDir::Create("exec");
};

TEST_F(ExecCredentialTest, ATokenAndWhenItExpires) {
  for (const std::string version : {kV1, kV1Beta1}) {
    const auto credential = Run(
        Plugin(Prints(R"({"token":"t1","expirationTimestamp":"2030-01-02T03:04:05Z"})", version),
               version));
    ASSERT_THAT(credential, IsOk());
    EXPECT_EQ(credential->token, "t1");
    EXPECT_EQ(absl::FormatTime(credential->expires, absl::UTCTimeZone()),
              "2030-01-02T03:04:05+00:00");
  }
}

TEST_F(ExecCredentialTest, AClientCertificate) {
  const auto credential =
      Run(Plugin(Prints(R"({"clientCertificateData":"CERT","clientKeyData":"KEY"})")));
  ASSERT_THAT(credential, IsOk());
  EXPECT_EQ(credential->token, "");
  EXPECT_EQ(credential->client_certificate_pem, "CERT");
  EXPECT_EQ(credential->client_key_pem, "KEY");
  EXPECT_EQ(credential->expires, absl::InfiniteFuture());
}

TEST_F(ExecCredentialTest, SeesItsArgumentsItsEnvironmentAndNoTerminal) {
  ExecPlugin plugin = Plugin(
      "if read line; then echo input >&2; exit 9; fi\n"
      "printf '{\"apiVersion\":\"%s\",\"kind\":\"ExecCredential\",\"status\":{\"token\":"
      "\"%s|%s|%s|%s\"}}' \"$1\" \"$#\" \"$2\" \"$ADDED\" \"$INHERITED\"");
  setenv("INHERITED", "from-us", 1);
  setenv("ADDED", "to be replaced", 1);
  plugin.args = {kV1, "two words"};
  plugin.env = {{"ADDED", "by-config"}};
  const auto credential = Run(plugin);
  ASSERT_THAT(credential, IsOk());
  EXPECT_EQ(credential->token, "2|two words|by-config|from-us");
}

TEST_F(ExecCredentialTest, IsToldWhatIsAsked) {
  ExecPlugin plugin = Plugin(absl::StrCat("printf '%s' \"$KUBERNETES_EXEC_INFO\" > ", dir_.path(),
                                          "/info\n", Prints(R"({"token":"t"})")));
  plugin.cluster_info = R"({"server":"https://10.0.0.1"})";
  ASSERT_THAT(Run(plugin), IsOk());
  const auto info = ParseJson(*ReadFile(JoinPath(dir_.path(), "info")));
  ASSERT_THAT(info, IsOk());
  EXPECT_EQ(
      *info,
      Json({{"apiVersion", kV1},
            {"kind", "ExecCredential"},
            {"spec", {{"interactive", false}, {"cluster", {{"server", "https://10.0.0.1"}}}}}}));
}

TEST_F(ExecCredentialTest, IsFoundInPath) {
  ExecPlugin plugin = Plugin(Prints(R"({"token":"t"})"));
  const std::string path = getenv("PATH");
  setenv("PATH", absl::StrCat(dir_.path(), ":", path).c_str(), 1);
  plugin.command = "plugin";
  EXPECT_THAT(Run(plugin), IsOk());
  setenv("PATH", path.c_str(), 1);
}

TEST_F(ExecCredentialTest, OneThatDoesNotExistNamesTheInstallHint) {
  ExecPlugin plugin;
  plugin.api_version = kV1;
  plugin.command = "/nowhere/aws-iam-authenticator";
  plugin.install_hint = "\n  Install it with: apt install x\nmore";
  EXPECT_THAT(Run(plugin), StatusIs(absl::StatusCode::kUnauthenticated,
                                    AllOf(HasSubstr("/nowhere/aws-iam-authenticator cannot be run"),
                                          HasSubstr("; Install it with: apt install x"))));
}

TEST_F(ExecCredentialTest, OneThatFailsShowsTheEndOfItsStderr) {
  const auto failed =
      Run(Plugin("yes noise | head -n 2000 >&2\necho 'session expired: log in' >&2\n"
                 "exit 3"));
  EXPECT_THAT(failed, StatusIs(absl::StatusCode::kUnauthenticated,
                               AllOf(HasSubstr("failed (exit code 3): "),
                                     HasSubstr("session expired: log in"))));
  EXPECT_LT(failed.status().message().size(), 2000u);
  EXPECT_THAT(Run(Plugin("kill -SEGV $$")),
              StatusIs(absl::StatusCode::kUnauthenticated, HasSubstr("SIGSEGV")));
}

TEST_F(ExecCredentialTest, WhatIsNoCredentialIsRefusedAndNeverQuoted) {
  const auto refused = [&](const std::string& script, const std::string& why) {
    const auto credential = Run(Plugin(script));
    EXPECT_THAT(credential, StatusIs(absl::StatusCode::kUnauthenticated,
                                     AllOf(HasSubstr(why), Not(HasSubstr("SECRET")))))
        << script;
  };
  refused("echo SECRET", "not JSON");
  refused("true", "not JSON");
  refused(Prints(R"({"token":""})"), "neither a token nor a client certificate");
  refused(Prints("null"), "field \"status\" is missing");
  refused(Prints(R"({"token":"SECRET","expirationTimestamp":"soon"})"), "no time of RFC 3339");
  refused(Prints(R"({"clientKeyData":"SECRET"})"), "come together or not at all");
  refused(Prints(R"({"token":7})"), "field \"status.token\" must be a string");
  refused(Prints(R"({"token":"SECRET"})", kV1Beta1), "found \"ExecCredential\" of \"client.auth");
  refused("yes SECRET | head -c 3000000", "printed more than");
}

TEST_F(ExecCredentialTest, OneThatWaitsIsKilledWithItsChildren) {
  const auto late =
      Run(Plugin(absl::StrCat("sleep 1000 & echo $! > ", dir_.path(), "/pid\nsleep 1000")),
          absl::Seconds(2));
  EXPECT_THAT(late, StatusIs(absl::StatusCode::kDeadlineExceeded,
                             HasSubstr("has not ended within 2s and was killed")));
  const pid_t grandchild = std::atoi(ReadFile(JoinPath(dir_.path(), "pid"))->c_str());
  ASSERT_GT(grandchild, 0);
  EXPECT_TRUE(Eventually(
      [grandchild] {
        // A zombie of init still answers signal 0 for a while.
        if (kill(grandchild, 0) != 0) return true;
        const auto stat = ReadFile(absl::StrCat("/proc/", grandchild, "/stat"));
        return !stat.ok() || stat->find(") Z ") != std::string::npos;
      },
      kLong));
}

TEST_F(ExecCredentialTest, AStopEndsIt) {
  std::stop_source stop;
  stop.request_stop();
  EXPECT_THAT(RunExecPlugin(Plugin("sleep 1000"), kLong, stop.get_token()),
              StatusIs(absl::StatusCode::kCancelled));
}

TEST_F(ExecCredentialTest, ADaemonThatItLeavesBehindIsNotWaitedFor) {
  const auto credential = Run(Plugin(absl::StrCat(Prints(R"({"token":"t"})"), "\nsleep 20 &")));
  ASSERT_THAT(credential, IsOk());
  EXPECT_EQ(credential->token, "t");
}

}  // namespace
}  // namespace millrace
