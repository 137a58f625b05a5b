#include "dashboard/app/options.h"

#include <algorithm>
#include <utility>

#include "CLI/CLI.hpp"
#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "core/base/file.h"
#include "dashboard/source/demo_source.h"
#include "millrace/status_macros.h"

namespace millrace::dashboard {
namespace {

constexpr size_t kMaxFileBytes = 1 << 20;

std::string PanelNames() {
  return absl::StrJoin(
      kPanels, ", ", [](std::string* out, Panel panel) { absl::StrAppend(out, PanelName(panel)); });
}

absl::Status ParseSize(const std::string& text, int* width, int* height) {
  const std::vector<std::string> parts = absl::StrSplit(text, 'x');
  if (parts.size() != 2 || !absl::SimpleAtoi(parts[0], width) ||
      !absl::SimpleAtoi(parts[1], height) || *width < 320 || *height < 240 || *width > 8192 ||
      *height > 8192) {
    return absl::InvalidArgumentError(
        absl::StrCat("--size ", text, ": it takes WIDTHxHEIGHT in pixels, 320x240 to 8192x8192"));
  }
  return absl::OkStatus();
}

absl::Status ReadSecret(const std::string& path, std::string* out) {
  if (path.empty()) return absl::OkStatus();
  MILLRACE_ASSIGN_OR_RETURN(std::string text, ReadFile(path, kMaxFileBytes));
  *out = std::string(absl::StripAsciiWhitespace(text));
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<Options> ParseOptions(std::vector<std::string> args) {
  Options options;
  std::string token_file, operator_token_file, ca_file, identity_file, panel, size, after, theme;
  CLI::App app("millrace-dashboard");
  app.set_help_flag();
  app.add_flag("-h,--help", options.help);
  app.add_flag("--version", options.version);
  app.add_option("--cluster", options.clusters)->allow_extra_args(false);
  app.add_option("--connect", options.connect);
  app.add_option("--token-file", token_file);
  app.add_option("--operator-token-file", operator_token_file);
  app.add_option("--ca", ca_file);
  app.add_option("--identity", identity_file);
  app.add_option("--replay", options.replay);
  app.add_option("--demo", options.demo)->check(CLI::Range(0, 100'000));
  app.add_option("--scenario", options.scenario);
  app.add_option("--record", options.record);
  app.add_option("--screenshot", options.screenshot);
  app.add_option("--panel", panel);
  app.add_flag("--zoom", options.zoom);
  app.add_option("--size", size);
  app.add_option("--after", after);
  app.add_flag("--dump-json", options.dump_json);
  app.add_option("--theme", theme);
  app.add_option("--scale", options.scale)->check(CLI::Range(0.5, 4.0));
  app.add_option("--select", options.select);
  std::reverse(args.begin(), args.end());  // CLI11 takes them from the back
  try {
    app.parse(std::move(args));
  } catch (const CLI::ParseError& error) {
    return absl::InvalidArgumentError(absl::StrCat(error.what(), " (see --help)"));
  }
  if (options.help || options.version) return options;
  const int sources = (options.demo >= 0 ? 1 : 0) + (options.replay.empty() ? 0 : 1) +
                      (options.connect.empty() ? 0 : 1) + (options.clusters.empty() ? 0 : 1);
  if (sources > 1)
    return absl::InvalidArgumentError(
        "--cluster, --connect, --replay and --demo exclude one another");
  if (!options.scenario.empty() && options.demo < 0)
    return absl::InvalidArgumentError("--scenario is for --demo N");
  if (!panel.empty()) {
    options.panel = PanelFromName(panel);
    if (!options.panel.has_value())
      return absl::InvalidArgumentError(
          absl::StrCat("--panel ", panel, ": there are ", PanelNames()));
  }
  if (options.zoom && !options.panel.has_value())
    return absl::InvalidArgumentError("--zoom is for --panel");
  if (!size.empty()) MILLRACE_RETURN_IF_ERROR(ParseSize(size, &options.width, &options.height));
  if (!after.empty()) {
    absl::Duration duration;
    if (!absl::ParseDuration(after, &duration) || duration < absl::ZeroDuration() ||
        duration > absl::Hours(1)) {
      return absl::InvalidArgumentError(
          absl::StrCat("--after ", after, ": it takes a time such as 1.5s, up to 1h"));
    }
    options.after = duration;
  }
  if (!theme.empty()) {
    options.theme = ThemeFromName(theme);
    if (!options.theme.has_value())
      return absl::InvalidArgumentError(
          absl::StrCat("--theme ", theme, ": there are dark, light and colour-blind"));
  }
  if (!options.connect.empty() &&
      (token_file.empty() || ca_file.empty() || identity_file.empty())) {
    return absl::InvalidArgumentError(
        "--connect needs --token-file, --ca and --identity; on the driver's host --cluster finds "
        "all "
        "three by itself");
  }
  MILLRACE_RETURN_IF_ERROR(ReadSecret(token_file, &options.token));
  MILLRACE_RETURN_IF_ERROR(ReadSecret(operator_token_file, &options.operator_token));
  MILLRACE_RETURN_IF_ERROR(ReadSecret(ca_file, &options.ca_pem));
  MILLRACE_RETURN_IF_ERROR(ReadSecret(identity_file, &options.identity_pem));
  return options;
}

std::string HelpText() {
  return absl::StrCat(
      "millrace-dashboard: a running cluster in a window\n"
      "\n"
      "  millrace-dashboard                        the cluster on this host that was started last\n"
      "  millrace-dashboard --cluster C [--cluster C ...]   by id, its beginning, or its file; "
      "several in one window\n"
      "  millrace-dashboard --connect HOST:PORT --token-file F --ca F --identity F\n"
      "                     [--operator-token-file F]\n"
      "  millrace-dashboard --replay FILE          what --record wrote\n"
      "  millrace-dashboard --demo N [--scenario S]         N simulated nodes with 8 GPUs each\n"
      "\n"
      "  --record FILE        writes all that comes to FILE\n"
      "  --screenshot OUT.png draws one picture and ends; --size WxH (1600x900), --after T (of the "
      "cluster's time)\n"
      "  --panel P            in front at first: ",
      PanelNames(),
      "\n"
      "  --zoom               that panel alone\n"
      "  --select NODE        selected at first, such as worker:1\n"
      "  --dump-json          prints what it knows as JSON and ends; needs no display; --after T\n"
      "  --theme T            dark, light, colour-blind; without it the one that was chosen last\n"
      "  --scale S            0.5 to 4; without it the monitor's\n"
      "\n"
      "scenarios: ",
      absl::StrJoin(DemoScenarios(), ", "),
      "\n"
      "keys: F1 in the window\n");
}

}  // namespace millrace::dashboard
