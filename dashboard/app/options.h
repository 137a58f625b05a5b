// File: dashboard/app/options.h
//
// The program's flags.
//
// Defines: Options, ParseOptions(), HelpText().
//
// Thread safety: pure functions; ParseOptions() reads token and CA files.

#ifndef DASHBOARD_APP_OPTIONS_H_
#define DASHBOARD_APP_OPTIONS_H_

#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "dashboard/model/selection.h"
#include "dashboard/views/theme.h"

namespace millrace::dashboard {

struct Options {
  bool help = false;
  bool version = false;
  std::vector<std::string> clusters;    // --cluster: ids, their beginnings, or files
  std::string connect;                  // host:port
  std::string token;                    // contents of --token-file; a secret
  std::string operator_token;           // contents of --operator-token-file; a secret
  std::string ca_pem;                   // contents of --ca
  std::string identity_pem;             // contents of --identity
  std::vector<std::string> recordings;  // --replay
  std::string compare;                  // --compare: a recording
  int demo = -1;                        // nodes; -1: no demo
  std::string scenario;
  std::string record;

  std::string screenshot;
  std::optional<Panel> panel;
  bool zoom = false;
  int width = 1600;
  int height = 900;
  std::optional<absl::Duration> after;
  bool dump_json = false;
  std::string report;

  std::optional<ThemeKind> theme;  // nullopt: the one that was chosen last, dark at first
  float scale = 0;                 // 0: of the monitor
  std::string select;              // node
};

// Returns INVALID_ARGUMENT naming the flag and what it takes, or the errors of reading the files.
[[nodiscard]] absl::StatusOr<Options> ParseOptions(std::vector<std::string> args);

[[nodiscard]] std::string HelpText();

}  // namespace millrace::dashboard

#endif  // DASHBOARD_APP_OPTIONS_H_
