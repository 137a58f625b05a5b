#include "core/coordinator/server/access_tokens.h"

#include <algorithm>
#include <array>
#include <optional>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "core/base/random.h"

namespace millrace {
namespace {

constexpr size_t kTokenBytes = 32;

absl::string_view KindName(TokenKind kind) {
  switch (kind) {
    case TokenKind::kOperator:
      return "operator";
    case TokenKind::kViewer:
      return "viewer";
    case TokenKind::kAgent:
      return "agent";
  }
  return "unknown";
}

}  // namespace

AccessTokens AccessTokens::Random() {
  return AccessTokens({.operator_token = RandomHex(kTokenBytes),
                       .viewer = RandomHex(kTokenBytes),
                       .agent = RandomHex(kTokenBytes)});
}

absl::Status AccessTokens::Check(absl::string_view authorization,
                                 std::initializer_list<TokenKind> allowed) const {
  absl::string_view token = authorization;
  const bool bearer = absl::ConsumePrefix(&token, "Bearer ");
  // All three are compared, whichever matches.
  const std::array<bool, 3> matches = {SecureEquals(values_.operator_token, token),
                                       SecureEquals(values_.viewer, token),
                                       SecureEquals(values_.agent, token)};
  std::optional<TokenKind> kind;
  if (matches[0]) kind = TokenKind::kOperator;
  if (matches[1]) kind = TokenKind::kViewer;
  if (matches[2]) kind = TokenKind::kAgent;
  if (!bearer || !kind.has_value()) {
    return absl::UnauthenticatedError(
        authorization.empty()
            ? "no token: the metadata key \"authorization\" must hold \"Bearer <token>\""
            : "the token is not one of this cluster");
  }
  if (std::find(allowed.begin(), allowed.end(), *kind) == allowed.end()) {
    return absl::PermissionDeniedError(
        absl::StrCat("a token of kind ", KindName(*kind), " may not call this"));
  }
  return absl::OkStatus();
}

}  // namespace millrace
