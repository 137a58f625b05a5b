#include "testing/schedules/plane_world.h"

#include <algorithm>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "core/base/clock.h"
#include "core/base/mutex.h"
#include "core/base/thread.h"
#include "core/client/cluster_view.h"
#include "core/coordinator/server/control_plane.h"
#include "core/coordinator/state/coordinator_options.h"
#include "core/coordinator/state/role_dealer.h"
#include "core/coordinator/stream/attach_stream.h"
#include "core/coordinator/view/cluster_recorder.h"
#include "core/coordinator/view/view_store.h"
#include "core/coordinator/view/watch_hub.h"
#include "core/coordinator/view/wire_conversion.h"
#include "core/proto/watch.pb.h"
#include "grpcpp/support/byte_buffer.h"
#include "millrace/cluster_status.h"
#include "testing/schedules/plane_agent.h"
#include "testing/simulation/wire_message.h"

namespace millrace {
namespace {

// More than a lease, a backoff and what follows take.
constexpr absl::Duration kLong = absl::Seconds(100);
// Of a whole run: two leases, and what programs take.
constexpr absl::Duration kMost = absl::Seconds(40);
constexpr absl::Duration kRelaunch = absl::Milliseconds(25);

absl::Duration Upto(absl::Duration most) {
  return absl::Nanoseconds(static_cast<int64_t>(
      ThreadScheduler::Random(static_cast<uint64_t>(absl::ToInt64Nanoseconds(most)) + 1)));
}

// What a thread is to do, one after the other.
class Errands {
 public:
  explicit Errands(absl::string_view name) : thread_(name, [this] { Run(); }) {}
  ~Errands() { End(); }

  void Post(std::function<void()> errand) {
    MutexLock lock(&mu_);
    errands_.push_back(std::move(errand));
    posted_.SignalAll();
  }
  // Once all are done.
  void End() {
    {
      MutexLock lock(&mu_);
      ended_ = true;
      posted_.SignalAll();
    }
    thread_.Join();
  }

 private:
  void Run() {
    while (true) {
      std::function<void()> errand;
      {
        MutexLock lock(&mu_);
        while (errands_.empty() && !ended_) posted_.Wait(&mu_);
        if (errands_.empty()) return;
        errand = std::move(errands_.front());
        errands_.pop_front();
      }
      errand();
    }
  }

  Mutex mu_;
  CondVar posted_;
  std::deque<std::function<void()>> errands_ ABSL_GUARDED_BY(mu_);
  bool ended_ ABSL_GUARDED_BY(mu_) = false;
  Thread thread_;
};

// A viewer, whose call takes its time. It reads on a thread of its own, as gRPC's would.
class Viewer final : public ViewStream, public std::enable_shared_from_this<Viewer> {
 public:
  Viewer(WatchHub* hub, absl::Duration reading)
      : hub_(hub), reading_(reading), id_(hub->NewId()), errands_("viewer") {}

  absl::Status Begin(ViewStore* view) {
    return hub_->AddWatch(id_, shared_from_this(), view->Resume({.level = v1::WATCH_LEVEL_ALL}),
                          absl::Milliseconds(20));
  }
  void Write(grpc::ByteBuffer message) override {
    if (std::exchange(writing_, true)) broken_ = "an update before the last was taken";
    errands_.Post([this, message = std::move(message)] {
      ThreadScheduler::Sleep(Upto(reading_));
      const absl::Status applied = view_.Apply(simulation::ParseMessage<v1::WatchUpdate>(message));
      if (!applied.ok()) broken_ = applied.ToString();
      writing_ = false;
      hub_->Written(id_);
    });
  }
  void End(const absl::Status& status) override {
    ended_ = true;
    if (!status.ok()) broken_ = absl::StrCat("its call ended with ", status.ToString());
  }
  void Join() { errands_.End(); }

  [[nodiscard]] const ClusterView& view() const { return view_; }
  [[nodiscard]] std::string broken() const { return ended_ ? broken_ : "its call did not end"; }

 private:
  WatchHub* const hub_;
  const absl::Duration reading_;
  const uint64_t id_;
  // One thread at a time runs.
  bool writing_ = false;
  bool ended_ = false;
  std::string broken_;
  ClusterView view_;
  Errands errands_;
};

// Takes the answer to an operator.
class Answer final : public AttachStream {
 public:
  void Enqueue(const grpc::ByteBuffer& message) override {
    value_ = simulation::ParseMessage<v1::CoordinatorMessage>(message).kv().value();
  }
  void Close(const absl::Status& /*status*/) override {}
  void Flush() override {}
  [[nodiscard]] const std::string& value() const { return value_; }

 private:
  std::string value_;
};

// The cluster of one run.
class World final : private CoordinatorObserver {
 public:
  explicit World(const PlanePlan& plan)
      : plan_(plan), options_(Options()), slots_(static_cast<size_t>(plan.nodes)) {
    view_ = std::make_unique<ViewStore>(
        ViewStore::Options{.num_slots = plan.nodes, .incarnation = "scheduled", .limits = {}});
    recorder_ = std::make_unique<ClusterRecorder>(options_, view_.get(), nullptr);
    plane_ = std::make_unique<ControlPlane>(
        options_, ToNodeSpec(options_, plan.nodes, "", 0),
        [this](absl::string_view, absl::string_view) -> absl::StatusOr<std::string> {
          ThreadScheduler::Sleep(Upto(plan_.signing));
          return "certificate";
        },
        view_.get(), recorder_.get());
    hub_ = std::make_unique<WatchHub>(view_.get(), RealClock());
    launcher_ = std::make_unique<Errands>("launcher");
    taker_ = std::make_unique<Errands>("taker");
    plane_->Start();
    for (int i = 0; i < plan_.viewers; ++i) {
      viewers_.push_back(std::make_shared<Viewer>(hub_.get(), plan_.reading));
      if (!viewers_.back()->Begin(view_.get()).ok()) Broken("a viewer is turned away");
    }
    for (int i = 0; i < plan_.nodes; ++i) launcher_->Post([this, i] { StartAgent(i); });
  }

  // The driver's part, and the end.
  void Run(PlaneOutcome* outcome) {
    Thread fate("fate", [this] { BringFaults(); });
    Thread operator_thread = After(plan_.stop_after, "operator", [this] {
      Stopping();
      plane_->operators().StopCluster("the operator is done", false);
    });
    Thread canceller = After(plan_.cancel_after, "canceller",
                             [this] { plane_->driver().Cancel("the driver gave up"); });
    outcome->running = plane_->driver().WaitRunning(kLong);
    if (absl::IsDeadlineExceeded(outcome->running)) Broken(outcome->running.ToString());
    const bool by_themselves = plan_.program != absl::InfiniteDuration();
    if (outcome->running.ok()) {
      const absl::Status failed = plane_->driver().WaitFailure(plan_.length);
      if (absl::IsDeadlineExceeded(failed)) Broken(failed.ToString());
      if (!failed.ok() || !by_themselves) Stop();
    } else {
      Stop();
    }
    absl::Status ended = plane_->driver().WaitEnded(NodeFilter::kAll, kLong);
    // One that failed for good takes the others with it, as Cluster does it.
    if (!ended.ok()) Broken(absl::StrCat("WaitEnded: ", ended.ToString()));
    fate.Join();
    operator_thread.Join();
    canceller.Join();
    const absl::Status output = plane_->driver().WaitOutput(kLong);
    if (!output.ok() && !plan_.kills_at_end)
      Broken(absl::StrCat("WaitOutput: ", output.ToString()));
    // Agents leave by themselves, or since the coordinator is gone.
    if (!plan_.leaves_at_once) {
      EndAgents();
      CheckCounter();
    }
    outcome->cause = plane_->driver().first_cause();
    CheckCause(outcome->cause);
    const ClusterStatus status = plane_->Snapshot();
    hub_->Stop();
    for (const std::shared_ptr<Viewer>& viewer : viewers_) viewer->Join();
    if (!plan_.leaves_at_once) {
      for (const std::shared_ptr<Viewer>& viewer : viewers_) CheckViewer(*viewer, status);
    }
    plane_->Shutdown();
    EndAgents();
    taker_->End();
    for (const Process& process : processes_) {
      for (const std::string& rule : process.agent->broken()) Broken(rule);
    }
    MutexLock lock(&mu_);
    outcome->broken = std::move(broken_);
    if (ThreadScheduler::Now() > kMost) {
      outcome->broken.push_back(
          absl::StrCat("it took ", absl::FormatDuration(ThreadScheduler::Now())));
    }
  }

 private:
  struct Process {
    std::unique_ptr<PlaneAgent> agent;
    int executor = 0;
    bool ended = false;
    Thread thread;
  };
  struct Slot {
    Process* process = nullptr;  // the newest
    bool faulted = false;
    bool replaced = false;  // an agent of it, which may not have told all output
    uint32_t attempt = 0;
    int64_t output = 0;  // bytes of the present attempt
  };

  CoordinatorOptions Options() {
    CoordinatorOptions options;
    options.cluster_id = "scheduled";
    options.roles = *DealRoles({.num_executors = plan_.nodes});
    options.program.path = "/program";
    options.input_mode = plan_.fed ? InputMode::kFeed : InputMode::kDirect;
    options.failure.restart = {.max_restarts = plan_.max_restarts,
                               .initial_backoff = absl::Milliseconds(50),
                               .max_backoff = absl::Seconds(1)};
    options.failure.quarantine.failures = 100;
    options.output_window_bytes = plan_.output_bytes;
    options.processor_share = [] { return 1.0; };
    options.random = [] { return ThreadScheduler::Random(UINT64_MAX); };
    options.observer = this;
    return options;
  }

  static Thread After(const std::optional<absl::Duration>& delay, absl::string_view name,
                      std::function<void()> body) {
    if (!delay.has_value()) return {};
    return Thread(name, [delay = *delay, body = std::move(body)] {
      ThreadScheduler::Sleep(delay);
      body();
    });
  }

  void Broken(const std::string& rule) {
    MutexLock lock(&mu_);
    broken_.push_back(rule);
  }

  void EndAgents() {
    launcher_->End();
    for (Process& process : processes_) process.thread.Join();
  }

  void Stopping() {
    MutexLock lock(&mu_);
    stopping_at_ = std::min(stopping_at_, RealClock()->Now());
  }
  void Stop() {
    Stopping();
    plane_->driver().Stop(NodeFilter::kAll, "the driver is done", plan_.kills_at_end);
  }

  // ---- whoever starts agents: on its thread ----

  void StartAgent(int executor) {
    Process& process = processes_.emplace_back();
    const int64_t pid = 1000 + static_cast<int64_t>(processes_.size());
    process.executor = executor;
    process.agent =
        std::make_unique<PlaneAgent>(PlaneAgentOptions{.executor = executor,
                                                       .pid = pid,
                                                       .program = plan_.program,
                                                       .fed = plan_.fed,
                                                       .output_bytes = plan_.output_bytes,
                                                       .nodes = plan_.nodes},
                                     &plane_->agents());
    {
      MutexLock lock(&mu_);
      slots_[static_cast<size_t>(executor)].process = &process;
    }
    plane_->agents().AgentStarted(executor, pid);
    process.thread = Thread(absl::StrCat("agent ", pid), [this, &process, pid] {
      process.agent->Run();
      {
        MutexLock lock(&mu_);
        process.ended = true;
        ended_.SignalAll();
      }
      plane_->agents().AgentExited({.executor_id = process.executor,
                                    .pid = pid,
                                    .exit = process.agent->exit(),
                                    .status = absl::OkStatus()});
    });
  }

  void ReplaceAgent(int executor) {
    {
      MutexLock lock(&mu_);
      Process* const old = slots_[static_cast<size_t>(executor)].process;
      if (!old->ended) old->agent->Kill();
      while (!old->ended) ended_.Wait(&mu_);
    }
    ThreadScheduler::Sleep(kRelaunch);
    StartAgent(executor);
  }

  // ---- CoordinatorObserver ----

  void OnRelaunch(int executor_id) override {
    {
      // One that was out of reach when its node had ended may still have had output.
      MutexLock lock(&mu_);
      slots_[static_cast<size_t>(executor_id)].replaced = true;
    }
    launcher_->Post([this, executor_id] { ReplaceAgent(executor_id); });
  }
  void OnSlot(const SlotStatus& slot) override {
    Slot& known = slots_[static_cast<size_t>(slot.executor_id)];
    if (slot.attempt < known.attempt || slot.attempt > known.attempt + 1) {
      Broken(
          absl::StrCat(slot.role.ToString(), ": attempt ", slot.attempt, " after ", known.attempt));
    }
    known.attempt = slot.attempt;
  }
  void OnFailure(const absl::Status& status) override {
    if (std::exchange(failed_, true)) Broken("a second failure: " + status.ToString());
  }
  void OnBytes(int executor_id, const NodeRole& role, LogSource /*source*/, std::string bytes,
               const std::function<void()>& taken) override {
    {
      MutexLock lock(&mu_);
      Slot& slot = slots_[static_cast<size_t>(executor_id)];
      for (const char byte : bytes) {
        const bool next = byte == static_cast<char>('a' + slot.output % 26);
        if (!next && !slot.replaced) {
          broken_.push_back(absl::StrCat("output of ", role.ToString(), " at ", slot.output));
        }
        ++slot.output;
      }
      if (bytes.empty()) slot.output = 0;
    }
    taker_->Post([taken] {
      ThreadScheduler::Sleep(Upto(absl::Milliseconds(5)));
      taken();
    });
  }

  // ---- faults ----

  void BringFaults() {
    for (const PlanePlan::Fault& fault : plan_.faults) {
      ThreadScheduler::Sleep(fault.after);
      PlaneAgent* agent = nullptr;
      {
        MutexLock lock(&mu_);
        Slot& slot = slots_[static_cast<size_t>(fault.executor)];
        if (slot.process == nullptr) continue;
        agent = slot.process->agent.get();
        const bool harms = fault.kind == PlanePlan::Fault::Kind::kKillNode ||
                           fault.kind == PlanePlan::Fault::Kind::kKillAgent;
        slot.faulted = slot.faulted || harms;
        slot.replaced = slot.replaced || fault.kind == PlanePlan::Fault::Kind::kKillAgent;
      }
      switch (fault.kind) {
        case PlanePlan::Fault::Kind::kKillNode:
          agent->KillNode();
          break;
        case PlanePlan::Fault::Kind::kKillAgent:
          agent->Kill();
          break;
        case PlanePlan::Fault::Kind::kBreak:
          agent->BreakConnection();
          break;
        case PlanePlan::Fault::Kind::kRestartNode:
          plane_->operators().RestartNode(fault.executor, "scheduled").IgnoreError();
          break;
      }
    }
  }

  // ---- rules ----

  void CheckCause(const absl::Status& cause) {
    const std::optional<NodeFailure> failure = plane_->Snapshot().first_cause;
    if (cause.ok()) {
      if (failure.has_value()) Broken("a first cause, and the cluster has not failed");
      return;
    }
    if (!failure.has_value()) return Broken("the cluster failed without a cause");
    MutexLock lock(&mu_);
    if (!slots_[static_cast<size_t>(failure->executor_id)].faulted) {
      broken_.push_back(absl::StrCat("nothing was done to ", cause.ToString()));
    } else if (plan_.max_restarts > static_cast<int>(plan_.faults.size()) &&
               failure->time < stopping_at_ &&
               !absl::StrContains(cause.message(), "stopped before its next attempt")) {
      broken_.push_back(absl::StrCat("should have gone on: ", cause.ToString()));
    }
  }

  // An add that was answered counts, and none twice.
  void CheckCounter() {
    int64_t sent = 0;
    int64_t answered = 0;
    for (const Process& process : processes_) {
      sent += process.agent->adds_sent();
      answered += process.agent->adds_answered();
    }
    v1::KvRequest request;
    request.set_key(kPlaneCounter);
    request.mutable_get();
    const auto answer = std::make_shared<Answer>();
    plane_->operators().EndKv(plane_->operators().Kv(request, answer));
    int64_t counted = 0;
    const bool there = absl::SimpleAtoi(answer->value(), &counted);
    if ((there || answered > 0) && (counted < answered || counted > sent)) {
      Broken(absl::StrCat(sent, " adds, ", answered, " answered, ", counted, " counted"));
    }
    if (plane_->operators().KvWaits() > 0) Broken("gets of the key-value store wait");
  }

  void CheckViewer(const Viewer& viewer, const ClusterStatus& status) {
    if (!viewer.broken().empty()) return Broken("a viewer: " + viewer.broken());
    if (viewer.view().slots().size() != status.slots.size() ||
        viewer.view().spec_epoch() != status.epoch) {
      return Broken(
          absl::StrCat("a viewer sees epoch ", viewer.view().spec_epoch(), " of ", status.epoch));
    }
    for (size_t i = 0; i < status.slots.size(); ++i) {
      v1::SlotStatus truth;
      ToSlotProto(status.slots[i], &truth);
      const v1::SlotStatus& seen = viewer.view().slots()[i];
      if (seen.state() != truth.state() || seen.attempt() != truth.attempt()) {
        Broken(absl::StrCat("a viewer sees ", SlotStateText(seen.state()), ", attempt ",
                            seen.attempt(), " of ", SlotStateText(truth.state()), ", attempt ",
                            truth.attempt()));
      }
    }
  }

  const PlanePlan& plan_;
  const CoordinatorOptions options_;
  Mutex mu_;
  CondVar ended_;
  std::vector<Slot> slots_;  // attempt: of the observer's thread; the rest with mu_
  std::vector<std::string> broken_ ABSL_GUARDED_BY(mu_);
  bool failed_ = false;  // of the observer's thread
  absl::Time stopping_at_ ABSL_GUARDED_BY(mu_) = absl::InfiniteFuture();
  std::unique_ptr<ViewStore> view_;
  std::unique_ptr<ClusterRecorder> recorder_;
  std::unique_ptr<ControlPlane> plane_;
  std::unique_ptr<WatchHub> hub_;
  std::deque<Process> processes_;  // of the launcher's thread, until that has ended
  std::vector<std::shared_ptr<Viewer>> viewers_;
  std::unique_ptr<Errands> launcher_;
  std::unique_ptr<Errands> taker_;
};

}  // namespace

PlanePlan MakePlanePlan(uint64_t seed) {
  std::mt19937_64 random(seed);
  const auto pick = [&](int64_t from, int64_t to) {
    return from + static_cast<int64_t>(random() % static_cast<uint64_t>(to - from + 1));
  };
  PlanePlan plan;
  plan.seed = seed;
  plan.nodes = static_cast<int>(pick(1, 4));
  plan.fed = pick(0, 1) == 0;
  plan.max_restarts = pick(0, 2) == 0 ? 0 : static_cast<int>(pick(1, 8));
  plan.program = pick(0, 1) == 0 ? absl::InfiniteDuration() : absl::Milliseconds(pick(50, 1500));
  plan.length = absl::Milliseconds(pick(0, 2000));
  plan.kills_at_end = pick(0, 4) == 0;
  plan.leaves_at_once = pick(0, 2) == 0;
  plan.signing = absl::Microseconds(pick(0, 1) * pick(10, 30'000));
  plan.output_bytes = pick(0, 1) * pick(20, 200);
  plan.viewers = static_cast<int>(pick(0, 2));
  plan.reading = absl::Microseconds(pick(0, 60'000));
  if (pick(0, 9) == 0) plan.cancel_after = absl::Milliseconds(pick(0, 1500));
  if (pick(0, 9) == 0) plan.stop_after = absl::Milliseconds(pick(0, 1500));
  const int64_t faults = pick(0, 4);
  for (int64_t i = 0; i < faults; ++i) {
    using Kind = PlanePlan::Fault::Kind;
    static constexpr Kind kKinds[] = {Kind::kKillNode, Kind::kKillAgent,   Kind::kBreak,
                                      Kind::kBreak,    Kind::kRestartNode, Kind::kBreak};
    PlanePlan::Fault fault;
    fault.kind = kKinds[pick(0, 5)];
    fault.executor = static_cast<int>(pick(0, plan.nodes - 1));
    fault.after =
        pick(0, 1) == 0 ? absl::Microseconds(pick(0, 2000)) : absl::Milliseconds(pick(0, 400));
    plan.faults.push_back(fault);
  }
  return plan;
}

std::string PlanePlan::ToString() const {
  std::string text = absl::StrCat(
      nodes, " nodes", fed ? ", fed" : "", ", ", max_restarts, " restarts, programs of ",
      absl::FormatDuration(program), ", stopped after ", absl::FormatDuration(length),
      kills_at_end ? " (killed)" : "", leaves_at_once ? ", and left at once" : "",
      ", signing takes up to ", absl::FormatDuration(signing), ", ", output_bytes,
      " bytes of output, ", viewers, " viewers that take up to ", absl::FormatDuration(reading));
  if (cancel_after)
    absl::StrAppend(&text, ", given up after ", absl::FormatDuration(*cancel_after));
  if (stop_after)
    absl::StrAppend(&text, ", an operator's stop after ", absl::FormatDuration(*stop_after));
  for (const Fault& fault : faults) {
    static constexpr absl::string_view kNames[] = {"node killed", "agent killed", "connection cut",
                                                   "restart asked for"};
    absl::StrAppend(&text, "; ", absl::FormatDuration(fault.after),
                    " later: ", kNames[static_cast<int>(fault.kind)], " of ", fault.executor);
  }
  return text;
}

PlaneOutcome RunPlane(const PlanePlan& plan) {
  PlaneOutcome outcome;
  outcome.schedule = ThreadScheduler::Run({.seed = plan.seed}, [&] { World(plan).Run(&outcome); });
  return outcome;
}

}  // namespace millrace
