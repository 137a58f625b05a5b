// File: testing/simulation/trace.h
//
// What happened in a run, as lines for people and as a hash.
//
// Defines: Trace.

#ifndef TESTING_SIMULATION_TRACE_H_
#define TESTING_SIMULATION_TRACE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace millrace::simulation {

// Thread safety: not thread-safe.
class Trace {
 public:
  // `keep`: the lines too, not only their hash.
  explicit Trace(bool keep) : keep_(keep) {}

  template <typename... Parts>
  void Add(absl::Duration now, const Parts&... parts) {
    AddLine(absl::StrCat(absl::Dec(absl::ToInt64Milliseconds(now), absl::kSpacePad8), " ms  ",
                         parts...));
  }
  // What is too frequent for a line.
  void Count(uint64_t what) { hash_ = (hash_ ^ what) * 0x100000001b3; }

  [[nodiscard]] uint64_t hash() const { return hash_; }
  [[nodiscard]] const std::vector<std::string>& lines() const { return lines_; }

 private:
  void AddLine(std::string line) {
    for (const char c : line) Count(static_cast<unsigned char>(c));
    if (keep_) lines_.push_back(std::move(line));
  }

  const bool keep_;
  uint64_t hash_ = 0xcbf29ce484222325;
  std::vector<std::string> lines_;
};

}  // namespace millrace::simulation

#endif  // TESTING_SIMULATION_TRACE_H_
