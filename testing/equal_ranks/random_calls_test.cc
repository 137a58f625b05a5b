// Ranks that end together (docs/feed_protocol.md, section 11): what nodes hold
// (feed/receiver/receive_queue.h) and what the coordinator grants
// (core/coordinator/state/equal_feeds.h), in random Train calls, with messages that take any time,
// ranks of any speed, partitions of any size, lost connections, deaths and restarts. One thread, no
// sockets: a failure repeats with its seed.

#include <algorithm>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "core/base/status_matchers.h"
#include "core/coordinator/state/equal_feeds.h"
#include "feed/receiver/equal_steps.h"
#include "feed/receiver/receive_queue.h"
#include "feed/receiver/receive_session.h"
#include "gtest/gtest.h"
#include "millrace/batch_builder.h"
#include "millrace/record_batch.h"

namespace millrace {
namespace {

using SessionPtr = ReceiveQueue::SessionPtr;

constexpr char kQueue[] = "input";

RecordBatch Rows(int64_t first, int64_t rows) {
  std::vector<int64_t> x;
  for (int64_t i = 0; i < rows; ++i) x.push_back(first + i);
  BatchBuilder builder;
  builder.AddColumn("x", x);
  return *builder.Build();
}

void AddValues(const RecordBatch& rows, std::vector<int64_t>* values) {
  const int64_t* x = rows.column(0).values<int64_t>();
  values->insert(values->end(), x, x + rows.num_rows());
}

struct Partition {
  int64_t first = 0;  // value of its row 0
  int64_t rows = 0;
  int64_t sent = 0;  // of its session
  int rank = -1;     // that has it
  SessionPtr session;
  bool received = false;
};

// A node's process.
struct Rank {
  std::unique_ptr<ReceiveQueue> queue;
  bool reading = false;  // in NextBatch
  std::optional<TakenRows> current;
  std::vector<std::pair<SessionPtr, int64_t>> in_hand;
  std::vector<int64_t> used;  // values, of this process, not those that were there once more
  int64_t repeated = 0;
  int64_t steps = 0;  // of this generation
  int64_t errors = 0;
  uint64_t generation = 0;
  std::deque<EqualGrant> to_node;
  std::deque<ReceiverRows> to_coordinator;
  bool joined = false;
};

class Call {
 public:
  Call(uint64_t seed, bool pad) : random_(seed), pad_(pad), feeds_(Names(&random_, &ranks_)) {
    batch_rows_ = Number(1, 25);
    int64_t next = 0;
    const int64_t partitions = Number(pad ? Size() : 0, 14);
    for (int64_t i = 0; i < partitions; ++i) {
      const bool empty = !(pad && i < Size()) && Number(0, 3) == 0;
      const int64_t rows = empty ? 0 : Number(1, 200);
      partitions_.push_back({.first = next, .rows = rows});
      largest_ = std::max(largest_, rows);
      next += rows;
    }
    rows_ = next;
    deaths_left_ = Number(0, 2);
    breaks_left_ = Number(0, 2);
    for (int i = 0; i < Size(); ++i) Begin(i);
  }

  void Run() {
    for (int64_t turns = 0; !Over(); ++turns) {
      ASSERT_LT(turns, 400'000) << "nothing happens any more";
      const int rank = static_cast<int>(Number(0, Size() - 1));
      switch (Number(0, 7)) {
        case 0:
          Join(rank);
          break;
        case 1:
          Assign();
          break;
        case 2:
          Send();
          break;
        case 3:
          ToCoordinator(rank);
          break;
        case 4:
          ToNode(rank);
          break;
        case 5:
        case 6:
          NextBatch(rank);
          break;
        case 7:
          if (deaths_left_ > 0 && Number(0, 400) == 0) Die(rank);
          if (breaks_left_ > 0 && Number(0, 200) == 0) Break();
          break;
      }
      Settle();
      if (::testing::Test::HasFatalFailure()) return;
    }
    Check();
  }

 private:
  int64_t Number(int64_t least, int64_t most) {
    return std::uniform_int_distribution<int64_t>(least, most)(random_);
  }
  int Size() const { return static_cast<int>(ranks_.size()); }
  static std::map<int, std::string> Names(std::mt19937_64* random, std::vector<Rank>* ranks) {
    ranks->resize(std::uniform_int_distribution<>(1, 4)(*random));
    std::map<int, std::string> names;
    for (size_t i = 0; i < ranks->size(); ++i) {
      names[static_cast<int>(i)] = absl::StrCat("worker:", i);
    }
    return names;
  }
  std::string feed_id() const { return round_ == 0 ? "f1" : absl::StrCat("f1.", round_); }

  // ---- processes
  void Begin(int id) {
    Rank& rank = ranks_[id];
    rank = {};
    rank.queue = std::make_unique<ReceiveQueue>(kQueue, absl::StrCat("worker:", id));
  }
  void Join(int id) {
    Rank& rank = ranks_[id];
    if (rank.joined) return;
    rank.joined = true;
    ASSERT_THAT(rank.queue->SetEqual(batch_rows_, pad_), IsOk());
    ASSERT_THAT(feeds_.Join(id, kQueue, {.batch_rows = batch_rows_, .pad = pad_}), IsOk());
    rank.queue->SetMode(FeedMode::kTrain);
    Fed();
  }
  void Die(int id) {
    if (!ranks_[id].joined) return;
    --deaths_left_;
    ++deaths_;
    for (Partition& partition : partitions_) {
      if (partition.rank != id || Done(partition)) continue;
      if (std::exchange(partition.received, false)) {
        // The feed had ended: what is fed again has a number.
        if (ended_) ++round_;
        ended_ = false;
      }
      partition.sent = 0;
      partition.session = nullptr;
    }
    // What the process used of partitions that are done stays used.
    for (const Partition& partition : partitions_) {
      if (partition.rank != id || !Done(partition)) continue;
      for (int64_t i = 0; i < partition.rows; ++i) lost_.insert(partition.first + i);
    }
    std::set<int64_t> used(ranks_[id].used.begin(), ranks_[id].used.end());
    std::erase_if(lost_, [&](int64_t value) { return kept_.count(value) > 0; });
    for (const int64_t value : lost_) {
      if (used.count(value) > 0) kept_.insert(value);
    }
    lost_.clear();
    Begin(id);
    feeds_.Ended(id, absl::AbortedError(absl::StrCat("worker:", id, " was killed")), true);
    Fed();
  }

  // ---- the feeder
  static bool Done(const Partition& partition) {
    return partition.session != nullptr && partition.received &&
           partition.session->used_row == partition.rows;
  }
  // Each partition goes to the rank that was given the fewest rows, if it is being given none.
  void Assign() {
    const auto next = std::find_if(partitions_.begin(), partitions_.end(),
                                   [](const Partition& each) { return each.rank < 0; });
    if (next == partitions_.end()) return;
    std::vector<std::pair<int64_t, bool>> levels(ranks_.size());
    for (const Partition& each : partitions_) {
      if (each.rank < 0) continue;
      levels[each.rank].first += each.sent;
      levels[each.rank].second = levels[each.rank].second || !each.received;
    }
    const auto lowest = std::min_element(levels.begin(), levels.end());
    if (lowest->second) return;
    next->rank = static_cast<int>(lowest - levels.begin());
    Fed();
  }
  void Send() {
    if (partitions_.empty()) return;
    Partition& partition = partitions_[Number(0, static_cast<int64_t>(partitions_.size()) - 1)];
    if (partition.rank < 0 || partition.received || !ranks_[partition.rank].joined) return;
    ReceiveQueue& queue = *ranks_[partition.rank].queue;
    if (partition.session == nullptr) {
      OpenFrame open{.feed_id = feed_id(),
                     .queue = kQueue,
                     .mode = FeedMode::kTrain,
                     .partition = &partition - partitions_.data(),
                     .first_row = partition.sent};
      partition.session =
          std::make_shared<ReceiveSession>(++sessions_, "feeder/a", 1, 1, std::move(open));
      queue.Add(partition.session);
    }
    ReceiveSession& session = *partition.session;
    if (session.stage != ReceiveSession::Stage::kServed) return;
    session.accepted = true;
    session.credit_sent = {.limit = int64_t{1} << 40};
    const int64_t rows = std::min(partition.rows - partition.sent, Number(1, 60));
    if (rows > 0) {
      ASSERT_THAT(queue.AddRows(&session, {.rows = Rows(partition.first + partition.sent, rows),
                                           .first_row = partition.sent,
                                           .bytes = rows}),
                  IsOk());
      partition.sent += rows;
    } else {
      ASSERT_THAT(queue.EndPartition(&session, partition.rows), IsOk());
      partition.received = true;
      Fed();
    }
    Tell(partition.rank);
  }
  // A connection is lost; what was not acknowledged is fed again.
  void Break() {
    if (partitions_.empty()) return;
    Partition& partition = partitions_[Number(0, static_cast<int64_t>(partitions_.size()) - 1)];
    if (partition.session == nullptr || partition.received) return;
    --breaks_left_;
    Rank& rank = ranks_[partition.rank];
    // Of what it was given nothing is fed twice: an acknowledgement of all of it was on its way.
    partition.session->used_row = partition.session->handed.row();
    partition.sent = partition.session->handed.row();
    rank.queue->Disconnect(partition.session.get(), absl::UnavailableError("lost"));
    partition.session = nullptr;
    Tell(partition.rank);
    Fed();
  }
  // The coordinator's ledger.
  void Fed() {
    bool given = true;
    std::set<int> unfed;
    for (const Partition& each : partitions_) {
      given = given && each.rank >= 0;
      if (!each.received) unfed.insert(each.rank);
    }
    for (int i = 0; i < Size(); ++i) feeds_.SetFed("f1", i, given && unfed.count(i) == 0);
    if (given && unfed.empty() && !ended_) {
      ended_ = true;
      for (const Rank& rank : ranks_) rank.queue->FeedEnd(feed_id(), /*aborted=*/false);
    }
  }

  // ---- messages
  void Tell(int id) {
    Rank& rank = ranks_[id];
    if (rank.reading && rank.queue->asking()) Filled(id, rank.queue->Fill());
    now_ += absl::Milliseconds(1);
    while (std::optional<ReceiverRows> rows = rank.queue->ReportEqual(now_)) {
      rank.to_coordinator.push_back(*std::move(rows));
    }
  }
  void ToCoordinator(int id) {
    Rank& rank = ranks_[id];
    if (rank.to_coordinator.empty()) return Tell(id);
    const ReceiverRows rows = std::move(rank.to_coordinator.front());
    rank.to_coordinator.pop_front();
    feeds_.Tell(id, kQueue, rows.feed_id,
                {.generation = rows.generation,
                 .answer = rows.answer,
                 .rows = rows.rows,
                 .dropped = rows.dropped,
                 .repeated = rows.repeated,
                 .can_repeat = rows.can_repeat});
    Fed();
  }
  void Settle() {
    for (EqualGrant& grant : feeds_.TakeGrants()) {
      last_ = grant;
      ranks_[grant.executor_id].to_node.push_back(std::move(grant));
    }
  }
  void ToNode(int id) {
    Rank& rank = ranks_[id];
    if (rank.to_node.empty() || !rank.joined) return;
    const EqualGrant grant = std::move(rank.to_node.front());
    rank.to_node.pop_front();
    if (grant.generation != rank.generation) {
      rank.generation = grant.generation;
      rank.steps = 0;
    }
    rank.queue->equal()->Grant({.queue = kQueue,
                                .feed_id = grant.feed_id,
                                .generation = grant.generation,
                                .steps = grant.steps,
                                .last = grant.last,
                                .question = grant.question,
                                .error = grant.error,
                                .fatal = grant.fatal});
    Tell(id);
  }

  // ---- the program
  void NextBatch(int id) {
    Rank& rank = ranks_[id];
    if (!rank.joined || rank.reading) return;
    for (const auto& [session, row] : rank.in_hand) session->used_row = row;
    rank.in_hand.clear();
    std::optional<TakenRows> current = std::exchange(rank.current, std::nullopt);
    // As DataFeed: from what is in hand, if that is enough.
    if (current.has_value() && current->remaining() >= batch_rows_) {
      const int64_t end = current->RowAfter(current->offset + batch_rows_);
      if (rank.queue->equal()->TakeStep([&] { return current->session->handed.Advance(end); })) {
        std::vector<int64_t> values;
        AddValues(current->rows.Slice(current->offset, batch_rows_), &values);
        rank.used.insert(rank.used.end(), values.begin(), values.end());
        rank.in_hand = {{current->session, end}};
        current->offset += batch_rows_;
        rank.current = std::move(current);
        return Step(id);
      }
    }
    rank.reading = true;
    rank.queue->Ask(batch_rows_, std::move(current));
    Tell(id);
  }
  void Filled(int id, ReceiveQueue::State state) {
    Rank& rank = ranks_[id];
    if (state == ReceiveQueue::State::kWait) return;
    rank.reading = false;
    if (state == ReceiveQueue::State::kError) {
      ASSERT_THAT(rank.queue->equal()->TakeError(), StatusIs(absl::StatusCode::kAborted));
      ++rank.errors;
      return;
    }
    ASSERT_EQ(state, ReceiveQueue::State::kReady);
    Delivery delivery = rank.queue->Take();
    std::vector<int64_t> values;
    for (const TakenRows& piece : delivery.pieces) {
      AddValues(piece.rows, &values);
      rank.in_hand.emplace_back(piece.session, piece.RowAfter(piece.rows.num_rows()));
    }
    if (delivery.pieces.empty() && delivery.current.has_value()) {
      AddValues(delivery.current->rows.Slice(0, delivery.rows), &values);
      rank.in_hand.emplace_back(delivery.current->session,
                                delivery.current->RowAfter(delivery.rows));
      delivery.current->offset = delivery.rows;
    }
    rank.current = std::move(delivery.current);
    rank.used.insert(rank.used.end(), values.begin(), values.end());
    std::vector<int64_t> again;
    for (const RecordBatch& rows : delivery.repeated) AddValues(rows, &again);
    rank.repeated += static_cast<int64_t>(again.size());
    ASSERT_EQ(values.size() + again.size(), static_cast<size_t>(batch_rows_));
    ASSERT_TRUE(again.empty() || pad_);
    Step(id);
  }
  void Step(int id) {
    Rank& rank = ranks_[id];
    ++rank.steps;
    // What one rank takes all others can take: they hold it, or are asked for no more than they
    // have.
    ASSERT_LE(rank.steps, last_.generation == rank.generation ? last_.steps : rank.steps);
  }

  bool Over() {
    bool settled = false;
    if (!feeds_.Counts("f1", &settled).has_value()) {
      // Nobody has told of a partition, as there is none.
      return partitions_.empty() && std::all_of(ranks_.begin(), ranks_.end(),
                                                [](const Rank& rank) { return rank.reading; });
    }
    if (!settled) return false;
    if (!std::all_of(partitions_.begin(), partitions_.end(), Done)) return false;
    return std::all_of(ranks_.begin(), ranks_.end(), [&](const Rank& rank) {
      return rank.reading && rank.to_node.empty() && rank.generation == last_.generation;
    });
  }

  void Check() {
    if (partitions_.empty()) return;
    bool settled = false;
    const std::vector<EqualCounts> counts = *feeds_.Counts("f1", &settled);
    std::set<int64_t> used = kept_;
    int64_t dropped = 0;
    for (int i = 0; i < Size(); ++i) {
      const Rank& rank = ranks_[i];
      EXPECT_EQ(rank.steps, last_.steps) << "rank " << i;
      EXPECT_LE(rank.errors, deaths_);
      EXPECT_EQ(counts[i].repeated, rank.repeated) << "rank " << i;
      dropped += counts[i].dropped;
      EXPECT_TRUE(deaths_ > 0 || counts[i].dropped < batch_rows_ + largest_) << "rank " << i;
      for (const int64_t value : rank.used) {
        EXPECT_TRUE(used.insert(value).second || deaths_ > 0) << value << " was used twice";
      }
    }
    EXPECT_TRUE(!pad_ || deaths_ > 0 || dropped == 0);
    if (deaths_ == 0) {
      EXPECT_EQ(static_cast<int64_t>(used.size()) + dropped, rows_);
    } else {
      EXPECT_LE(static_cast<int64_t>(used.size()), rows_);
    }
  }

  std::mt19937_64 random_;
  const bool pad_;
  std::vector<Rank> ranks_;
  EqualFeeds feeds_;
  std::vector<Partition> partitions_;
  int64_t batch_rows_ = 1;
  int64_t rows_ = 0;
  int64_t largest_ = 0;
  int64_t deaths_left_ = 0;
  int64_t deaths_ = 0;
  int64_t breaks_left_ = 0;
  int64_t round_ = 0;
  bool ended_ = false;
  uint64_t sessions_ = 0;
  absl::Duration now_;
  EqualGrant last_;  // the newest
  std::set<int64_t> kept_;
  std::set<int64_t> lost_;
};

class RandomCallsTest : public ::testing::TestWithParam<bool> {};

TEST_P(RandomCallsTest, EndTogether) {
  for (uint64_t seed = 0; seed < 300; ++seed) {
    SCOPED_TRACE(seed);
    Call call(seed, /*pad=*/GetParam());
    call.Run();
    if (::testing::Test::HasFailure()) return;
  }
}

INSTANTIATE_TEST_SUITE_P(AtEnd, RandomCallsTest, ::testing::Bool(),
                         [](const auto& info) { return info.param ? "Pad" : "Drop"; });

}  // namespace
}  // namespace millrace
