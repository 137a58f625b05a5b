#include "feed/wire/login.h"

#include <sodium.h>

#include "absl/strings/escaping.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "core/base/random.h"

namespace millrace {
namespace {

constexpr size_t kCountDigits = 16;
constexpr size_t kChallengeBytes = 16;

std::string HmacHex(absl::string_view key, absl::string_view text) {
  crypto_auth_hmacsha256_state state;
  unsigned char mac[crypto_auth_hmacsha256_BYTES];
  crypto_auth_hmacsha256_init(&state, reinterpret_cast<const unsigned char*>(key.data()),
                              key.size());
  crypto_auth_hmacsha256_update(&state, reinterpret_cast<const unsigned char*>(text.data()),
                                text.size());
  crypto_auth_hmacsha256_final(&state, mac);
  return absl::BytesToHexString(absl::string_view(reinterpret_cast<const char*>(mac), sizeof(mac)));
}

}  // namespace

std::string FeederPassword(absl::string_view key, absl::string_view principal, uint64_t count) {
  const std::string digits = absl::StrCat(absl::Hex(count, absl::kZeroPad16));
  return absl::StrCat(digits, HmacHex(key, absl::StrCat("feeder ", principal, " ", digits)));
}

std::string NodePassword(absl::string_view key, absl::string_view challenge,
                         absl::string_view feeder, absl::string_view node) {
  return HmacHex(key, absl::StrCat("node ", challenge, " ", feeder, " ", node));
}

std::string MakeChallenge() { return RandomHex(kChallengeBytes); }

bool FeederLogins::Accept(absl::string_view principal, absl::string_view password) {
  uint64_t count = 0;
  if (!absl::SimpleHexAtoi(password.substr(0, kCountDigits), &count) ||
      !SecureEquals(password, FeederPassword(key_, principal, count))) {
    return false;
  }
  const auto [last, is_new] = counts_.try_emplace(principal, count);
  if (is_new) {
    in_order_.emplace_back(principal);
    if (in_order_.size() > kMaxPrincipals) {
      counts_.erase(in_order_.front());
      in_order_.pop_front();
    }
    return true;
  }
  if (count <= last->second) return false;
  last->second = count;
  return true;
}

}  // namespace millrace
