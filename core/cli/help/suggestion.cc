#include "core/cli/help/suggestion.h"

#include <algorithm>
#include <cstddef>

#include "absl/strings/str_cat.h"

namespace millrace::cli {
namespace {

constexpr size_t kMostWrong = 2;

// How many letters of `a` have to be changed, removed, added, or swapped with the next, until it
// is `b`.
size_t Distance(absl::string_view a, absl::string_view b) {
  std::vector<std::vector<size_t>> wrong(a.size() + 1, std::vector<size_t>(b.size() + 1));
  for (size_t i = 0; i <= a.size(); ++i) {
    for (size_t j = 0; j <= b.size(); ++j) {
      if (i == 0 || j == 0) {
        wrong[i][j] = i + j;
        continue;
      }
      const size_t changed = wrong[i - 1][j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      wrong[i][j] = std::min({changed, wrong[i - 1][j] + 1, wrong[i][j - 1] + 1});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
        wrong[i][j] = std::min(wrong[i][j], wrong[i - 2][j - 2] + 1);
      }
    }
  }
  return wrong[a.size()][b.size()];
}

}  // namespace

std::string Suggestion(absl::string_view word, const std::vector<std::string>& known) {
  const std::string* nearest = nullptr;
  size_t least = 0;
  for (const std::string& each : known) {
    // Longer words are none of ours, and would take time.
    if (word.size() > each.size() + kMostWrong || each.size() > word.size() + kMostWrong) continue;
    const size_t wrong = Distance(word, each);
    if (wrong > std::min(kMostWrong, each.size() / 3)) continue;
    if (nearest == nullptr || wrong < least) {
      nearest = &each;
      least = wrong;
    }
  }
  return nearest == nullptr ? "" : absl::StrCat("; did you mean ", *nearest, "?");
}

}  // namespace millrace::cli
