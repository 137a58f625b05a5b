#include "testing/bench/bench_report.h"

#include <sys/resource.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <limits>

#include "CLI/CLI.hpp"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "core/base/file.h"
#include "core/base/log.h"

namespace millrace::bench {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

// The value of the first line "<key>: <value>" of a procfs file; "" if there is none.
std::string ProcField(const std::string& path, absl::string_view key, char separator = ':') {
  const absl::StatusOr<std::string> text = ReadFile(path);
  if (!text.ok()) return "";
  for (const absl::string_view line : absl::StrSplit(*text, '\n')) {
    const std::pair<absl::string_view, absl::string_view> field =
        absl::StrSplit(line, absl::MaxSplits(separator, 1));
    if (absl::StripAsciiWhitespace(field.first) == key) {
      return std::string(absl::StripAsciiWhitespace(field.second));
    }
  }
  return "";
}

double KilobytesOf(const std::string& path, absl::string_view key) {
  double kilobytes = 0;
  const std::string field = ProcField(path, key);
  const absl::string_view number = absl::StripSuffix(field, " kB");
  return absl::SimpleAtod(number, &kilobytes) ? kilobytes : 0;
}

std::string Distribution() {
  const std::string name = ProcField("/etc/os-release", "PRETTY_NAME", '=');
  return std::string(absl::StripSuffix(absl::StripPrefix(name, "\""), "\""));
}

double LoadAverage() {
  double load = 0;
  return ::getloadavg(&load, 1) == 1 ? load : kNan;
}

Json DescribeMachine() {
  utsname name{};
  ::uname(&name);
  return Json{
      {"cores", ::sysconf(_SC_NPROCESSORS_ONLN)},
      {"cpu", ProcField("/proc/cpuinfo", "model name")},
      {"memory_gib", std::round(KilobytesOf("/proc/meminfo", "MemTotal") / 1048576 * 10) / 10},
      {"kernel", absl::StrCat(name.sysname, " ", name.release)},
      {"distribution", Distribution()},
      {"load_at_start", LoadAverage()}};
}

#ifdef __OPTIMIZE__
constexpr bool kOptimised = true;
#else
constexpr bool kOptimised = false;
#endif

absl::Duration CpuTimeOf(int who) {
  rusage usage{};
  ::getrusage(who, &usage);
  return absl::DurationFromTimeval(usage.ru_utime) + absl::DurationFromTimeval(usage.ru_stime);
}

std::string GoalText(const Figure& figure) {
  return absl::StrCat(figure.goal.at_most ? "<=" : ">=", FormatNumber(figure.goal.value),
                      figure.goal.of == Goal::Of::kRatio ? "x" : figure.unit);
}

}  // namespace

// ---- samples ------------------------------------------------------------------------------------

double Samples::Median() const {
  if (values_.empty()) return kNan;
  std::vector<double> sorted = values_;
  std::sort(sorted.begin(), sorted.end());
  const size_t middle = sorted.size() / 2;
  return sorted.size() % 2 == 1 ? sorted[middle] : (sorted[middle - 1] + sorted[middle]) / 2;
}

double Samples::Min() const {
  return values_.empty() ? kNan : *std::min_element(values_.begin(), values_.end());
}

double Samples::Max() const {
  return values_.empty() ? kNan : *std::max_element(values_.begin(), values_.end());
}

std::string FormatNumber(double value) {
  if (std::isnan(value)) return "-";
  if (value == 0) return "0";
  // Rounding first: 9.996 has one digit before the point and "10.0" two.
  const double magnitude = std::pow(10.0, std::floor(std::log10(std::abs(value))) - 2);
  const double rounded =
      magnitude > 1 ? std::round(value) : std::round(value / magnitude) * magnitude;
  const int digits_before = static_cast<int>(std::floor(std::log10(std::abs(rounded)) + 1e-9)) + 1;
  return absl::StrFormat("%.*f", std::clamp(3 - digits_before, 0, 9), rounded);
}

// ---- tables -------------------------------------------------------------------------------------

void BenchTable::AddRow(std::vector<std::string> cells) {
  MILLRACE_CHECK(cells.size() == headers_.size());
  rows_.push_back(std::move(cells));
}

void BenchTable::AddSamples(absl::string_view name, const Samples& samples) {
  AddRow({std::string(name), FormatNumber(samples.Median()), FormatNumber(samples.Min()),
          FormatNumber(samples.Max())});
}

std::string BenchTable::ToString() const {
  std::vector<size_t> widths(headers_.size());
  auto widen = [&widths](const std::vector<std::string>& cells) {
    for (size_t i = 0; i < cells.size(); ++i) widths[i] = std::max(widths[i], cells[i].size());
  };
  widen(headers_);
  for (const std::vector<std::string>& row : rows_) widen(row);

  std::string text;
  auto append = [&](const std::vector<std::string>& cells) {
    std::string line;
    for (size_t i = 0; i < cells.size(); ++i) {
      const int width = static_cast<int>(widths[i]);
      absl::StrAppend(&line, i == 0 ? "  " : "   ",
                      absl::StrFormat("%*s", i == 0 ? -width : width, cells[i]));
    }
    absl::StrAppend(&text, absl::StripTrailingAsciiWhitespace(line), "\n");
  };
  append(headers_);
  std::vector<std::string> rule;
  for (const size_t width : widths) rule.emplace_back(width, '-');
  append(rule);
  for (const std::vector<std::string>& row : rows_) append(row);
  return text;
}

Json BenchTable::ToJson() const { return Json{{"headers", headers_}, {"rows", rows_}}; }

// ---- figures ------------------------------------------------------------------------------------

bool Figure::ok() const {
  const double value = goal.of == Goal::Of::kRatio ? ratio() : ours;
  return goal.at_most ? value <= goal.value : value >= goal.value;
}

std::string BenchLine(const Figure& figure) {
  return absl::StrCat("BENCH ", figure.name, " ours=", FormatNumber(figure.ours), figure.unit,
                      " ref=", FormatNumber(figure.ref), figure.unit, " (", figure.ref_is,
                      ") ratio=", FormatNumber(figure.ratio()), " goal=", GoalText(figure),
                      figure.ok() ? " ok" : " short");
}

// ---- the report ---------------------------------------------------------------------------------

void BenchFlags::AddTo(CLI::App* app) {
  app->add_option("--repetitions", repetitions, "how often each figure is measured")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app->add_option("--json", json, "write what is printed to this file, as JSON");
}

BenchReport::BenchReport(std::string title, BenchFlags flags, std::FILE* out)
    : title_(std::move(title)), flags_(std::move(flags)), out_(out), machine_(DescribeMachine()) {
  std::fprintf(out_, "%s\n\n", title_.c_str());
  const std::string machine = absl::StrCat(
      "  machine    ", machine_["cores"].get<long>(), " cores ", machine_["cpu"].get<std::string>(),
      ", ", FormatNumber(machine_["memory_gib"].get<double>()), " GiB, ",
      machine_["distribution"].get<std::string>(), ", ", machine_["kernel"].get<std::string>(),
      "; load average at start ", FormatNumber(machine_["load_at_start"].get<double>()));
  std::fprintf(out_, "%s\n", machine.c_str());
  AddVersion("compiler",
             absl::StrCat("GCC ", __VERSION__, kOptimised ? ", optimised" : ", NOT optimised"));
  if (!kOptimised) AddNote("not an optimised build: run it with -c opt");
}

void BenchReport::AddVersion(const std::string& what, const std::string& version) {
  versions_[what] = version;
  std::fprintf(out_, "  %-10s %s\n", what.c_str(), version.c_str());
}

void BenchReport::AddNote(const std::string& text) {
  notes_.push_back(text);
  std::fprintf(out_, "  %s\n", text.c_str());
  std::fflush(out_);
}

void BenchReport::Add(const BenchTable& table, const std::string& caption) {
  Json json = table.ToJson();
  json["caption"] = caption;
  tables_.push_back(std::move(json));
  std::fprintf(out_, "\n%s%s%s\n", caption.c_str(), caption.empty() ? "" : "\n",
               table.ToString().c_str());
  std::fflush(out_);
}

void BenchReport::Add(Figure figure) { figures_.push_back(std::move(figure)); }

Json BenchReport::ToJson() const {
  Json figures = Json::array();
  for (const Figure& figure : figures_) {
    figures.push_back(Json{{"name", figure.name},
                           {"unit", figure.unit},
                           {"ours", figure.ours},
                           {"ref", figure.ref},
                           {"ref_is", figure.ref_is},
                           {"ratio", figure.ratio()},
                           {"goal", GoalText(figure)},
                           {"ok", figure.ok()}});
  }
  return Json{{"title", title_},
              {"machine", machine_},
              {"versions", versions_},
              {"notes", notes_},
              {"tables", tables_},
              {"figures", std::move(figures)},
              {"repetitions", flags_.repetitions}};
}

int BenchReport::Finish(const absl::Status& measured) {
  if (!measured.ok()) {
    const std::string name = title_.substr(0, title_.find(':'));
    std::fprintf(stderr, "%s: %s\n", name.c_str(), measured.ToString().c_str());
    return 1;
  }
  for (const Figure& figure : figures_) std::fprintf(out_, "%s\n", BenchLine(figure).c_str());
  std::fflush(out_);
  if (flags_.json.empty()) return 0;
  const absl::Status written = WriteFileAtomic(flags_.json, DumpJson(ToJson(), 2) + "\n");
  if (written.ok()) return 0;
  std::fprintf(stderr, "--json: %s\n", std::string(written.message()).c_str());
  return 1;
}

// ---- usage --------------------------------------------------------------------------------------

absl::Duration SelfCpuTime() { return CpuTimeOf(RUSAGE_SELF); }
absl::Duration ChildrenCpuTime() { return CpuTimeOf(RUSAGE_CHILDREN); }
double SelfResidentBytes() { return KilobytesOf("/proc/self/status", "VmRSS") * 1024; }
double SelfPeakBytes() { return KilobytesOf("/proc/self/status", "VmHWM") * 1024; }

}  // namespace millrace::bench
