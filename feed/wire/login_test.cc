#include "feed/wire/login.h"

#include <cstdlib>
#include <string>

#include "absl/strings/str_cat.h"
#include "core/base/file.h"
#include "core/base/json.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace millrace {
namespace {

constexpr char kKey[] = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";
constexpr char kFeeder[] = "feeder/5b0c9e1f22d3a4b6";
constexpr char kNode[] = "node/9f3c2a7be01d4c55";

TEST(LoginTest, ThePasswordsAreThoseOfTheGoldenFile) {
  const Json golden = Json::parse(*ReadFile(std::getenv("FEED_FRAMES")));
  ASSERT_FALSE(golden.at("logins").empty());
  for (const Json& login : golden.at("logins")) {
    const std::string key = login.at("key");
    const std::string feeder = login.at("feeder");
    EXPECT_EQ(FeederPassword(key, feeder, login.at("count").get<uint64_t>()),
              login.at("feeder_password"));
    EXPECT_EQ(NodePassword(key, login.at("challenge").get<std::string>(), feeder,
                           login.at("node").get<std::string>()),
              login.at("node_password"));
  }
}

TEST(LoginTest, APasswordIsGoodOnceAndForItsPrincipalAlone) {
  FeederLogins logins(kKey);
  const std::string first = FeederPassword(kKey, kFeeder, 1);
  EXPECT_FALSE(logins.Accept("feeder/another", first));
  EXPECT_TRUE(logins.Accept(kFeeder, first));
  EXPECT_FALSE(logins.Accept(kFeeder, first));
  EXPECT_TRUE(logins.Accept(kFeeder, FeederPassword(kKey, kFeeder, 7)));
  EXPECT_FALSE(logins.Accept(kFeeder, FeederPassword(kKey, kFeeder, 6)));
  EXPECT_TRUE(logins.Accept("feeder/another", FeederPassword(kKey, "feeder/another", 1)));
}

TEST(LoginTest, WhatProvesNothingIsRefused) {
  FeederLogins logins(kKey);
  const std::string good = FeederPassword(kKey, kFeeder, 1);
  std::string other_count = good;
  other_count[15] = '2';
  for (const std::string& password :
       {std::string(), std::string(kKey), good.substr(0, 79), absl::StrCat(good, "0"),
        absl::StrCat("0x", good), other_count, FeederPassword("another key", kFeeder, 1),
        NodePassword(kKey, "", kFeeder, kNode), std::string(80, '\0'), std::string(255, 'f')}) {
    EXPECT_FALSE(logins.Accept(kFeeder, password)) << password;
  }
  EXPECT_TRUE(logins.Accept(kFeeder, good));
}

TEST(LoginTest, ANodesPasswordAnswersOneChallengeOfOneFeeder) {
  const std::string good = NodePassword(kKey, "challenge", kFeeder, kNode);
  EXPECT_NE(good, NodePassword(kKey, "another", kFeeder, kNode));
  EXPECT_NE(good, NodePassword(kKey, "challenge", "feeder/another", kNode));
  EXPECT_NE(good, NodePassword(kKey, "challenge", kFeeder, "node/another"));
  EXPECT_NE(good, NodePassword("another key", "challenge", kFeeder, kNode));
  EXPECT_NE(MakeChallenge(), MakeChallenge());
}

}  // namespace
}  // namespace millrace
