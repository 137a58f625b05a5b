#include "testing/simulation/adopter.h"

#include <algorithm>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "core/base/version.h"
#include "core/launch/adoption_id.h"
#include "core/process/exit_status.h"
#include "testing/simulation/listener.h"

namespace millrace::simulation {
namespace {

using Kind = AdoptionEffect::Kind;

// "h0:7000 - h2:7002": by slot.
std::string SpecText(const ClusterSpec& spec, const std::vector<NodeRole>& roles) {
  std::string text;
  for (const NodeRole& role : roles) {
    absl::StrAppend(&text, text.empty() ? "" : " ",
                    spec.TaskAddress(role.job_name, role.task_index).value_or("-"));
  }
  return text;
}

// "h3" of "h3:7001".
Host* HostOf(Site* site, absl::string_view address) {
  return site->hosts.at(std::string(address.substr(0, address.find(':'))));
}

}  // namespace

absl::StatusOr<ClusterSpec> Source::Ask() const {
  if (failing_ > 0) return absl::UnavailableError("the source does not answer");
  ClusterSpec spec;
  for (size_t i = 0; i < slots_.size(); ++i) {
    const Slot& slot = slots_[i];
    if (slot.hidden > 0) continue;
    const NodeRole& role = plan_.options.roles[i];
    const absl::Status set =
        spec.SetTask(role.job_name, role.task_index, slot.named.empty() ? slot.place : slot.named);
    if (!set.ok()) return set;
  }
  return spec;
}

Adopter::Adopter(Site* site, const Source* source, const std::vector<AdoptionSlot>& slots,
                 uint64_t epoch, Callbacks callbacks)
    : site_(site),
      source_(source),
      epoch_(epoch),
      callbacks_(std::move(callbacks)),
      table_(AdoptionOptions(), slots, site->queue.clock()),
      tracker_([this](const MembershipUpdate& update) { OnMembers(update); }) {}

Adopter::~Adopter() { *alive_ = false; }

// ---- the resolver -------------------------------------------------------------------------------

void Adopter::Start() { Poll(); }

void Adopter::Poll() {
  Ask();
  site_->queue.After(site_->plan.poll_interval, site_->driver, [this, alive = alive_] {
    if (*alive) Poll();
  });
}

void Adopter::Ask() { tracker_.Observe(source_->Ask(), site_->queue.clock()->Now()); }

void Adopter::OnMembers(const MembershipUpdate& update) {
  site_->Tell("the resolver, epoch ", update.epoch, ": ",
              update.status.ok() ? SpecText(update.spec, site_->plan.options.roles)
                                 : update.status.ToString());
  if (update.status.ok()) Remember(update.spec);
  Do([&](Effects* effects) { table_.Members(update, effects); });
}

void Adopter::Remember(const ClusterSpec& spec) {
  std::map<std::string, int> count;
  std::map<int, std::string> named;
  const auto& roles = site_->plan.options.roles;
  for (size_t i = 0; i < roles.size(); ++i) {
    const auto address = spec.TaskAddress(roles[i].job_name, roles[i].task_index);
    named[static_cast<int>(i)] = address.value_or("");
    if (address.ok()) ++count[*address];
  }
  for (const auto& [executor, address] : named) {
    Told& told = told_[executor];
    if (count[address] > 1 || told.address == address) continue;  // of no use, nothing new
    told = {address, site_->queue.now()};
  }
}

// An agent that is heard is left only for a place that the resolver has named for long enough.
void Adopter::CheckMove(const AdoptionEffect& end, const Effects& all) {
  if (!absl::StrContains(end.exit.status.message(), " was replaced: the resolver names ")) return;
  const bool heard = std::any_of(all.begin(), all.end(), [&](const AdoptionEffect& effect) {
    return effect.kind == Kind::kRelease && effect.executor_id == end.executor_id;
  });
  const Told& told = told_[end.executor_id];
  const absl::Duration said = site_->queue.now() - told.since;
  const bool elsewhere = !told.address.empty() && told.address != addresses_[end.executor_id];
  // A driver that was stopped does not know yet which of its calls have broken.
  const bool goes_on = site_->queue.now() - site_->driver_stopped_until < absl::Seconds(1);
  if (!heard || goes_on) site_->left_at[end.executor_id] = site_->queue.now();
  site_->moved.insert(end.executor_id);
  if (elsewhere && (!heard || said >= AdoptionOptions().settle)) return;
  site_->checks.Fail(
      "an agent stays while its resolver flaps",
      absl::StrCat(end.executor_id, " is moved from ", addresses_[end.executor_id],
                   "; the resolver has named ", told.address, " for ", absl::FormatDuration(said)));
}

// ---- the table ----------------------------------------------------------------------------------

void Adopter::Relaunch(int executor) {
  Do([&](Effects* effects) { table_.Relaunch(executor, effects); });
}

void Adopter::Stop(bool now) {
  Do([&](Effects* effects) { table_.Stop(now, effects); });
}

void Adopter::EndCalls() {
  for (const auto& [id, call] : calls_) call.call->Cancel();
}

void Adopter::Break(int executor) {
  for (const auto& [id, call] : calls_) {
    if (call.executor == executor) call.call->Break();
  }
}

void Adopter::Do(const std::function<void(Effects*)>& body) {
  Effects effects;
  body(&effects);
  table_.Tick(&effects);
  const std::shared_ptr<bool> alive = alive_;
  for (const AdoptionEffect& effect : effects) {
    if (*alive) Perform(effect, effects);
  }
  if (!*alive) return;
  const absl::Duration due = table_.NextDeadline();
  if (due == absl::InfiniteDuration()) return;
  const absl::Duration wait =
      std::max(due - site_->queue.clock()->SteadyNow(), absl::ZeroDuration());
  site_->queue.After(wait, site_->driver, [this, alive, number = ++timer_] {
    if (*alive && number == timer_) Do([](Effects*) {});
  });
}

void Adopter::Perform(const AdoptionEffect& effect, const Effects& all) {
  v1::AdoptRequest request;
  switch (effect.kind) {
    case Kind::kDial:
      Dial(effect);
      break;
    case Kind::kStart:
      request.mutable_start();
      Send(effect.call, std::move(request));
      break;
    case Kind::kRedirect:
      request.mutable_redirect()->set_coordinator_host(effect.address);
      Send(effect.call, std::move(request));
      break;
    case Kind::kRelease:
      request.mutable_release()->set_now(effect.now);
      Send(effect.call, std::move(request));
      break;
    case Kind::kHangUp:
      if (const auto found = calls_.find(effect.call); found != calls_.end()) {
        found->second.call->Cancel();
      }
      break;
    case Kind::kStarted:
      callbacks_.on_started(effect.executor_id, effect.pid, effect.address);
      break;
    case Kind::kEnded:
      site_->Tell("adopter: the agent of ", effect.executor_id, " (pid ", effect.exit.pid,
                  ") is gone: ", DescribeExit(effect.exit.exit), ", ",
                  effect.exit.status.ToString());
      CheckMove(effect, all);
      callbacks_.on_exit(effect.exit);
      break;
    case Kind::kAwaited:
      callbacks_.on_awaited(effect.executor_id, effect.note);
      break;
    case Kind::kNote:
      site_->Tell("note: ", effect.note);
      break;
    case Kind::kTakenOver:
      site_->checks.Fail("a cluster has one driver", effect.exit.status.ToString());
      break;
  }
}

void Adopter::Dial(const AdoptionEffect& effect) {
  const uint64_t id = effect.call;
  v1::Hold hold;
  hold.set_protocol(1);
  hold.set_version(kMillraceVersion);
  hold.set_adoption_id(AdoptionId("token", kCluster, effect.executor_id, effect.number));
  hold.set_number(effect.number);
  hold.set_alone(effect.alone);
  hold.set_driver_epoch(epoch_);
  hold.set_cluster_id(std::string(kCluster));
  hold.set_executor_id(effect.executor_id);
  hold.set_driver(absl::StrCat("driver ", epoch_));
  site_->Tell("adopter: dials ", effect.address, " for ", effect.executor_id, ", number ",
              effect.number);
  addresses_[effect.executor_id] = effect.address;
  calls_[id] = {
      AdoptCall::Dial(site_, HostOf(site_, effect.address), effect.address, hold,
                      {.on_event =
                           [this, alive = alive_, id](const v1::AdoptEvent& event) {
                             if (*alive) OnEvent(id, event);
                           },
                       .on_done =
                           [this, alive = alive_, id](const absl::Status& status) {
                             if (!*alive) return;
                             site_->Tell("adopter: call ", id, ": ", status.ToString());
                             calls_.erase(id);
                             Do([&](Effects* effects) { table_.CallOver(id, status, effects); });
                           }}),
      effect.executor_id};
}

void Adopter::OnEvent(uint64_t call, const v1::AdoptEvent& event) {
  Do([&](Effects* effects) {
    if (event.has_held()) {
      table_.Held(call, {event.held().peer_host(), event.held().running()}, effects);
    } else if (event.has_started()) {
      table_.Started(call, event.started().pid(), effects);
    } else if (event.has_ended()) {
      table_.Ended(call, ExitOf(event.ended()), effects);
    }
  });
}

void Adopter::Send(uint64_t call, v1::AdoptRequest request) {
  if (const auto found = calls_.find(call); found != calls_.end()) {
    found->second.call->Send(std::move(request));
  }
}

}  // namespace millrace::simulation
