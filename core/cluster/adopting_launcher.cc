#include "millrace/adopting_launcher.h"

#include <unistd.h>

#include <algorithm>
#include <functional>
#include <map>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "core/base/deadline.h"
#include "core/base/log.h"
#include "core/base/mutex.h"
#include "core/base/peer_version.h"
#include "core/base/status.h"
#include "core/base/text.h"
#include "core/base/thread.h"
#include "core/base/version.h"
#include "core/cluster/adoption_call.h"
#include "core/cluster/adoption_table.h"
#include "core/launch/adoption_id.h"
#include "core/launch/agent_secret.h"
#include "core/net/socket_address.h"
#include "core/process/exit_status.h"
#include "core/proto/adopt.pb.h"
#include "core/proto/time_proto.h"
#include "millrace/membership.h"
#include "millrace/status_macros.h"

namespace millrace {
namespace {

constexpr uint32_t kProtocol = 1;
// For agents that were killed: to be heard of.
constexpr size_t kMaxHostBytes = 256;
constexpr absl::Duration kKillWait = absl::Seconds(2);

std::vector<AdoptionSlot> SlotsOf(const std::vector<AgentTicket>& tickets) {
  std::vector<AdoptionSlot> slots;
  for (const AgentTicket& ticket : tickets) {
    slots.push_back({ticket.executor_id, ticket.job_name, ticket.task_index, ticket.restarts,
                     ticket.standing, ticket.place, ticket.agent_id});
  }
  return slots;
}

void Note(const AdoptingLauncherOptions& options, const std::string& text) {
  if (options.on_note) {
    options.on_note(text);
  } else {
    MILLRACE_LOG(WARNING) << text;
  }
}

}  // namespace

class [[gnu::visibility("hidden")]] AdoptingLauncher::Board
    : public std::enable_shared_from_this<Board> {
 public:
  Board(const AdoptingLauncherOptions& options, const std::vector<AgentTicket>& tickets,
        Events events)
      : options_(options), events_(std::move(events)), table_(options.adoption, SlotsOf(tickets)) {
    for (const AgentTicket& ticket : tickets) {
      tickets_[ticket.executor_id] = ticket;
      if (ticket.standing == AgentTicket::Standing::kTaken) asks_where_ = true;
    }
  }
  ~Board() { Stop(absl::ZeroDuration()); }

  absl::Status Start(ClusterResolver & resolver) {
    MILLRACE_ASSIGN_OR_RETURN(thread_, Thread::Start("mr-adopter", [this] { Run(); }));
    MILLRACE_ASSIGN_OR_RETURN(watch_, resolver.Watch(
                                          [this](const MembershipUpdate& update) {
                                            Post([this, update](AdoptionTable::Effects* effects) {
                                              table_.Members(update, effects);
                                              MutexLock lock(&mu_);
                                              asks_where_ = false;
                                              changed_.SignalAll();
                                            });
                                          },
                                          {.poll_interval = options_.poll_interval}));
    return absl::OkStatus();
  }

  // To whoever hears of waits.
  void Tell(const std::string& note) {
    Post([this, note](AdoptionTable::Effects*) { Note(options_, note); });
  }

  absl::Status Relaunch(const AgentTicket& ticket) {
    {
      MutexLock lock(&mu_);
      if (stopping_) return absl::FailedPreconditionError("the agents are being released");
    }
    Post([this, ticket](AdoptionTable::Effects* effects) {
      tickets_[ticket.executor_id] = ticket;
      table_.Relaunch(ticket.executor_id, effects);
    });
    return absl::OkStatus();
  }

  void Stop(absl::Duration grace) {
    if (watch_ != nullptr) WaitMembers(grace);
    watch_.reset();
    {
      MutexLock lock(&mu_);
      kill_at_ = std::min(kill_at_, Deadline(grace));
      stopping_ = true;
      changed_.SignalAll();
    }
    thread_.Join();
  }

  // Ends the calls, and the agents go on.
  void Leave() {
    {
      MutexLock lock(&mu_);
      leaving_ = true;
    }
    Stop(absl::ZeroDuration());
  }

 private:
  using Closure = std::function<void(AdoptionTable::Effects*)>;

  void Post(Closure closure) {
    MutexLock lock(&mu_);
    queue_.push_back(std::move(closure));
    changed_.SignalAll();
  }

  // Agents that a driver before has left must be known to be released.
  void WaitMembers(absl::Duration patience) {
    const Deadline deadline(patience);
    MutexLock lock(&mu_);
    while (asks_where_ && !leaving_ && !deadline.Passed()) {
      changed_.WaitWithTimeout(&mu_, deadline.Left());
    }
  }

  // The adopter's thread: ends when stopping and no agent is left that could be heard of.
  void Run() {
    bool asked = false;
    bool killed = false;
    while (true) {
      std::vector<Closure> closures;
      bool stopping = false;
      bool leaving = false;
      Deadline kill_at = Deadline::Never();
      {
        MutexLock lock(&mu_);
        const absl::Duration rest = table_.NextDeadline() - RealClock()->SteadyNow();
        Deadline wake(std::min(rest, absl::Hours(1)));
        if (stopping_) wake = std::min(wake, killed ? kill_at_ + kKillWait : kill_at_);
        while (queue_.empty() && !(stopping_ && !asked) && !wake.Passed()) {
          changed_.WaitWithTimeout(&mu_, wake.Left());
        }
        closures.swap(queue_);
        stopping = stopping_;
        leaving = leaving_;
        kill_at = kill_at_;
      }
      if (leaving) break;
      AdoptionTable::Effects effects;
      for (const Closure& closure : closures) closure(&effects);
      table_.Tick(&effects);
      if (stopping && !std::exchange(asked, true)) table_.Stop(/*now=*/false, &effects);
      if (stopping && kill_at.Passed() && !std::exchange(killed, true)) {
        table_.Stop(/*now=*/true, &effects);
      }
      for (const AdoptionEffect& effect : effects) Perform(effect);
      const bool given_up = killed && (kill_at + kKillWait).Passed();
      if (stopping && (table_.num_running() == 0 || given_up)) break;
    }
    EndCalls();
  }

  // Calls are not let go of before gRPC has.
  void EndCalls() {
    for (const auto& [id, call] : calls_) call->Cancel();
    const Deadline deadline(kKillWait);
    while (!calls_.empty() && !deadline.Passed()) {
      std::vector<Closure> closures;
      {
        MutexLock lock(&mu_);
        if (queue_.empty()) changed_.WaitWithTimeout(&mu_, deadline.Left());
        closures.swap(queue_);
      }
      AdoptionTable::Effects unused;
      for (const Closure& closure : closures) closure(&unused);
    }
  }

  void Perform(const AdoptionEffect& effect) {
    switch (effect.kind) {
      case AdoptionEffect::Kind::kDial:
        Dial(effect);
        break;
      case AdoptionEffect::Kind::kStart:
        SendStart(effect);
        break;
      case AdoptionEffect::Kind::kRedirect: {
        const HostPort driver = DriverSeenAs(effect);
        v1::AdoptRequest request;
        request.mutable_redirect()->set_coordinator_host(driver.host);
        request.mutable_redirect()->set_coordinator_port(driver.port);
        Send(effect.call, std::move(request));
        break;
      }
      case AdoptionEffect::Kind::kTakenOver:
        if (events_.on_taken_over) events_.on_taken_over(effect.exit.status);
        break;
      case AdoptionEffect::Kind::kRelease: {
        v1::AdoptRequest request;
        request.mutable_release()->set_now(effect.now);
        Send(effect.call, std::move(request));
        break;
      }
      case AdoptionEffect::Kind::kHangUp:
        if (const auto found = calls_.find(effect.call); found != calls_.end()) {
          found->second->Cancel();  // its end comes as that of any call
        }
        break;
      case AdoptionEffect::Kind::kStarted:
        if (events_.on_started) events_.on_started(effect.executor_id, effect.pid);
        if (events_.on_found) events_.on_found(effect.executor_id, effect.address);
        break;
      case AdoptionEffect::Kind::kNote:
        Note(options_, effect.note);
        break;
      case AdoptionEffect::Kind::kEnded:
        events_.on_exit(effect.exit);
        break;
      case AdoptionEffect::Kind::kAwaited:
        if (events_.on_awaited) events_.on_awaited(effect.executor_id, effect.note);
        break;
    }
  }

  void Dial(const AdoptionEffect& effect) {
    const uint64_t id = effect.call;
    // A driver reads what it needs only.
    const absl::StatusOr<AgentSecret> secret = ReadAgentSecret(options_.secret);
    if (!secret.ok()) {
      Post([this, id, status = secret.status()](AdoptionTable::Effects* effects) {
        table_.CallOver(id, status, effects);
      });
      return;
    }
    v1::Hold hold;
    hold.set_protocol(kProtocol);
    hold.set_version(kMillraceVersion);
    const AgentTicket& ticket = tickets_[effect.executor_id];
    hold.set_adoption_id(
        AdoptionId(ticket.token, ticket.cluster_id, effect.executor_id, effect.number));
    hold.set_number(effect.number);
    hold.set_alone(effect.alone);
    hold.set_driver_epoch(ticket.driver_epoch);
    hold.set_cluster_id(ticket.cluster_id);
    hold.set_executor_id(effect.executor_id);
    hold.set_driver(absl::StrCat(LocalHostname(), " pid ", ::getpid()));
    // gRPC may speak up after this object is gone.
    const std::weak_ptr<Board> weak = weak_from_this();
    const auto post = [weak](Closure closure) {  // nothing of it is left on the caller's thread
      if (const std::shared_ptr<Board> board = weak.lock()) board->Post(std::move(closure));
    };
    calls_[id] = AdoptionCall::Start(
        effect.address, *secret, hold,
        {.on_event =
             [this, post, id](const v1::AdoptEvent& event) {
               post([this, id, event](AdoptionTable::Effects* effects) {
                 OnEvent(id, event, effects);
               });
             },
         .on_done =
             [this, post, id](const absl::Status& status, std::shared_ptr<AdoptionCall> call) {
               post([this, id, status, call = std::move(call)](AdoptionTable::Effects* effects) {
                 calls_.erase(id);
                 table_.CallOver(id, status, effects);
               });
             }});
  }

  void OnEvent(uint64_t call, const v1::AdoptEvent& event, AdoptionTable::Effects* effects) {
    switch (event.message_case()) {
      case v1::AdoptEvent::kHeld:
        OnHeld(call, event.held(), effects);
        break;
      case v1::AdoptEvent::kStarted:
        table_.Started(call, event.started().pid(), effects);
        break;
      case v1::AdoptEvent::kEnded:
        table_.Ended(call, ExitOf(event.ended()), effects);
        break;
      case v1::AdoptEvent::MESSAGE_NOT_SET:
        break;  // of a later version
    }
  }

  void OnHeld(uint64_t call, const v1::Held& held, AdoptionTable::Effects* effects) {
    const std::string agent =
        absl::StrCat("the agent on ", EscapeControls(Ellipsize(held.host(), kMaxHostBytes)));
    const absl::Status versions =
        CheckVersions({"this driver", kMillraceVersion}, {agent, held.version()});
    if (versions.ok()) {
      table_.Held(call, {held.peer_host(), held.running()}, effects);
      return;
    }
    if (const auto found = calls_.find(call); found != calls_.end()) found->second->Cancel();
    table_.CallOver(call, versions, effects);
  }

  // The coordinator as the agent of a kStart or kRedirect reaches it.
  HostPort DriverSeenAs(const AdoptionEffect& effect) {
    HostPort driver =
        ParseHostPort(tickets_[effect.executor_id].coordinator_address).value_or(HostPort());
    if (!effect.address.empty()) driver.host = effect.address;
    if (!options_.driver_host.empty()) driver.host = options_.driver_host;
    return driver;
  }

  void SendStart(const AdoptionEffect& effect) {
    const AgentTicket& ticket = tickets_[effect.executor_id];
    const HostPort driver = DriverSeenAs(effect);
    v1::AdoptRequest request;
    v1::StartAgent& start = *request.mutable_start();
    start.set_coordinator_host(driver.host);
    start.set_coordinator_port(driver.port);
    start.set_ca_pem(ticket.ca_pem);
    start.set_identity_pem(ticket.identity_pem);
    start.set_token(ticket.token);
    start.set_working_dir(ticket.working_dir);
    if (ticket.connect_timeout > absl::ZeroDuration()) {
      *start.mutable_connect_timeout() = DurationToProto(ticket.connect_timeout);
    }
    Send(effect.call, std::move(request));
  }

  void Send(uint64_t call, v1::AdoptRequest request) {
    if (const auto found = calls_.find(call); found != calls_.end()) {
      found->second->Send(std::move(request));
    }
  }

  const AdoptingLauncherOptions options_;
  const Events events_;
  // The thread's own once it runs.
  AdoptionTable table_;
  std::map<int, AgentTicket> tickets_;  // by executor id
  std::map<uint64_t, std::shared_ptr<AdoptionCall>> calls_;

  Mutex mu_;
  CondVar changed_;
  std::vector<Closure> queue_ ABSL_GUARDED_BY(mu_);
  bool stopping_ ABSL_GUARDED_BY(mu_) = false;
  bool leaving_ ABSL_GUARDED_BY(mu_) = false;     // only with stopping_, but for a moment
  bool asks_where_ ABSL_GUARDED_BY(mu_) = false;  // agents of a driver before, and nobody has said
  Deadline kill_at_ ABSL_GUARDED_BY(mu_) = Deadline::Never();
  Thread thread_;
  std::unique_ptr<MembershipWatch> watch_;  // of the caller's thread
};

struct [[gnu::visibility("hidden")]] AdoptingLauncher::State {
  Mutex mu;
  std::shared_ptr<Board> board ABSL_GUARDED_BY(mu);  // null while nothing is launched
};

AdoptingLauncher::AdoptingLauncher(ClusterResolver& resolver, AdoptingLauncherOptions options)
    : resolver_(resolver), options_(std::move(options)), state_(std::make_unique<State>()) {}

AdoptingLauncher::~AdoptingLauncher() { Stop(absl::ZeroDuration()); }

absl::Status AdoptingLauncher::Launch(const std::vector<AgentTicket>& tickets, Events events) {
  if (CurrentBoard() != nullptr) {
    return absl::FailedPreconditionError(
        "this AdoptingLauncher runs a cluster already; use another");
  }
  MILLRACE_ASSIGN_OR_RETURN(const AgentSecret secret, ReadAgentSecret(options_.secret));
  const auto board = std::make_shared<Board>(options_, tickets, std::move(events));
  const std::string notice = RenewalNotice(secret, options_.secret, absl::Now());
  if (!notice.empty()) board->Tell(notice);
  {
    MutexLock lock(&state_->mu);  // an agent that ends at once may be asked for again
    state_->board = board;
  }
  absl::Status started = board->Start(resolver_);
  if (!started.ok()) Stop(absl::ZeroDuration());
  return started;
}

std::shared_ptr<AdoptingLauncher::Board> AdoptingLauncher::CurrentBoard() {
  MutexLock lock(&state_->mu);
  return state_->board;
}

absl::Status AdoptingLauncher::Relaunch(const AgentTicket& ticket) {
  const std::shared_ptr<Board> board = CurrentBoard();
  if (board == nullptr)
    return absl::FailedPreconditionError("this AdoptingLauncher runs no cluster");
  return board->Relaunch(ticket);
}

void AdoptingLauncher::Leave() {
  const std::shared_ptr<Board> board = CurrentBoard();
  if (board == nullptr) return;
  board->Leave();
  MutexLock lock(&state_->mu);
  state_->board.reset();
}

void AdoptingLauncher::Stop(absl::Duration grace) {
  const std::shared_ptr<Board> board = CurrentBoard();
  if (board == nullptr) return;
  board->Stop(grace);
  MutexLock lock(&state_->mu);
  state_->board.reset();
}

// ---- shape --------------------------------------------------------------------------------------

absl::StatusOr<ClusterShape> ShapeOf(const ClusterSpec& spec) {
  ClusterShape shape;
  for (const std::string& job : spec.jobs()) {
    MILLRACE_ASSIGN_OR_RETURN(const std::vector<int> indices, spec.TaskIndices(job));
    const int tasks = static_cast<int>(indices.size());
    if (tasks == 0) continue;
    if (indices.back() != tasks - 1) {
      return absl::InvalidArgumentError(
          absl::StrCat("job ", job, " has ", tasks, " tasks with indices up to ", indices.back(),
                       ": a member is missing; wait for it, or say how many the cluster has"));
    }
    const bool single = job == "chief" || job == "master" || job == "evaluator";
    if (!single && job != "ps" && job != "worker") {
      return absl::InvalidArgumentError(
          absl::StrCat("the resolver names a job '", EscapeControls(Ellipsize(job, 100)),
                       "'; a cluster has ps, chief or master, evaluator and worker"));
    }
    if (single && (tasks > 1 || (job != "evaluator" && !shape.master_node.empty()))) {
      return absl::InvalidArgumentError(
          absl::StrCat("the resolver names more than one ",
                       job == "evaluator" ? "evaluator" : "chief or master"));
    }
    if (job == "evaluator") shape.eval_node = true;
    if (job == "ps") shape.num_ps = tasks;
    if (job == "chief" || job == "master") shape.master_node = job;
    shape.num_executors += tasks;
  }
  if (shape.num_executors == shape.num_ps + (shape.eval_node ? 1 : 0)) {
    return absl::InvalidArgumentError("the resolver names no chief, master or worker");
  }
  return shape;
}

}  // namespace millrace
