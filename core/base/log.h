// File: core/base/log.h
//
// Log lines for people, on stderr and nowhere else (stdout belongs to protocols and to users).
//
// Defines: MILLRACE_LOG(DEBUG|INFO|WARNING|ERROR), MILLRACE_CHECK, MILLRACE_DCHECK, LogLevel,
// SetLogLevel(), GetLogLevel(), LogEnabled(), ParseLogLevel().
//
//   MILLRACE_LOG(INFO) << "slot " << slot << " registered from " << address;
//   MILLRACE_CHECK(offset <= size) << "offset " << offset << ", size " << size;
//
// prints
//
//   2024-01-01T00:00:00.000Z I coordinator core/coordinator/slots.cc:42] slot 3 registered from ...
//
// The fields are UTC time, level letter, thread name (core/base/thread.h sets it), place, message.
// One message is one line: control characters, line ends among them, are escaped, so that a peer's
// text can neither forge a line nor drive a terminal, and a message over 16 KiB is cut.
//
// The level comes from the environment variable MILLRACE_LOG (error, warning, info or debug;
// default warning), read once at first use; SetLogLevel() overrides it. Operands of a disabled
// statement are not evaluated.
//
// Thread safety: everything here is thread-safe; lines never mix. Not async-signal-safe, not for
// use between fork and exec. Blocking: as write(2) to stderr does.

#ifndef CORE_BASE_LOG_H_
#define CORE_BASE_LOG_H_

#include <optional>
#include <ostream>
#include <sstream>

#include "absl/base/optimization.h"
#include "absl/strings/string_view.h"

namespace millrace {

// Ordered: a level shows itself and everything below it in this list.
enum class LogLevel { kError = 0, kWarning = 1, kInfo = 2, kDebug = 3 };

void SetLogLevel(LogLevel level);
[[nodiscard]] LogLevel GetLogLevel();
[[nodiscard]] bool LogEnabled(LogLevel level);

// "error", "warning", "info", "debug", in any case; anything else is nullopt.
[[nodiscard]] std::optional<LogLevel> ParseLogLevel(absl::string_view name);

namespace log_internal {

// Collects one message; its destructor writes the line. Lives for one full expression.
class LogMessage {
 public:
  LogMessage(LogLevel level, const char* file, int line);
  ~LogMessage();
  LogMessage(const LogMessage&) = delete;
  LogMessage& operator=(const LogMessage&) = delete;
  std::ostream& stream() { return stream_; }

 private:
  const LogLevel level_;
  const char* const file_;
  const int line_;
  std::ostringstream stream_;
};

// As LogMessage, but its destructor ends the process with SIGABRT after the line is out.
class FatalMessage {
 public:
  FatalMessage(const char* condition, const char* file, int line);
  [[noreturn]] ~FatalMessage();
  FatalMessage(const FatalMessage&) = delete;
  FatalMessage& operator=(const FatalMessage&) = delete;
  std::ostream& stream() { return stream_; }

 private:
  const char* const file_;
  const int line_;
  std::ostringstream stream_;
};

struct Voidify {
  void operator&(std::ostream&) const {}
};

}  // namespace log_internal
}  // namespace millrace

#define MILLRACE_LOG(severity) MILLRACE_INTERNAL_LOG_##severity
#define MILLRACE_INTERNAL_LOG_DEBUG MILLRACE_INTERNAL_LOG(::millrace::LogLevel::kDebug)
#define MILLRACE_INTERNAL_LOG_INFO MILLRACE_INTERNAL_LOG(::millrace::LogLevel::kInfo)
#define MILLRACE_INTERNAL_LOG_WARNING MILLRACE_INTERNAL_LOG(::millrace::LogLevel::kWarning)
#define MILLRACE_INTERNAL_LOG_ERROR MILLRACE_INTERNAL_LOG(::millrace::LogLevel::kError)

#define MILLRACE_INTERNAL_LOG(level)          \
  !::millrace::LogEnabled(level)              \
      ? (void)0                               \
      : ::millrace::log_internal::Voidify() & \
            ::millrace::log_internal::LogMessage(level, __FILE__, __LINE__).stream()

// Invariants only: prints "check failed: cond" with the streamed text and aborts. What came from a
// peer, a file or the environment is an absl::Status instead.
#define MILLRACE_CHECK(condition)         \
  ABSL_PREDICT_TRUE(condition)            \
  ? (void)0                               \
  : ::millrace::log_internal::Voidify() & \
          ::millrace::log_internal::FatalMessage(#condition, __FILE__, __LINE__).stream()

// MILLRACE_CHECK in debug builds; compiled but not evaluated with NDEBUG.
#ifdef NDEBUG
#define MILLRACE_DCHECK(condition) MILLRACE_CHECK(true || (condition))
#else
#define MILLRACE_DCHECK(condition) MILLRACE_CHECK(condition)
#endif

#endif  // CORE_BASE_LOG_H_
