#include "core/cli/command_line.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <system_error>
#include <utility>

#include "CLI/CLI.hpp"
#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "core/agent/node/node_environment.h"
#include "core/base/text.h"
#include "core/cli/help/completion.h"
#include "core/cli/help/suggestion.h"
#include "core/cli/output/duration_text.h"
#include "core/cli/resolve_flags.h"
#include "core/cluster/log_folder.h"
#include "millrace/status_macros.h"

namespace millrace::cli {
namespace {

// The options of `run --on`.
constexpr char kOnGroup[] = "on";

// Refuses what other launchers call -n, such as mpirun's -np, which CLI11 would take for -n with
// the value "p".
absl::Status CheckNoOtherLaunchers(const std::string& command,
                                   const std::vector<std::string>& args) {
  static const auto* const kOthers =
      new std::map<absl::string_view, absl::string_view>{{"-np", "mpirun"},
                                                         {"--np", "mpirun"},
                                                         {"--ntasks", "srun"},
                                                         {"--nproc-per-node", "torchrun"},
                                                         {"--nproc_per_node", "torchrun"}};
  for (const std::string& arg : args) {
    if (arg == "--") break;
    const auto other = kOthers->find(arg.substr(0, arg.find('=')));
    if (other == kOthers->end() && !absl::StartsWith(arg, "-np")) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        EscapeControls(arg), " is ", other == kOthers->end() ? "mpirun" : other->second,
        "'s option: write -n NODES (millrace ", command, " --help says more)"));
  }
  return absl::OkStatus();
}

// The commands that take a program.
bool Runs(absl::string_view command) { return command == "run" || command == "srun"; }

// The options that are not in `others` belong to --on.
void PutInOnGroup(CLI::App* app, const std::vector<CLI::Option*>& others) {
  for (CLI::Option* option : app->get_options()) {
    if (std::find(others.begin(), others.end(), option) == others.end()) option->group(kOnGroup);
  }
}

// Without --on none of its options means anything.
absl::Status CheckNoOn(const CLI::App* app) {
  for (const CLI::Option* option : app->get_options()) {
    if (option->get_group() != kOnGroup || option->count() == 0) continue;
    return absl::InvalidArgumentError(
        absl::StrCat(option->get_name(), " is for --on SOURCE: agents that listen elsewhere"));
  }
  return absl::OkStatus();
}

absl::Status CheckSecretPlace(const SecretPlace& secret) {
  if (secret.file.empty() != secret.dir.empty()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      "--on needs the agents' secret: --secret-file FILE or --secret-dir DIR (millrace "
      "agent-secret makes it)");
}

// The parser, and what it fills in.
class Parser {
 public:
  Parser() : app_("millrace") {
    // Help is written by hand (help/help_text.h): these only recognise it.
    app_.set_help_flag("-h,--help");
    app_.set_version_flag("--version", "");
    app_.require_subcommand(1);
    app_.add_subcommand("version");
    app_.add_subcommand("completion")
        ->add_option("SHELL", line_.shell)
        ->required()
        ->check(CLI::IsMember(CompletionShells()));
    AddRun();
    AddSrun();
    AddViews();
    AddTop();
    AddMetrics();
    AddControls();
    AddSecret();
    AddDoctor();
    resolve_.AddTo(&app_);
  }

  absl::StatusOr<CommandLine> Parse(std::vector<std::string> args);
  std::vector<std::string> Options(const std::string& command);

 private:
  void AddRun();
  void AddSrun();
  CLI::App* AddProgram(const std::string& name);
  void AddViews();
  void AddTop();
  void AddMetrics();
  // Where and for whom metrics are served.
  void AddServed(CLI::App* app, const std::string& prefix);
  absl::Status FinishServed(CLI::App* app, const std::string& prefix,
                            std::optional<MetricsServerOptions>* served);
  void AddControls();
  void AddSecret();
  void AddDoctor();
  void AddChoice(CLI::App* app);
  CLI::App* AddView(const std::string& name);
  CLI::App* AddControl(CLI::App* parent, const std::string& name, bool json);
  void AddQuarantine(CLI::App* app);
  CLI::Option* AddDuration(CLI::App* app, const std::string& name, absl::Duration* value);
  absl::Status FinishOn();
  absl::Status CheckWorkingDir() const;
  absl::Status FinishDoctor();
  absl::Status FinishMetrics();
  absl::Status FinishEnv();
  absl::Status CheckCommand(const std::vector<std::string>& words) const;
  std::string SuggestOption(const std::string& command, const std::vector<std::string>& args);
  std::string Command() const;
  absl::StatusOr<CommandLine> Finish();

  CommandLine line_;
  ResolveFlags resolve_;
  CLI::App app_;
  CLI::App* run_ = nullptr;
  RunOn on_;
  CLI::App* srun_ = nullptr;
  RunInSlurm slurm_;
  CLI::App* doctor_ = nullptr;
  ResolveFlags doctor_on_;
  DoctorOptions::On doctor_agents_;
  std::vector<std::string> env_;
  std::string output_ = "prefixed";
  std::string on_sigterm_ = "end";
  std::string color_ = "auto";
  bool keep_port_ = false;
  CLI::App* metrics_ = nullptr;
  MetricsServerOptions served_;
  ClusterChoice choice_;
  int event_lines_ = 100;
  int log_lines_ = 20;
};

CLI::Option* Parser::AddDuration(CLI::App* app, const std::string& name, absl::Duration* value) {
  return app->add_option_function<std::string>(name, [name, value](const std::string& text) {
    const absl::StatusOr<absl::Duration> duration = ParseDurationText(text);
    if (!duration.ok()) {
      throw CLI::ValidationError(name, std::string(duration.status().message()));
    }
    *value = *duration;
  });
}

// "3/60s", or "never".
void Parser::AddQuarantine(CLI::App* app) {
  app->add_option_function<std::string>("--quarantine", [this](const std::string& text) {
    QuarantinePolicy& policy = line_.run.cluster.failure.quarantine;
    if (text == "never") {
      policy.failures = std::numeric_limits<int>::max();
      return;
    }
    const std::vector<std::string> parts = absl::StrSplit(text, '/');
    const absl::StatusOr<absl::Duration> window = ParseDurationText(parts.back());
    int failures = 0;
    if (parts.size() != 2 || !absl::SimpleAtoi(parts[0], &failures) || failures < 1 ||
        !window.ok()) {
      throw CLI::ValidationError("--quarantine", absl::StrCat("write FAILURES/TIME, as 3/60s, or "
                                                              "never; found ",
                                                              EscapeControls(text)));
    }
    policy.failures = failures;
    policy.window = *window;
  });
}

// What every command that runs a program takes.
CLI::App* Parser::AddProgram(const std::string& name) {
  RunOptions& run = line_.run;
  ClusterOptions& cluster = run.cluster;
  CLI::App* const app = app_.add_subcommand(name);
  // What follows the first word that is no option is the program's.
  app->prefix_command();
  app->add_option("--name", cluster.name);
  app->add_option("-n,--num-executors", cluster.num_executors);
  app->add_option("--num-ps", cluster.num_ps);
  app->add_option("--master-node", cluster.master_node)->check(CLI::IsMember({"chief", "master"}));
  app->add_flag("--eval-node", cluster.eval_node);
  app->add_option("--log-dir", cluster.log_dir);
  app->add_flag("--tensorboard", cluster.tensorboard);
  AddDuration(app, "--reservation-timeout", &cluster.reservation_timeout);
  AddDuration(app, "--timeout", &run.timeout);

  NodeOptions& node = cluster.node;
  app->add_option("--env", env_)->allow_extra_args(false);
  app->add_option("--working-dir", node.working_dir);
  app->add_flag("--keep-port", keep_port_);
  app->add_option("--gpus-per-node", node.gpus_per_node)->check(CLI::Range(0, 1024));

  FailureOptions& failure = cluster.failure;
  app->add_option("--max-restarts", failure.restart.max_restarts)->check(CLI::Range(0, 1000000));
  AddDuration(app, "--initial-backoff", &failure.restart.initial_backoff);
  AddDuration(app, "--max-backoff", &failure.restart.max_backoff);
  AddQuarantine(app);
  AddDuration(app, "--stop-grace", &failure.stop_grace);
  AddDuration(app, "--stop-timeout", &failure.stop_timeout);

  app->add_option("--output", output_)->check(CLI::IsMember({"prefixed", "raw", "none"}));
  app->add_flag("--timestamp-output", run.timestamp_output);
  app->add_option("--color", color_)->check(CLI::IsMember({"auto", "always", "never"}));
  app->add_option("--stdin", run.stdin_node);
  app->add_flag("-q,--quiet", run.quiet);
  AddServed(app, "--metrics-");
  return app;
}

void Parser::AddRun() {
  run_ = AddProgram("run");
  const std::vector<CLI::Option*> here = run_->get_options();
  resolve_.AddOnTo(run_);
  resolve_.AddPollingTo(run_);
  run_->add_option("--secret-file", on_.launcher.secret.file);
  run_->add_option("--secret-dir", on_.launcher.secret.dir);
  run_->add_option("--driver-host", on_.launcher.driver_host);
  run_->add_option("--bind-address", on_.launcher.bind_address);
  run_->add_flag("--ship", on_.ship);
  run_->add_option("--resumable", line_.run.cluster.resume.state_folder);
  AddDuration(run_, "--resume-within", &line_.run.cluster.resume.lease);
  run_->add_option("--on-sigterm", on_sigterm_)->check(CLI::IsMember({"end", "leave"}));
  PutInOnGroup(run_, here);
}

void Parser::AddSrun() {
  srun_ = AddProgram("srun");
  srun_->add_option("--srun-option", slurm_.srun_options)->allow_extra_args(false);
  srun_->add_option("--driver-host", slurm_.driver_host);
  srun_->add_option("--bind-address", slurm_.bind_address);
  srun_->add_flag("--ship", slurm_.ship);
}

void Parser::AddSecret() {
  SecretOptions& secret = line_.secret;
  CLI::App* app = app_.add_subcommand("agent-secret");
  app->add_option("--file", secret.file);
  app->add_option("--dir", secret.dir);
  app->add_option("--kubernetes", secret.kubernetes);
  app->add_option("--namespace", secret.name_space);
  app->add_flag("--replace", secret.replace);
  AddDuration(app, "--valid", &secret.valid);
}

void Parser::AddDoctor() {
  doctor_ = app_.add_subcommand("doctor");
  doctor_->add_flag("--json", line_.doctor.json);
  doctor_->add_option("-n,--num-executors", line_.doctor.num_nodes)->check(CLI::Range(1, 100000));
  const std::vector<CLI::Option*> here = doctor_->get_options();
  doctor_on_.AddOnTo(doctor_);
  doctor_->add_option("--secret-file", doctor_agents_.secret.file);
  doctor_->add_option("--secret-dir", doctor_agents_.secret.dir);
  AddDuration(doctor_, "--timeout", &doctor_agents_.timeout);
  PutInOnGroup(doctor_, here);
}

absl::Status Parser::FinishDoctor() {
  if (!doctor_on_.has_on()) return CheckNoOn(doctor_);
  MILLRACE_RETURN_IF_ERROR(CheckSecretPlace(doctor_agents_.secret));
  if (doctor_->count("--num-executors") > 0) {
    return absl::InvalidArgumentError(
        "-n is for nodes on this machine; with --on the source names the agents");
  }
  MILLRACE_ASSIGN_OR_RETURN(doctor_agents_.resolver,
                            doctor_on_.DescribeOn(/*wait=*/absl::ZeroDuration()));
  line_.doctor.on = doctor_agents_;
  return absl::OkStatus();
}

// Where nodes run in folders of this machine.
absl::Status Parser::CheckWorkingDir() const {
  const std::string& folder = line_.run.cluster.node.working_dir;
  std::error_code error;
  if (folder.empty() || std::filesystem::is_directory(folder, error)) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("--working-dir: Directory does not exist: ", EscapeControls(folder)));
}

// What `run --on` and `srun` say of where nodes run, checked.
absl::Status Parser::FinishOn() {
  RunOptions& run = line_.run;
  if (line_.command == "srun") {
    slurm_.shape = srun_->count("--num-executors") == 0;
    run.slurm = slurm_;
    return CheckWorkingDir();
  }
  if (!resolve_.has_on()) {
    MILLRACE_RETURN_IF_ERROR(CheckNoOn(run_));
    return CheckWorkingDir();
  }
  MILLRACE_RETURN_IF_ERROR(CheckSecretPlace(on_.launcher.secret));
  for (const char* option : {"--resume-within", "--on-sigterm"}) {
    if (run_->count(option) == 0 || run_->count("--resumable") > 0) continue;
    return absl::InvalidArgumentError(absl::StrCat(option, " is for --resumable FOLDER"));
  }
  run.leave_on_sigterm = on_sigterm_ == "leave";
  if (run_->count("--resumable") > 0 && run.cluster.resume.state_folder.empty()) {
    return absl::InvalidArgumentError("--resumable needs a folder");
  }
  on_.shape = run_->count("--num-executors") == 0;
  if (on_.shape &&
      (run_->count("--num-ps") + run_->count("--master-node") + run_->count("--eval-node") > 0)) {
    return absl::InvalidArgumentError(
        "without -n the source names the roles: give -n as well, or none of --num-ps, "
        "--master-node and --eval-node");
  }
  MILLRACE_ASSIGN_OR_RETURN(
      on_.resolver,
      resolve_.DescribeOn(on_.shape ? run.cluster.reservation_timeout : absl::ZeroDuration()));
  const std::string type = on_.resolver.is_object() ? on_.resolver.value("type", "") : "";
  on_.launcher.adoption.fixed_members = type == "static" || type == "slurm" || type == "tf_config";
  on_.launcher.poll_interval = resolve_.poll_interval();
  run.on = on_;
  return absl::OkStatus();
}

// "NAME=VALUE", or "NAME" for the value that it has here.
absl::Status Parser::FinishEnv() {
  RunOptions& run = line_.run;
  for (const std::string& entry : env_) {
    const size_t equals = entry.find('=');
    const std::string name = entry.substr(0, equals);
    if (name.empty()) {
      return absl::InvalidArgumentError(
          absl::StrCat("--env ", EscapeControls(entry), ": write NAME=VALUE, or NAME"));
    }
    if (IsNodeVariable(name) ||
        (run.cluster.node.gpus_per_node > 0 && name == "CUDA_VISIBLE_DEVICES")) {
      return absl::InvalidArgumentError(absl::StrCat("--env ", name, ": millrace sets ", name,
                                                     " for each node; take another name"));
    }
    const char* const here = equals == std::string::npos ? std::getenv(name.c_str()) : nullptr;
    if (equals == std::string::npos && here == nullptr) {
      return absl::InvalidArgumentError(
          absl::StrCat("--env ", EscapeControls(name),
                       ": there is no such variable here to take it from; write NAME=VALUE"));
    }
    run.env[name] = here != nullptr ? here : entry.substr(equals + 1);
  }
  return absl::OkStatus();
}

// Both commands that look and commands that act fill the same choice; one command is parsed.
void Parser::AddChoice(CLI::App* app) {
  app->add_option("--cluster", choice_.cluster);
  app->add_option("--connect", choice_.connect);
  app->add_option("--ca", choice_.ca_file);
  app->add_option("--identity", choice_.identity_file);
  app->add_option("--token-file", choice_.token_file);
}

CLI::App* Parser::AddView(const std::string& name) {
  CLI::App* app = app_.add_subcommand(name);
  app->add_flag("--json", line_.view.json);
  if (name != "clusters") AddChoice(app);
  return app;
}

void Parser::AddViews() {
  ViewOptions& view = line_.view;
  for (const char* name : {"status", "nodes"}) {
    CLI::App* app = AddView(name);
    app->add_flag("-w,--watch", view.watch);
    AddDuration(app, "--interval", &view.interval);
  }
  CLI::App* events = AddView("events");
  events->add_flag("-f,--follow", view.follow);
  events->add_option("-n,--lines", event_lines_)->check(CLI::Range(0, 2048));
  CLI::App* logs = AddView("logs");
  logs->add_flag("-f,--follow", view.follow);
  logs->add_option("-n,--lines", log_lines_)->check(CLI::Range(0, 1000));
  logs->add_flag("--raw", view.raw);
  logs->add_option("NODE", view.nodes);
  AddView("clusters");
}

void Parser::AddTop() {
  CLI::App* app = app_.add_subcommand("top");
  AddChoice(app);
  app->add_flag("--once", line_.top.once);
  app->add_flag("--json", line_.top.json);
  app->add_flag("--no-color", line_.top.no_colour);
  AddDuration(app, "--interval", &line_.top.interval);
}

void Parser::AddMetrics() {
  metrics_ = app_.add_subcommand("metrics");
  AddChoice(metrics_);
  metrics_->add_flag("--nodes", line_.metrics.nodes);
  AddServed(metrics_, "--");
}

void Parser::AddServed(CLI::App* app, const std::string& prefix) {
  app->add_option(prefix + "port", served_.port)->check(CLI::Range(0, 65535));
  app->add_option(prefix + "address", served_.address);
  app->add_option(prefix + "scrape-token", served_.token_file);
  app->add_option(prefix + "certificate", served_.certificate_file);
  app->add_option(prefix + "key", served_.key_file);
  app->add_option(prefix + "client-ca", served_.client_ca_file);
}

absl::Status Parser::FinishServed(CLI::App* app, const std::string& prefix,
                                  std::optional<MetricsServerOptions>* served) {
  if (app->count(prefix + "port") > 0) {
    *served = served_;
    return CheckServed(served_, prefix);
  }
  for (const char* name : {"address", "scrape-token", "certificate", "key", "client-ca"}) {
    if (app->count(prefix + name) > 0) {
      return absl::InvalidArgumentError(absl::StrCat(prefix, name, " goes with ", prefix, "port"));
    }
  }
  return absl::OkStatus();
}

absl::Status Parser::FinishMetrics() {
  line_.metrics.choice = choice_;
  if (metrics_->count("--port") > 0 && line_.metrics.nodes) {
    return absl::InvalidArgumentError("with --port each request says it: /metrics?nodes=1");
  }
  return FinishServed(metrics_, "--", &line_.metrics.serve);
}

CLI::App* Parser::AddControl(CLI::App* parent, const std::string& name, bool json) {
  CLI::App* app = parent->add_subcommand(name);
  AddChoice(app);
  if (json) app->add_flag("--json", line_.control.json);
  return app;
}

void Parser::AddControls() {
  ControlOptions& control = line_.control;
  CLI::App* kv = app_.add_subcommand("kv");
  kv->require_subcommand(1);
  CLI::App* get = AddControl(kv, "get", /*json=*/true);
  get->add_option("KEY", control.key)->required();
  AddDuration(get, "--wait", &control.wait);
  CLI::App* set = AddControl(kv, "set", /*json=*/false);
  set->add_option("KEY", control.key)->required();
  set->add_option("VALUE", control.value)->required();
  CLI::App* list = AddControl(kv, "list", /*json=*/true);
  list->add_option("PREFIX", control.key);
  list->add_option("--limit", control.limit)->check(CLI::Range(1, 10000));
  CLI::App* remove = AddControl(kv, "delete", /*json=*/false);
  remove->add_option("KEY", control.key)->required();

  CLI::App* stop = AddControl(&app_, "stop", /*json=*/false);
  stop->add_flag("--now", control.now);
  stop->add_option("--reason", control.reason);
  CLI::App* restart = AddControl(&app_, "restart", /*json=*/true);
  restart->add_option("NODE", control.node)->required();
  restart->add_option("--reason", control.reason);
}

// Checks that the words before the first option name a command.
absl::Status Parser::CheckCommand(const std::vector<std::string>& words) const {
  const CLI::App* at = &app_;
  std::string command;
  for (const std::string& word : words) {
    const std::vector<const CLI::App*> known = at->get_subcommands({});
    if (absl::StartsWith(word, "-") || known.empty()) break;
    const auto next = std::find_if(known.begin(), known.end(),
                                   [&](const CLI::App* app) { return app->get_name() == word; });
    if (next == known.end()) {
      std::vector<std::string> names;
      for (const CLI::App* app : known) names.push_back(app->get_name());
      return absl::InvalidArgumentError(absl::StrCat("there is no command ", command,
                                                     EscapeControls(word), Suggestion(word, names),
                                                     " (millrace ", command, "--help lists them)"));
    }
    at = *next;
    absl::StrAppend(&command, word, " ");
  }
  return absl::OkStatus();
}

// Of the first option that the command does not have.
std::string Parser::SuggestOption(const std::string& command,
                                  const std::vector<std::string>& args) {
  const std::vector<std::string> known = Options(command);
  for (const std::string& arg : args) {
    const std::string name = arg.substr(0, arg.find('='));
    if (name == "--") break;
    if (!absl::StartsWith(name, "--")) continue;
    if (std::find(known.begin(), known.end(), name) == known.end()) return Suggestion(name, known);
  }
  return "";
}

std::string Parser::Command() const {
  std::string command;
  const CLI::App* at = &app_;
  while (!at->get_subcommands().empty()) {
    at = at->get_subcommands().front();
    absl::StrAppend(&command, command.empty() ? "" : " ", at->get_name());
  }
  return command;
}

absl::StatusOr<CommandLine> Parser::Parse(std::vector<std::string> args) {
  if (args.empty()) return CommandLine{.command = "help"};
  if (args[0] == "help") {
    const bool of_itself = args.size() == 2 && args[1] == "help";
    if (!of_itself) MILLRACE_RETURN_IF_ERROR(CheckCommand({args.begin() + 1, args.end()}));
    line_.command = "help";
    line_.topic = absl::StrJoin(args.begin() + 1, args.end(), " ");
    return line_;
  }
  MILLRACE_RETURN_IF_ERROR(CheckCommand(args));
  // "--" ends millrace's own options, wherever the parser would look for more.
  std::vector<std::string> program;
  bool split = false;
  const std::vector<std::string> as_written = args;
  if (Runs(args[0])) {
    const auto dashes = std::find(args.begin(), args.end(), "--");
    if (dashes != args.end()) {
      split = true;
      program.assign(dashes + 1, args.end());
      args.erase(dashes, args.end());
    }
  }
  try {
    std::reverse(args.begin(), args.end());  // CLI11 takes them from the back
    app_.parse(std::move(args));
  } catch (const CLI::CallForHelp&) {
    line_.command = "help";
    line_.topic = Command();
    return line_;
  } catch (const CLI::CallForVersion&) {
    line_.command = "version";
    return line_;
  } catch (const CLI::ParseError& error) {
    const std::string command = Command();
    if (Runs(command)) MILLRACE_RETURN_IF_ERROR(CheckNoOtherLaunchers(command, as_written));
    return absl::InvalidArgumentError(
        absl::StrCat(FirstLine(error.what()), SuggestOption(command, as_written), " (millrace ",
                     command, command.empty() ? "" : " ", "--help says more)"));
  }
  line_.command = Command();
  if (Runs(line_.command)) {
    std::vector<std::string> rest = app_.get_subcommand(line_.command)->remaining();
    if (!rest.empty() && absl::StartsWith(rest.front(), "-")) {
      MILLRACE_RETURN_IF_ERROR(CheckNoOtherLaunchers(line_.command, {rest.front()}));
      return absl::InvalidArgumentError(
          absl::StrCat("unknown option ", EscapeControls(rest.front()),
                       SuggestOption(line_.command, {rest.front()}), " (millrace ", line_.command,
                       " --help lists them)"));
    }
    if (split && !rest.empty()) rest.push_back("--");  // it was the program's own
    rest.insert(rest.end(), program.begin(), program.end());
    line_.run.program = std::move(rest);
  }
  return Finish();
}

absl::StatusOr<CommandLine> Parser::Finish() {
  if (absl::StartsWith(line_.command, "resolve ")) {
    const absl::string_view source = absl::StripPrefix(line_.command, "resolve ");
    MILLRACE_ASSIGN_OR_RETURN(line_.resolve, resolve_.Finish(std::string(source)));
    return line_;
  }
  if (line_.command == "agent-secret") {
    const SecretOptions& secret = line_.secret;
    const int places = !secret.file.empty() + !secret.dir.empty() + !secret.kubernetes.empty();
    if (places == 1 && (secret.name_space.empty() || !secret.kubernetes.empty())) return line_;
    return absl::InvalidArgumentError(
        "say where the secret goes: --file FILE, --dir DIR, or --kubernetes NAME [--namespace "
        "NAME]");
  }
  if (line_.command == "doctor") {
    MILLRACE_RETURN_IF_ERROR(FinishDoctor());
    return line_;
  }
  if (line_.command == "metrics") {
    MILLRACE_RETURN_IF_ERROR(FinishMetrics());
    return line_;
  }
  if (!Runs(line_.command)) {
    line_.view.choice = line_.control.choice = line_.top.choice = choice_;
    line_.view.lines = line_.command == "logs" ? log_lines_ : event_lines_;
    return line_;
  }
  RunOptions& run = line_.run;
  if (run.program.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("no program to run: millrace ", line_.command, " -n 4 -- PROGRAM [ARG...]"));
  }
  MILLRACE_RETURN_IF_ERROR(FinishOn());
  MILLRACE_RETURN_IF_ERROR(FinishEnv());
  MILLRACE_RETURN_IF_ERROR(
      FinishServed(app_.get_subcommand(line_.command), "--metrics-", &run.metrics));
  MILLRACE_ASSIGN_OR_RETURN(run.cluster.log_dir, LogFolder("--log-dir", run.cluster.log_dir));
  static const auto* const kModes = new std::map<std::string, OutputMode>{
      {"prefixed", OutputMode::kPrefixed}, {"raw", OutputMode::kRaw}, {"none", OutputMode::kNone}};
  run.output = kModes->at(output_);
  run.color = color_ == "always"  ? ColorMode::kAlways
              : color_ == "never" ? ColorMode::kNever
                                  : ColorMode::kAuto;
  if (run.timestamp_output && run.output != OutputMode::kPrefixed) {
    return absl::InvalidArgumentError(
        "--timestamp-output is for lines with a prefix: without --output raw or none");
  }
  run.cluster.node.release_port = !keep_port_;
  RestartPolicy& restart = run.cluster.failure.restart;
  restart.max_backoff = std::max(restart.max_backoff, restart.initial_backoff);
  return line_;
}

std::vector<std::string> Parser::Options(const std::string& command) {
  CLI::App* app = &app_;
  for (const absl::string_view word : absl::StrSplit(command, ' ', absl::SkipEmpty())) {
    app = app->get_subcommand(std::string(word));
  }
  std::vector<std::string> names;
  for (const CLI::Option* option : app->get_options()) {
    for (const std::string& name : option->get_lnames()) names.push_back(absl::StrCat("--", name));
  }
  return names;
}

}  // namespace

absl::StatusOr<CommandLine> ParseCommandLine(std::vector<std::string> args) {
  return Parser().Parse(std::move(args));
}

std::vector<std::string> OptionNames(const std::string& command) {
  return Parser().Options(command);
}

}  // namespace millrace::cli
