// File: testing/bench/json_child.h
//
// The processes of a benchmark that has several: a parent that starts them, and lines of JSON
// between them over stdin and stdout.
//
// Defines: JsonChild (the parent's side), JsonParent (the child's side), RaiseFileLimit().

#ifndef TESTING_BENCH_JSON_CHILD_H_
#define TESTING_BENCH_JSON_CHILD_H_

#include <sys/types.h>

#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "core/base/json.h"
#include "core/base/line_reader.h"
#include "core/base/unique_fd.h"

namespace millrace::bench {

// Not thread-safe. Blocking: Receive. Lifetime: the destructor is End().
class JsonChild {
 public:
  // stderr is the parent's. The system's error.
  [[nodiscard]] static absl::StatusOr<std::unique_ptr<JsonChild>> Start(const std::string& program);
  ~JsonChild() { End(); }
  JsonChild(const JsonChild&) = delete;
  JsonChild& operator=(const JsonChild&) = delete;

  // UNAVAILABLE if the child is gone.
  absl::Status Send(const Json& message);
  // The child's next line. DEADLINE_EXCEEDED; UNAVAILABLE at its end; ABORTED with the child's own
  // words if the line has a field "error".
  [[nodiscard]] absl::StatusOr<Json> Receive(absl::Duration timeout);
  // Send, then Receive.
  [[nodiscard]] absl::StatusOr<Json> Ask(const Json& message, absl::Duration timeout);

  // Closes its stdin, waits for its end, at most 10 s, kills it then, and reaps it. Idempotent.
  void End();

 private:
  JsonChild() : reader_(size_t{16} << 20) {}

  std::string program_;
  pid_t pid_ = 0;
  UniqueFd pid_fd_;
  UniqueFd in_;
  UniqueFd out_;
  LineReader reader_;
};

// The other side: stdin and stdout of this process. Not thread-safe, except what is static.
class JsonParent {
 public:
  JsonParent() : reader_(size_t{16} << 20) {}
  // Blocks. nullopt: the parent has ended this, or said what is no JSON.
  [[nodiscard]] std::optional<Json> Receive();
  static void Send(const Json& message);
  // What main returns of a child whose work ended like this; the parent is told of an error.
  [[nodiscard]] static int ExitCode(const absl::Status& status);

 private:
  LineReader reader_;
};

// As many open files as this host allows the process.
void RaiseFileLimit();

}  // namespace millrace::bench

#endif  // TESTING_BENCH_JSON_CHILD_H_
