// File: testing/bench/bench_report.h
//
// What every benchmark prints: what it ran on, tables that a person likes to read, and at the end
// one line per figure that a program likes to read.
//
// Defines: Samples, FormatNumber(), BenchTable, Figure, BenchLine(), BenchFlags, BenchReport.
//
//   BenchReport report("start: a driver's start until four nodes run", flags);
//   BenchTable table({"repetition", "wall ms", "cpu ms"});
//   ...
//   report.Add(table);
//   report.Add(Figure{.name = "start", .unit = "ms", .ours = ours.Median(), .ref = bare.Median(),
//                     .ref_is = "fork and exec of 4 processes", .goal = AtMost(300)});
//   return report.Finish();
//
//   BENCH start ours=87.2ms ref=9.1ms (fork and exec of 4 processes) ratio=9.58 goal=<=300ms ok
//
// A short figure is printed as such and does not change the exit code: it is a result.

#ifndef TESTING_BENCH_BENCH_REPORT_H_
#define TESTING_BENCH_BENCH_REPORT_H_

#include <cstdio>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "core/base/json.h"

namespace CLI {
class App;
}

namespace millrace::bench {

// The measurements of one quantity, in the order in which they were made. Not thread-safe.
class Samples {
 public:
  void Add(double value) { values_.push_back(value); }
  // In milliseconds.
  void Add(absl::Duration value) { Add(absl::ToDoubleMilliseconds(value)); }

  [[nodiscard]] const std::vector<double>& values() const { return values_; }
  [[nodiscard]] int size() const { return static_cast<int>(values_.size()); }
  // Of no values: NaN. Between two values of an even number of them: their mean.
  [[nodiscard]] double Median() const;
  [[nodiscard]] double Min() const;
  [[nodiscard]] double Max() const;

 private:
  std::vector<double> values_;
};

// Three significant digits and no exponent: "0.0123", "9.58", "412", "98304". "-" for NaN.
[[nodiscard]] std::string FormatNumber(double value);

// Rows under headers, the columns as wide as they need to be; first column to the left, others to
// the right. Not thread-safe.
class BenchTable {
 public:
  explicit BenchTable(std::vector<std::string> headers) : headers_(std::move(headers)) {}

  // As many cells as there are headers.
  void AddRow(std::vector<std::string> cells);
  // median, min and max of `samples`, after `name`; for headers {..., "median", "min", "max"}.
  void AddSamples(absl::string_view name, const Samples& samples);

  [[nodiscard]] std::string ToString() const;
  [[nodiscard]] Json ToJson() const;

 private:
  std::vector<std::string> headers_;
  std::vector<std::vector<std::string>> rows_;
};

// What a figure should reach.
struct Goal {
  enum class Of { kOurs, kRatio };
  Of of = Of::kOurs;
  bool at_most = true;  // otherwise at least
  double value = 0;
};
[[nodiscard]] constexpr Goal AtMost(double value) { return {Goal::Of::kOurs, true, value}; }
[[nodiscard]] constexpr Goal AtLeast(double value) { return {Goal::Of::kOurs, false, value}; }
[[nodiscard]] constexpr Goal RatioAtMost(double value) { return {Goal::Of::kRatio, true, value}; }
[[nodiscard]] constexpr Goal RatioAtLeast(double value) { return {Goal::Of::kRatio, false, value}; }

struct Figure {
  std::string name;  // [a-z0-9_.-]
  std::string unit;  // follows both values: "ms", "s", "KB", "cores"
  double ours = 0;
  double ref = 0;
  std::string ref_is;  // what the reference is
  Goal goal;

  [[nodiscard]] double ratio() const { return ours / ref; }
  // False also where a value is NaN: nothing was measured.
  [[nodiscard]] bool ok() const;
};

// "BENCH <name> ours=... ref=... (...) ratio=... goal=... ok|short", without a newline. The goal
// reads
// "<=300ms", or "<=1.3x" where it is one of the ratio.
[[nodiscard]] std::string BenchLine(const Figure& figure);

// What all benchmarks take from their command line.
struct BenchFlags {
  int repetitions = 20;
  std::string json;  // a file for what is printed; empty: none

  // Adds --repetitions and --json.
  void AddTo(CLI::App* app);
};

// Prints while it is filled. Not thread-safe.
class BenchReport {
 public:
  // Prints the title and the machine: cores, memory, kernel, compiler, load.
  BenchReport(std::string title, BenchFlags flags, std::FILE* out = stdout);

  // "gRPC", "1.51.1".
  void AddVersion(const std::string& what, const std::string& version);
  void AddNote(const std::string& text);
  void Add(const BenchTable& table, const std::string& caption = "");
  void Add(Figure figure);

  // Prints the BENCH lines and writes --json; if `measured` is not OK, says why instead. Returns
  // the exit code for main: 0, or 1 with a message on stderr, also if the file could not be
  // written.
  [[nodiscard]] int Finish(const absl::Status& measured = absl::OkStatus());

  [[nodiscard]] Json ToJson() const;

 private:
  const std::string title_;
  const BenchFlags flags_;
  std::FILE* const out_;  // not owned
  Json machine_;
  Json versions_ = Json::object();
  Json notes_ = Json::array();
  Json tables_ = Json::array();
  std::vector<Figure> figures_;
};

// CPU time, user and system together.
[[nodiscard]] absl::Duration SelfCpuTime();
// Of the children that have been waited for, theirs included.
[[nodiscard]] absl::Duration ChildrenCpuTime();
// Memory that is in RAM now (VmRSS) of this process, in bytes; 0 if procfs does not say.
[[nodiscard]] double SelfResidentBytes();
// The most that it ever had there (VmHWM).
[[nodiscard]] double SelfPeakBytes();

}  // namespace millrace::bench

#endif  // TESTING_BENCH_BENCH_REPORT_H_
