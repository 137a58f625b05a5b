#include "resolver/natural_order.h"

#include <cstddef>

#include "absl/strings/ascii.h"

namespace millrace {
namespace {

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
