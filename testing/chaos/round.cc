#include "testing/chaos/round.h"

#include <signal.h>
#include <sys/stat.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <memory>
#include <optional>
#include <tuple>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "core/base/file.h"
#include "core/base/mutex.h"
#include "core/base/thread.h"
#include "millrace/status_macros.h"
#include "testing/chaos/driven_cluster.h"
#include "testing/chaos/growth.h"
#include "testing/chaos/machine.h"
#include "testing/chaos/own_cluster.h"
#include "testing/chaos/spark_cluster.h"
#include "testing/eventually.h"
#include "testing/leak_check.h"

namespace millrace::chaos {
namespace {

// What was killed may take so long to be gone.
constexpr absl::Duration kGoneWithin = absl::Seconds(30);
// What a process uses is looked at so often, and is judged once it has lived for five minutes.
constexpr absl::Duration kSampleInterval = absl::Seconds(5);
constexpr size_t kSamples = 60;
// What DrivenCluster::Live() has is looked at after each training.
constexpr size_t kLiveSamples = 20;

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

// A command that is not a page long: of a JVM its class.
std::string Short(const std::string& command) {
  constexpr size_t kLong = 120;
  if (command.size() <= kLong) return command;
  std::string text(command.substr(0, command.find(' ')));
  for (const absl::string_view word : absl::StrSplit(command, ' ')) {
    if (absl::StartsWith(word, "org.apache.spark.")) absl::StrAppend(&text, " ", word);
  }
  return text.size() <= kLong ? text : text.substr(0, kLong);
}

// What programs wrote down: which rows they were given.
struct Records {
  struct Use {
    int64_t row = 0;
    size_t attempt = 0;  // of `attempts`
  };
  std::vector<std::string> attempts;  // "worker:1.3" is attempt 3 of worker:1
  std::vector<Use> uses;              // by row
};

Records ReadRecords(const std::string& folder) {
  Records records;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    const std::string bytes = ReadFile(entry.path().string()).value_or("");
    for (size_t i = 0; i + sizeof(int64_t) <= bytes.size(); i += sizeof(int64_t)) {
      Records::Use use = {.attempt = records.attempts.size()};
      std::memcpy(&use.row, bytes.data() + i, sizeof(use.row));
      records.uses.push_back(use);
    }
    records.attempts.push_back(entry.path().stem().string());
  }
  std::sort(records.uses.begin(), records.uses.end(),
            [](const Records::Use& a, const Records::Use& b) {
              return std::tie(a.row, a.attempt) < std::tie(b.row, b.attempt);
            });
  return records;
}

// How the rows of a call were used.
struct CallRows {
  int64_t missing = 0;
  int64_t extra = 0;                  // uses of a row after the first
  std::vector<std::string> repeated;  // "rows 7 to 9 by worker:1.3, worker:0.0"
};

CallRows RowsOf(const Records& records, int64_t first, int64_t end) {
  CallRows rows;
  auto use = std::lower_bound(records.uses.begin(), records.uses.end(), first,
                              [](const Records::Use& a, int64_t row) { return a.row < row; });
  std::string users;  // of the rows from `since` on, if several had them
  int64_t since = first;
  for (int64_t row = first; row <= end; ++row) {
    std::vector<absl::string_view> now;
    for (; row < end && use != records.uses.end() && use->row == row; ++use) {
      now.push_back(records.attempts[use->attempt]);
    }
    if (row < end && now.empty()) ++rows.missing;
    if (now.size() > 1) rows.extra += static_cast<int64_t>(now.size()) - 1;
    std::string text = now.size() > 1 ? absl::StrJoin(now, ", ") : "";
    if (text == users) continue;
    if (!users.empty()) {
      rows.repeated.push_back(absl::StrCat("rows ", since, " to ", row - 1, " by ", users));
    }
    users = std::move(text);
    since = row;
  }
  return rows;
}

std::unique_ptr<DrivenCluster> MakeCluster(const Plan& plan, const NodeSetting& setting) {
  return plan.place == Place::kSpark ? MakeSparkCluster(plan, setting)
                                     : MakeOwnCluster(plan, setting);
}

class Round {
 public:
  explicit Round(const Plan& plan)
      : plan_(plan),
        disk_(JoinPath(leaks_.folder(), "logs")),
        clock_(JoinPath(leaks_.folder(), "clock")),
        cluster_(MakeCluster(plan, {.folder = leaks_.folder(),
                                    .record = record(),
                                    .log_dir = JoinPath(leaks_.folder(), "logs"),
                                    .environment = clock_.Environment()})) {
    for (const std::string path : {"record", "logs", "clock", "secret.json", "spark"}) {
      leaks_.AllowPath(path);
    }
    ::mkdir(record().c_str(), 0755);
  }

  Outcome Run() {
    const absl::Status prepared = cluster_->Prepare();
    if (!prepared.ok()) {
      cluster_->End();
      MutexLock lock(&mu_);
      if (absl::IsUnimplemented(prepared)) {
        outcome_.unavailable = std::string(prepared.message());
      } else {
        outcome_.violations.push_back(
            absl::StrCat("no cluster could be prepared: ", prepared.ToString()));
      }
      return outcome_;
    }
    Thread sampler("chaos-growth", [this] { Sample(); });
    const absl::Status status = RunCluster();
    over_.Notify();
    sampler.Join();
    const std::pair<const Growth*, size_t> growths[] = {{&growth_, kSamples},
                                                        {&live_growth_, kLiveSamples}};
    for (const auto& [growth, samples] : growths) {
      for (const std::string& line : growth->Find(samples)) Violation(line);
      MutexLock lock(&mu_);
      for (std::string& line : growth->Summaries(samples)) {
        outcome_.usage.push_back(std::move(line));
      }
    }
    if (!status.ok()) CheckCause(status);
    CheckLedger();
    for (const std::string& left : cluster_->End()) {
      Violation(absl::StrCat("left behind: ", left));
    }
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
    int64_t rows_refed = 0;
    bool exactly_once = false;
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

  void Sample() {
    do {
      for (const ProcessInfo& process : leaks_.Processes()) {
        const std::optional<Usage> usage = UsageOf(process.pid);
        if (!usage.has_value()) continue;
        growth_.Add(absl::StrCat("process ", process.pid, " (", Short(process.command), ")"),
                    *usage);
      }
    } while (!over_.WaitForNotificationWithTimeout(kSampleInterval));
  }

  // The status of the first call that failed.
  absl::Status RunCluster() {
    injector_ = std::make_unique<Injector>(plan_, leaks_, disk_, clock_, cluster_->reach());
    const absl::Status status = Work();
    injector_->Finish();
    MutexLock lock(&mu_);
    outcome_.faults = injector_->faults();
    return status;
  }

  absl::Status Work() {
    MILLRACE_RETURN_IF_ERROR(cluster_->Start(
        {.on_slot = [this](const SlotStatus& slot) { injector_->OnSlot(slot); },
         .on_restart = [this](int executor, const std::string& line,
                              absl::StatusCode code) { OnRestart(executor, line, code); }}));
    Event("the cluster runs");
    absl::Status status = Feed();
    if (!status.ok()) injector_->Finish();
    // A shutdown that a node has not come back for tells its failure.
    if (status.ok() && plan_.heals && !Eventually([&] { return cluster_->AllRun(); }, kPatience)) {
      Violation("not all nodes run again after the last fault");
    }
    const absl::Status end = cluster_->Shutdown();
    Event(end.ok() ? "the cluster has ended" : "the cluster has ended with its error");
    if (!status.ok() && Cause(end.message()) != Cause(status.message()) && !plan_.heals) {
      Violation(absl::StrCat("the call ended with \"", FirstLine(status.message()),
                             "\", and the shutdown with \"", FirstLine(end.message()), "\""));
    }
    status.Update(end);
    return status;
  }

  // Trains, and infers, until the last fault is undone, and then once more.
  absl::Status Feed() {
    while (!(plan_.infers ? injector_->Elapsed() > plan_.length / 2 : injector_->finished())) {
      MILLRACE_RETURN_IF_ERROR(Train(false));
    }
    MILLRACE_RETURN_IF_ERROR(Train(plan_.infers));
    while (plan_.infers) {
      const bool last = injector_->finished();
      MILLRACE_RETURN_IF_ERROR(Infer());
      if (last) break;
    }
    return absl::OkStatus();
  }

  absl::Status Train(bool end_of_feed) {
    Call call = {.first = calls_.empty() ? 0 : calls_.back().first + calls_.back().rows,
                 .rows = plan_.rows};
    calls_.push_back(call);
    MILLRACE_ASSIGN_OR_RETURN(const TrainResult result, cluster_->Train(call.first, end_of_feed));
    calls_.back().ok = true;
    calls_.back().rows_refed = result.rows_refed;
    calls_.back().exactly_once = result.exactly_once;
    if (result.rows != call.rows) {
      Violation(absl::StrCat("a training of ", call.rows, " rows has used ", result.rows));
    }
    // Of a feeder that was lost nobody may know a row.
    if (result.exactly_once ? result.rows_refed > 0 : result.rows_refed == 0 && !LosesFeeders()) {
      Violation(absl::StrCat(result.rows_refed, " rows fed again, and exactly_once is ",
                             result.exactly_once ? "true" : "false"));
    }
    if (plan_.spares) {
      for (const auto& [who, usage] : cluster_->Live()) live_growth_.Add(who, usage);
    }
    MutexLock lock(&mu_);
    outcome_.rows += result.rows;
    outcome_.rows_refed += result.rows_refed;
    return absl::OkStatus();
  }

  absl::Status Infer() {
    MILLRACE_ASSIGN_OR_RETURN(const InferenceCheck check, cluster_->Infer());
    if (!check.right || check.results != plan_.rows) {
      Violation(absl::StrCat("an inference of ", plan_.rows, " rows had ", check.results,
                             " results", check.right ? "" : ", not their own"));
    }
    MutexLock lock(&mu_);
    outcome_.results += check.results;
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
  [[nodiscard]] bool IsConsequence(absl::StatusCode code) const {
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

  void OnRestart(int executor, const std::string& line, absl::StatusCode code) {
    Event(line);
    // How attempts before ended explains nothing.
    const std::string own = line.substr(0, line.find("; before: "));
    if (!IsExplained(executor, own) && !IsConsequence(code)) {
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

  // On Spark executors feed: what one had not told of when it was killed is in no count.
  [[nodiscard]] bool LosesFeeders() const {
    const std::vector<InjectedFault> faults = injector_->faults();
    return std::any_of(faults.begin(), faults.end(), [](const InjectedFault& done) {
      return done.hit && done.fault.kind == Fault::Kind::kKillExecutor;
    });
  }

  void CheckLedger() {
    const Records records = ReadRecords(record());
    for (const Call& call : calls_) CheckCall(call, records);
    const int64_t fed = calls_.empty() ? 0 : calls_.back().first + calls_.back().rows;
    const std::vector<Records::Use>& uses = records.uses;
    if (!uses.empty() && (uses.front().row < 0 || uses.back().row >= fed)) {
      Violation("a row was used that nobody has fed");
    }
  }

  void CheckCall(const Call& call, const Records& records) {
    if (!call.ok) return;  // nobody knows how many
    const CallRows rows = RowsOf(records, call.first, call.first + call.rows);
    const std::string which =
        absl::StrCat(" of rows ", call.first, " to ", call.first + call.rows - 1);
    if (rows.missing > 0) Violation(absl::StrCat(rows.missing, which, " were not used"));
    if (rows.extra > call.rows_refed && (call.exactly_once || !LosesFeeders())) {
      Violation(absl::StrCat(rows.extra, which, " were used once more, ", call.rows_refed,
                             " counted as fed again, and exactly_once is ",
                             call.exactly_once ? "true" : "false"));
      for (const std::string& line : rows.repeated) Violation(line);
    }
    MutexLock lock(&mu_);
    if (rows.extra > call.rows_refed) outcome_.rows_untold += rows.extra - call.rows_refed;
  }

  const Plan& plan_;
  LeakCheck leaks_;  // before what starts threads
  SmallDisk disk_;
  ClockFile clock_;
  const std::unique_ptr<DrivenCluster> cluster_;
  std::unique_ptr<Injector> injector_;
  std::vector<Call> calls_;
  Notification over_;
  Growth growth_;       // of the thread that samples, then of Run()
  Growth live_growth_;  // of DrivenCluster::Live()
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
