#include "core/coordinator/state/equal_feeds.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace millrace {
namespace {

constexpr size_t kMaxClosed = 1024;

std::string Describe(const EqualReading& reading) {
  return absl::StrCat("batches of ", reading.batch_rows, " rows, ",
                      reading.pad ? "padded" : "the rest dropped");
}

}  // namespace

absl::Status EqualFeeds::Join(int executor_id, absl::string_view queue,
                              const EqualReading& reading) {
  const auto rank = ranks_.find(executor_id);
  if (rank == ranks_.end()) {
    return absl::FailedPreconditionError(absl::StrCat("executor ", executor_id, " is not fed"));
  }
  if (reading.batch_rows < 1) {
    return absl::InvalidArgumentError(absl::StrCat(
        rank->second, ": a batch of equal ranks has at least 1 row, not ", reading.batch_rows));
  }
  const auto found = queues_.find(queue);
  if (found != queues_.end() && found->second.reading != reading) {
    Queue& others = found->second;
    // It may think better of it as long as it is alone, and nothing was granted.
    const bool alone = others.joined.empty() ||
                       (others.joined.size() == 1 && others.joined.count(executor_id) > 0);
    if (!alone || others.grants.has_value()) {
      const int other = others.joined.empty() || *others.joined.begin() == executor_id
                            ? *others.joined.rbegin()
                            : *others.joined.begin();
      return absl::FailedPreconditionError(
          absl::StrCat(rank->second, " reads the queue \"", queue, "\" in ", Describe(reading),
                       ", and ", ranks_.at(other), " in ", Describe(others.reading),
                       ": ranks that are to end together must read it alike"));
    }
  }
  Queue& joined = queues_[std::string(queue)];
  joined.reading = reading;
  joined.joined.insert(executor_id);
  joined.left.erase(executor_id);
  joined.told.erase(executor_id);  // it may be another process
  Tell(std::string(queue), &joined);
  return absl::OkStatus();
}

void EqualFeeds::Tell(int executor_id, absl::string_view queue, absl::string_view feed_id,
                      const RankRows& rows) {
  const auto found = queues_.find(queue);
  if (found == queues_.end() || found->second.joined.count(executor_id) == 0) return;
  Queue& of = found->second;
  if (std::find(of.calls.begin(), of.calls.end(), feed_id) == of.calls.end()) {
    const bool late = std::find(closed_.begin(), closed_.end(), feed_id) != closed_.end();
    if (late || feed_id.empty() || of.calls.size() >= kMaxCalls) return;
    of.calls.emplace_back(feed_id);
    if (of.calls.size() == 1) Begin(found->first, &of);
  }
  if (of.calls.front() != feed_id) return;
  of.grants->Tell(executor_id, rows);
  Tell(found->first, &of);
}

void EqualFeeds::Begin(const std::string& name, Queue* queue) {
  std::vector<int> ids;
  for (const auto& [id, rank] : ranks_) ids.push_back(id);
  const auto at_end = queue->reading.pad ? StepGrants::AtEnd::kPad : StepGrants::AtEnd::kDrop;
  queue->grants.emplace(ids, queue->reading.batch_rows, at_end, ++queue->generation);
  queue->error = absl::OkStatus();
  queue->fatal = !lost_.empty();
  if (queue->fatal) queue->error = lost_.begin()->second;
  for (const int id : queue->left) queue->grants->Leave(id);
  Tell(name, queue);
}

void EqualFeeds::SetFed(absl::string_view feed_id, int executor_id, bool fed) {
  for (auto& [name, queue] : queues_) {
    if (queue.calls.empty() || queue.calls.front() != feed_id) continue;
    queue.grants->SetFed(executor_id, fed);
    Tell(name, &queue);
  }
}

void EqualFeeds::Close(absl::string_view feed_id) {
  closed_.emplace_back(feed_id);
  if (closed_.size() > kMaxClosed) closed_.pop_front();
  for (auto& [name, queue] : queues_) {
    const auto call = std::find(queue.calls.begin(), queue.calls.end(), feed_id);
    if (call == queue.calls.end()) continue;
    const bool in_hand = call == queue.calls.begin();
    queue.calls.erase(call);
    if (!in_hand) continue;
    counts_.emplace_back(std::string(feed_id), CountsOf(queue));
    if (counts_.size() > kMaxCalls) counts_.pop_front();
    queue.grants.reset();
    queue.told.clear();
    if (!queue.calls.empty()) Begin(name, &queue);
  }
}

void EqualFeeds::Ended(int executor_id, const absl::Status& how, bool another) {
  if (ranks_.count(executor_id) == 0) return;
  if (!another) lost_.emplace(executor_id, how);
  for (auto& [name, queue] : queues_) {
    queue.joined.erase(executor_id);
    queue.told.erase(executor_id);
    if (!queue.grants.has_value()) continue;
    queue.grants->End(executor_id);
    queue.generation = queue.grants->generation();
    if (!queue.fatal) queue.error = how;
    queue.fatal = queue.fatal || !another;
    Tell(name, &queue);
  }
}

int64_t EqualFeeds::RowsOf(absl::string_view feed_id, int executor_id) const {
  if (ranks_.count(executor_id) == 0) return 0;
  for (const auto& [name, queue] : queues_) {
    if (!queue.calls.empty() && queue.calls.front() == feed_id) {
      return queue.grants->rows(executor_id);
    }
  }
  return 0;
}

void EqualFeeds::Left(int executor_id, absl::string_view queue) {
  const auto found = queues_.find(queue);
  if (found == queues_.end() || !found->second.left.insert(executor_id).second) return;
  if (!found->second.grants.has_value()) return;
  found->second.grants->Leave(executor_id);
  Tell(found->first, &found->second);
}

void EqualFeeds::Left(int executor_id) {
  for (const auto& [name, queue] : queues_) Left(executor_id, name);
}

EqualGrant EqualFeeds::GrantOf(int executor_id, const std::string& name, const Queue& queue) const {
  EqualGrant grant = {.executor_id = executor_id,
                      .queue = name,
                      .feed_id = queue.calls.front(),
                      .generation = queue.grants->generation(),
                      .steps = queue.grants->steps(),
                      .last = queue.grants->last(),
                      .question = queue.grants->question(executor_id),
                      .error = queue.error,
                      .fatal = queue.fatal};
  const std::vector<int>& without = queue.grants->without_rows();
  if (!without.empty() && !grant.fatal) {
    grant.error = absl::FailedPreconditionError(
        absl::StrCat(Names(without),
                     " had no rows in this Train call, and has nothing to pad its batches with: "
                     "feed at least as many partitions with rows as there are ranks, or drop what "
                     "is left over"));
    grant.fatal = true;
  }
  return grant;
}

// Tells every rank what is news to it.
void EqualFeeds::Tell(const std::string& name, Queue* queue) {
  if (!queue->grants.has_value()) return;
  for (const int id : queue->joined) {
    EqualGrant grant = GrantOf(id, name, *queue);
    const auto told = queue->told.find(id);
    if (told != queue->told.end() && told->second == grant) continue;
    queue->told[id] = grant;
    grants_.push_back(std::move(grant));
  }
}

std::vector<EqualGrant> EqualFeeds::GrantsOf(int executor_id) const {
  std::vector<EqualGrant> grants;
  for (const auto& [name, queue] : queues_) {
    if (!queue.grants.has_value() || queue.joined.count(executor_id) == 0) continue;
    grants.push_back(GrantOf(executor_id, name, queue));
  }
  return grants;
}

std::vector<std::string> EqualFeeds::Calls() const {
  std::vector<std::string> calls;
  for (const auto& [name, queue] : queues_) {
    if (!queue.calls.empty()) calls.push_back(queue.calls.front());
  }
  return calls;
}

std::vector<EqualCounts> EqualFeeds::CountsOf(const Queue& queue) const {
  std::vector<EqualCounts> counts;
  for (const auto& [id, rank] : ranks_) {
    counts.push_back({.executor_id = id,
                      .dropped = queue.grants->dropped(id),
                      .repeated = queue.grants->repeated(id),
                      .complete = queue.grants->complete(id)});
  }
  return counts;
}

std::optional<std::vector<EqualCounts>> EqualFeeds::Counts(absl::string_view feed_id,
                                                           bool* settled) const {
  *settled = true;
  for (const auto& [name, queue] : queues_) {
    if (queue.calls.empty() || queue.calls.front() != feed_id) continue;
    *settled = queue.grants->settled() || queue.fatal || !queue.left.empty();
    return CountsOf(queue);
  }
  for (const auto& [id, counts] : counts_) {
    if (id == feed_id) return counts;
  }
  return std::nullopt;
}

std::string EqualFeeds::Names(const std::vector<int>& ranks) const {
  return absl::StrJoin(ranks, ", ",
                       [this](std::string* out, int id) { absl::StrAppend(out, ranks_.at(id)); });
}

}  // namespace millrace
