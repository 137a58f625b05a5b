// File: core/agent/node/runtime_files.h
//
// The files the agent makes for its node (context, program) and the folder they are in, removed
// again whatever happens: by Remove(), or by the guard.
//
//   MILLRACE_ASSIGN_OR_RETURN(RuntimeFiles files, RuntimeFiles::Open(dir, agent_id, &guard));
//   const std::string path = files->Claim("context.json");   // <dir>/<agent id>-context.json
//   const std::string logs = files->ClaimFolder("logs");

#ifndef CORE_AGENT_NODE_RUNTIME_FILES_H_
#define CORE_AGENT_NODE_RUNTIME_FILES_H_

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "core/agent/loop/guard.h"

namespace millrace {

// Thread safety: not thread-safe. Blocking: disk I/O.
class RuntimeFiles {
 public:
  // `dir` empty: a fresh folder under $TMPDIR. A `dir` that does not exist is made (0700; its
  // parent must exist). Returns FAILED_PRECONDITION if somebody else owns it or may write to it
  // (the program to run will lie there), NOT_FOUND or PERMISSION_DENIED if it cannot be made.
  [[nodiscard]] static absl::StatusOr<std::unique_ptr<RuntimeFiles>> Open(std::string dir,
                                                                          std::string prefix,
                                                                          Guard* guard);
  ~RuntimeFiles() { Remove(); }
  RuntimeFiles(const RuntimeFiles&) = delete;
  RuntimeFiles& operator=(const RuntimeFiles&) = delete;

  // The absolute path of a file that is about to be made, unique among agents.
  [[nodiscard]] std::string Claim(absl::string_view name);

  // The absolute path of a folder (0700), which exists now if it could be made. Whatever others put
  // into it is removed with it.
  [[nodiscard]] std::string ClaimFolder(absl::string_view name);

  // Removes what was claimed, and the folder if it was made here. Idempotent: a second call removes
  // what came meanwhile.
  void Remove();

  [[nodiscard]] const std::string& dir() const { return dir_; }

 private:
  RuntimeFiles(std::string dir, std::string prefix, bool made_dir, Guard* guard);

  const std::string dir_;  // absolute
  const std::string prefix_;
  const bool made_dir_;
  Guard* const guard_;
  std::vector<std::string> files_;
  std::vector<std::string> folders_;
};

}  // namespace millrace

#endif  // CORE_AGENT_NODE_RUNTIME_FILES_H_
