// File: testing/chaos/growth.h
//
// What processes use, sampled for a long time, and whether that grows.
//
// Defines: Usage, UsageOf(), FilesBelow(), Growth.

#ifndef TESTING_CHAOS_GROWTH_H_
#define TESTING_CHAOS_GROWTH_H_

#include <sys/types.h>

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace millrace::chaos {

struct Usage {
  int64_t memory_bytes = 0;  // resident, without pages of files
  int64_t descriptors = 0;
  int64_t threads = 0;
  int64_t files = 0;  // in folders, where somebody counts them
};

// nullopt if there is no such process.
[[nodiscard]] std::optional<Usage> UsageOf(pid_t pid);

// Files and folders in `folder` and below; what vanishes meanwhile may count or not. Not the 64
// folders in which each of Spark's block managers keeps its files, and which it makes as it needs
// them.
[[nodiscard]] int64_t FilesBelow(const std::string& folder);

// Thread safety: not thread-safe.
class Growth {
 public:
  // `who`: a process, by a name that no other has.
  void Add(const std::string& who, const Usage& usage);

  // What grows of those with at least `samples`, a line for each: the least of the last quarter is
  // above the most of the second quarter, by more than noise. The first quarter is for warming up.
  [[nodiscard]] std::vector<std::string> Find(size_t samples) const;
  // "memory 52 MB, 41 descriptors, 23 threads": the last of `who`.
  [[nodiscard]] std::string LastText(const std::string& who) const;
  // Of each with at least `samples`, a line: what it used when a quarter of them was taken, and in
  // the end.
  [[nodiscard]] std::vector<std::string> Summaries(size_t samples) const;

 private:
  std::map<std::string, std::vector<Usage>> samples_;
};

}  // namespace millrace::chaos

#endif  // TESTING_CHAOS_GROWTH_H_
