#include "core/cli/output_relay.h"

#include <algorithm>  // for std::max
#include <cerrno>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/cli/node_line.h"

namespace millrace::cli {

OutputRelay::OutputRelay(Options options)
    : options_(std::move(options)),
      out_style_(Styler::ForFd(options_.out_fd)),
      err_style_(Styler::ForFd(options_.err_fd)) {}

std::string OutputRelay::Prefix(absl::string_view node, LogSource source) const {
  // What an agent says about its node is millrace speaking.
  if (source == LogSource::kAgent) {
    return err_style_(Style::kDim, absl::StrCat("millrace: ", node, ": "));
  }
  if (options_.mode == OutputMode::kRaw) return "";
  const bool out = source == LogSource::kStdout;
  const Styler& style = out ? out_style_ : err_style_;
  std::string name(node);
  if (style.enabled()) name.resize(std::max(name.size(), options_.name_width), ' ');
  return style(StyleOfRole(node), absl::StrCat(name, "| "));
}

void OutputRelay::Write(absl::string_view node, LogSource source,
                        const std::vector<std::string>& lines, uint64_t dropped) {
  if (options_.mode == OutputMode::kNone) return;
  if (dropped > 0) {
    WriteAll(options_.err_fd,
             absl::StrCat(Prefix(node, LogSource::kAgent), dropped,
                          dropped == 1 ? " line" : " lines", " left out here",
                          options_.log_dir.empty() ? "; --log-dir DIR keeps all of them"
                                                   : absl::StrCat("; see ", options_.log_dir),
                          "\n"));
  }
  const bool out = source == LogSource::kStdout;
  const int fd = out ? options_.out_fd : options_.err_fd;
  const std::string prefix = Prefix(node, source);
  const bool raw = options_.mode == OutputMode::kRaw && source != LogSource::kAgent;
  const bool harmless = !raw && IsTerminal(fd);
  for (const std::string& line : lines) {
    if (WriteAll(fd, absl::StrCat(prefix, harmless ? HarmlessLine(line) : line, "\n"))) continue;
    if (out && !broken_.exchange(true) && options_.on_broken) options_.on_broken(errno);
    return;
  }
}

}  // namespace millrace::cli
