// File: core/cli/output_relay.h
//
// The output of nodes on its way to millrace's own stdout and stderr.
//
// Defines: OutputMode, OutputRelay.
//
//   OutputRelay relay(OutputMode::kPrefixed, node_names, /*log_dir=*/"");
//   options.on_output = [&](auto node, auto source, auto& lines, auto dropped) {
//     relay.Write(node, source, lines, dropped);
//   };
#ifndef CORE_CLI_OUTPUT_RELAY_H_
#define CORE_CLI_OUTPUT_RELAY_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "core/cli/terminal.h"
#include "core/coordinator/coordinator_options.h"

namespace millrace::cli {

enum class OutputMode {
  kPrefixed,  // "worker:1| line"
  kRaw,       // "line"
  kNone,
};

// Thread safety: Write from one thread. Blocking: as stdout and stderr do.
class OutputRelay {
 public:
  struct Options {
    OutputMode mode = OutputMode::kPrefixed;
    size_t name_width = 0;  // of the longest node name: prefixes on a terminal are that wide
    std::string log_dir;    // where lines that were left out are; may be empty
    int out_fd = 1;
    int err_fd = 2;
    // stdout takes no more: EPIPE where it has no reader, ENOSPC, ... Called once.
    std::function<void(int error)> on_broken;
  };

  explicit OutputRelay(Options options);

  // Lines of stdout go to stdout, all others to stderr. A line is written with one call, so that
  // lines never mix. On a terminal control characters are escaped, unless the mode is kRaw.
  void Write(absl::string_view node, LogSource source, const std::vector<std::string>& lines,
             uint64_t dropped);

  [[nodiscard]] bool broken() const { return broken_; }

 private:
  std::string Prefix(absl::string_view node, LogSource source) const;

  const Options options_;
  const Styler out_style_;
  const Styler err_style_;
  std::atomic<bool> broken_ = false;
};

}  // namespace millrace::cli

#endif  // CORE_CLI_OUTPUT_RELAY_H_
