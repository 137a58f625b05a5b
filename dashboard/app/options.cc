#include "dashboard/app/options.h"

#include <algorithm>
#include <utility>

#include "CLI/CLI.hpp"
#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "core/base/file.h"
#include "core/base/text.h"
#include "dashboard/source/demo_source.h"
#include "millrace/status_macros.h"

namespace millrace::dashboard {
namespace {

constexpr size_t kMaxFileBytes = 1 << 20;
constexpr int kMaxNodes = 100'000;
constexpr char kSeeHelp[] = " (millrace-dashboard --help says more)";

std::string PanelNames() {
  return absl::StrJoin(
      kPanels, ", ", [](std::string* out, Panel panel) { absl::StrAppend(out, PanelName(panel)); });
}

template <typename... T>
absl::Status Wrong(const T&... text) {
  return absl::InvalidArgumentError(absl::StrCat(text...));
}

// What the command line says, before it means anything.
struct Words {
  std::string token_file;
  std::string operator_token_file;
  std::string ca_file;
  std::string identity_file;
  std::string demo;
  std::string panel;
  std::string size;
  std::string after;
  std::string theme;
  std::string scale;
};

void Declare(CLI::App* app, Words* words, Options* options) {
  app->set_help_flag();
  app->allow_extras();
  app->add_flag("-h,--help", options->help);
  app->add_flag("--version", options->version);
  app->add_option("--cluster", options->clusters)->allow_extra_args(false);
  app->add_option("--connect", options->connect);
  app->add_option("--token-file", words->token_file);
  app->add_option("--operator-token-file", words->operator_token_file);
  app->add_option("--ca", words->ca_file);
  app->add_option("--identity", words->identity_file);
  app->add_option("--replay", options->recordings)->allow_extra_args(false);
  app->add_option("--compare", options->compare);
  app->add_option("--demo", words->demo);
  app->add_option("--scenario", options->scenario);
  app->add_option("--record", options->record);
  app->add_option("--screenshot", options->screenshot);
  app->add_option("--panel", words->panel);
  app->add_flag("--zoom", options->zoom);
  app->add_option("--size", words->size);
  app->add_option("--after", words->after);
  app->add_flag("--dump-json", options->dump_json);
  app->add_option("--report", options->report);
  app->add_option("--theme", words->theme);
  app->add_option("--scale", words->scale);
  app->add_option("--select", options->select);
}

// CLI11's words for it, as an instruction.
absl::Status FromParseError(const CLI::ParseError& error) {
  const std::string text = FirstLine(error.what());
  const std::string option = text.substr(0, text.find(':'));
  if (error.get_name() == "ArgumentMismatch" && option.size() < text.size()) {
    return absl::StrContains(text, "received") ? Wrong(option, ": give it only once")
                                               : Wrong(option, ": give it a value", kSeeHelp);
  }
  return Wrong(text, kSeeHelp);
}

absl::Status CheckNothingIsLeft(const std::vector<std::string>& rest) {
  if (rest.empty()) return absl::OkStatus();
  const std::string& first = rest.front();
  if (absl::StartsWith(first, "-")) return Wrong(first, ": there is no such option", kSeeHelp);
  return Wrong(first, ": to see the cluster of this name, write --cluster ", first, kSeeHelp);
}

absl::Status CheckSource(const Words& words, const Options& options) {
  const int sources = (words.demo.empty() ? 0 : 1) + (options.recordings.empty() ? 0 : 1) +
                      (options.connect.empty() ? 0 : 1) + (options.clusters.empty() ? 0 : 1);
  if (sources > 1) return Wrong("give only one of --cluster, --connect, --replay and --demo");
  if (!options.scenario.empty() && words.demo.empty()) {
    return Wrong("--scenario needs --demo N: add it, with the number of simulated nodes");
  }
  std::vector<absl::string_view> missing;
  for (const auto& [name, file] :
       {std::pair("--token-file", &words.token_file), std::pair("--ca", &words.ca_file),
        std::pair("--identity", &words.identity_file)}) {
    if (file->empty()) missing.push_back(name);
    if (!file->empty() && options.connect.empty()) {
      return Wrong(name, " needs --connect HOST:PORT; on the driver's host use --cluster alone");
    }
  }
  if (!words.operator_token_file.empty() && options.connect.empty()) {
    return Wrong("--operator-token-file needs --connect HOST:PORT");
  }
  if (options.connect.empty() || missing.empty()) return absl::OkStatus();
  return Wrong("--connect also needs ", absl::StrJoin(missing, ", "),
               "; on the driver's host use --cluster, which finds them by itself");
}

absl::Status CheckOutput(const Options& options) {
  const int outputs = (options.screenshot.empty() ? 0 : 1) + (options.dump_json ? 1 : 0) +
                      (options.report.empty() ? 0 : 1);
  if (outputs > 1) return Wrong("give only one of --screenshot, --dump-json and --report");
  if (!options.compare.empty() && (options.dump_json || !options.report.empty())) {
    return Wrong(options.dump_json ? "--dump-json" : "--report",
                 " is of one cluster: leave --compare out, or take --screenshot");
  }
  return absl::OkStatus();
}

absl::Status ReadDemo(const std::string& text, Options* options) {
  if (!text.empty() &&
      (!absl::SimpleAtoi(text, &options->demo) || options->demo < 0 || options->demo > kMaxNodes)) {
    return Wrong("--demo ", text, ": give the number of nodes, 0 to ", kMaxNodes);
  }
  const std::vector<std::string>& scenarios = DemoScenarios();
  if (options->scenario.empty() ||
      std::find(scenarios.begin(), scenarios.end(), options->scenario) != scenarios.end()) {
    return absl::OkStatus();
  }
  return Wrong("--scenario ", options->scenario, ": choose one of ",
               absl::StrJoin(scenarios, ", "));
}

absl::Status ReadPanel(const std::string& text, Options* options) {
  if (text.empty()) {
    return options->zoom ? Wrong("--zoom needs --panel P: name the panel to show alone")
                         : absl::OkStatus();
  }
  options->panel = PanelFromName(text);
  if (options->panel.has_value()) return absl::OkStatus();
  return Wrong("--panel ", text, ": choose one of ", PanelNames());
}

absl::Status ReadSize(const std::string& text, Options* options) {
  if (text.empty()) return absl::OkStatus();
  const std::vector<std::string> parts = absl::StrSplit(text, 'x');
  if (parts.size() == 2 && absl::SimpleAtoi(parts[0], &options->width) &&
      absl::SimpleAtoi(parts[1], &options->height) && options->width >= 320 &&
      options->height >= 240 && options->width <= 8192 && options->height <= 8192) {
    return absl::OkStatus();
  }
  return Wrong("--size ", text,
               ": give WIDTHxHEIGHT in pixels, such as 1600x900; from 320x240 to 8192x8192");
}

absl::Status ReadAfter(const std::string& text, Options* options) {
  if (text.empty()) return absl::OkStatus();
  absl::Duration duration;
  if (!absl::ParseDuration(text, &duration) || duration < absl::ZeroDuration() ||
      duration > absl::Hours(1)) {
    return Wrong("--after ", text, ": give a time such as 1.5s or 2m, up to 1h");
  }
  options->after = duration;
  return absl::OkStatus();
}

absl::Status ReadLooks(const Words& words, Options* options) {
  if (!words.theme.empty()) {
    options->theme = ThemeFromName(words.theme);
    if (!options->theme.has_value()) {
      return Wrong("--theme ", words.theme, ": choose dark, light or colour-blind");
    }
  }
  if (!words.scale.empty() && (!absl::SimpleAtof(words.scale, &options->scale) ||
                               !(options->scale >= 0.5f && options->scale <= 4))) {
    return Wrong("--scale ", words.scale, ": give a number from 0.5 to 4, such as 1.5");
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
  Words words;
  CLI::App app("millrace-dashboard");
  Declare(&app, &words, &options);
  std::reverse(args.begin(), args.end());  // CLI11 takes them from the back
  try {
    app.parse(std::move(args));
  } catch (const CLI::ParseError& error) {
    return FromParseError(error);
  }
  if (options.help || options.version) return options;
  MILLRACE_RETURN_IF_ERROR(CheckNothingIsLeft(app.remaining()));
  MILLRACE_RETURN_IF_ERROR(CheckSource(words, options));
  MILLRACE_RETURN_IF_ERROR(CheckOutput(options));
  MILLRACE_RETURN_IF_ERROR(ReadDemo(words.demo, &options));
  MILLRACE_RETURN_IF_ERROR(ReadPanel(words.panel, &options));
  MILLRACE_RETURN_IF_ERROR(ReadSize(words.size, &options));
  MILLRACE_RETURN_IF_ERROR(ReadAfter(words.after, &options));
  MILLRACE_RETURN_IF_ERROR(ReadLooks(words, &options));
  MILLRACE_RETURN_IF_ERROR(ReadSecret(words.token_file, &options.token));
  MILLRACE_RETURN_IF_ERROR(ReadSecret(words.operator_token_file, &options.operator_token));
  MILLRACE_RETURN_IF_ERROR(ReadSecret(words.ca_file, &options.ca_pem));
  MILLRACE_RETURN_IF_ERROR(ReadSecret(words.identity_file, &options.identity_pem));
  return options;
}

std::string HelpText() {
  return R"(usage: millrace-dashboard [OPTIONS]

Shows running clusters in a window: why a cluster has not started, why its GPUs are idle, and what
failed first. It reads what the coordinator reports and never slows a cluster down.

  millrace-dashboard
  millrace-dashboard --cluster 3f2a
  millrace-dashboard --demo 200 --scenario slow-source

Which cluster (without an option: the newest one on this host, joined by each that starts later)
  --cluster CLUSTER         a cluster on this host: its id, the beginning of its id, or its cluster
                            file; repeat the option to see several clusters in one window
  --connect HOST:PORT       a cluster on another host. It needs three files with the contents of
                            these members of its cluster file:
    --token-file FILE       viewer_token
    --ca FILE               ca_pem
    --identity FILE         identity_pem
    --operator-token-file FILE
                            the operator's token, if you want to restart nodes or stop the cluster
  --replay FILE             a recording that --record has made; repeat the option to have several in
                            one window, each at its own place
  --compare FILE            a recording to show beside any of these: the same panel of both, on one
                            axis of time since each has started; C shows one alone, and back
  --demo N                  a simulated cluster of N nodes with 8 GPUs each
    --scenario NAME         what happens in it: starting, missing-slot, slow-source, slow-node,
                            skewed, oom-cascade, flapping, gpu-hot, gpu-unknown, idle, huge, stale,
                            or replay

What to show
  --panel PANEL             the panel in front when the window opens: verdict, reservations, nodes,
                            gpus, feed, metrics, logs, membership, timeline or details
  --zoom                    show only that panel
  --select NODE             the node that is selected when the window opens, such as worker:1
  --size WIDTHxHEIGHT       the size of the window or the picture in pixels (1600x900)
  --theme THEME             dark, light or colour-blind (the one you chose last)
  --scale S                 how large text is, 0.5 to 4 (what the monitor asks for)

What to write
  --record FILE             write everything that arrives to FILE, for --replay
  --screenshot FILE.png     write one picture and exit; needs an X server, and xvfb-run is enough
  --dump-json               print what the window would show as JSON and exit; needs no display
  --report FILE.html        write what happened as one page, for a browser or a printer, and exit;
                            needs no display
  --after T                 with these three: how much of the cluster's time must pass first (0s; a
                            report of a recording: all of it)

  -h, --help                print this text and exit
  --version                 print the version and exit

Press F1 in the window for its keys. Exit codes: 0 success, 1 no data or no display, 2 the command
line is wrong.
)";
}

}  // namespace millrace::dashboard
