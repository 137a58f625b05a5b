#include "core/coordinator/state/feed_ledger.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace millrace {
namespace {

// The difference of two numbers that never fall; unsigned arithmetic mends itself where one does.
void AddGrowth(const FeederStages& now, const FeederStages& before, FeederStages* sum) {
  sum->source_us += now.source_us - before.source_us;
  sum->encode_us += now.encode_us - before.encode_us;
  sum->credit_us += now.credit_us - before.credit_us;
  sum->wire_us += now.wire_us - before.wire_us;
}

bool IsOpen(const PartitionReport& report) {
  return report.state == PartitionState::kFeeding || report.state == PartitionState::kReceived;
}

// The session has ended, and what its node may have used it has used for certain.
bool LeftNothingInDoubt(const PartitionReport& last) {
  return last.state == PartitionState::kFailed && last.rows_received == last.rows_acked;
}

// Whether the session begins at the row at which the previous one ended, and no row of that one is
// in doubt.
bool GoesOnAfter(const PartitionReport& last, const PartitionReport& report) {
  return LeftNothingInDoubt(last) && report.first_row == last.rows_acked;
}

// A takeover that its feeder gives no reason for.
constexpr absl::string_view kTakenOver = "another session took the partition over";

constexpr absl::string_view kEarlierDriver = "under an earlier driver";

// Every row has its result: whoever runs the partition once more begins a new execution.
bool IsReturned(const PartitionReport& report) {
  return report.state == PartitionState::kDone && report.rows_returned > 0;
}

// Rows of the session itself.
uint64_t Own(uint64_t rows, const PartitionReport& report) {
  return rows - std::min(rows, report.first_row);
}

}  // namespace

bool FeedLedger::MakeRoom(std::string* removed) {
  if (static_cast<int>(order_.size()) < kMaxFeeds) return true;
  for (auto it = order_.begin(); it != order_.end(); ++it) {
    auto feed = feeds_.find(*it);
    if (!feed->second.summary.closed) continue;
    feeds_.erase(feed);
    if (removed != nullptr) *removed = *it;
    order_.erase(it);
    return true;
  }
  return false;
}

absl::Status FeedLedger::Open(absl::string_view feed_id, absl::string_view queue,
                              int64_t num_partitions, std::string* removed) {
  if (feed_id.empty()) return absl::InvalidArgumentError("feed_id is empty");
  if (num_partitions < 0 || num_partitions > kMaxPartitions) {
    return absl::InvalidArgumentError(absl::StrCat("feed ", feed_id, ": ", num_partitions,
                                                   " partitions: must be in 0..", kMaxPartitions));
  }
  if (auto it = feeds_.find(feed_id); it != feeds_.end()) {
    if (it->second.summary.queue == queue && it->second.announced == num_partitions &&
        !it->second.summary.closed) {
      return absl::OkStatus();
    }
    return absl::AlreadyExistsError(absl::StrCat(
        "feed ", feed_id, " was opened before, for queue ", it->second.summary.queue, " with ",
        it->second.announced, " partitions", it->second.summary.closed ? ", and has ended" : ""));
  }
  if (!MakeRoom(removed)) {
    return absl::ResourceExhaustedError(
        absl::StrCat("feed ", feed_id, ": ", kMaxFeeds, " feeds are open; close some"));
  }
  Feed& feed = feeds_[feed_id];
  feed.announced = num_partitions;
  feed.summary.feed_id = std::string(feed_id);
  feed.summary.queue = std::string(queue);
  order_.push_back(std::string(feed_id));
  return absl::OkStatus();
}

void FeedLedger::Count(const PartitionRecord& record, int sign, Feed* feed) {
  FeedSummary* summary = &feed->summary;
  switch (record.last.state) {
    case PartitionState::kPending:
      break;  // pending is what is left
    case PartitionState::kFeeding:
      summary->feeding += sign;
      feed->under_way[record.last.executor_id] += sign;
      break;
    case PartitionState::kReceived:
      summary->received += sign;
      break;
    case PartitionState::kDone:
      summary->done += sign;
      break;
    case PartitionState::kFailed:
      summary->failed += sign;
      break;
  }
  // Unsigned arithmetic: adding and taking away the same numbers meets again.
  const uint64_t factor = static_cast<uint64_t>(int64_t{sign});
  summary->rows_received += factor * record.last.rows_received;
  summary->rows_acked += factor * record.last.rows_acked;
  summary->rows_returned += factor * record.last.rows_returned;
  summary->rows_refed += factor * record.rows_refed;
  if (record.refed > 0) summary->partitions_refed += sign;
  if (IsOpen(record.last)) CountOpen(record.last.executor_id, sign);
}

void FeedLedger::CountOpen(int executor_id, int by) {
  if ((open_[executor_id] += by) == 0) open_.erase(executor_id);
}

void FeedLedger::Unassign(Feed& feed, int64_t partition) {
  const auto it = feed.assigned.find(partition);
  if (it == feed.assigned.end()) return;
  CountOpen(it->second, -1);
  --feed.under_way[it->second];
  feed.assigned.erase(it);
}

void FeedLedger::Assign(absl::string_view feed_id, int64_t partition, int executor_id) {
  const auto it = feeds_.find(feed_id);
  if (it == feeds_.end() || it->second.summary.closed) return;
  Feed& feed = it->second;
  Unassign(feed, partition);
  const auto record = feed.partitions.find(partition);
  const bool counted = record != feed.partitions.end() &&
                       record->second.last.executor_id == executor_id &&
                       IsOpen(record->second.last);
  if (counted) return;
  feed.assigned[partition] = executor_id;
  CountOpen(executor_id, +1);
  ++feed.under_way[executor_id];
}

std::optional<int> FeedLedger::Assigned(absl::string_view feed_id, int64_t partition) const {
  const auto it = feeds_.find(feed_id);
  if (it == feeds_.end()) return std::nullopt;
  const Feed& feed = it->second;
  if (const auto at = feed.assigned.find(partition); at != feed.assigned.end()) return at->second;
  const auto record = feed.partitions.find(partition);
  if (record == feed.partitions.end()) return std::nullopt;
  const PartitionReport& last = record->second.last;
  if (last.executor_id < 0 || LeftNothingInDoubt(last)) return std::nullopt;
  return last.executor_id;
}

int64_t FeedLedger::OpenOn(int executor_id) const {
  const auto it = open_.find(executor_id);
  return it == open_.end() ? 0 : it->second;
}

void FeedLedger::CountSession(const PartitionReport& report, const PartitionReport& before,
                              Feed* feed) {
  AddGrowth(report.stages, before.stages, &feed->summary.stages);
  if (report.executor_id < 0) return;
  QueueLedger& queue = queues_[report.executor_id][feed->summary.queue];
  queue.rows_received += Own(report.rows_received, report) - Own(before.rows_received, before);
  queue.rows_acked += Own(report.rows_acked, report) - Own(before.rows_acked, before);
  queue.rows_returned += Own(report.rows_returned, report) - Own(before.rows_returned, before);
  AddGrowth(report.stages, before.stages, &queue.stages);
}

void FeedLedger::CountRefed(int executor_id, const std::string& reason, uint64_t rows, Feed* feed) {
  if (executor_id >= 0) queues_[executor_id][feed->summary.queue].rows_refed += rows;
  std::vector<RefedSummary>& refed = feed->summary.refed;
  auto entry = std::find_if(refed.begin(), refed.end(), [&](const RefedSummary& other) {
    return other.executor_id == executor_id && other.reason == reason;
  });
  if (entry == refed.end() && refed.size() > kMaxReasons) entry = refed.end() - 1;
  if (entry == refed.end()) {
    const bool last = refed.size() == kMaxReasons;
    refed.push_back({.executor_id = last ? -1 : executor_id,
                     .reason = last ? "other nodes and reasons" : reason});
    entry = refed.end() - 1;
  }
  ++entry->times;
  entry->rows += rows;
}

std::vector<QueueLedger> FeedLedger::Queues(int executor_id) const {
  std::vector<QueueLedger> queues;
  const auto node = queues_.find(executor_id);
  if (node == queues_.end()) return queues;
  for (const auto& [name, queue] : node->second) {
    queues.push_back(queue);
    queues.back().queue = name;
  }
  return queues;
}

absl::Status FeedLedger::Report(absl::string_view feed_id, const PartitionReport& report) {
  auto it = feeds_.find(feed_id);
  if (it == feeds_.end()) return absl::NotFoundError(absl::StrCat("no feed ", feed_id));
  Feed& feed = it->second;
  if (feed.summary.closed) {
    return absl::FailedPreconditionError(absl::StrCat("feed ", feed_id, " has ended"));
  }
  if (report.partition < 0 || report.partition >= kMaxPartitions) {
    return absl::InvalidArgumentError(absl::StrCat(
        "feed ", feed_id, ": partition ", report.partition, " is outside 0..", kMaxPartitions - 1));
  }
  if (report.rows_acked > report.rows_received) {
    return absl::InvalidArgumentError(
        absl::StrCat("feed ", feed_id, ", partition ", report.partition, ": ", report.rows_acked,
                     " rows acknowledged of ", report.rows_received, " received"));
  }
  auto [entry, is_new] = feed.partitions.try_emplace(report.partition);
  PartitionRecord& record = entry->second;
  const bool new_session = is_new || report.feeder_attempt > record.last.feeder_attempt;
  if (!is_new) {
    if (report.feeder_attempt < record.last.feeder_attempt) return absl::OkStatus();
    Count(record, -1, &feed);
  }
  if (new_session) ++record.sessions;
  // A session that resumes counts the rows before it as its own. Rows that the previous session had
  // sent beyond that are sent again, whether the feeder says so or not.
  const uint64_t rows = Own(std::max(record.last.rows_received, report.rows_before), report);
  if (new_session && !GoesOnAfter(record.last, report) &&
      ((!report.refed_reason.empty() && report.refed_all == 0) ||
       (rows > 0 && !IsReturned(record.last)))) {
    ++record.refed;
    record.rows_refed += rows;
    record.refed_reason =
        report.refed_reason.empty() ? std::string(kTakenOver) : report.refed_reason.substr(0, 1024);
    CountRefed(is_new ? report.executor_id : record.last.executor_id, record.refed_reason, rows,
               &feed);
  }
  // A report of the same attempt about another node: the session before it came to nothing.
  const bool goes_on = !new_session && report.executor_id == record.last.executor_id;
  CountSession(report, goes_on ? record.last : PartitionReport(), &feed);
  record.last = report;
  record.last.refed_reason.clear();  // kept once, above
  if (report.refed_all > 0) {
    record.refed_from =
        record.refed_all == 0 ? report.refed_from : std::min(report.refed_from, record.refed_from);
    record.refed_all = std::max(report.refed_all, record.refed_all);
    if (!report.refed_reason.empty()) record.refed_reason = report.refed_reason.substr(0, 1024);
    record.refed = std::max(1, record.refed);
  }
  const bool is_open = IsOpen(report);
  if (record.refed_all > 0 && !is_open) {
    const uint64_t all = report.rows_received - std::min(record.refed_from, report.rows_received);
    const uint64_t times = static_cast<uint64_t>(std::exchange(record.refed_all, 0));
    record.rows_refed += times * all;
    CountRefed(report.executor_id, record.refed_reason, times * all, &feed);
  }
  Count(record, +1, &feed);
  Unassign(feed, report.partition);
  const auto keep = [&](bool is_member, std::set<int64_t>* set) {
    if (is_member) {
      set->insert(report.partition);
    } else {
      set->erase(report.partition);
    }
  };
  keep(record.last.state == PartitionState::kFailed, &feed.failed);
  keep(is_open, &feed.open);
  if (record.refed > 0) feed.refed.insert(report.partition);
  return absl::OkStatus();
}

void FeedLedger::Restore(absl::string_view feed_id, const PartitionRecord& known) {
  const auto it = feeds_.find(feed_id);
  if (it == feeds_.end() || it->second.summary.closed) return;
  Feed& feed = it->second;
  const auto [entry, is_new] = feed.partitions.try_emplace(known.last.partition);
  if (!is_new) return;
  PartitionRecord& record = entry->second;
  record.last = known.last;
  record.sessions = 1;
  record.rows_refed = known.rows_refed;
  record.refed_all = known.refed_all;
  record.refed_from = known.refed_from;
  record.refed_reason = std::string(kEarlierDriver);
  record.refed = known.rows_refed > 0 || known.refed_all > 0 ? 1 : 0;
  if (record.rows_refed > 0) CountRefed(-1, record.refed_reason, record.rows_refed, &feed);
  if (record.refed > 0) feed.refed.insert(known.last.partition);
  if (IsOpen(record.last)) feed.open.insert(known.last.partition);
  Count(record, +1, &feed);
}

absl::Status FeedLedger::CheckPartition(absl::string_view feed_id, int64_t partition) const {
  const auto it = feeds_.find(feed_id);
  if (it == feeds_.end()) return absl::NotFoundError(absl::StrCat("no feed ", feed_id));
  const int64_t partitions = it->second.announced;
  if (partition >= 0 && partition < partitions) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("feed ", feed_id, " has no partition ", partition,
                                                 ": it was opened with ", partitions));
}

void FeedLedger::Close(absl::string_view feed_id) {
  auto it = feeds_.find(feed_id);
  if (it == feeds_.end() || it->second.summary.closed) return;
  Feed& feed = it->second;
  feed.summary = WithLists(feed);
  feed.summary.closed = true;
  while (!feed.assigned.empty()) Unassign(feed, feed.assigned.begin()->first);
  for (const int64_t partition : feed.open) {
    CountOpen(feed.partitions.at(partition).last.executor_id, -1);
  }
  feed.partitions.clear();
  feed.under_way.clear();
  feed.open.clear();
  feed.failed.clear();
  feed.refed.clear();
}

FeedSummary FeedLedger::WithLists(const Feed& feed) {
  FeedSummary summary = feed.summary;
  if (summary.closed) return summary;  // as it was when it ended
  // Partition numbers beyond the announced ones count as far as they were seen.
  const int64_t seen = static_cast<int64_t>(feed.partitions.size());
  summary.partitions = std::max(feed.announced, seen);
  summary.pending =
      summary.partitions - summary.feeding - summary.received - summary.done - summary.failed;
  summary.exactly_once = summary.partitions_refed == 0;
  const auto list = [](const std::set<int64_t>& from, std::vector<int64_t>* to) {
    for (const int64_t partition : from) {
      if (to->size() >= kMaxListed) return;
      to->push_back(partition);
    }
  };
  list(feed.failed, &summary.failed_partitions);
  list(feed.refed, &summary.refed_partitions);
  return summary;
}

absl::StatusOr<FeedSummary> FeedLedger::Summary(absl::string_view feed_id) const {
  auto it = feeds_.find(feed_id);
  if (it == feeds_.end()) return absl::NotFoundError(absl::StrCat("no feed ", feed_id));
  return WithLists(it->second);
}

std::vector<FeedSummary> FeedLedger::Summaries() const {
  std::vector<FeedSummary> summaries;
  summaries.reserve(order_.size());
  for (const std::string& id : order_) summaries.push_back(WithLists(feeds_.find(id)->second));
  return summaries;
}

std::vector<PartitionReport> FeedLedger::OpenSessions(absl::string_view feed_id) const {
  std::vector<PartitionReport> sessions;
  const auto feed = feeds_.find(feed_id);
  if (feed == feeds_.end()) return sessions;
  sessions.reserve(feed->second.open.size());
  for (const int64_t partition : feed->second.open) {
    sessions.push_back(feed->second.partitions.at(partition).last);
  }
  return sessions;
}

int64_t FeedLedger::UnderWay(absl::string_view feed_id, int executor_id) const {
  const auto feed = feeds_.find(feed_id);
  if (feed == feeds_.end()) return 0;
  const auto node = feed->second.under_way.find(executor_id);
  return node == feed->second.under_way.end() ? 0 : node->second;
}

double FeedLedger::FailedRows(absl::string_view feed_id, double usual_rows) const {
  const auto feed = feeds_.find(feed_id);
  if (feed == feeds_.end()) return 0;
  double rows = 0;
  for (const int64_t partition : feed->second.failed) {
    const PartitionReport& last = feed->second.partitions.at(partition).last;
    rows += std::max(0.0, usual_rows - static_cast<double>(last.rows_acked));
  }
  return rows;
}

std::vector<std::string> FeedLedger::OpenFeeds() const {
  std::vector<std::string> open;
  for (const std::string& id : order_) {
    if (!feeds_.find(id)->second.summary.closed) open.push_back(id);
  }
  return open;
}

absl::StatusOr<PartitionRecord> FeedLedger::Partition(absl::string_view feed_id,
                                                      int64_t partition) const {
  auto it = feeds_.find(feed_id);
  if (it == feeds_.end()) return absl::NotFoundError(absl::StrCat("no feed ", feed_id));
  auto record = it->second.partitions.find(partition);
  if (record == it->second.partitions.end()) {
    return absl::NotFoundError(
        absl::StrCat("feed ", feed_id, ": nothing is known of partition ", partition));
  }
  return record->second;
}

std::vector<int64_t> FeedLedger::UnfinishedOn(absl::string_view feed_id, int executor_id,
                                              uint32_t node_attempt) const {
  std::vector<int64_t> partitions;
  auto it = feeds_.find(feed_id);
  if (it == feeds_.end()) return partitions;
  for (const auto& [partition, record] : it->second.partitions) {
    if (record.last.state != PartitionState::kDone && record.last.executor_id == executor_id &&
        record.last.node_attempt == node_attempt) {
      partitions.push_back(partition);
    }
  }
  return partitions;
}

}  // namespace millrace
