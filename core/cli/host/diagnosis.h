// File: core/cli/host/diagnosis.h
//
// What is well and what is not, of this machine or of another one, each with what to do.
//
// Defines: Finding, DiagnoseMachine(), LevelName().
//
// Thread safety: pure functions.
#ifndef CORE_CLI_HOST_DIAGNOSIS_H_
#define CORE_CLI_HOST_DIAGNOSIS_H_

#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "core/cli/host/machine_facts.h"

namespace millrace::cli {

struct Finding {
  enum class Level {
    kOk,
    kWarning,  // clusters run, but not as well, or only some
    kProblem,  // a cluster cannot run, or not there
  };
  Level level = Level::kOk;
  std::string where;    // an agent's address; empty: this machine
  std::string subject;  // "memory"
  std::string text;     // what is so
  std::string advice;   // what to do; empty: nothing
};

// "ok", "warning", "problem".
[[nodiscard]] absl::string_view LevelName(Finding::Level level);

// One finding for each subject, in an order that never changes. `num_nodes` are those that would
// run on this machine; 0: it only drives.
[[nodiscard]] std::vector<Finding> DiagnoseMachine(const MachineFacts& facts, int num_nodes);

}  // namespace millrace::cli

#endif  // CORE_CLI_HOST_DIAGNOSIS_H_
