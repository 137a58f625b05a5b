// File: core/coordinator/server/access_tokens.h
//
// Who may call what: three random tokens, and the check of the "authorization" metadata.
//
// Defines: CoordinatorTokens, TokenKind, AccessTokens.
//
//   const AccessTokens tokens = AccessTokens::Random();
//   absl::Status allowed = tokens.Check("Bearer 41f0...", {TokenKind::kAgent});

#ifndef CORE_COORDINATOR_SERVER_ACCESS_TOKENS_H_
#define CORE_COORDINATOR_SERVER_ACCESS_TOKENS_H_

#include <initializer_list>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace millrace {

// 64 hexadecimal digits each. Secrets: never in argv, logs, error texts, environments of others.
struct CoordinatorTokens {
  std::string operator_token;
  std::string viewer;
  std::string agent;
};

enum class TokenKind { kOperator, kViewer, kAgent };

// Thread safety: immutable. Blocking: never.
class AccessTokens {
 public:
  // 256 random bits each.
  [[nodiscard]] static AccessTokens Random();

  // Those of an earlier Random().
  explicit AccessTokens(CoordinatorTokens values) : values_(std::move(values)) {}

  [[nodiscard]] const CoordinatorTokens& values() const { return values_; }

  // `authorization` is the value of the metadata key, empty if there is none. Takes the same time
  // wherever a token differs. Returns UNAUTHENTICATED if it holds no token of this cluster,
  // PERMISSION_DENIED if it holds one of another kind than `allowed`. Messages never quote it.
  [[nodiscard]] absl::Status Check(absl::string_view authorization,
                                   std::initializer_list<TokenKind> allowed) const;

 private:
  CoordinatorTokens values_;
};

}  // namespace millrace

#endif  // CORE_COORDINATOR_SERVER_ACCESS_TOKENS_H_
