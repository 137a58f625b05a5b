// File: core/cli/output_relay.h
//
// The output of nodes on its way to millrace's own stdout and stderr.
//
// Defines: OutputMode, OutputRelay.
//
//   OutputRelay relay({.mode = OutputMode::kPrefixed, .nodes = {"chief:0", "worker:0"}});
//   options.on_bytes = [&](auto node, auto source, std::string bytes, const auto& taken) {
//     relay.Write(node, source, std::move(bytes), taken);
//   };
//   ...
//   const OutputRelay::Losses losses = relay.Finish();
#ifndef CORE_CLI_OUTPUT_RELAY_H_
#define CORE_CLI_OUTPUT_RELAY_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "core/agent/node/line_cutter.h"
#include "core/base/mutex.h"
#include "core/base/thread.h"
#include "core/base/unique_fd.h"
#include "core/cli/output/live_rows.h"
#include "core/cli/output/terminal.h"
#include "core/coordinator/state/coordinator_options.h"

namespace millrace::cli {

enum class OutputMode {
  kPrefixed,  // "worker:1| line"; on a terminal, below them, the lines that are not complete yet
  kRaw,       // what the nodes wrote, byte for byte; lines of several nodes do not mix
  kNone,
};

// One thread, "cli-output", writes, as slowly as somebody reads; nobody else waits for it. A node's
// output is handed over piece by piece, the next one after `taken`, so that little is held here.
// Thread safety: all methods. Blocking: Finish() and the destructor.
class OutputRelay {
 public:
  struct Options {
    OutputMode mode = OutputMode::kPrefixed;
    std::vector<std::string> nodes;  // their order decides which colours they have
    ColorMode color = ColorMode::kAuto;
    bool timestamps = false;  // before the names, in kPrefixed: when the line came, UTC
    int out_fd = 1;
    int err_fd = 2;
    // stdout takes no more: EPIPE where it has no reader, ENOSPC, ... Called once, by the thread.
    std::function<void(int error)> on_broken;
  };
  // What was not written of a node's output.
  struct Loss {
    uint64_t bytes = 0;
    uint64_t lines = 0;
  };
  struct Losses {
    std::map<std::string, Loss> by_node;
    int error = 0;  // the first reason: ECANCELED where nobody read it, or the system's
  };

  explicit OutputRelay(Options options);
  ~OutputRelay();
  OutputRelay(const OutputRelay&) = delete;
  OutputRelay& operator=(const OutputRelay&) = delete;

  // What a node wrote; empty: its attempt has ended. `taken` is called when it was written, or
  // cannot be.
  void Write(absl::string_view node, LogSource source, std::string bytes,
             std::function<void()> taken);
  // A line of an agent about its node, on stderr.
  void Say(absl::string_view node, absl::string_view line);
  // Where ShowsProgress(): puts the cluster's progress below the nodes' lines; empty: takes it
  // away.
  void ShowProgress(absl::string_view line);
  // Whether lines that are not complete are shown on stderr.
  [[nodiscard]] bool ShowsProgress() const { return IsLive(LogSource::kStderr); }

  // From now on a reader of stdout or stderr who reads nothing for `stuck` is given up, and any
  // reader after `total`, as by Abandon(). A later call may only shorten.
  void GiveUpAfter(absl::Duration stuck, absl::Duration total);
  // What waits, and what comes, is not written any more; a write that waits for its reader ends.
  void Abandon();
  // Writes what waits, and ends. Returns what was not written, without what a reader who is gone
  // did not want. Idempotent.
  Losses Finish();

 private:
  struct Item {
    std::string node;
    LogSource source = LogSource::kStdout;
    std::string bytes;
    std::function<void()> taken;  // null: a line of an agent
    bool progress = false;        // or the cluster's progress
  };
  // A line that is not complete yet.
  struct Partial {
    LineCutter lines;  // in kPrefixed
    std::string raw;   // in kRaw
  };
  using PartialKey = std::pair<std::string, LogSource>;  // node, and which of its outputs

  void Run();
  void Relay(const Item& item);
  void RelayPartial(const PartialKey& key);
  void Put(const std::string& node, LogSource source, absl::string_view lines);
  std::string Format(const Item& item);
  Partial& PartialOf(const PartialKey& key);
  std::string PrefixText(absl::string_view node, LogSource source) const;
  std::string Prefix(absl::string_view node, LogSource source) const;
  Style StyleOf(absl::string_view node) const;
  // Whether lines that are not complete are shown there.
  bool IsLive(LogSource source) const;
  // Of a line that is not complete, or is so now.
  void UpdateRow(const PartialKey& key, absl::string_view text);
  void DrawRows();
  std::string FormatLine(absl::string_view prefix, LogSource source, absl::string_view line) const;
  // 0, or the system's error: nothing more can be written there. ECANCELED after Abandon(). `text`
  // keeps what was not written.
  int WriteOut(int fd, absl::string_view* text);
  // How long a write that has waited since `since` may go on to wait; zero: it is given up.
  absl::Duration Patience(absl::Duration since);
  void Wake();

  const Options options_;
  const Styler out_style_;
  const Styler err_style_;
  const bool out_terminal_;
  const bool err_terminal_;
  const size_t name_width_;  // of the longest name: prefixes with colours are that wide
  const UniqueFd wake_;      // eventfd: what Patience() says has changed

  // The thread's.
  std::map<PartialKey, Partial> partials_;
  LiveRows rows_;            // below the lines, on stderr or else stdout
  bool rows_due_ = false;    // what is on the terminal is not what they are
  bool rows_drawn_ = false;  // some may be there
  int out_error_ = 0;        // why it takes no more
  int err_error_ = 0;

  Mutex mu_;
  CondVar changed_;
  std::deque<Item> items_ ABSL_GUARDED_BY(mu_);
  bool finishing_ ABSL_GUARDED_BY(mu_) = false;
  bool abandoned_ ABSL_GUARDED_BY(mu_) = false;
  absl::Duration stuck_ ABSL_GUARDED_BY(mu_) = absl::InfiniteDuration();
  absl::Duration deadline_ ABSL_GUARDED_BY(mu_) = absl::InfiniteDuration();  // steady
  Losses losses_ ABSL_GUARDED_BY(mu_);
  Thread thread_;
};

}  // namespace millrace::cli

#endif  // CORE_CLI_OUTPUT_RELAY_H_
