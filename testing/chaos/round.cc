#include "testing/chaos/round.h"

#include <signal.h>
#include <sys/stat.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "core/base/file.h"
#include "core/base/mutex.h"
#include "core/base/thread.h"
#include "core/launch/agent_secret.h"
#include "millrace/adopting_launcher.h"
#include "millrace/cluster.h"
#include "millrace/local_launcher.h"
#include "millrace/node_program.h"
#include "millrace/status_macros.h"
#include "resolver/scripted_resolver.h"
#include "testing/chaos/growth.h"
#include "testing/chaos/machine.h"
#include "testing/chaos/proxied_launcher.h"
#include "testing/child_process.h"
#include "testing/eventually.h"
#include "testing/faults/rows.h"
#include "testing/leak_check.h"
#include "testing/listening_agent.h"

namespace millrace::chaos {
namespace {

// Nothing waits so long unless it is broken, however busy the machine is.
constexpr absl::Duration kPatience = absl::Minutes(3);
// What was killed may take so long to be gone.
constexpr absl::Duration kGoneWithin = absl::Seconds(30);
// What a process uses is looked at so often, and is judged once it has lived for five minutes.
constexpr absl::Duration kSampleInterval = absl::Seconds(5);
constexpr size_t kSamples = 60;

std::string FirstLine(absl::string_view text) {
  return std::string(text.substr(0, text.find('\n')));
}

// "worker:1 (executor 1, attempt 0, host h, pid 7) was killed by SIGKILL": what stays the same of
// an error, while more becomes known of other nodes.
absl::string_view Cause(absl::string_view error) {
  for (const absl::string_view end : {"\n", "; ", ". Last stderr", " (if nobody"}) {
    error = error.substr(0, error.find(end));
  }
  return error;
}

// How often each row was given to a program.
std::map<int64_t, int> ReadRecords(const std::string& folder) {
  std::map<int64_t, int> rows;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    const std::string bytes = ReadFile(entry.path().string()).value_or("");
    for (size_t i = 0; i + sizeof(int64_t) <= bytes.size(); i += sizeof(int64_t)) {
      int64_t id = 0;
      std::memcpy(&id, bytes.data() + i, sizeof(id));
      ++rows[id];
    }
  }
  return rows;
}

// The agents of Place::kListening, one on a loopback address for each slot, as hosts have them.
class Listeners {
 public:
  Listeners(const Plan& plan, const std::string& secret) : plan_(plan), secret_(secret) {}

  absl::Status Start() {
    MILLRACE_ASSIGN_OR_RETURN(const AgentSecret secret, MakeAgentSecret());
    MILLRACE_RETURN_IF_ERROR(WriteAgentSecretFile(secret_, secret));
    agents_.resize(static_cast<size_t>(plan_.executors));
    for (int executor = 0; executor < plan_.executors; ++executor) {
      MILLRACE_RETURN_IF_ERROR(Start(executor));
    }
    resolver_ = std::make_unique<ScriptedResolver>(Members());
    return absl::OkStatus();
  }
  // Of the injector's thread. As Injector says.
  pid_t Kill(int executor) {
    std::unique_ptr<ListeningAgent>& agent = agents_[static_cast<size_t>(executor)];
    if (agent == nullptr) return 0;
    const pid_t pid = agent->process().pid();
    agent->process().Kill(SIGKILL);
    agent.reset();
    if (Start(executor).ok()) resolver_->Answer(Members());
    return pid;
  }
  void End() { agents_.clear(); }
  [[nodiscard]] ClusterResolver& resolver() { return *resolver_; }

 private:
  absl::Status Start(int executor) {
    MILLRACE_ASSIGN_OR_RETURN(
        agents_[static_cast<size_t>(executor)],
        ListeningAgent::Start(absl::StrCat("127.0.0.", 2 + executor), secret_));
    return absl::OkStatus();
  }
  absl::StatusOr<ClusterSpec> Members() const {
    ClusterSpec::TaskList ps;
    ClusterSpec::TaskList workers;
    for (int executor = 0; executor < plan_.executors; ++executor) {
      (executor < plan_.num_ps ? ps : workers)
          .push_back(agents_[static_cast<size_t>(executor)]->address());
    }
    ClusterSpec::JobList jobs = {{"worker", workers}};
    if (!ps.empty()) jobs.emplace_back("ps", ps);
    return ClusterSpec::Create(jobs);
  }

  const Plan& plan_;
  const std::string secret_;
  std::vector<std::unique_ptr<ListeningAgent>> agents_;  // by executor id
  std::unique_ptr<ScriptedResolver> resolver_;
};

class Round {
 public:
  explicit Round(const Plan& plan)
      : plan_(plan),
        disk_(JoinPath(leaks_.folder(), "logs")),
        clock_(JoinPath(leaks_.folder(), "clock")),
        listeners_(plan, JoinPath(leaks_.folder(), "secret.json")) {
    for (const std::string path : {"record", "logs", "clock", "secret.json"}) {
      leaks_.AllowPath(path);
    }
    ::mkdir(record().c_str(), 0755);
  }

  Outcome Run() {
    Thread sampler("chaos-growth", [this] { Sample(); });
    const absl::Status status = RunCluster();
    over_.Notify();
    sampler.Join();
    for (const std::string& line : growth_.Find(kSamples)) Violation(line);
    if (!status.ok()) CheckCause(status);
    CheckLedger();
    listeners_.End();
    for (const std::string& left : leaks_.WaitUntilNothingLeft(kGoneWithin)) {
      Violation(absl::StrCat("left behind: ", left));
    }
    for (const ProcessInfo& process : leaks_.Processes()) ::kill(process.pid, SIGKILL);
    MutexLock lock(&mu_);
    return outcome_;
  }

 private:
  struct Call {
    int64_t first = 0;
    int64_t rows = 0;
    bool ok = false;
  };

  [[nodiscard]] std::string record() const { return JoinPath(leaks_.folder(), "record"); }

  void Violation(std::string what) {
    MutexLock lock(&mu_);
    outcome_.violations.push_back(std::move(what));
  }
  void Event(const std::string& what) {
    MutexLock lock(&mu_);
    const double seconds = injector_ == nullptr ? 0 : absl::ToDoubleSeconds(injector_->Elapsed());
    outcome_.events.push_back(absl::StrFormat("%6.1f s  %s", seconds, what));
  }

  ClusterOptions Options() {
    ClusterOptions options;
    options.num_executors = plan_.executors;
    options.num_ps = plan_.num_ps;
    options.input_mode = InputMode::kFeed;
    options.log_dir = JoinPath(leaks_.folder(), "logs");
    options.node.working_dir = leaks_.folder();
    options.reservation_timeout = kPatience;
    options.progress = false;
    options.failure.stop_timeout = absl::Seconds(3);
    options.failure.quarantine.failures = 1'000'000;
    if (plan_.heals) {
      options.failure.restart = {.max_restarts = 1'000'000,
                                 .initial_backoff = absl::Milliseconds(20),
                                 .max_backoff = absl::Milliseconds(200)};
    }
    options.observer.on_slot = [this](const SlotStatus& slot) { injector_->OnSlot(slot); };
    options.observer.on_restart = [this](const NodeRestart& restart) { OnRestart(restart); };
    return options;
  }

  void Sample() {
    do {
      for (const ProcessInfo& process : leaks_.Processes()) {
        const std::optional<Usage> usage = UsageOf(process.pid);
        if (!usage.has_value()) continue;
        growth_.Add(absl::StrCat("process ", process.pid, " (", process.command, ")"), *usage);
      }
    } while (!over_.WaitForNotificationWithTimeout(kSampleInterval));
  }

  // The status of the first call that failed.
  absl::Status RunCluster() {
    LocalLauncher local;
    std::unique_ptr<AdoptingLauncher> adopting;
    if (plan_.place == Place::kListening) {
      MILLRACE_RETURN_IF_ERROR(listeners_.Start());
      adopting = std::make_unique<AdoptingLauncher>(
          listeners_.resolver(),
          AdoptingLauncherOptions{.secret = {.file = JoinPath(leaks_.folder(), "secret.json")},
                                  .bind_address = "127.0.0.1",
                                  .driver_host = "127.0.0.1",
                                  .poll_interval = absl::Milliseconds(50)});
    }
    ProxiedLauncher launcher(adopting != nullptr ? static_cast<Launcher&>(*adopting) : local);
    injector_ = std::make_unique<Injector>(plan_, leaks_, launcher, disk_, clock_,
                                           [this](int executor) { return KillListener(executor); });
    NodeProgram program = NodeProgram::File(RunfilePath("testing/faults/fault_node"));
    program.Args({"--pause_ms=5", absl::StrCat("--record=", record())});
    program.Env(clock_.Environment());
    const absl::Status status = Work(launcher, program);
    injector_->Finish();
    MutexLock lock(&mu_);
    outcome_.faults = injector_->faults();
    return status;
  }

  pid_t KillListener(int executor) {
    return plan_.place == Place::kListening ? listeners_.Kill(executor) : 0;
  }

  absl::Status Work(Launcher& launcher, const NodeProgram& program) {
    MILLRACE_ASSIGN_OR_RETURN(const std::unique_ptr<Cluster> cluster,
                              Cluster::Run(launcher, program, Options()));
    Event("the cluster runs");
    absl::Status status = Feed(*cluster);
    if (!status.ok()) injector_->Finish();
    // A shutdown that a node has not come back for tells its failure.
    if (status.ok() && plan_.heals && !Eventually([&] { return AllRun(*cluster); }, kPatience)) {
      Violation("not all nodes run again after the last fault");
    }
    const absl::Status end = cluster->Shutdown({.timeout = kPatience});
    Event(end.ok() ? "the cluster has ended" : "the cluster has ended with its error");
    if (!status.ok() && Cause(end.message()) != Cause(status.message()) && !plan_.heals) {
      Violation(absl::StrCat("the call ended with \"", FirstLine(status.message()),
                             "\", and the shutdown with \"", FirstLine(end.message()), "\""));
    }
    status.Update(end);
    return status;
  }

  static bool AllRun(const Cluster& cluster) {
    const std::vector<SlotStatus> slots = cluster.Status().slots;
    return std::all_of(slots.begin(), slots.end(), [](const SlotStatus& slot) {
      return slot.state == SlotState::kRunning && slot.attached && !slot.restart_at.has_value();
    });
  }

  // Trains, and infers, until the last fault is undone, and then once more.
  absl::Status Feed(Cluster& cluster) {
    while (!(plan_.infers ? injector_->Elapsed() > plan_.length / 2 : injector_->finished())) {
      MILLRACE_RETURN_IF_ERROR(Train(cluster, false));
    }
    MILLRACE_RETURN_IF_ERROR(Train(cluster, plan_.infers));
    while (plan_.infers) {
      const bool last = injector_->finished();
      MILLRACE_RETURN_IF_ERROR(Infer(cluster));
      if (last) break;
    }
    return absl::OkStatus();
  }

  absl::Status Train(Cluster& cluster, bool end_of_feed) {
    Call call = {.first = calls_.empty() ? 0 : calls_.back().first + calls_.back().rows,
                 .rows = plan_.rows};
    calls_.push_back(call);
    MILLRACE_ASSIGN_OR_RETURN(
        const auto source,
        MemorySource::Split(faults::MakeRows(call.first, call.rows), plan_.partitions));
    MILLRACE_ASSIGN_OR_RETURN(
        const TrainResult result,
        cluster.Train(*source, {.feed_timeout = kPatience, .end_of_feed = end_of_feed}));
    calls_.back().ok = true;
    if (result.rows != call.rows) {
      Violation(absl::StrCat("a training of ", call.rows, " rows has used ", result.rows));
    }
    if (result.exactly_once != (result.rows_refed == 0)) {
      Violation(absl::StrCat(result.rows_refed, " rows fed again, and exactly_once is ",
                             result.exactly_once ? "true" : "false"));
    }
    MutexLock lock(&mu_);
    outcome_.rows += result.rows;
    outcome_.rows_refed += result.rows_refed;
    return absl::OkStatus();
  }

  absl::Status Infer(Cluster& cluster) {
    MILLRACE_ASSIGN_OR_RETURN(
        auto source, MemorySource::Split(faults::MakeRows(0, plan_.rows), plan_.partitions));
    MILLRACE_ASSIGN_OR_RETURN(
        InferenceResult result,
        cluster.Inference(std::shared_ptr<const PartitionedSource>(std::move(source)),
                          {.feed_timeout = kPatience}));
    int64_t next = 0;
    bool right = true;
    MILLRACE_RETURN_IF_ERROR(result.ForEach([&](int, const RecordBatch& rows) {
      const auto* values = rows.column(0).values<int64_t>();
      for (int64_t i = 0; i < rows.num_rows(); ++i) right = right && values[i] == 2 * next++;
      return absl::OkStatus();
    }));
    if (!right || next != plan_.rows) {
      Violation(absl::StrCat("an inference of ", plan_.rows, " rows had ", next, " results",
                             right ? "" : ", not their own"));
    }
    MutexLock lock(&mu_);
    outcome_.results += next;
    return absl::OkStatus();
  }

  // ---- what must hold ---------------------------------------------------------------------------

  [[nodiscard]] bool IsExplained(int executor, absl::string_view text) const {
    if (injector_ == nullptr) return false;
    const std::vector<InjectedFault> faults = injector_->faults();
    return std::any_of(faults.begin(), faults.end(), [&](const InjectedFault& done) {
      if (!done.hit || !MayEnd(done.fault, executor)) return false;
      const std::vector<absl::string_view> causes = CauseTexts(done.fault);
      return std::any_of(causes.begin(), causes.end(), [text](absl::string_view cause) {
        return absl::StrContains(text, cause);
      });
    });
  }

  // A program whose ps went says so, or waits for it in vain.
  [[nodiscard]] bool IsConsequence(const NodeFailure& failure) const {
    const absl::StatusCode code = failure.status.code();
    if (code != absl::StatusCode::kUnavailable && code != absl::StatusCode::kDeadlineExceeded) {
      return false;
    }
    const std::vector<InjectedFault> faults = injector_->faults();
    return std::any_of(faults.begin(), faults.end(), [this](const InjectedFault& done) {
      for (int ps = 0; ps < plan_.num_ps; ++ps) {
        if (done.hit && MayEnd(done.fault, ps)) return true;
      }
      return false;
    });
  }

  void OnRestart(const NodeRestart& restart) {
    const std::string line = FirstLine(FailureText(restart.failure, 0));
    Event(line);
    if (!IsExplained(restart.failure.executor_id, line) && !IsConsequence(restart.failure)) {
      Violation(absl::StrCat("nothing was done that would explain: ", line));
    }
    MutexLock lock(&mu_);
    ++outcome_.restarts;
  }

  void CheckCause(const absl::Status& status) {
    const std::string line = FirstLine(status.message());
    Event(absl::StrCat("the cluster's error: ", line));
    {
      MutexLock lock(&mu_);
      outcome_.cause = line;
    }
    if (plan_.heals) return Violation(absl::StrCat("should have gone on: ", status.ToString()));
    for (int executor = 0; executor < plan_.executors; ++executor) {
      const bool named = absl::StartsWith(
          line, absl::StrCat(NodeName(plan_, executor), " (executor ", executor, ", "));
      if (named && IsExplained(executor, line)) return;
    }
    Violation(absl::StrCat("nothing was done that would explain: ", status.ToString()));
  }

  void CheckLedger() {
    const std::map<int64_t, int> rows = ReadRecords(record());
    int64_t extra = 0;
    bool all_ok = true;
    for (const Call& call : calls_) {
      int64_t missing = 0;
      for (int64_t id = call.first; id < call.first + call.rows; ++id) {
        const auto found = rows.find(id);
        if (found == rows.end()) {
          ++missing;
        } else {
          extra += found->second - 1;
        }
      }
      all_ok = all_ok && call.ok;
      if (call.ok && missing > 0) {
        Violation(absl::StrCat(missing, " of rows ", call.first, " to ", call.first + call.rows - 1,
                               " were not used"));
      }
    }
    const int64_t fed = calls_.empty() ? 0 : calls_.back().first + calls_.back().rows;
    if (!rows.empty() && (rows.begin()->first < 0 || rows.rbegin()->first >= fed)) {
      Violation("a row was used that nobody has fed");
    }
    MutexLock lock(&mu_);
    // Of a call that failed nobody knows how many.
    if (all_ok && extra > outcome_.rows_refed) {
      outcome_.violations.push_back(absl::StrCat(extra, " rows were used once more, and ",
                                                 outcome_.rows_refed, " counted as fed again"));
    }
  }

  const Plan& plan_;
  LeakCheck leaks_;  // before what starts threads
  SmallDisk disk_;
  ClockFile clock_;
  Listeners listeners_;
  std::unique_ptr<Injector> injector_;
  std::vector<Call> calls_;
  Notification over_;
  Growth growth_;  // of the thread that samples, then of Run()
  Mutex mu_;
  Outcome outcome_ ABSL_GUARDED_BY(mu_);
};

}  // namespace

Outcome RunRound(const Plan& plan) {
  Round round(plan);
  return round.Run();
}

std::string Report(const Plan& plan, const Outcome& outcome) {
  std::string text = outcome.violations.empty() ? "" : "chaos: something did not hold\n";
  for (const std::string& violation : outcome.violations) {
    absl::StrAppend(&text, "  ", violation, "\n");
  }
  absl::StrAppend(&text, PlanText(plan), "what was done:\n");
  for (const InjectedFault& done : outcome.faults) {
    absl::StrAppend(&text, absl::StrFormat("%6.1f s  ", absl::ToDoubleSeconds(done.at)),
                    FaultText(plan, done.fault), done.what.empty() ? "" : " ", done.what,
                    done.hit ? "" : ": nobody was there", "\n");
  }
  absl::StrAppend(&text, "what happened:\n");
  for (const std::string& event : outcome.events) absl::StrAppend(&text, event, "\n");
  absl::StrAppend(&text, "run it again:\n  bazelw run //testing/chaos -- --seed=", plan.seed,
                  " --place=", PlaceName(plan.place),
                  " --length=", absl::ToInt64Seconds(plan.length), " --rounds=1 --trace\n");
  return text;
}

}  // namespace millrace::chaos
