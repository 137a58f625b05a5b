#include "testing/chaos/growth.h"

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <system_error>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "core/base/file.h"

namespace millrace::chaos {
namespace {

constexpr int64_t kMegabyte = 1 << 20;

struct Measure {
  const char* what;
  int64_t Usage::*value;
  int64_t noise;
};
constexpr Measure kMeasures[] = {
    {"bytes of memory", &Usage::memory_bytes, 24 * kMegabyte},
    {"descriptors", &Usage::descriptors, 8},
    {"threads", &Usage::threads, 8},
    {"files", &Usage::files, 16},
};

std::string Text(const Usage& usage) {
  std::string text = absl::StrCat("memory ", usage.memory_bytes / kMegabyte, " MB");
  if (usage.threads > 0) {
    absl::StrAppend(&text, ", ", usage.descriptors, " descriptors, ", usage.threads, " threads");
  }
  return usage.files > 0 ? absl::StrCat(usage.files, " files") : text;
}

}  // namespace

std::optional<Usage> UsageOf(pid_t pid) {
  Usage usage;
  const std::string folder = absl::StrCat("/proc/", pid);
  for (const absl::string_view line :
       absl::StrSplit(ReadFile(folder + "/status").value_or(""), '\n')) {
    const std::vector<absl::string_view> words =
        absl::StrSplit(line, absl::ByAnyChar(" \t"), absl::SkipEmpty());
    int64_t number = 0;
    if (words.size() < 2 || !absl::SimpleAtoi(words[1], &number)) continue;
    if (words[0] == "RssAnon:") usage.memory_bytes = number * 1024;
    if (words[0] == "Threads:") usage.threads = number;
  }
  std::error_code error;
  const std::filesystem::directory_iterator descriptors(folder + "/fd", error);
  if (error || usage.threads == 0) return std::nullopt;
  usage.descriptors = std::distance(begin(descriptors), end(descriptors));
  return usage;
}

int64_t FilesBelow(const std::string& folder) {
  int64_t files = 0;
  std::error_code error;
  std::filesystem::recursive_directory_iterator entry(folder, error);
  for (; !error && entry != end(entry); entry.increment(error)) {
    const std::string parent = entry->path().parent_path().filename();
    if (!absl::StartsWith(parent, "blockmgr-") || !entry->is_directory(error)) ++files;
  }
  return files;
}

void Growth::Add(const std::string& who, const Usage& usage) { samples_[who].push_back(usage); }

std::vector<std::string> Growth::Find(size_t samples) const {
  std::vector<std::string> found;
  for (const auto& [who, usages] : samples_) {
    if (usages.size() < std::max<size_t>(samples, 4)) continue;
    const auto quarter = static_cast<std::ptrdiff_t>(usages.size() / 4);
    for (const Measure& measure : kMeasures) {
      const auto less = [&measure](const Usage& a, const Usage& b) {
        return a.*measure.value < b.*measure.value;
      };
      const auto begin = usages.begin();
      const int64_t most =
          *std::max_element(begin + quarter, begin + 2 * quarter, less).*measure.value;
      const int64_t least =
          *std::min_element(usages.end() - quarter, usages.end(), less).*measure.value;
      if (least <= most + measure.noise) continue;
      found.push_back(absl::StrCat(who, ": ", measure.what, " grow from ", most, " to ", least));
    }
  }
  return found;
}

std::string Growth::LastText(const std::string& who) const {
  const auto found = samples_.find(who);
  if (found == samples_.end()) return "";
  return Text(found->second.back());
}

std::vector<std::string> Growth::Summaries(size_t samples) const {
  std::vector<std::string> lines;
  for (const auto& [who, usages] : samples_) {
    if (usages.size() < std::max<size_t>(samples, 4)) continue;
    lines.push_back(absl::StrCat(who, ": ", Text(usages[usages.size() / 4]), "; in the end ",
                                 Text(usages.back())));
  }
  return lines;
}

}  // namespace millrace::chaos
