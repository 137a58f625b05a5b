#include "resolver/kubernetes/pod_order.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"

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

// Takes the digits at the front of `text`.
absl::string_view TakeDigits(absl::string_view* text) {
  size_t size = 0;
  while (size < text->size() && absl::ascii_isdigit((*text)[size])) ++size;
  const absl::string_view digits = text->substr(0, size);
  text->remove_prefix(size);
  return digits;
}

absl::string_view WithoutZeros(absl::string_view digits) {
  while (!digits.empty() && digits.front() == '0') digits.remove_prefix(1);
  return digits;
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

std::strong_ordering NaturalCompare(absl::string_view a, absl::string_view b) {
  const absl::string_view whole_a = a;
  const absl::string_view whole_b = b;
  while (!a.empty() && !b.empty()) {
    if (absl::ascii_isdigit(a.front()) && absl::ascii_isdigit(b.front())) {
      const absl::string_view x = WithoutZeros(TakeDigits(&a));
      const absl::string_view y = WithoutZeros(TakeDigits(&b));
      if (x.size() != y.size()) return x.size() <=> y.size();
      if (const int order = x.compare(y); order != 0) return order <=> 0;
      continue;
    }
    if (a.front() != b.front()) {
      return static_cast<unsigned char>(a.front()) <=> static_cast<unsigned char>(b.front());
    }
    a.remove_prefix(1);
    b.remove_prefix(1);
  }
  if (a.empty() != b.empty()) return b.empty() <=> a.empty();
  return whole_a.compare(whole_b) <=> 0;
}

}  // namespace millrace
