#include "core/agent/node/process_sampler.h"

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "core/base/file.h"
#include "core/process/process_usage.h"

namespace millrace {
namespace {

constexpr size_t kMaxProcesses = 64;
constexpr size_t kMaxThreadsAsked = 256;  // for their children, of one process

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
  std::vector<pid_t> family{pid};
  for (size_t i = 0; i < family.size(); ++i) {
    const std::optional<ProcessUsage> usage = ReadProcessUsage(family[i], proc);
    if (!usage.has_value()) {
      if (i == 0) return sample;  // it is gone
      continue;
    }
    const auto cpu_us =
        static_cast<uint64_t>(absl::ToInt64Microseconds(usage->cpu + usage->children_cpu));
    sample.set_cpu_us(sample.cpu_us() + cpu_us);
    sample.set_rss_bytes(sample.rss_bytes() + usage->resident_bytes);
    sample.set_threads(sample.threads() + static_cast<uint32_t>(usage->threads));
    if (usage->open_files.has_value()) {
      sample.set_open_files(sample.open_files() + static_cast<uint32_t>(*usage->open_files));
    }
    AddChildren(absl::StrCat(proc, "/", family[i]), &family);
  }
  return sample;
}

}  // namespace millrace
