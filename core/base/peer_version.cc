#include "core/base/peer_version.h"

#include <cstdlib>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "core/base/text.h"

namespace millrace {
namespace {

constexpr size_t kMaxVersionBytes = 64;

struct Numbers {
  int major = 0;
  int minor = 0;
};

std::optional<Numbers> Parse(absl::string_view version) {
  if (version.size() > kMaxVersionBytes) return std::nullopt;
  const std::vector<absl::string_view> parts = absl::StrSplit(version, '.');
  Numbers numbers;
  if (parts.size() < 2 || !absl::SimpleAtoi(parts[0], &numbers.major) ||
      !absl::SimpleAtoi(parts[1], &numbers.minor) || numbers.major < 0 || numbers.minor < 0) {
    return std::nullopt;
  }
  return numbers;
}

bool KnowsTheRule(const Numbers& numbers) { return numbers.major > 0 || numbers.minor >= 2; }

}  // namespace

absl::Status CheckVersions(const Versioned& us, const Versioned& them) {
  const std::optional<Numbers> ours = Parse(us.version);
  const std::optional<Numbers> theirs = Parse(them.version);
  if (!ours.has_value() || !theirs.has_value()) return absl::OkStatus();
  if (KnowsTheRule(*ours) && KnowsTheRule(*theirs) && ours->major == theirs->major &&
      std::abs(ours->minor - theirs->minor) <= 1) {
    return absl::OkStatus();
  }
  return absl::FailedPreconditionError(absl::StrCat(
      them.who, " is version ", EscapeControls(them.version), " of Millrace and ", us.who,
      " version ", us.version,
      ": versions work together if they are at most one minor version apart (from 0.2 on); install "
      "the same version on both"));
}

}  // namespace millrace
