#include "core/coordinator/server/access_tokens.h"

#include <string>

#include "absl/status/status.h"
#include "core/base/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace millrace {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

TEST(AccessTokensTest, EachKindOpensWhatItIsFor) {
  const AccessTokens tokens = AccessTokens::Random();
  EXPECT_EQ(tokens.values().agent.size(), 64u);
  EXPECT_NE(tokens.values().agent, tokens.values().viewer);
  EXPECT_THAT(tokens.Check("Bearer " + tokens.values().agent, {TokenKind::kAgent}), IsOk());
  EXPECT_THAT(
      tokens.Check("Bearer " + tokens.values().viewer, {TokenKind::kOperator, TokenKind::kViewer}),
      IsOk());
  EXPECT_THAT(tokens.Check("Bearer " + tokens.values().operator_token, {TokenKind::kOperator}),
              IsOk());
  EXPECT_THAT(tokens.Check("Bearer " + tokens.values().viewer, {TokenKind::kAgent}),
              StatusIs(absl::StatusCode::kPermissionDenied, HasSubstr("viewer")));
}

TEST(AccessTokensTest, EverythingElseIsUnauthenticatedAndNeverQuoted) {
  const AccessTokens tokens = AccessTokens::Random();
  const std::string agent = tokens.values().agent;
  for (const std::string& text :
       {std::string(), agent, "bearer " + agent, std::string("Bearer"), std::string("Bearer "),
        "Bearer " + agent.substr(1), "Bearer " + agent + "0", "Bearer " + std::string(64, '0'),
        "Bearer  " + agent}) {
    absl::Status status = tokens.Check(text, {TokenKind::kAgent});
    EXPECT_THAT(status, StatusIs(absl::StatusCode::kUnauthenticated));
    EXPECT_THAT(std::string(status.message()), Not(HasSubstr(agent.substr(1, 20))));
  }
}

}  // namespace
}  // namespace millrace
