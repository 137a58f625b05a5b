#include "core/coordinator/server/feed_control.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <tuple>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "core/balance/node_load.h"
#include "core/base/mutex.h"
#include "core/base/text.h"
#include "core/coordinator/server/gateway_conversion.h"
#include "core/coordinator/view/wire_conversion.h"

namespace millrace {
namespace {

constexpr size_t kMaxFeedEnds = 64;
constexpr size_t kMaxFeeders = 16'384;
constexpr size_t kCurveKeyCharacters = 40;
constexpr int kMaxFedNodes = 4096;  // of one message
constexpr int kMaxTakenSessions = 1024;

bool IsFeederPrincipal(absl::string_view text) {
  return absl::StartsWith(text, "feeder/") && text.size() > 7 && text.size() <= 64 &&
         std::all_of(text.begin(), text.end(), [](char c) {
           return absl::ascii_isalnum(static_cast<unsigned char>(c)) ||
                  absl::StrContains("/_.:-", c);
         });
}

absl::Status NoFeeder(absl::string_view principal) {
  return absl::InvalidArgumentError(absl::StrCat("\"", Ellipsize(EscapeControls(principal), 80),
                                                 "\" is no principal of a feeder: \"feeder/\" and "
                                                 "more, at most 64 bytes of A-Z a-z 0-9 /_.:-"));
}

// Of a partition, as far as those that were begun say.
double UsualRows(const FeedSummary& feed) {
  const int64_t begun = feed.feeding + feed.received + feed.done;
  return static_cast<double>(feed.rows_received) / static_cast<double>(std::max<int64_t>(1, begun));
}

// 40 characters of Z85.
bool IsCurveKey(absl::string_view text) {
  return text.size() == kCurveKeyCharacters && std::all_of(text.begin(), text.end(), [](char c) {
           return absl::ascii_isalnum(static_cast<unsigned char>(c)) ||
                  absl::StrContains(".-:+=^!/*?&<>()[]{}@%$#", c);
         });
}

}  // namespace

absl::StatusOr<FeedTarget> FeedControl::Lookup(int executor_id) const {
  if (absl::Status fed = CheckFed(executor_id); !fed.ok()) return fed;
  MutexLock lock(&state_->mu);
  return TargetOf(executor_id);
}

// Chooses among all fed nodes for each partition: copies nothing.
FeedTarget::State FeedControl::TargetState(int executor_id) const {
  switch (state_->table.state(executor_id)) {
    case SlotState::kFinished:
      return FeedTarget::State::kFinished;
    case SlotState::kFailed:
    case SlotState::kLost:
      return state_->table.AwaitsReplacement(executor_id) ? FeedTarget::State::kRestarting
                                                          : FeedTarget::State::kFailed;
    default:
      break;
  }
  const ControlState::Node& node = state_->nodes[executor_id];
  const uint32_t attempt = state_->table.attempt(executor_id);
  if (node.attempt == attempt && node.feed.has_value()) return FeedTarget::State::kRunning;
  return attempt > 0 ? FeedTarget::State::kRestarting : FeedTarget::State::kStarting;
}

FeedTarget FeedControl::TargetOf(int executor_id) const {
  const ControlState::Node& node = state_->nodes[executor_id];
  FeedTarget target;
  target.state = TargetState(executor_id);
  target.executor_id = executor_id;
  target.node = state_->table.role(executor_id).ToString();
  target.attempt = state_->table.attempt(executor_id);
  target.host = state_->table.host(executor_id);
  if (target.state != FeedTarget::State::kRunning) return target;
  target.nonce = state_->table.nonce(executor_id);
  target.tcp_endpoint = node.feed->tcp();
  target.ipc_endpoint = node.feed->ipc();
  target.key = node.feed->key();
  target.curve_endpoint = node.feed->curve();
  target.curve_key = node.feed->curve_key();
  return target;
}

absl::Status FeedControl::CheckFed(int executor_id) const {
  if (executor_id < 0 || executor_id >= static_cast<int>(state_->options.roles.size())) {
    return absl::NotFoundError(absl::StrCat("no executor ", executor_id));
  }
  if (!IsFedRole(state_->options.roles[executor_id].job_name)) {
    return absl::FailedPreconditionError(absl::StrCat(state_->options.roles[executor_id].ToString(),
                                                      " (executor ", executor_id, ") is not fed"));
  }
  return absl::OkStatus();
}

// ---- the ledger ---------------------------------------------------------------------------------

void FeedControl::FeedEnd(absl::string_view feed_id, bool aborted) {
  state_->Do([&](TableEffects* /*effects*/) ABSL_EXCLUSIVE_LOCKS_REQUIRED(state_->mu) {
    v1::CoordinatorMessage message;
    message.mutable_feed_end()->set_feed_id(std::string(feed_id));
    message.mutable_feed_end()->set_aborted(aborted);
    state_->feed_ends.push_back(message.feed_end());
    if (state_->feed_ends.size() > kMaxFeedEnds) state_->feed_ends.pop_front();
    v1::StateRecord record;
    *record.mutable_feed_end() = message.feed_end();
    state_->Journal(std::move(record));
    state_->SendToFed(message);
  });
}

void FeedControl::EndFeed(absl::string_view queue) {
  state_->Do([&](TableEffects* /*effects*/) ABSL_EXCLUSIVE_LOCKS_REQUIRED(state_->mu) {
    if (std::find(state_->ended_queues.begin(), state_->ended_queues.end(), queue) !=
        state_->ended_queues.end())
      return;
    state_->ended_queues.push_back(std::string(queue));
    v1::CoordinatorMessage message;
    message.mutable_end_feed()->set_queue(std::string(queue));
    v1::StateRecord record;
    *record.mutable_end_feed() = message.end_feed();
    state_->Journal(std::move(record));
    state_->SendToFed(message);
  });
}

absl::Status FeedControl::OpenFeed(absl::string_view feed_id, absl::string_view queue,
                                   int64_t num_partitions) {
  const std::vector<std::string>& queues = state_->options.feed.queues;
  if (std::find(queues.begin(), queues.end(), queue) == queues.end()) {
    return absl::NotFoundError(absl::StrCat("feed ", feed_id, ": no queue \"", queue,
                                            "\"; there are: ", absl::StrJoin(queues, ", ")));
  }
  MutexLock lock(&state_->mu);
  const bool known = ledger_.Summary(feed_id).ok();
  std::string removed;
  const absl::Status status = ledger_.Open(feed_id, queue, num_partitions, &removed);
  if (!removed.empty()) state_->recorder->FeedRemoved(removed);
  if (status.ok() && !known) {
    balance_.ForgetAllowances();
    if (journaled_.contains(feed_id)) RestoreFeed(feed_id);
    state_->recorder->FeedOpened(*ledger_.Summary(feed_id));
  }
  return status;
}

absl::Status FeedControl::ReportPartition(absl::string_view feed_id,
                                          const PartitionReport& report) {
  absl::Status status;
  state_->Do([&](TableEffects* /*effects*/) ABSL_EXCLUSIVE_LOCKS_REQUIRED(state_->mu) {
    status = ReportLocked(feed_id, report);
  });
  return status;
}

absl::Status FeedControl::ReportLocked(absl::string_view feed_id, const PartitionReport& report) {
  const absl::StatusOr<PartitionRecord> last = ledger_.Partition(feed_id, report.partition);
  absl::Status status = ledger_.Report(feed_id, report);
  if (!status.ok()) return status;
  const bool same_place = last.ok() && last->last.state == report.state &&
                          last->last.executor_id == report.executor_id &&
                          last->last.node_attempt == report.node_attempt;
  if (!same_place) RefreshFed(feed_id);
  const PartitionRecord record = *ledger_.Partition(feed_id, report.partition);
  if (journaled_.contains(feed_id)) {
    JournalPartition(feed_id, last.ok() ? std::optional(*last) : std::nullopt, record);
  }
  const bool refed = record.refed > (last.ok() ? last->refed : 0);
  // Rows that are fed again count where they were before.
  const int before = refed && last.ok() ? last->last.executor_id : -1;
  const FeedSummary summary = *ledger_.Summary(feed_id);
  for (const int id : {report.executor_id, before}) {
    if (id >= 0) state_->recorder->NodeFed(id, ledger_.Queues(id));
  }
  if (refed) {
    state_->recorder->PartitionRefed(summary, report.partition, report.executor_id,
                                     record.refed_reason);
  }
  state_->recorder->FeedChanged(summary);
  FeedChanged();
  return absl::OkStatus();
}

void FeedControl::CloseFeed(absl::string_view feed_id) {
  state_->Do([&](TableEffects* /*effects*/) ABSL_EXCLUSIVE_LOCKS_REQUIRED(state_->mu) {
    const absl::StatusOr<FeedSummary> before = ledger_.Summary(feed_id);
    if (!before.ok() || before->closed) return;
    ledger_.Close(feed_id);
    moves_.Forget(feed_id);
    state_->equal.Close(feed_id);
    for (const std::string& call : state_->equal.Calls()) RefreshFed(call);
    state_->SendEqualGrants();
    state_->recorder->FeedClosed(*ledger_.Summary(feed_id));
    FeedChanged();
  });
}

// ---- equal ranks --------------------------------------------------------------------------------

bool FeedControl::IsEqual(absl::string_view queue) const {
  MutexLock lock(&state_->mu);
  return state_->equal.IsEqual(queue);
}

std::map<int, int64_t> FeedControl::EqualRows(absl::string_view feed_id) const {
  MutexLock lock(&state_->mu);
  std::map<int, int64_t> rows;
  for (const int id : fed_nodes()) rows[id] = state_->equal.RowsOf(feed_id, id);
  return rows;
}

std::vector<EqualCounts> FeedControl::WaitEqualCounts(absl::string_view feed_id,
                                                      absl::Duration timeout, bool* settled) {
  bool known = false;
  if (settled == nullptr) settled = &known;
  MutexLock lock(&state_->mu);
  std::optional<std::vector<EqualCounts>> counts;
  ++waits_;
  state_->WaitFor(timeout,
                  [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(state_->mu) -> std::optional<absl::Status> {
                    counts = state_->equal.Counts(feed_id, settled);
                    const bool over = state_->shut_down || !state_->cancelled.ok();
                    if (counts.has_value() && !*settled && !over) return std::nullopt;
                    return absl::OkStatus();
                  });
  --waits_;
  return std::move(counts).value_or(std::vector<EqualCounts>());
}

void FeedControl::JoinEqual(uint64_t stream_id, int executor_id, const v1::EqualJoin& request) {
  state_->mu.AssertHeld();
  v1::CoordinatorMessage message;
  v1::EqualReply& reply = *message.mutable_equal();
  reply.set_request_id(request.request_id());
  // How far ranks are that end together is in no journal.
  const absl::Status joined =
      state_->journal != nullptr
          ? absl::UnimplementedError(
                "equally many batches for all ranks (DataFeedOptions::equal) in a cluster whose "
                "driver can be replaced (resume.state_folder): run it without the one or the other")
          : state_->equal.Join(executor_id, request.queue(),
                               {.batch_rows = request.batch_rows(), .pad = request.pad()});
  if (!joined.ok()) *reply.mutable_error() = ToErrorProto(joined);
  state_->Send(stream_id, message);
  for (const std::string& call : state_->equal.Calls()) RefreshFed(call);
  state_->SendEqualGrants();
}

void FeedControl::TellEqual(int executor_id, const v1::EqualRows& rows) {
  state_->mu.AssertHeld();
  const size_t calls = state_->equal.Calls().size();
  state_->equal.Tell(executor_id, rows.queue(), rows.feed_id(),
                     {.generation = rows.generation(),
                      .answer = rows.answer(),
                      .rows = rows.rows(),
                      .dropped = rows.dropped(),
                      .repeated = rows.repeated(),
                      .can_repeat = rows.can_repeat()});
  if (state_->equal.Calls().size() != calls) RefreshFed(rows.feed_id());
  state_->SendEqualGrants();
  FeedChanged();
}

void FeedControl::RefreshFed(absl::string_view feed_id) {
  const std::vector<std::string> calls = state_->equal.Calls();
  if (std::find(calls.begin(), calls.end(), feed_id) == calls.end()) return;
  const absl::StatusOr<FeedSummary> feed = ledger_.Summary(feed_id);
  if (!feed.ok() || feed->closed) return;
  // While a partition has no node, any of them may get it.
  const bool all_given = feed->pending == 0 && feed->failed == 0;
  std::set<int> unfed;
  if (all_given) {
    for (const PartitionReport& open : ledger_.OpenSessions(feed_id)) {
      const bool received = open.state == PartitionState::kReceived &&
                            open.node_attempt == state_->table.attempt(open.executor_id);
      if (!received) unfed.insert(open.executor_id);
    }
  }
  for (const int id : fed_nodes()) {
    state_->equal.SetFed(feed_id, id, all_given && unfed.count(id) == 0);
  }
  state_->SendEqualGrants();
}

int FeedControl::ChooseRank(const FeedSummary& feed, const std::vector<FeedCandidate>& ranks,
                            bool patient, v1::LookupReply* reply) const {
  const double usual_rows = std::max(1.0, UsualRows(feed));
  const auto order = [&](const FeedCandidate& rank) ABSL_EXCLUSIVE_LOCKS_REQUIRED(state_->mu) {
    const int64_t under_way = ledger_.UnderWay(feed.feed_id, rank.executor_id);
    const auto now = static_cast<double>(state_->equal.RowsOf(feed.feed_id, rank.executor_id));
    const double later = patient ? 0 : usual_rows * static_cast<double>(under_way);
    return std::tuple(now + later, under_way, !rank.near, rank.open);
  };
  const int fewest = std::min_element(ranks.begin(), ranks.end(),
                                      [&](const FeedCandidate& a, const FeedCandidate& b)
                                          ABSL_EXCLUSIVE_LOCKS_REQUIRED(state_->mu) {
                                            return order(a) < order(b);
                                          })
                         ->executor_id;
  if (!patient || ledger_.UnderWay(feed.feed_id, fewest) == 0) return fewest;
  reply->set_state(v1::LookupReply::STATE_BUSY);
  reply->set_node(TargetOf(fewest).node);
  reply->set_fewest_rows(static_cast<uint64_t>(state_->equal.RowsOf(feed.feed_id, fewest)));
  return -1;
}

// Others wait for slots and the cluster's end by the same variable, and need not look at every
// report.
void FeedControl::FeedChanged() {
  if (waits_ > 0) state_->changed.SignalAll();
}

absl::StatusOr<FeedSummary> FeedControl::WaitFeed(absl::string_view feed_id, int64_t done,
                                                  int64_t failed, absl::Duration timeout) {
  MutexLock lock(&state_->mu);
  absl::StatusOr<FeedSummary> feed;
  ++waits_;
  const std::optional<absl::Status> status = state_->WaitFor(
      timeout, [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(state_->mu) -> std::optional<absl::Status> {
        if (std::optional<absl::Status> cause = state_->Interrupted(); cause.has_value()) {
          return cause;
        }
        feed = ledger_.Summary(feed_id);
        if (!feed.ok()) return feed.status();
        if (feed->done < done && feed->failed == failed && !feed->closed) return std::nullopt;
        return absl::OkStatus();
      });
  --waits_;
  if (status.has_value() && !status->ok()) return *status;
  return feed;
}

void FeedControl::WithLedger(absl::FunctionRef<void(const FeedLedger&)> body) const {
  MutexLock lock(&state_->mu);
  body(ledger_);
}

// ---- feeders outside of the driver --------------------------------------------------------------

bool FeedControl::Reads(int executor_id, const std::string& queue) const {
  const std::vector<std::string>& done = state_->nodes[executor_id].done_queues;
  return TargetState(executor_id) == FeedTarget::State::kRunning &&
         std::find(done.begin(), done.end(), queue) == done.end();
}

int FeedControl::ChooseNode(const FeedSummary& feed, const v1::LookupRequest& request,
                            v1::LookupReply* reply) {
  std::vector<FeedCandidate> candidates;
  int starting = -1, restarting = -1, failed = -1;
  for (const int id : fed_nodes()) {
    switch (TargetState(id)) {
      case FeedTarget::State::kStarting:
        starting = id;
        continue;
      case FeedTarget::State::kRestarting:
        restarting = id;
        continue;
      case FeedTarget::State::kFailed:
        failed = id;
        continue;
      case FeedTarget::State::kFinished:
        continue;
      case FeedTarget::State::kRunning:
        break;
    }
    if (!Reads(id, feed.queue)) continue;
    candidates.push_back(
        {.executor_id = id,
         .near = !request.host().empty() && state_->table.host(id) == request.host(),
         .open = ledger_.OpenOn(id)});
  }
  if (!candidates.empty()) {
    if (state_->equal.IsEqual(feed.queue)) {
      return ChooseRank(feed, candidates, request.patient(), reply);
    }
    const std::optional<int> chosen =
        balance_.Choose(state_->clock->SteadyNow(), candidates, UsualRows(feed), request.patient());
    if (!chosen.has_value()) reply->set_state(v1::LookupReply::STATE_BUSY);
    return chosen.value_or(-1);
  }
  // Nobody reads now: what may change comes first.
  if (restarting >= 0) {
    reply->set_state(v1::LookupReply::STATE_RESTARTING);
  } else if (starting >= 0) {
    reply->set_state(v1::LookupReply::STATE_STARTING);
  } else if (failed >= 0) {
    reply->set_state(v1::LookupReply::STATE_FAILED);
    return failed;
  } else {
    reply->set_state(v1::LookupReply::STATE_FINISHED);
  }
  return -1;
}

absl::Status FeedControl::LookupPartition(const v1::LookupRequest& request,
                                          v1::LookupReply* reply) {
  MutexLock lock(&state_->mu);
  absl::StatusOr<FeedSummary> feed = ledger_.Summary(request.feed_id());
  if (!feed.ok()) return feed.status();
  if (feed->closed) {
    return absl::FailedPreconditionError(
        absl::StrCat("feed ", request.feed_id(), " has ended: nothing of it is fed any more"));
  }
  if (absl::Status status = ledger_.CheckPartition(request.feed_id(), request.partition());
      !status.ok()) {
    return status;
  }
  const absl::StatusOr<PartitionRecord> record =
      ledger_.Partition(request.feed_id(), request.partition());
  reply->set_partition_state(
      ToPartitionStateProto(record.ok() ? record->last.state : PartitionState::kPending));
  if (record.ok() && !record->last.error.ok()) {
    *reply->mutable_partition_error() = ToErrorProto(record->last.error);
  }
  if (const NodeFailure* cause = state_->causes.cause(); cause != nullptr) {
    // Nodes that still run end with the cluster: nothing more is fed to them.
    reply->set_state(v1::LookupReply::STATE_FAILED);
    reply->set_executor_id(cause->executor_id);
    reply->set_node(cause->role.ToString());
    return absl::OkStatus();
  }
  reply->set_level(state_->equal.IsEqual(feed->queue));
  int id = -1;
  if (request.has_executor_id()) {
    id = request.executor_id();
    if (absl::Status fed = CheckFed(id); !fed.ok()) return fed;
  } else {
    // A task that asks again is sent to the same node, as long as that node reads.
    const std::optional<int> before = ledger_.Assigned(request.feed_id(), request.partition());
    if (before.has_value() && Reads(*before, feed->queue)) {
      id = *before;
    } else {
      id = ChooseNode(*feed, request, reply);
    }
    if (id < 0) {
      reply->set_executor_id(-1);
      return absl::OkStatus();
    }
    ledger_.Assign(request.feed_id(), request.partition(), id);
  }
  const FeedTarget target = TargetOf(id);
  reply->set_state(ToLookupState(target.state));
  reply->set_executor_id(id);
  reply->set_node(target.node);
  reply->set_attempt(target.attempt);
  reply->set_host(target.host);
  if (target.state != FeedTarget::State::kRunning) return absl::OkStatus();
  reply->set_nonce(target.nonce);
  reply->mutable_endpoint()->set_tcp(target.tcp_endpoint);
  reply->mutable_endpoint()->set_ipc(target.ipc_endpoint);
  reply->mutable_endpoint()->set_key(target.key);
  reply->mutable_endpoint()->set_curve(target.curve_endpoint);
  reply->mutable_endpoint()->set_curve_key(target.curve_key);
  if (record.ok() && MayResume(record->last, target))
    reply->set_resume_row(record->last.rows_acked);
  return absl::OkStatus();
}

bool FeedControl::MayResume(const PartitionReport& last, const FeedTarget& target) const {
  if (last.executor_id < 0) return false;
  if (last.executor_id == target.executor_id) return last.node_attempt == target.attempt;
  if (last.state != PartitionState::kFailed ||
      last.node_attempt != state_->table.attempt(last.executor_id)) {
    return false;
  }
  // A program that stopped reading has used what it acknowledged, and at most a batch more: the
  // rest is another's. Not so if it failed, which takes what it had learnt along.
  const bool nothing_in_doubt = last.rows_received == last.rows_acked;
  const FeedTarget::State before = TargetState(last.executor_id);
  return before == FeedTarget::State::kFinished ||
         (before == FeedTarget::State::kRunning && nothing_in_doubt);
}

absl::Status FeedControl::Cause(int executor_id, v1::CauseReply* reply) const {
  MutexLock lock(&state_->mu);
  if (!state_->table.Has(executor_id)) {
    return absl::NotFoundError(absl::StrCat("no executor ", executor_id));
  }
  const absl::Status cause = state_->CauseOfSlot(executor_id);
  if (!cause.ok()) *reply->mutable_error() = ToErrorProto(cause);
  if (state_->causes.cause() != nullptr)
    *reply->mutable_first_cause() = ToErrorProto(state_->causes.status());
  return absl::OkStatus();
}

absl::Status FeedControl::Report(const v1::ReportRequest& request) {
  if (!v1::PartitionState_IsValid(request.state()) ||
      request.state() == v1::PARTITION_STATE_UNSPECIFIED) {
    return absl::InvalidArgumentError("ReportRequest.state is unset or unknown");
  }
  const bool somewhere = request.state() != v1::PARTITION_STATE_PENDING &&
                         request.state() != v1::PARTITION_STATE_FAILED;
  if (somewhere || request.executor_id() >= 0) {
    if (absl::Status fed = CheckFed(request.executor_id()); !fed.ok()) return fed;
  }
  const PartitionReport report = ToPartitionReport(request);
  {
    MutexLock lock(&state_->mu);
    const absl::StatusOr<PartitionRecord> record =
        ledger_.Partition(request.feed_id(), request.partition());
    if (record.ok() && record->last.feeder_attempt > report.feeder_attempt) {
      return absl::AbortedError(
          absl::StrCat("feed ", request.feed_id(), ", partition ", request.partition(),
                       ": attempt ", record->last.feeder_attempt, " of the feeder has it, this is ",
                       report.feeder_attempt, ": end this one"));
    }
  }
  return ReportPartition(request.feed_id(), report);
}

absl::Status FeedControl::Pace(const v1::PaceRequest& request, v1::PaceReply* reply) {
  if (!IsFeederPrincipal(request.feeder())) return NoFeeder(request.feeder());
  if (request.nodes_size() > kMaxFedNodes) {
    return absl::InvalidArgumentError(
        absl::StrCat("PaceRequest has ", request.nodes_size(), " nodes: at most ", kMaxFedNodes));
  }
  for (const v1::FedNode& node : request.nodes()) {
    if (absl::Status fed = CheckFed(node.executor_id()); !fed.ok()) return fed;
  }
  MutexLock lock(&state_->mu);
  const absl::Duration now = state_->clock->SteadyNow();
  for (const v1::FedNode& node : request.nodes()) {
    balance_.Tell(now, request.feeder(), ToFeederLoad(node));
    const std::optional<int64_t> room = balance_.Room(node.executor_id(), request.feeder());
    if (!room.has_value()) continue;
    v1::FedNodeRoom& told = *reply->add_rooms();
    told.set_executor_id(node.executor_id());
    told.set_rows(static_cast<uint64_t>(*room));
  }
  if (state_->causes.cause() != nullptr) return absl::OkStatus();
  for (const std::string& feed_id : ledger_.OpenFeeds()) {
    // Ranks that end together keep what they have.
    if (state_->equal.IsEqual(ledger_.Summary(feed_id)->queue)) continue;
    if (moves_.IsDue(now, feed_id)) PlanMoves(now, feed_id);
    for (const TakeBack& move : moves_.Of(feed_id)) {
      const bool asked = std::any_of(
          request.nodes().begin(), request.nodes().end(),
          [&](const v1::FedNode& node) { return node.executor_id() == move.executor_id; });
      if (!asked || reply->take_back_size() >= kMaxTakenSessions) continue;
      v1::TakenSession& taken = *reply->add_take_back();
      taken.set_feed_id(feed_id);
      taken.set_partition(move.partition);
      taken.set_feeder_attempt(move.feeder_attempt);
    }
  }
  return absl::OkStatus();
}

void FeedControl::PlanMoves(absl::Duration now, const std::string& feed_id) {
  const FeedSummary feed = *ledger_.Summary(feed_id);
  std::map<int, NodeLoad> loads;
  for (const int id : fed_nodes()) {
    if (Reads(id, feed.queue)) loads[id] = balance_.Load(id);
  }
  const double usual = UsualRows(feed);
  moves_.Plan(now, feed_id, ledger_.OpenSessions(feed_id), loads, usual,
              ledger_.FailedRows(feed_id, usual), /*complete=*/feed.pending == 0);
}

absl::Status FeedControl::Announce(absl::string_view principal, absl::string_view curve_key) {
  if (!IsFeederPrincipal(principal)) return NoFeeder(principal);
  if (!IsCurveKey(curve_key)) {
    return absl::InvalidArgumentError(
        absl::StrCat("the CURVE key of ", principal, " must be ", kCurveKeyCharacters,
                     " characters of Z85; found ", curve_key.size(), " bytes that are none"));
  }
  absl::Status status;
  state_->Do([&](TableEffects* /*effects*/) ABSL_EXCLUSIVE_LOCKS_REQUIRED(state_->mu) {
    const auto known = state_->feeder_keys.find(principal);
    if (known != state_->feeder_keys.end()) {
      if (known->second != curve_key) {
        status = absl::AlreadyExistsError(
            absl::StrCat(principal, " was announced with another CURVE key"));
      }
      return;
    }
    for (const auto& [other, key] : state_->feeder_keys) {
      if (key == curve_key) {
        status = absl::AlreadyExistsError(
            absl::StrCat("the CURVE key of ", principal, " is that of ", other));
        return;
      }
    }
    if (state_->feeder_keys.size() >= kMaxFeeders) {
      status = absl::ResourceExhaustedError(absl::StrCat(
          kMaxFeeders, " feeders have announced CURVE keys in this cluster: no more are taken"));
      return;
    }
    state_->feeder_keys.emplace(principal, curve_key);
    v1::CoordinatorMessage message;
    (*message.mutable_feeder_keys()->mutable_keys())[std::string(principal)] =
        std::string(curve_key);
    state_->SendToFed(message);
  });
  return status;
}

}  // namespace millrace
