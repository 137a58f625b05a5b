#include "feed/wire/local_name.h"

#include <sodium.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>

#include "absl/status/statusor.h"
#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "core/base/file.h"
#include "core/base/random.h"

namespace millrace {
namespace {

constexpr char kPrefix[] = "ipc://@millrace-";
constexpr size_t kPlaceDigits = 16;
constexpr size_t kRandomBytes = 16;

// The place of this process; empty if the system does not say.
std::string Place() {
  const absl::StatusOr<std::string> boot = ReadFile("/proc/sys/kernel/random/boot_id");
  char link[64];
  const ssize_t size = readlink("/proc/self/ns/net", link, sizeof(link));
  if (!boot.ok() || size <= 0) return "";
  const std::string text = absl::StrCat(absl::StripAsciiWhitespace(*boot), "/",
                                        absl::string_view(link, static_cast<size_t>(size)));
  unsigned char hash[crypto_hash_sha256_BYTES];
  crypto_hash_sha256(hash, reinterpret_cast<const unsigned char*>(text.data()), text.size());
  return absl::BytesToHexString(
      absl::string_view(reinterpret_cast<const char*>(hash), kPlaceDigits / 2));
}

// Empty if the name does not tell.
absl::string_view PlaceOf(absl::string_view endpoint) {
  if (!absl::ConsumePrefix(&endpoint, kPrefix) || endpoint.size() <= kPlaceDigits ||
      endpoint[kPlaceDigits] != '-') {
    return "";
  }
  const absl::string_view place = endpoint.substr(0, kPlaceDigits);
  const bool is_hex = std::all_of(place.begin(), place.end(), absl::ascii_isxdigit);
  return is_hex ? place : absl::string_view();
}

}  // namespace

std::string MakeLocalName() {
  const std::string place = Place();
  return absl::StrCat(kPrefix, place, place.empty() ? "" : "-", RandomHex(kRandomBytes));
}

LocalNamePlace WhereLocalName(absl::string_view endpoint) {
  const absl::string_view named = PlaceOf(endpoint);
  const std::string here = Place();
  if (named.empty() || here.empty()) return LocalNamePlace::kUnknown;
  return named == here ? LocalNamePlace::kHere : LocalNamePlace::kElsewhere;
}

}  // namespace millrace
