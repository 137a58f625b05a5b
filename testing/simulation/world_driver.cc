// A simulated cluster's drivers: one after the other, where there is a state folder.

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/coordinator/server/saved_state.h"
#include "core/coordinator/view/wire_conversion.h"
#include "testing/simulation/world.h"

namespace millrace::simulation {
namespace {

// As in core/cluster.
constexpr absl::Duration kAgentExitWait = absl::Seconds(5);
constexpr absl::Duration kKillWait = absl::Seconds(2);

}  // namespace

std::string World::NewStateFolder() {
  static int count = 0;
  const char* const given = std::getenv("TEST_TMPDIR");
  std::error_code error;
  const std::string base =
      given != nullptr ? given : std::filesystem::temp_directory_path(error).string();
  return absl::StrCat(base, "/simulation.", ::getpid(), ".", ++count);
}

// ---- the driver ---------------------------------------------------------------------------------

absl::Status World::OpenJournal() {
  if (!plan_.resumable) return absl::OkStatus();
  if (full_state_disks_ > 0) LimitState(random_.Number(0, 2000));
  v1::StateHead head;
  head.set_cluster_id(std::string(kCluster));
  auto journal =
      drivers_ == 0 ? StateJournal::Create(folder_, head) : StateJournal::Resume(folder_);
  if (!journal.ok()) return journal.status();
  journal_ = *std::move(journal);
  if (StateJournal::Resume(folder_).ok()) {
    site_.checks.Fail("a cluster has one driver", "two have resumed it");
  }
  return absl::OkStatus();
}

bool World::StartDriver() {
  if (const absl::Status opened = OpenJournal(); !opened.ok()) {
    site_.Tell("the cluster is not resumed: ", absl::StatusCodeToString(opened.code()));
    return false;
  }
  ++drivers_;
  started_at_ = site_.queue.now();
  view_ = std::make_unique<ViewStore>(
      ViewStore::Options{.num_slots = plan_.nodes,
                         .incarnation = absl::StrCat("simulated-", drivers_),
                         .limits = {},
                         .clock = options_.clock});
  recorder_ = std::make_unique<ClusterRecorder>(options_, view_.get(), nullptr);
  plane_ = std::make_unique<ControlPlane>(
      options_, ToNodeSpec(options_, plan_.nodes, "", 0),
      [this](absl::string_view, absl::string_view) { return Sign(); }, view_.get(), recorder_.get(),
      journal_.get());
  site_.plane = plane_.get();
  if (plan_.launcher != Plan::Launcher::kListening) return true;
  std::vector<AdoptionSlot> slots;
  for (int id = 0; id < plan_.nodes; ++id) {
    const NodeRole& role = options_.roles[id];
    const v1::SlotRecord before =
        journal_ == nullptr ? v1::SlotRecord() : RecordOf(journal_->restored(), id);
    slots.push_back({.executor_id = id,
                     .job_name = role.job_name,
                     .task_index = role.task_index,
                     .restarts = options_.failure.restart.max_restarts > 0,
                     .standing = journal_ == nullptr ? AgentTicket::Standing::kNew
                                                     : StandingOf(journal_->restored(), id),
                     .place = before.place(),
                     .agent_id = before.agent_id()});
  }
  adopter_ = std::make_unique<Adopter>(
      &site_, &source_, slots, journal_ == nullptr ? 0 : journal_->epoch(),
      Adopter::Callbacks{.on_started =
                             [this](int executor, int64_t pid, const std::string& place) {
                               plane_->agents().AgentStarted(executor, pid);
                               plane_->agents().AgentFound(executor, place);
                               AfterPlane();
                             },
                         .on_exit =
                             [this](const AgentExit& exit) {
                               plane_->agents().AgentExited(exit);
                               AfterPlane();
                             },
                         .on_awaited =
                             [this](int executor, const std::string& why) {
                               plane_->agents().AgentAwaited(executor, why);
                               AfterPlane();
                             }});
  return true;
}

// SIGKILL. What the next one knows is in the state folder.
void World::KillDriver(absl::Duration downtime) {
  if (phase_ == Phase::kEnded || site_.plane == nullptr) return;
  if (signing_ > 0) {  // in the midst of a call of the plane, whose stack is this one's
    site_.queue.After(absl::Milliseconds(1), nullptr, [this, downtime] { KillDriver(downtime); });
    return;
  }
  any_pause_ = true;
  for (const SimAgent& agent : agents_) {
    // It has yet to come back to this one: its lease goes on.
    if (agent.alive() && !agent.attached()) site_.checks.OnFault(agent.executor());
  }
  site_.queue.Kill(site_.driver);
  site_.plane = nullptr;
  for (const auto& [number, connection] : site_.connections) {
    if (connection->client().host->reachable()) connection->Break();
  }
  for (const auto& [number, call] : site_.calls) call->DriverDied();
  dying_ = true;
  plane_->Shutdown();  // nobody hears of it
  dying_ = false;
  adopter_.reset();
  plane_.reset();
  recorder_.reset();
  journal_.reset();
  tick_at_ = absl::InfiniteDuration();
  site_.queue.After(downtime, nullptr, [this] { ResumeDriver(); });
}

void World::ResumeDriver() {
  site_.NextDriver();
  const auto holds = StateJournal::HoldsCluster(folder_);
  if (!StartDriver()) {
    last_fault_ = std::max(last_fault_, site_.queue.now() + kDriverLooks);
    if (holds.ok() && *holds && full_state_disks_ > 0) {  // somebody tries again
      site_.queue.After(kDriverLooks, nullptr, [this] { ResumeDriver(); });
      return;
    }
    if (holds.ok() && *holds) {
      site_.checks.Fail("a cluster that is there is resumed", "it is not");
    }
    phase_ = Phase::kEnded;
    return;
  }
  site_.Tell("driver ", drivers_, " resumes the cluster");
  site_.checks.OnDriver();
  phase_ = Phase::kGathering;
  adopter_->Start();
  for (Viewer& viewer : viewers_) {
    viewer.cursor = view_->Resume({.level = v1::WATCH_LEVEL_ALL,
                                   .resume_after = viewer.view.seq(),
                                   .incarnation = viewer.view.incarnation()});
    Look(&viewer, absl::Seconds(1), absl::Seconds(20));
  }
  AfterPlane();
  site_.queue.After(kDriverLooks, site_.driver, [this] { Drive(); });
}

// As Cluster's TearDown().
void World::StopDriver() {
  if (adopter_ != nullptr) {
    for (const bool now : {false, true}) {
      adopter_->Stop(now);
      const absl::Duration end = site_.queue.now() + (now ? kKillWait : kAgentExitWait);
      while (adopter_->num_running() > 0 && site_.queue.RunNext(end)) {
      }
    }
    adopter_->EndCalls();
  }
  plane_->Shutdown();
  plane_->Deliver();
  if (journal_ == nullptr) return;
  journal_->Remove();
  if (std::filesystem::exists(absl::StrCat(folder_, "/cluster"))) {
    site_.checks.Fail("nothing is left", "the state of a cluster that is over");
  }
}

void World::Drive() {
  if (phase_ == Phase::kEnded) return;
  const absl::Duration now = site_.queue.now();
  if (phase_ == Phase::kGathering) {
    const absl::Status running = plane_->driver().WaitRunning(absl::ZeroDuration());
    if (running.ok()) {
      site_.Tell("all nodes run");
      all_ran_ = true;
      phase_ = Phase::kRunning;
    } else if (!absl::IsDeadlineExceeded(running)) {
      Shutdown();
    } else if (now > started_at_ + options_.reservation_timeout + kStopTime) {
      site_.checks.Fail("every call ends", "WaitRunning: " + std::string(running.message()));
    }
  }
  if (phase_ == Phase::kRunning) {
    if (!plane_->driver().WaitFailure(absl::ZeroDuration()).ok()) Shutdown();
  }
  if (phase_ != Phase::kStopping && now >= plan_.length) {
    CheckHealth();
    if (plan_.driver_dies) {
      phase_ = Phase::kEnded;
      return;
    }
    Shutdown();
  }
  if (phase_ == Phase::kStopping) {
    const absl::Status ended = plane_->driver().WaitEnded(NodeFilter::kAll, absl::ZeroDuration());
    if (ended.ok()) {
      site_.Tell("all nodes have ended");
      phase_ = Phase::kEnded;
    } else if (now > std::max(stopping_at_, last_fault_) + kStopTime + ResumeTime()) {
      site_.checks.Fail("every call ends", "WaitEnded: " + std::string(ended.message()));
    }
  }
  site_.queue.After(kDriverLooks, site_.driver, [this] { Drive(); });
}

void World::Shutdown() {
  if (phase_ == Phase::kStopping) return;
  site_.Tell("the driver stops its nodes");
  phase_ = Phase::kStopping;
  stopping_at_ = site_.queue.now();
  plane_->driver().Stop(NodeFilter::kAll, "the driver is done", plan_.kills_at_end);
  AfterPlane();
}

// A write beyond the limit fails, and one that crosses it is torn.
void World::LimitState(std::optional<int64_t> bytes) {
  struct rlimit limit = {};
  ::getrlimit(RLIMIT_FSIZE, &limit);
  limit.rlim_cur = limit.rlim_max;
  if (bytes.has_value()) {
    std::error_code error;
    uint64_t largest = 0;
    for (const auto& entry : std::filesystem::directory_iterator(folder_, error)) {
      largest = std::max<uint64_t>(largest, entry.file_size(error));
    }
    limit.rlim_cur = largest + static_cast<uint64_t>(*bytes);
  }
  ::setrlimit(RLIMIT_FSIZE, &limit);
}

}  // namespace millrace::simulation
