#include "core/net/socket_address.h"

#include <string>

#include "absl/status/status.h"
#include "core/base/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace millrace {
namespace {

TEST(HostPortTest, ParsesNamesAndAddressesAndPrintsThemBack) {
  const struct {
    const char* text;
    HostPort expected;
  } cases[] = {
      {"host:80", {"host", 80}},
      {"worker-0.ps_svc.default.svc.cluster.local:2222",
       {"worker-0.ps_svc.default.svc.cluster.local", 2222}},
      {"10.0.0.1:65535", {"10.0.0.1", 65535}},
      {"[::1]:80", {"::1", 80}},
      {"[fe80::1%eth0]:1", {"fe80::1%eth0", 1}},
      {"[::ffff:1.2.3.4]:0", {"::ffff:1.2.3.4", 0}},
  };
  for (const auto& test : cases) {
    const auto parsed = ParseHostPort(test.text);
    ASSERT_THAT(parsed, IsOkAndHolds(test.expected)) << test.text;
    EXPECT_EQ(parsed->ToString(), test.text);
  }
}

TEST(HostPortTest, RefusesEverythingElse) {
  for (const std::string& text : {std::string(""),
                                  std::string(":"),
                                  std::string("host"),
                                  std::string("host:"),
                                  std::string(":80"),
                                  std::string("host:80:"),
                                  std::string("host:-1"),
                                  std::string("host:+1"),
                                  std::string("host: 1"),
                                  std::string("host:65536"),
                                  std::string("host:99999999999999"),
                                  std::string("host:8o"),
                                  std::string("ho st:80"),
                                  std::string("http://host:80"),
                                  std::string("::1:80"),
                                  std::string("[::1]"),
                                  std::string("[::1]80"),
                                  std::string("[::1]:"),
                                  std::string("[::1:80"),
                                  std::string("[host]:80"),
                                  std::string("[1.2.3.4]:80"),
                                  std::string("[]:80"),
                                  std::string("[::1%]:80"),
                                  std::string("[::1%a/b]:80"),
                                  std::string("ho\0st:80", 8),
                                  std::string("[::1\0]:80", 9),
                                  std::string("h\nx:80"),
                                  std::string("\xff:80"),
                                  std::string(1 << 20, 'a') + ":80",
                                  std::string(1 << 20, '[')}) {
    const auto parsed = ParseHostPort(text);
    EXPECT_THAT(parsed, StatusIs(absl::StatusCode::kInvalidArgument)) << text.substr(0, 100);
    EXPECT_LT(parsed.status().message().size(), 500u);
    EXPECT_EQ(parsed.status().message().find('\n'), absl::string_view::npos);
  }
  EXPECT_THAT(ParseHostPort("::1:80"),
              StatusIs(absl::StatusCode::kInvalidArgument, testing::HasSubstr("brackets")));
}

TEST(HostPortTest, FormattingPutsBracketsOnce) {
  EXPECT_EQ(FormatHostPort("host", 80), "host:80");
  EXPECT_EQ(FormatHostPort("::1", 80), "[::1]:80");
  EXPECT_EQ(FormatHostPort("[::1]", 80), "[::1]:80");
}

TEST(LocalHostnameTest, IsNotEmpty) { EXPECT_FALSE(LocalHostname().empty()); }

}  // namespace
}  // namespace millrace
