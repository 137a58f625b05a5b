#include "core/agent/node/process_sampler.h"

#include <dirent.h>
#include <unistd.h>

#include <cstdint>
#include <cstring>
#include <optional>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "core/base/file.h"

namespace millrace {
namespace {

constexpr size_t kMaxProcesses = 64;
constexpr size_t kMaxThreadsAsked = 256;  // for their children, of one process

// The numeric names in a folder; nullopt if it cannot be read.
std::optional<std::vector<pid_t>> NumbersIn(const std::string& folder) {
  DIR* dir = opendir(folder.c_str());
  if (dir == nullptr) return std::nullopt;
  std::vector<pid_t> numbers;
  while (const dirent* entry = readdir(dir)) {
    pid_t number = 0;
    if (absl::SimpleAtoi(entry->d_name, &number)) numbers.push_back(number);
  }
  closedir(dir);
  return numbers;
}

struct Usage {
  uint64_t cpu_ticks = 0;  // children that were waited for included
  uint64_t threads = 0;
  uint64_t rss_pages = 0;
};

std::optional<Usage> ReadUsage(const std::string& folder) {
  const absl::StatusOr<std::string> stat = ReadFile(absl::StrCat(folder, "/stat"));
  if (!stat.ok()) return std::nullopt;
  // The name, in parentheses, may hold anything.
  const size_t name_end = stat->rfind(')');
  if (name_end == std::string::npos) return std::nullopt;
  const std::vector<absl::string_view> fields =
      absl::StrSplit(absl::string_view(*stat).substr(name_end + 1), ' ', absl::SkipEmpty());
  constexpr size_t kFirst = 3;  // number of fields[0], as proc(5) counts
  if (fields.size() < 24 - kFirst + 1) return std::nullopt;
  const auto number = [&](size_t field) {
    uint64_t value = 0;
    return absl::SimpleAtoi(fields[field - kFirst], &value) ? value : 0;
  };
  return Usage{.cpu_ticks = number(14) + number(15) + number(16) + number(17),
               .threads = number(20),
               .rss_pages = number(24)};
}

void AddChildren(const std::string& folder, std::vector<pid_t>* family) {
  std::vector<pid_t> threads =
      NumbersIn(absl::StrCat(folder, "/task")).value_or(std::vector<pid_t>());
  if (threads.size() > kMaxThreadsAsked) threads.resize(kMaxThreadsAsked);
  for (const pid_t thread : threads) {
    const absl::StatusOr<std::string> children =
        ReadFile(absl::StrCat(folder, "/task/", thread, "/children"));
    if (!children.ok()) continue;
    for (absl::string_view text : absl::StrSplit(*children, ' ', absl::SkipWhitespace())) {
      pid_t child = 0;
      if (family->size() < kMaxProcesses && absl::SimpleAtoi(text, &child)) {
        family->push_back(child);
      }
    }
  }
}

}  // namespace

v1::ProcessSample SampleProcess(pid_t pid, const std::string& proc) {
  v1::ProcessSample sample;
  if (pid <= 0) return sample;
  static const uint64_t ticks_per_second = static_cast<uint64_t>(sysconf(_SC_CLK_TCK));
  static const uint64_t page_bytes = static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
  std::vector<pid_t> family{pid};
  for (size_t i = 0; i < family.size(); ++i) {
    const std::string folder = absl::StrCat(proc, "/", family[i]);
    const std::optional<Usage> usage = ReadUsage(folder);
    if (!usage.has_value()) {
      if (i == 0) return sample;  // it is gone
      continue;
    }
    sample.set_cpu_us(sample.cpu_us() + usage->cpu_ticks * 1'000'000 / ticks_per_second);
    sample.set_rss_bytes(sample.rss_bytes() + usage->rss_pages * page_bytes);
    sample.set_threads(sample.threads() + static_cast<uint32_t>(usage->threads));
    if (const auto files = NumbersIn(absl::StrCat(folder, "/fd")); files.has_value()) {
      sample.set_open_files(sample.open_files() + static_cast<uint32_t>(files->size()));
    }
    AddChildren(folder, &family);
  }
  return sample;
}

}  // namespace millrace
