// File: dashboard/source/lines_source.h
//
// A cluster of four nodes that runs and writes log lines, as many as its owner asks for: for tests
// and benchmarks of a million of them.
//
// Defines: LinesSource.
//
//   auto source = std::make_unique<LinesSource>();
//   LinesSource* lines = source.get();
//   Session session(std::move(source));
//   lines->Write(1'000'000);
//   while (session.Poll(absl::Now(), absl::Seconds(1))) {}
//
// Line n is of node n % 4 and reads "I0102 03:04:05.000006 step n loss 0.1234"; of each thousand
// one is a warning, "W0102 ...". Thread safety: as UpdateSource. Blocking: never.

#ifndef DASHBOARD_SOURCE_LINES_SOURCE_H_
#define DASHBOARD_SOURCE_LINES_SOURCE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "dashboard/source/update_source.h"

namespace millrace::dashboard {

class LinesSource : public UpdateSource {
 public:
  static constexpr int kNodes = 4;

  // So many lines more; Poll() gives them, kLinesPerUpdate at a time.
  void Write(uint64_t lines) { asked_ += lines; }
  // That were given so far.
  [[nodiscard]] uint64_t given() const { return given_; }

  [[nodiscard]] std::string title() const override { return "lines"; }
  void Poll(absl::Time now, size_t max_updates, std::vector<SourceUpdate>* updates) override;

 private:
  bool begun_ = false;
  uint64_t asked_ = 0;
  uint64_t given_ = 0;
};

}  // namespace millrace::dashboard

#endif  // DASHBOARD_SOURCE_LINES_SOURCE_H_
