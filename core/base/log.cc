#include "core/base/log.h"

#include <pthread.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "core/base/text.h"
#include "spdlog/logger.h"
#include "spdlog/pattern_formatter.h"
#include "spdlog/sinks/stdout_sinks.h"

namespace millrace {
namespace {

constexpr size_t kMaxMessageBytes = size_t{16} << 10;
constexpr int kLevelUnset = -1;

std::atomic<int> g_level{kLevelUnset};

spdlog::level::level_enum ToSpdlog(LogLevel level) {
  switch (level) {
    case LogLevel::kError:
      return spdlog::level::err;
    case LogLevel::kWarning:
      return spdlog::level::warn;
    case LogLevel::kInfo:
      return spdlog::level::info;
    case LogLevel::kDebug:
      return spdlog::level::debug;
  }
  return spdlog::level::err;
}

// Not in spdlog's registry: no global state but this. Never destroyed, since threads and
// destructors of statics may log while the process exits; one per process, so bounded.
spdlog::logger& Logger() {
  static spdlog::logger* const logger = [] {
    auto* made = new spdlog::logger("millrace", std::make_shared<spdlog::sinks::stderr_sink_mt>());
    made->set_formatter(std::make_unique<spdlog::pattern_formatter>(
        "%Y-%m-%dT%H:%M:%S.%eZ %L %v", spdlog::pattern_time_type::utc));
    made->set_level(spdlog::level::trace);  // g_level decides
    return made;
  }();
  return *logger;
}

// `file` as the compiler got it, relative to the repository; an absolute path is cut to its name.
absl::string_view ShortPath(absl::string_view file) {
  if (file.empty() || file.front() != '/') return file;
  return file.substr(file.rfind('/') + 1);
}

// Not core/base/thread.h's, which itself needs this file.
std::string ThreadName() {
  char name[16] = {};  // the kernel's limit
  if (pthread_getname_np(pthread_self(), name, sizeof(name)) != 0) return "?";
  return EscapeControls(name);
}

// How many lines a place of the code may write in a window: a peer that causes them again and again
// fills neither a disk nor a terminal.
constexpr int kMaxLines = 50;
constexpr std::chrono::seconds kWindow(10);

struct Place {
  std::chrono::steady_clock::time_point began;
  int lines = 0;         // since then
  int64_t left_out = 0;  // since the last one that was written
};

struct Admission {
  bool write = true;
  bool last = false;  // of this window
  int64_t left_out = 0;
};

Admission Admit(const char* file, int line) {
  // Never destroyed, as the logger; an entry for each place that logs.
  static std::mutex* const mu = new std::mutex;
  static auto* const places = new std::map<std::pair<const void*, int>, Place>;
  const auto now = std::chrono::steady_clock::now();
  const std::lock_guard<std::mutex> lock(*mu);
  Place& place = (*places)[{file, line}];
  Admission admission;
  if (place.lines == 0 || now - place.began >= kWindow) {
    admission.left_out = place.left_out;
    place = Place{.began = now};
  }
  admission.write = place.lines < kMaxLines;
  if (admission.write) {
    admission.last = ++place.lines == kMaxLines;
  } else {
    ++place.left_out;
  }
  return admission;
}

void WriteLine(LogLevel level, absl::string_view file, int line, absl::string_view message) {
  std::string text = EscapeControls(message.substr(0, kMaxMessageBytes));
  if (message.size() > kMaxMessageBytes) {
    absl::StrAppend(&text, "... (", message.size(), " bytes)");
  }
  const std::string full = absl::StrCat(ThreadName(), " ", ShortPath(file), ":", line, "] ", text);
  Logger().log(ToSpdlog(level), spdlog::string_view_t(full.data(), full.size()));
}

LogLevel LevelFromEnvironment() {
  const char* value = std::getenv("MILLRACE_LOG");
  if (value == nullptr || *value == '\0') return LogLevel::kWarning;
  const std::optional<LogLevel> level = ParseLogLevel(value);
  if (level.has_value()) return *level;
  WriteLine(LogLevel::kWarning, __FILE__, __LINE__,
            absl::StrCat("MILLRACE_LOG must be error, warning, info or debug, found '",
                         Ellipsize(value, 64), "'; using warning"));
  return LogLevel::kWarning;
}

}  // namespace

std::optional<LogLevel> ParseLogLevel(absl::string_view name) {
  if (absl::EqualsIgnoreCase(name, "error")) return LogLevel::kError;
  if (absl::EqualsIgnoreCase(name, "warning")) return LogLevel::kWarning;
  if (absl::EqualsIgnoreCase(name, "info")) return LogLevel::kInfo;
  if (absl::EqualsIgnoreCase(name, "debug")) return LogLevel::kDebug;
  return std::nullopt;
}

void SetLogLevel(LogLevel level) {
  g_level.store(static_cast<int>(level), std::memory_order_relaxed);
}

LogLevel GetLogLevel() {
  const int level = g_level.load(std::memory_order_relaxed);
  if (level != kLevelUnset) return static_cast<LogLevel>(level);
  // Read once per process (a function's static), stored only if nobody called SetLogLevel
  // meanwhile.
  static const LogLevel from_environment = LevelFromEnvironment();
  int expected = kLevelUnset;
  if (g_level.compare_exchange_strong(expected, static_cast<int>(from_environment),
                                      std::memory_order_relaxed)) {
    return from_environment;
  }
  return static_cast<LogLevel>(expected);
}

bool LogEnabled(LogLevel level) { return level <= GetLogLevel(); }

namespace log_internal {

LogMessage::LogMessage(LogLevel level, const char* file, int line)
    : level_(level), file_(file), line_(line) {}

LogMessage::~LogMessage() {
  // Debug lines are not limited: a person who turns them on wants all of them.
  const Admission admission = level_ == LogLevel::kDebug ? Admission() : Admit(file_, line_);
  if (!admission.write) return;
  if (admission.left_out > 0) {
    WriteLine(level_, file_, line_,
              absl::StrCat("(", admission.left_out, " lines like the next were left out)"));
  }
  WriteLine(level_, file_, line_, stream_.str());
  if (admission.last) {
    WriteLine(level_, file_, line_,
              absl::StrCat("(more lines like this are left out for ", kWindow.count(), " s)"));
  }
}

FatalMessage::FatalMessage(const char* condition, const char* file, int line)
    : file_(file), line_(line) {
  stream_ << "check failed: " << condition << " ";
}

FatalMessage::~FatalMessage() {
  WriteLine(LogLevel::kError, file_, line_, absl::StripTrailingAsciiWhitespace(stream_.str()));
  std::abort();
}

}  // namespace log_internal
}  // namespace millrace
