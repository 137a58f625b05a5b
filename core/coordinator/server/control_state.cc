#include "core/coordinator/server/control_state.h"

#include <algorithm>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "core/base/log.h"
#include "core/coordinator/server/saved_state.h"
#include "core/coordinator/view/wire_conversion.h"
#include "core/proto/spec_proto.h"

namespace millrace {
namespace {

constexpr size_t kMaxFeederKeysPerMessage = 4096;
// Slots of which readers are told while nobody else can have the lock: some milliseconds.
constexpr size_t kShownAtOnce = 500;
// Peers notice within that time that another node's connections broke, and end; that one may take
// as long.
constexpr absl::Duration kUnexplainedWait = absl::Milliseconds(500);

TableOptions ToTableOptions(const CoordinatorOptions& options, Clock* clock) {
  TableOptions table;
  table.roles = options.roles;
  table.lost_after = options.lost_after;
  table.lease = options.lease;
  table.stop_timeout = options.failure.stop_timeout;
  table.restart = options.failure.restart;
  table.restart_by_job = options.failure.restart_by_job;
  table.quarantine = options.failure.quarantine;
  table.clock = clock;
  table.random = options.random;
  return table;
}

// A deadline that comes up while the timer sleeps is at least twice as far away. A second at most,
// so that a jump of the wall clock, by which waits are timed, delays nothing for long.
absl::Duration LongestSleep(const CoordinatorOptions& options) {
  return std::min({absl::Seconds(1), options.lost_after / 2, options.lease / 2,
                   options.failure.stop_timeout / 2});
}

std::vector<int> FedNodes(const CoordinatorOptions& options) {
  std::vector<int> ids;
  for (size_t i = 0; i < options.roles.size(); ++i) {
    if (IsFedRole(options.roles[i].job_name)) ids.push_back(static_cast<int>(i));
  }
  return ids;
}

std::map<int, std::string> FedNames(const CoordinatorOptions& options) {
  std::map<int, std::string> names;
  for (const int id : FedNodes(options)) names[id] = options.roles[id].ToString();
  return names;
}

}  // namespace

v1::KvReply ToKvReply(uint64_t request_id, const absl::StatusOr<std::string>& result) {
  v1::KvReply reply;
  reply.set_request_id(request_id);
  if (result.ok()) {
    reply.set_value(*result);
  } else {
    *reply.mutable_error() = ToErrorProto(result.status());
  }
  return reply;
}

ControlState::ControlState(const CoordinatorOptions& options, ClusterRecorder* recorder,
                           StateJournal* journal)
    : options(options),
      fed_nodes(FedNodes(options)),
      longest_sleep(LongestSleep(options)),
      attended(options.clock, 2 * longest_sleep),
      clock(&attended),
      recorder(recorder),
      journal(journal),
      started_at(clock->SteadyNow()),
      observer(options.observer),
      table(ToTableOptions(options, clock)),
      barriers(FedNames(options)),
      equal(FedNames(options)),
      // Fed programs use the SDK, and say why they end.
      causes({.echo = options.lost_after + options.heartbeat_interval,
              .unexplained = options.input_mode == InputMode::kDirect ? kUnexplainedWait
                                                                      : absl::ZeroDuration()}),
      nodes(options.roles.size()),
      places(options.roles.size()),
      timer_wakes_at(started_at),
      unshown_(options.roles.size()) {
  MutexLock lock(&mu);
  for (int id = 0; id < table.size(); ++id) recorder->Slot(StatusOf(id));
}

void ControlState::Do(absl::FunctionRef<void(TableEffects*)> body) {
  Streams streams;
  std::vector<int> to_show;
  {
    MutexLock lock(&mu);
    TableEffects effects;
    body(&effects);
    Perform(effects);
    if (journal != nullptr) WriteJournal(effects);
    streams.swap(to_flush);
    to_show.swap(to_show_);
  }
  for (const std::shared_ptr<AttachStream>& stream : streams) stream->Flush();
  for (size_t i = 0; i < to_show.size();) {
    MutexLock lock(&mu);
    for (size_t n = 0; n < kShownAtOnce && i < to_show.size(); ++n, ++i) {
      if (unshown_[to_show[i]]) ShowSlot(to_show[i]);
    }
  }
}

void ControlState::Perform(TableEffects& effects) {
  for (const TableEffects::CloseStream& close : effects.close) {
    auto it = streams.find(close.stream_id);
    if (it == streams.end()) continue;
    it->second.stream->Close(close.status);
    to_flush.push_back(it->second.stream);
    DropStream(close.stream_id);
  }
  PerformSpec(effects);
  PerformStops(effects);
  PerformSlots(effects);
  for (const TableEffects::StartNode& start : effects.start) {
    v1::CoordinatorMessage message;
    message.mutable_start()->set_attempt(start.attempt);
    message.mutable_start()->set_nonce(start.nonce);
    Send(start.stream_id, message);
    if (IsFedRole(options.roles[start.executor_id].job_name)) SendFeedState(start.stream_id);
  }
  for (const int id : effects.relaunch) {
    if (fenced.ok()) observer.PostRelaunch(id);
  }
  for (const NodeRestart& restart : effects.restarts) {
    MILLRACE_LOG(INFO) << RestartText(restart);
    observer.PostRestart(restart);
    recorder->Restart(restart.failure, restart.after, restart.used, restart.max);
  }
  for (NodeFailure& failure : effects.failures) {
    MILLRACE_LOG(INFO) << FailureText(failure, 0);
    recorder->Failure(failure, causes.cause() != nullptr);
    causes.Record(std::move(failure), clock->SteadyNow());
  }
  Settle();
  recorder->Counters(table.fenced_updates(), table.illegal_updates());
  if (effects.empty()) return;
  if (!effects.restarts.empty() || !effects.failures.empty()) {
    recorder->Quarantined(table.Quarantined());
  }
  changed.SignalAll();
}

void ControlState::PerformSpec(const TableEffects& effects) {
  for (const TableEffects::Change& change : effects.changes) {
    v1::CoordinatorMessage message;
    v1::SpecUpdate* update = message.mutable_spec();
    update->set_epoch(change.epoch);
    v1::TaskChange* task = update->add_changes();
    task->set_job_name(change.role.job_name);
    task->set_task_index(change.role.task_index);
    task->set_address(change.address);
    task->set_attempt(change.attempt);
    const grpc::ByteBuffer bytes = SerializeMessage(message);
    for (const auto& [id, stream] : streams) {
      const bool gets_all = std::find(effects.whole_spec.begin(), effects.whole_spec.end(), id) !=
                            effects.whole_spec.end();
      if (stream.registered && !gets_all && !table.IsEarly(stream.executor_id)) {
        SendBytes(id, bytes);
      }
    }
  }
  for (const uint64_t id : effects.whole_spec) {
    const auto stream = streams.find(id);
    if (stream != streams.end()) SendBytes(id, WholeSpec(stream->second.format));
  }
  if (recorded_epoch_ == 0 && table.epoch() > 0) {
    recorded_epoch_ = table.epoch();
    recorder->Spec(table.spec(), recorded_epoch_);
  }
  for (const TableEffects::Change& change : effects.changes) {
    if (change.epoch <= recorded_epoch_) continue;
    recorded_epoch_ = change.epoch;
    recorder->SpecChange(change.role, change.address, change.attempt, change.epoch);
  }
}

void ControlState::PerformStops(const TableEffects& effects) {
  const TableEffects::StopNode* before = nullptr;
  grpc::ByteBuffer bytes;  // what `before` was told
  for (const TableEffects::StopNode& stop : effects.stop) {
    if (before == nullptr || before->reason != stop.reason || before->now != stop.now ||
        before->restart != stop.restart) {
      v1::CoordinatorMessage message;
      message.mutable_stop()->set_reason(stop.reason);
      message.mutable_stop()->set_now(stop.now);
      message.mutable_stop()->set_restart(stop.restart);
      bytes = SerializeMessage(message);
      before = &stop;
    }
    SendBytes(stop.stream_id, bytes);
  }
}

void ControlState::PerformSlots(const TableEffects& effects) {
  for (const int id : effects.ended) {
    const SlotState state = table.state(id);
    // What the attempt still waits for goes to nobody; its request ids come again.
    kv.DropOwner(table.stream(id));
    barriers.DropOwner(table.stream(id));
    EndEqual(id, effects);
    if (table.AwaitsReplacement(id)) {
      // The others wait for the next attempt.
      barriers.Returned(id);
      continue;
    }
    ReplyBarrier(barriers.Ended(
        id, IsEnded(state)
                ? absl::StrCat(state == SlotState::kLost ? "was " : "has ", SlotStateName(state))
                : "was lost"));
  }
  for (const int id : effects.replaced) {
    kv.DropOwner(table.stream(id));
    barriers.Returned(id);
    if (nodes[id].attempt != table.attempt(id)) nodes[id] = {.attempt = table.attempt(id)};
  }
  SendEqualGrants();
  std::vector<int> changed = effects.changed;
  std::sort(changed.begin(), changed.end());
  changed.erase(std::unique(changed.begin(), changed.end()), changed.end());
  for (const int id : changed) ShowSlot(id);
  for (const int id : effects.asked) {
    if (!unshown_[id]) to_show_.push_back(id);
    unshown_[id] = true;
  }
  if (!all_ran && table.AllRan()) {
    all_ran = true;
    recorder->AllRunning();
  }
}

void ControlState::ShowSlot(int executor_id) {
  unshown_[executor_id] = false;
  SlotStatus status = StatusOf(executor_id);
  recorder->Slot(status);
  observer.PostSlot(std::move(status));
}

void ControlState::EndEqual(int executor_id, const TableEffects& effects) {
  if (table.state(executor_id) == SlotState::kFinished) {
    equal.Left(executor_id);
    return;
  }
  const bool another = table.AwaitsReplacement(executor_id);
  absl::Status how = absl::AbortedError(
      absl::StrCat(options.roles[executor_id].ToString(), another ? " is gone" : " has failed"));
  for (const NodeRestart& restart : effects.restarts) {
    if (restart.failure.executor_id == executor_id) {
      how = absl::AbortedError(FailureText(restart.failure, 0));
    }
  }
  for (const NodeFailure& failure : effects.failures) {
    if (failure.executor_id == executor_id) how = absl::AbortedError(FailureText(failure, 0));
  }
  equal.Ended(executor_id, how, another);
}

void ControlState::Settle() {
  if (causes.NextDeadline() == absl::InfiniteDuration()) return;
  const absl::Duration now = clock->SteadyNow();
  if (causes.NextDeadline() > now && table.AnyoneLives()) {
    WakeTimerFor(causes.NextDeadline());
    return;
  }
  if (!causes.Settle(now, {.missing = table.AnyoneMissing(),
                           .live = table.AnyoneLives(),
                           .signs = table.AnyoneShowedSigns(causes.first_sign()),
                           .processor_share = options.processor_share()})) {
    WakeTimerFor(causes.NextDeadline());
    return;
  }
  observer.PostFailure(causes.status());
  recorder->FirstCause(*causes.cause(), causes.folded());
  changed.SignalAll();
}

void ControlState::StopNodes(NodeFilter filter, absl::string_view reason, bool now) {
  Do([&](TableEffects* effects) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu) {
    if (!shut_down) recorder->Stopping(filter, reason, now);
    killed = killed || (now && filter == NodeFilter::kAll);
    changed.SignalAll();
    for (int id = 0; id < table.size(); ++id) {
      if (Matches(filter, id)) table.Stop(id, reason, now, effects);
    }
  });
}

// ---- the journal --------------------------------------------------------------------------------

void ControlState::Journal(v1::StateRecord record) {
  if (journal != nullptr) to_journal_.push_back(std::move(record));
}

void ControlState::JournalKv(const std::string& key, const std::string* value) {
  v1::StateRecord record;
  record.mutable_kv()->set_key(key);
  if (value != nullptr) record.mutable_kv()->set_value(*value);
  Journal(std::move(record));
}

void ControlState::JournalCancel(absl::string_view reason, bool by_operator) {
  v1::StateRecord record;
  record.mutable_cancel()->set_reason(std::string(reason));
  record.mutable_cancel()->set_by_operator(by_operator);
  Journal(std::move(record));
}

void ControlState::WriteJournal(const TableEffects& effects) {
  if (shut_down || !fenced.ok()) return;
  std::vector<int> changed = effects.changed;
  changed.insert(changed.end(), effects.asked.begin(), effects.asked.end());
  for (const int id : changed) {
    const SavedSlot slot = table.Save(id);
    if (slot.nonce.empty() && !slot.stop_asked && places[id].empty()) continue;
    v1::StateRecord record;
    *record.mutable_slot() = ToSlotRecord(id, slot);
    record.mutable_slot()->set_place(places[id]);
    record.mutable_slot()->set_has_feed(nodes[id].attempt == slot.attempt &&
                                        nodes[id].feed.has_value());
    std::string& last = journaled_slots_[id];
    std::string now = record.slot().SerializeAsString();
    if (last == now) continue;
    last = std::move(now);
    to_journal_.push_back(std::move(record));
  }
  if (table.epoch() != journaled_epoch_) {
    journaled_epoch_ = table.epoch();
    to_journal_.emplace_back().set_spec_epoch(journaled_epoch_);
  }
  const absl::Status written = journal->Append(to_journal_);
  to_journal_.clear();
  if (absl::IsAborted(written)) Fence(written);  // otherwise it has said what follows
}

void ControlState::Fence(const absl::Status& why) {
  if (shut_down || !fenced.ok()) return;
  fenced = cancelled = why;
  if (!absl::IsCancelled(why)) MILLRACE_LOG(ERROR) << why.message();
  for (const auto& [id, stream] : streams) {
    stream.stream->Close(absl::UnavailableError(why.message()));
    to_flush.push_back(stream.stream);
  }
  streams.clear();
  observer.PostFailure(why);
  changed.SignalAll();
}

void ControlState::Restore() {
  if (journal == nullptr) return;
  Do([&](TableEffects* effects) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu) {
    const StateImage& image = journal->restored();
    for (const auto& [id, slot] : image.slots()) {
      table.Restore(id, ToSavedSlot(slot), effects);
      if (!table.Has(id)) continue;
      places[id] = slot.place();
      Node& node = NodeOf(id);
      // Where it is its agent says as it comes back; of one that has ended nobody will ask.
      if (slot.has_feed() && table.state(id) == SlotState::kFinished) node.feed.emplace();
    }
    std::stable_sort(effects->failures.begin(), effects->failures.end(),
                     [](const NodeFailure& one, const NodeFailure& other) {
                       return one.first_sign < other.first_sign;
                     });
    table.RestoreSpec(image.spec_epoch());
    std::vector<KvStore::Completion> nobody;
    for (const auto& [key, value] : image.kv()) kv.Set(key, value, &nobody).IgnoreError();
    for (const auto& [id, answers] : image.answers()) {
      for (const v1::AnswerRecord& answer : answers) {
        if (!table.Has(id) || answer.attempt() != table.attempt(id)) continue;
        if (answer.has_kv()) {
          NodeOf(id).adds.emplace_back(answer.kv().request_id(), answer.kv());
        } else {
          NodeOf(id).passed.push_back(answer.barrier());
        }
      }
    }
    if (image.cancel().has_value()) {
      cancelled = absl::CancelledError(image.cancel()->reason());
      if (image.cancel()->by_operator()) stop_request = cancelled;
    }
    feed_ends = image.feed_ends();
    ended_queues = image.ended_queues();
  });
}

// ---- messages -----------------------------------------------------------------------------------

void ControlState::SendBytes(uint64_t stream_id, const grpc::ByteBuffer& bytes) {
  auto it = streams.find(stream_id);
  if (it == streams.end()) return;
  if (!it->second.registered && it->second.executor_id >= 0) {
    it->second.early.push_back(bytes);
    return;
  }
  it->second.stream->Enqueue(bytes);
  if (to_flush.empty() || to_flush.back() != it->second.stream) {
    to_flush.push_back(it->second.stream);
  }
}

void ControlState::Send(uint64_t stream_id, const v1::CoordinatorMessage& message) {
  SendBytes(stream_id, SerializeMessage(message));
}

void ControlState::SendToFed(const v1::CoordinatorMessage& message) {
  const grpc::ByteBuffer bytes = SerializeMessage(message);
  for (const auto& [id, stream] : streams) {
    if (stream.registered && IsFedRole(options.roles[stream.executor_id].job_name)) {
      SendBytes(id, bytes);
    }
  }
}

const grpc::ByteBuffer& ControlState::WholeSpec(SpecFormat format) {
  EncodedSpec& encoded = whole_specs_[format];
  if (encoded.epoch != table.epoch()) {
    v1::CoordinatorMessage message;
    *message.mutable_spec() = MakeSpecUpdate(table.spec(), table.epoch(), format);
    encoded = {table.epoch(), SerializeMessage(message)};
    ++specs_encoded;
  }
  return encoded.bytes;
}

void ControlState::SendEqualGrants() {
  for (const EqualGrant& grant : equal.TakeGrants()) {
    const uint64_t stream_id = table.stream(grant.executor_id);
    if (stream_id != 0) SendEqualGrant(stream_id, grant);
  }
}

void ControlState::SendEqualGrant(uint64_t stream_id, const EqualGrant& grant) {
  v1::CoordinatorMessage message;
  v1::EqualGrant& told = *message.mutable_equal_grant();
  told.set_queue(grant.queue);
  told.set_feed_id(grant.feed_id);
  told.set_generation(grant.generation);
  told.set_steps(grant.steps);
  told.set_last(grant.last);
  told.set_question(grant.question);
  if (!grant.error.ok()) *told.mutable_error() = ToErrorProto(grant.error);
  told.set_fatal(grant.fatal);
  Send(stream_id, message);
}

// What a node that begins has missed.
void ControlState::SendFeedState(uint64_t stream_id) {
  for (const v1::FeedEnd& feed_end : feed_ends) {
    v1::CoordinatorMessage again;
    *again.mutable_feed_end() = feed_end;
    Send(stream_id, again);
  }
  for (const std::string& queue : ended_queues) {
    v1::CoordinatorMessage again;
    again.mutable_end_feed()->set_queue(queue);
    Send(stream_id, again);
  }
  if (const auto stream = streams.find(stream_id); stream != streams.end()) {
    for (const EqualGrant& grant : equal.GrantsOf(stream->second.executor_id)) {
      SendEqualGrant(stream_id, grant);
    }
  }
  v1::CoordinatorMessage keys;
  auto& by_principal = *keys.mutable_feeder_keys()->mutable_keys();
  for (const auto& [principal, key] : feeder_keys) {
    by_principal[principal] = key;
    if (by_principal.size() == kMaxFeederKeysPerMessage) {
      Send(stream_id, keys);
      by_principal.clear();
    }
  }
  if (!by_principal.empty()) Send(stream_id, keys);
}

void ControlState::ReplyKv(const std::vector<KvStore::Completion>& completions) {
  for (const KvStore::Completion& completion : completions) {
    v1::CoordinatorMessage message;
    *message.mutable_kv() = ToKvReply(completion.waiter.request_id, completion.result);
    Send(completion.waiter.owner, message);
  }
}

void ControlState::ReplyBarrier(const std::vector<BarrierSet::Completion>& completions) {
  for (const BarrierSet::Completion& completion : completions) {
    v1::CoordinatorMessage message;
    message.mutable_barrier()->set_request_id(completion.waiter.request_id);
    if (!completion.status.ok()) {
      *message.mutable_barrier()->mutable_error() = ToErrorProto(completion.status);
    }
    Send(completion.waiter.owner, message);
  }
}

void ControlState::DropStream(uint64_t stream_id) {
  streams.erase(stream_id);
  kv.DropOwner(stream_id);
  barriers.DropOwner(stream_id);
}

// ---- reading ------------------------------------------------------------------------------------

ControlState::Node& ControlState::NodeOf(int executor_id) {
  Node& node = nodes[executor_id];
  if (node.attempt != table.attempt(executor_id)) {
    node = {.attempt = table.attempt(executor_id)};
  }
  return node;
}

SlotStatus ControlState::StatusOf(int executor_id) const {
  SlotStatus status = table.Status(executor_id);
  const Node& node = nodes[executor_id];
  status.has_feed = node.attempt == status.attempt && node.feed.has_value();
  return status;
}

absl::Status ControlState::CauseOfSlot(int executor_id) const {
  const SlotStatus slot = table.Status(executor_id);
  if (slot.error.ok()) return absl::OkStatus();
  const NodeFailure* cause = causes.cause();
  if (cause != nullptr && cause->executor_id == executor_id && cause->attempt == slot.attempt) {
    return causes.status();
  }
  return absl::Status(slot.error.code(),
                      absl::StrCat(slot.role.ToString(), " (executor ", executor_id, ", attempt ",
                                   slot.attempt, ") ", slot.error.message()));
}

bool ControlState::Matches(NodeFilter filter, int executor_id) const {
  if (filter == NodeFilter::kAll) return true;
  const std::string& job = options.roles[executor_id].job_name;
  if (filter == NodeFilter::kEvaluator) return job == "evaluator";
  return IsFedRole(job) == (filter == NodeFilter::kFed);
}

void ControlState::WakeTimerFor(absl::Duration deadline) {
  if (deadline >= timer_wakes_at) return;
  timer_wakes_at = deadline;
  timer_wake.Signal();
}

// ---- waiting ------------------------------------------------------------------------------------

std::optional<absl::Status> ControlState::WaitFor(
    absl::Duration timeout, absl::FunctionRef<std::optional<absl::Status>()> done) {
  const absl::Duration deadline = clock->SteadyNow() + timeout;
  for (;;) {
    if (std::optional<absl::Status> status = done(); status.has_value()) return status;
    const absl::Duration left = deadline - clock->SteadyNow();
    if (left <= absl::ZeroDuration()) return std::nullopt;
    // Nobody tells of what follows from time alone, as the end of a lease: look once a second.
    changed.WaitWithTimeout(&mu, std::min(left, absl::Seconds(1)));
  }
}

std::optional<absl::Status> ControlState::Interrupted() const {
  if (causes.cause() != nullptr) return causes.status();
  if (!cancelled.ok()) return cancelled;
  if (shut_down) return absl::CancelledError("the coordinator was shut down");
  return std::nullopt;
}

}  // namespace millrace
