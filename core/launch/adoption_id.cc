#include "core/launch/adoption_id.h"

#include <openssl/evp.h>
#include <openssl/hmac.h>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "core/base/log.h"

namespace millrace {
namespace {

constexpr size_t kBytes = 16;

}  // namespace

std::string AdoptionId(absl::string_view agent_token, absl::string_view cluster_id, int executor_id,
                       uint32_t number) {
  const std::string text = absl::StrCat("adoption ", cluster_id, " ", executor_id, " ", number);
  unsigned char mac[EVP_MAX_MD_SIZE];
  unsigned int size = 0;
  MILLRACE_CHECK(HMAC(EVP_sha256(), agent_token.data(), static_cast<int>(agent_token.size()),
                      reinterpret_cast<const unsigned char*>(text.data()), text.size(), mac,
                      &size) != nullptr);
  MILLRACE_CHECK(size >= kBytes);
  return absl::BytesToHexString(absl::string_view(reinterpret_cast<const char*>(mac), kBytes));
}

}  // namespace millrace
