// What the ranks of the strategy `allreduce` say of their parameters: "epoch 7: loss 0.123,
// parameters 9c1185a5c5e9fc54", which must be the same line on each.
#ifndef EXAMPLES_DIGITS_EQUAL_PARAMETERS_H_
#define EXAMPLES_DIGITS_EQUAL_PARAMETERS_H_

#include <map>
#include <mutex>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace millrace::examples {

// Thread-safe.
class EqualParameters {
 public:
  explicit EqualParameters(int ranks) : ranks_(ranks) {}

  // What to show of a line that `node` wrote: nothing until all ranks have said the same.
  std::string Take(absl::string_view node, absl::string_view line) {
    int epoch = 0;
    if (!absl::StartsWith(line, "epoch ") || !absl::StrContains(line, "parameters ") ||
        !absl::SimpleAtoi(line.substr(6, line.find(':') - 6), &epoch)) {
      return absl::StrCat(node, ": ", line);
    }
    const std::lock_guard<std::mutex> lock(mu_);
    const int said = ++epochs_[epoch][std::string(line)];
    return said < ranks_ ? "" : absl::StrCat("all ", ranks_, " ranks: ", line);
  }

  // After the end: DATA_LOSS if not all ranks said the same of each epoch, up to the last.
  absl::Status Check(int last_epoch) const {
    const std::lock_guard<std::mutex> lock(mu_);
    for (const auto& [epoch, said] : epochs_) {
      if (said.size() == 1 && said.begin()->second == ranks_) continue;
      std::string error =
          absl::StrCat("after epoch ", epoch, " not all ", ranks_, " ranks said the same:");
      for (const auto& [line, ranks] : said) absl::StrAppend(&error, " '", line, "' (", ranks, ")");
      return absl::DataLossError(error);
    }
    if (!epochs_.empty() && epochs_.rbegin()->first == last_epoch) return absl::OkStatus();
    return absl::DataLossError(
        absl::StrCat("no rank said what its parameters are after epoch ", last_epoch));
  }

 private:
  const int ranks_;
  mutable std::mutex mu_;
  std::map<int, std::map<std::string, int>> epochs_;  // line to ranks that said it; under mu_
};

}  // namespace millrace::examples

#endif  // EXAMPLES_DIGITS_EQUAL_PARAMETERS_H_
