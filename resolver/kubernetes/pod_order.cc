#include "resolver/kubernetes/pod_order.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/string_view.h"

namespace millrace {
namespace {

constexpr char kCompletionIndex[] = "batch.kubernetes.io/job-completion-index";
constexpr char kPodIndex[] = "apps.kubernetes.io/pod-index";

std::optional<int> Number(absl::string_view digits) {
  if (digits.empty() || (digits.size() > 1 && digits.front() == '0')) return std::nullopt;
  if (!std::all_of(digits.begin(), digits.end(), absl::ascii_isdigit)) return std::nullopt;
  int32_t value = 0;
  if (!absl::SimpleAtoi(digits, &value)) return std::nullopt;
  return value;
}

std::optional<int> NumberAt(const std::map<std::string, std::string>& strings, const char* key) {
  const auto it = strings.find(key);
  return it == strings.end() ? std::nullopt : Number(it->second);
}

bool NameEndsAtRandom(const Pod& pod) {
  return pod.labels.contains("pod-template-hash") || pod.labels.contains("controller-uid") ||
         pod.labels.contains("batch.kubernetes.io/controller-uid");
}

}  // namespace

std::optional<PodOrdinal> PodOrdinalOf(const Pod& pod) {
  using Source = PodOrdinal::Source;
  if (const auto n = NumberAt(pod.labels, kCompletionIndex)) {
    return PodOrdinal{Source::kCompletionIndex, *n};
  }
  if (const auto n = NumberAt(pod.annotations, kCompletionIndex)) {
    return PodOrdinal{Source::kCompletionIndex, *n};
  }
  if (const auto n = NumberAt(pod.labels, kPodIndex)) return PodOrdinal{Source::kPodIndex, *n};
  if (NameEndsAtRandom(pod)) return std::nullopt;
  const size_t dash = pod.name.rfind('-');
  if (dash == std::string::npos || dash == 0) return std::nullopt;
  if (const auto n = Number(absl::string_view(pod.name).substr(dash + 1))) {
    return PodOrdinal{Source::kName, *n};
  }
  return std::nullopt;
}

}  // namespace millrace
