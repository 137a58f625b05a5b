#include "core/cli/resolve_command.h"

#include <unistd.h>

#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "core/base/json.h"
#include "core/base/mutex.h"
#include "core/base/status.h"
#include "core/base/text.h"
#include "core/cli/make_resolver.h"
#include "core/cli/output/answer.h"
#include "core/cli/output/exit_code.h"
#include "core/cli/output/report_error.h"
#include "core/cli/output/terminal.h"
#include "core/cli/signal_watch.h"
#include "core/cluster_spec/cluster_spec_json.h"
#include "millrace/cluster_resolver.h"
#include "millrace/cluster_spec.h"
#include "millrace/membership.h"
#include "millrace/status_macros.h"
#include "millrace/tensorflow_error.h"

namespace millrace::cli {
namespace {

// An error of the tensorflow mode with the class of its exception in front.
absl::Status WithPythonClass(const absl::Status& status) {
  return Annotate(status, TensorFlowErrorClass(status).value_or(""));
}

OrderedJson TaskJson(const ClusterSpecDiff::Task& task) {
  return {{"job", task.job}, {"index", task.index}, {"address", task.address}};
}

template <typename T>
OrderedJson OrNull(const std::optional<T>& value) {
  return value.has_value() ? OrderedJson(*value) : OrderedJson(nullptr);
}

// Which task this is, where the source says; that it cannot is no error of the command.
struct Task {
  std::optional<std::string> type;
  std::optional<int> id;
  std::optional<std::string> rpc_layer;
};

absl::StatusOr<Task> TaskOf(ClusterResolver& resolver) {
  Task task;
  MILLRACE_ASSIGN_OR_RETURN(task.type, resolver.task_type());
  MILLRACE_ASSIGN_OR_RETURN(task.id, resolver.task_id());
  MILLRACE_ASSIGN_OR_RETURN(task.rpc_layer, resolver.rpc_layer());
  return task;
}

absl::StatusOr<std::string> TfConfigOf(const ClusterSpec& spec, const Task& task) {
  if (!task.type.has_value() || !task.id.has_value()) {
    return absl::InvalidArgumentError(
        "TF_CONFIG is for one task, and the source does not say for which: give --task-type and "
        "--task-id");
  }
  Json extra = Json::object();
  if (!task.rpc_layer.value_or("").empty()) extra["rpc_layer"] = *task.rpc_layer;
  return TfConfig(spec, *task.type, *task.id, extra);
}

std::string HostsOf(const ClusterSpec& spec) {
  std::string text;
  for (const std::string& job : spec.jobs()) {
    const auto tasks = spec.TaskMapOf(job);
    for (const auto& [index, address] : **tasks) {
      absl::StrAppend(&text, EscapeControls(job), ":", index, " ", EscapeControls(address), "\n");
    }
  }
  return text;
}

// The members, in every format but kJson.
absl::StatusOr<std::string> SpecText(const ClusterSpec& spec, ClusterResolver& resolver,
                                     ResolveFormat format) {
  if (format == ResolveFormat::kHosts) return HostsOf(spec);
  if (format == ResolveFormat::kSpec) return absl::StrCat(spec.ToJson(), "\n");
  MILLRACE_ASSIGN_OR_RETURN(const Task task, TaskOf(resolver));
  MILLRACE_ASSIGN_OR_RETURN(const std::string text, TfConfigOf(spec, task));
  return absl::StrCat(text, "\n");
}

absl::StatusOr<std::string> Answer(ClusterResolver& resolver, ResolveFormat format) {
  MILLRACE_ASSIGN_OR_RETURN(const ClusterSpec spec, resolver.cluster_spec());
  if (format != ResolveFormat::kJson) return SpecText(spec, resolver, format);
  MILLRACE_ASSIGN_OR_RETURN(const Task task, TaskOf(resolver));
  MILLRACE_ASSIGN_OR_RETURN(const std::optional<std::string> environment, resolver.environment());
  const absl::StatusOr<std::string> master = resolver.master();
  OrderedJson object = {{"time_ms", absl::ToUnixMillis(absl::Now())},
                        {"cluster_spec", ClusterSpecToJson(spec)},
                        {"task_type", OrNull(task.type)},
                        {"task_id", OrNull(task.id)},
                        {"master", master.ok() ? OrderedJson(*master) : OrderedJson(nullptr)},
                        {"rpc_layer", OrNull(task.rpc_layer)},
                        {"environment", OrNull(environment)}};
  return absl::StrCat(DumpJson(object), "\n");
}

OrderedJson UpdateJson(const MembershipUpdate& update) {
  OrderedJson added = OrderedJson::array();
  for (const ClusterSpecDiff::Task& task : update.diff.added) added.push_back(TaskJson(task));
  OrderedJson removed = OrderedJson::array();
  for (const ClusterSpecDiff::Task& task : update.diff.removed) removed.push_back(TaskJson(task));
  OrderedJson moved = OrderedJson::array();
  for (const ClusterSpecDiff::Move& move : update.diff.moved) {
    moved.push_back(
        {{"job", move.job}, {"index", move.index}, {"from", move.from}, {"to", move.to}});
  }
  OrderedJson error = nullptr;
  if (!update.status.ok()) {
    error = {{"code", absl::StatusCodeToString(update.status.code())},
             {"message", update.status.message()}};
  }
  return {{"time_ms", absl::ToUnixMillis(absl::Now())},
          {"epoch", update.epoch},
          {"cluster_spec", ClusterSpecToJson(update.spec)},
          {"added", added},
          {"removed", removed},
          {"moved", moved},
          {"error", error},
          {"confirmed_ms", update.confirmed == absl::InfinitePast()
                               ? OrderedJson(nullptr)
                               : OrderedJson(absl::ToUnixMillis(update.confirmed))}};
}

// Prints what a watch tells. Its methods but Wait() are called from the watch's thread.
class Printer {
 public:
  Printer(ClusterResolver* resolver, ResolveFormat format)
      : resolver_(resolver), format_(format), style_(Styler::ForFd(STDERR_FILENO)) {}

  void Print(const MembershipUpdate& update) {
    if (format_ == ResolveFormat::kJson) {
      Write(absl::StrCat(DumpJson(UpdateJson(update)), "\n"));
      return;
    }
    if (update.epoch != epoch_) {
      const absl::StatusOr<std::string> text = SpecText(update.spec, *resolver_, format_);
      if (text.ok()) {
        // A block of lines ends with an empty one.
        Write(format_ == ResolveFormat::kHosts ? absl::StrCat(*text, "\n") : *text);
      } else {
        Say(text.status().message());
      }
    }
    if (!update.status.ok()) {
      Say(absl::StrCat(WithPythonClass(update.status).message(),
                       update.epoch == 0 ? "" : " (what was printed last may be old)"));
    } else if (!healthy_ && update.epoch == epoch_) {
      Say("the source answers again, and nothing has changed");
    }
    epoch_ = update.epoch;
    healthy_ = update.status.ok();
  }

  // From any thread. The first call counts.
  void End(absl::StatusOr<int> exit_code) {
    MutexLock lock(&mu_);
    if (!exit_code_.has_value()) exit_code_ = std::move(exit_code);
    ended_.SignalAll();
  }

  absl::StatusOr<int> Wait() {
    MutexLock lock(&mu_);
    while (!exit_code_.has_value()) ended_.Wait(&mu_);
    return *exit_code_;
  }

 private:
  void Write(const std::string& text) {
    if (absl::Status written = WriteAnswer(text); !written.ok()) End(std::move(written));
  }
  void Say(absl::string_view text) {
    WriteAll(STDERR_FILENO,
             absl::StrCat(style_(Style::kYellow, "millrace:"), " ", EscapeControls(text), "\n"));
  }

  ClusterResolver* const resolver_;
  const ResolveFormat format_;
  const Styler style_;
  int64_t epoch_ = 0;    // of the last update
  bool healthy_ = true;  // whether its status was OK
  Mutex mu_;
  CondVar ended_;
  std::optional<absl::StatusOr<int>> exit_code_ ABSL_GUARDED_BY(mu_);
};

absl::StatusOr<int> Watch(const ResolveOptions& options) {
  MILLRACE_ASSIGN_OR_RETURN(const std::unique_ptr<ClusterResolver> resolver,
                            MakeResolver(options.description, options.tensorflow));
  if (options.format == ResolveFormat::kTfConfig) {
    // Which task it is must be known before: no update can help.
    MILLRACE_ASSIGN_OR_RETURN(const Task task, TaskOf(*resolver));
    MILLRACE_RETURN_IF_ERROR(TfConfigOf(ClusterSpec(), task).status());
  }
  Printer printer(resolver.get(), options.format);
  const SignalWatch signals(
      {.on_signal = [&](int signal, int) { printer.End(kExitSignalBase + signal); }});
  const ReaderWatch reader([&] { printer.End(NobodyReadsError()); });
  MILLRACE_ASSIGN_OR_RETURN(
      const std::unique_ptr<MembershipWatch> watch,
      resolver->Watch([&](const MembershipUpdate& update) { printer.Print(update); },
                      {.poll_interval = options.poll_interval}));
  return printer.Wait();
}

absl::Status Ask(const ResolveOptions& options) {
  MILLRACE_ASSIGN_OR_RETURN(const std::unique_ptr<ClusterResolver> resolver,
                            MakeResolver(options.description, options.tensorflow));
  MILLRACE_ASSIGN_OR_RETURN(const std::string text, Answer(*resolver, options.format));
  return WriteAnswer(text);
}

}  // namespace

int Resolve(const ResolveOptions& options) {
  if (options.watch) {
    const absl::StatusOr<int> code = Watch(options);
    return code.ok() ? *code : ReportError(WithPythonClass(code.status()));
  }
  // It holds nothing: a signal may end it at once, as it ends other programs.
  UnblockTerminationSignals();
  return ReportError(WithPythonClass(Ask(options)));
}

}  // namespace millrace::cli
