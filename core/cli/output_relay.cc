#include "core/cli/output_relay.h"

#include <limits.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "core/base/clock.h"
#include "core/base/log.h"
#include "core/cli/output/node_line.h"
#include "core/cli/output/screen.h"

namespace millrace::cli {
namespace {

// A longer line comes in parts, but for kRaw.
constexpr size_t kMaxLineBytes = 2048;
// The most that is kept of a line in kRaw that does not end; beyond it the line mixes with others.
constexpr size_t kMaxRawPartial = size_t{1} << 20;
constexpr absl::Duration kMaxPoll = absl::Hours(1);

absl::Duration Now() { return RealClock()->SteadyNow(); }

size_t Longest(const std::vector<std::string>& names) {
  size_t longest = 0;
  for (const std::string& name : names) longest = std::max(longest, name.size());
  return longest;
}

bool IsFile(int fd) {
  struct stat info {};
  return ::fstat(fd, &info) == 0 && S_ISREG(info.st_mode);
}

}  // namespace

OutputRelay::OutputRelay(Options options)
    : options_(std::move(options)),
      out_style_(Styler::ForFd(options_.out_fd, options_.color)),
      err_style_(Styler::ForFd(options_.err_fd, options_.color)),
      out_terminal_(IsTerminal(options_.out_fd)),
      err_terminal_(IsTerminal(options_.err_fd)),
      name_width_(Longest(options_.nodes)),
      wake_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  MILLRACE_CHECK(wake_.valid()) << "no descriptor left";
  thread_ = Thread("cli-output", [this] { Run(); });
}

OutputRelay::~OutputRelay() {
  Abandon();
  Finish();
}

void OutputRelay::Write(absl::string_view node, LogSource source, std::string bytes,
                        std::function<void()> taken) {
  MutexLock lock(&mu_);
  items_.push_back({std::string(node), source, std::move(bytes), std::move(taken), false});
  changed_.SignalAll();
}

void OutputRelay::Say(absl::string_view node, absl::string_view line) {
  MutexLock lock(&mu_);
  items_.push_back({std::string(node), LogSource::kAgent, std::string(line), nullptr, false});
  changed_.SignalAll();
}

void OutputRelay::ShowProgress(absl::string_view line) {
  MutexLock lock(&mu_);
  items_.push_back({.bytes = std::string(line), .progress = true});
  changed_.SignalAll();
}

void OutputRelay::Wake() {
  const uint64_t one = 1;
  MILLRACE_CHECK(::write(wake_.get(), &one, sizeof(one)) == sizeof(one));
}

void OutputRelay::GiveUpAfter(absl::Duration stuck, absl::Duration total) {
  {
    MutexLock lock(&mu_);
    stuck_ = std::min(stuck_, stuck);
    deadline_ = std::min(deadline_, Now() + total);
  }
  Wake();
}

void OutputRelay::Abandon() {
  {
    MutexLock lock(&mu_);
    abandoned_ = true;
  }
  Wake();
}

OutputRelay::Losses OutputRelay::Finish() {
  {
    MutexLock lock(&mu_);
    finishing_ = true;
    changed_.SignalAll();
  }
  if (thread_.joinable()) thread_.Join();
  MutexLock lock(&mu_);
  return losses_;
}

void OutputRelay::Run() {
  while (true) {
    Item item;
    bool last = false;
    {
      MutexLock lock(&mu_);
      while (items_.empty() && !finishing_) changed_.WaitWithTimeout(&mu_, absl::Seconds(60));
      if (items_.empty()) break;
      item = std::move(items_.front());
      items_.pop_front();
      last = items_.empty();
    }
    Relay(item);
    if (item.taken) item.taken();
    if (last) DrawRows();
  }
  // The last lines of nodes whose end was not reported.
  while (!partials_.empty()) RelayPartial(partials_.begin()->first);
  DrawRows();
}

void OutputRelay::Relay(const Item& item) {
  if (options_.mode == OutputMode::kNone) return;
  if (item.progress) {
    UpdateRow({"", LogSource::kStderr}, item.bytes);
    return;
  }
  const bool end = item.taken != nullptr && item.bytes.empty();
  if (!end) {
    Put(item.node, item.source, Format(item));
    return;
  }
  for (const LogSource source : {LogSource::kStdout, LogSource::kStderr}) {
    RelayPartial({item.node, source});
  }
}

void OutputRelay::RelayPartial(const PartialKey& key) {
  const auto found = partials_.find(key);
  if (found == partials_.end()) return;
  const std::string node = key.first;
  const LogSource source = key.second;
  UpdateRow(key, "");
  std::string text = std::move(found->second.raw);
  const std::string prefix = Prefix(node, source);
  found->second.lines.Finish(
      [&](const std::string& line) { absl::StrAppend(&text, FormatLine(prefix, source, line)); });
  Put(node, source, text);
  partials_.erase(found);
}

void OutputRelay::Put(const std::string& node, LogSource source, absl::string_view lines) {
  if (lines.empty()) return;
  const bool out = source == LogSource::kStdout;
  int* const error = out ? &out_error_ : &err_error_;
  std::string over_rows;
  absl::string_view text = lines;
  if (IsLive(source)) {
    text = over_rows = absl::StrCat(kEraseLiveRows, lines);
    rows_due_ = true;
  }
  if (*error == 0) {
    *error = WriteOut(out ? options_.out_fd : options_.err_fd, &text);
    if (*error == 0) return;
    if (out && *error != ECANCELED && options_.on_broken) options_.on_broken(*error);
  }
  if (*error == EPIPE || text.empty() || source == LogSource::kAgent) return;
  MutexLock lock(&mu_);
  if (losses_.error == 0) losses_.error = *error;
  Loss& loss = losses_.by_node[node];
  loss.bytes += std::min(text.size(), lines.size());
  loss.lines += static_cast<uint64_t>(std::count(text.begin(), text.end(), '\n'));
}

bool OutputRelay::IsLive(LogSource source) const {
  return options_.mode == OutputMode::kPrefixed &&
         CanErase(source == LogSource::kStdout ? options_.out_fd : options_.err_fd);
}

void OutputRelay::UpdateRow(const PartialKey& key, absl::string_view text) {
  const auto& [node, source] = key;
  if (!IsLive(source)) return;
  const std::string row = absl::StrCat(node, source == LogSource::kStdout ? "" : " stderr");
  rows_due_ = true;
  if (text.empty()) {
    rows_.Remove(row);
  } else {
    rows_.Set(row,
              {node.empty() ? "" : PrefixText(node, source), StyleOf(node), std::string(text)});
  }
}

void OutputRelay::DrawRows() {
  if (!std::exchange(rows_due_, false)) return;
  const bool err = IsLive(LogSource::kStderr);
  const int fd = err ? options_.err_fd : options_.out_fd;
  int* const error = err ? &err_error_ : &out_error_;
  const ScreenSize size = {.columns = static_cast<size_t>(TerminalWidth(fd, 80)),
                           .rows = TerminalHeight(fd, 24)};
  std::string drawn = rows_.Draw(size, err ? err_style_ : out_style_);
  const bool erase = std::exchange(rows_drawn_, !drawn.empty());
  if (drawn.empty() && erase) drawn = std::string(kEraseLiveRows);
  absl::string_view text = drawn;
  if (*error == 0) *error = WriteOut(fd, &text);
}

Style OutputRelay::StyleOf(absl::string_view node) const {
  const auto found = std::find(options_.nodes.begin(), options_.nodes.end(), node);
  return found == options_.nodes.end() ? StyleOfRole(node)
                                       : StyleOfNode(found - options_.nodes.begin());
}

std::string OutputRelay::Prefix(absl::string_view node, LogSource source) const {
  // What an agent says about its node is millrace speaking.
  if (source == LogSource::kAgent) {
    return err_style_(Style::kDim, absl::StrCat("millrace: ", node, ": "));
  }
  const Styler& style = source == LogSource::kStdout ? out_style_ : err_style_;
  return style(StyleOf(node), PrefixText(node, source));
}

std::string OutputRelay::PrefixText(absl::string_view node, LogSource source) const {
  const Styler& style = source == LogSource::kStdout ? out_style_ : err_style_;
  std::string name(node);
  if (style.enabled()) name.resize(std::max(name.size(), name_width_), ' ');
  const std::string time = options_.timestamps ? absl::FormatTime("%Y-%m-%dT%H:%M:%E3SZ ",
                                                                  absl::Now(), absl::UTCTimeZone())
                                               : "";
  return absl::StrCat(time, name, "| ");
}

std::string OutputRelay::FormatLine(absl::string_view prefix, LogSource source,
                                    absl::string_view line) const {
  const bool terminal = source == LogSource::kStdout ? out_terminal_ : err_terminal_;
  return absl::StrCat(prefix, terminal ? HarmlessLine(line) : line, "\n");
}

OutputRelay::Partial& OutputRelay::PartialOf(const PartialKey& key) {
  const auto on_return =
      IsLive(key.second) ? LineCutter::Return::kOverwrites : LineCutter::Return::kEndsLine;
  return partials_.try_emplace(key, Partial{LineCutter(kMaxLineBytes, on_return), ""})
      .first->second;
}

std::string OutputRelay::Format(const Item& item) {
  const std::string prefix = Prefix(item.node, item.source);
  if (item.source == LogSource::kAgent) return FormatLine(prefix, item.source, item.bytes);
  if (options_.mode == OutputMode::kRaw && options_.nodes.size() == 1) return item.bytes;
  Partial& partial = PartialOf({item.node, item.source});
  std::string text;
  if (options_.mode == OutputMode::kRaw) {
    partial.raw += item.bytes;
    const size_t line_end = partial.raw.rfind('\n');
    size_t size = line_end == std::string::npos ? 0 : line_end + 1;
    if (partial.raw.size() - size > kMaxRawPartial) size = partial.raw.size();
    text = partial.raw.substr(0, size);
    partial.raw.erase(0, size);
    return text;
  }
  partial.lines.Append(item.bytes, [&](const std::string& line) {
    absl::StrAppend(&text, FormatLine(prefix, item.source, line));
  });
  UpdateRow({item.node, item.source}, partial.lines.Unfinished());
  return text;
}

absl::Duration OutputRelay::Patience(absl::Duration since) {
  MutexLock lock(&mu_);
  const absl::Duration now = Now();
  return abandoned_ ? absl::ZeroDuration() : std::min(since + stuck_, deadline_) - now;
}

int OutputRelay::WriteOut(int fd, absl::string_view* text) {
  const bool file = IsFile(fd);
  absl::Duration since = Now();
  while (!text->empty()) {
    const absl::Duration patience = Patience(since);
    if (patience <= absl::ZeroDuration()) return ECANCELED;
    pollfd fds[] = {{.fd = fd, .events = POLLOUT, .revents = 0},
                    {.fd = wake_.get(), .events = POLLIN, .revents = 0}};
    const absl::Duration wait = std::min(patience + absl::Milliseconds(1), kMaxPoll);
    if (::poll(fds, 2, static_cast<int>(absl::ToInt64Milliseconds(wait))) < 0) continue;
    if (fds[1].revents != 0) {
      uint64_t count = 0;
      static_cast<void>(!::read(wake_.get(), &count, sizeof(count)));
      continue;
    }
    if (fds[0].revents == 0) continue;
    // A pipe that is ready takes so much at once, without waiting and without mixing it with what
    // others write. Whole lines, where they fit.
    absl::string_view part = file ? *text : text->substr(0, PIPE_BUF);
    const size_t line_end = part.rfind('\n');
    if (part.size() < text->size() && line_end != absl::string_view::npos) {
      part = part.substr(0, line_end + 1);
    }
    const ssize_t n = ::write(fd, part.data(), part.size());
    if (n >= 0) {
      text->remove_prefix(static_cast<size_t>(n));
      since = Now();
    } else if (errno != EINTR && errno != EAGAIN) {
      return errno;
    }
  }
  return 0;
}

}  // namespace millrace::cli
