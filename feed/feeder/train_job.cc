#include "feed/feeder/train_job.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/clock.h"
#include "core/base/log.h"
#include "millrace/status_macros.h"

namespace millrace {
namespace {

constexpr int kMaxFeedingThreads = 256;
constexpr int kMaxDeposedThreads = 256;  // beyond it the source is waited for
// Connections that are lost again and again without a row acknowledged in between.
constexpr int kMaxBreaks = 16;
constexpr int64_t kMaxRow = std::numeric_limits<int64_t>::max();
// The feed is kept open for partitions that may move as long as rows are acknowledged. A program
// may also be waiting for nothing but the end of the feed.
constexpr absl::Duration kOpenForMoves = absl::Seconds(1);
constexpr absl::Duration kLookAgain = absl::Milliseconds(100);

// Rows of a session that are not acknowledged, as far as is known.
double RowsLeft(const SessionState& state, double partition_rows) {
  const auto acked = static_cast<double>(state.acked_rows);
  if (state.revoked_row.has_value()) return static_cast<double>(*state.revoked_row) - acked;
  if (state.end_row.has_value()) return static_cast<double>(*state.end_row) - acked;
  return std::max(static_cast<double>(state.sent_rows), partition_rows) - acked;
}

// Nothing is left to be sent, though the session may be open: what was taken back from the node
// goes to another one once its program has used the rows that it has in hand.
bool IsSettled(const SessionState& state) {
  return state.end == SessionEnd::kDone ||
         (state.end == SessionEnd::kOpen && state.revoked_row.has_value());
}

// Rows of a partition that was taken back.
double RestOf(const SessionState& state) {
  return static_cast<double>(std::max(state.end_row.value_or(0), state.had_rows) -
                             state.acked_rows);
}

}  // namespace

int64_t TrainTally::rows() const {
  int64_t sum = 0;
  for (const auto& [node, rows] : rows_by_node) sum += rows;
  return sum;
}

int64_t TrainTally::rows_refed() const {
  int64_t sum = 0;
  for (const RefedRows& rows : refed) sum += rows.rows;
  return sum;
}

TrainJob::TrainJob(SessionOpener* feeder, NodeDirectory* directory, const PartitionedSource* source,
                   TrainObserver* observer, TrainJobOptions options)
    : feeder_(feeder),
      directory_(directory),
      source_(source),
      observer_(observer),
      options_(std::move(options)),
      nodes_(directory_, options_.queue, options_.feed_timeout),
      keep_(options_.keep_bytes),
      begun_(options_.resume.begun),
      feed_id_(options_.feed_id),
      round_(static_cast<int>(options_.resume.rounds)) {
  MutexLock lock(&mu_);
  if (round_ > 0) absl::StrAppend(&feed_id_, ".", round_);
  for (const auto& [partition, rows] : options_.resume.done) {
    ++done_partitions_;
    done_rows_ += rows;
  }
  SkipKnown();
}

absl::Status TrainJob::Validate() const {
  if (options_.num_epochs < 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("num_epochs must be at least 1, found ", options_.num_epochs));
  }
  if (options_.feed_id.empty()) return absl::InvalidArgumentError("feed_id must not be empty");
  if (options_.feed_timeout <= absl::ZeroDuration()) {
    return absl::InvalidArgumentError(
        "feed_timeout must be positive; absl::InfiniteDuration() waits for ever");
  }
  if (options_.batch_bytes < 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("batch_bytes must be positive, found ", options_.batch_bytes));
  }
  if (options_.keep_bytes < 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("keep_bytes must not be negative, found ", options_.keep_bytes));
  }
  if (options_.max_feeding_threads.value_or(1) < 1) {
    return absl::InvalidArgumentError(absl::StrCat("max_feeding_threads must be at least 1, found ",
                                                   *options_.max_feeding_threads));
  }
  if (nodes_.size() == 0) {
    return absl::InvalidArgumentError(
        "the cluster has no node to feed: parameter servers and evaluators are not fed");
  }
  return absl::OkStatus();
}

absl::StatusOr<TrainTally> TrainJob::Run() {
  MILLRACE_RETURN_IF_ERROR(Validate());
  const absl::Duration began = RealClock()->SteadyNow();
  const int threads =
      std::min(options_.max_feeding_threads.value_or(nodes_.size()), kMaxFeedingThreads);
  MILLRACE_RETURN_IF_ERROR(StartThreads(threads));
  Watch();
  absl::Status failure;
  std::string feed_id;
  bool left_alone = false;
  {
    MutexLock lock(&mu_);
    failure = failure_;
    feed_id = feed_id_;
    left_alone = equal_ && tally_.terminated;  // nodes that still read
  }
  if (!failure.ok() || left_alone) {
    const absl::Status pushed = observer_->FeedEnd(feed_id, /*aborted=*/true);
    if (!pushed.ok())
      MILLRACE_LOG(WARNING) << "cannot push the end of feed " << feed_id << ": " << pushed;
  }
  EndThreads();
  if (!failure.ok()) return failure;
  return TakeTally(began);
}

// Fewer than `count` do it too, if there is one.
absl::Status TrainJob::StartThreads(int count) {
  {
    MutexLock lock(&mu_);
    max_in_hand_ = std::max(max_in_hand_, count);
    count = max_in_hand_ + deposed_;
  }
  while (static_cast<int>(threads_.size()) < count) {
    absl::StatusOr<Thread> thread =
        Thread::Start(absl::StrCat("feed-train-", threads_.size()), [this] { FeedLoop(); });
    if (!thread.ok()) return threads_.empty() ? thread.status() : absl::OkStatus();
    threads_.push_back(*std::move(thread));
  }
  return absl::OkStatus();
}

void TrainJob::EndThreads() {
  for (Thread& thread : threads_) thread.Join();
  threads_.clear();
  // No other thread is left that uses these.
  std::list<WorkPtr> outstanding;
  std::deque<WorkPtr> again;
  {
    MutexLock lock(&mu_);
    outstanding.swap(outstanding_);
    again.swap(again_);
  }
  for (const WorkPtr& work : outstanding) {
    work->session->Abort(absl::CancelledError("the Train call is over"));
    ReportEnd(*work);
    MutexLock lock(&mu_);
    Count(*work);
  }
  for (const WorkPtr& work : again) ReportEnd(*work);
}

TrainTally TrainJob::TakeTally(absl::Duration began) {
  MutexLock lock(&mu_);
  tally_.elapsed = RealClock()->SteadyNow() - began;
  return std::move(tally_);
}

void TrainJob::Cancel(const absl::Status& status) { Fail(status); }

void TrainJob::Fail(const absl::Status& status) {
  MILLRACE_CHECK(!status.ok());
  std::vector<std::shared_ptr<FeedSession>> open;
  {
    MutexLock lock(&mu_);
    if (over_) return;
    failure_ = status;
    over_ = true;
    for (const auto& [session, work] : feeding_) open.push_back(session);
    for (const WorkPtr& work : outstanding_) open.push_back(work->session);
    work_cv_.SignalAll();
  }
  nodes_.Cancel(status);
  CancelReading();
  for (const std::shared_ptr<FeedSession>& session : open) session->Abort(status);
  signal_->Raise();
}

void TrainJob::CancelReading() {
  std::multiset<std::shared_ptr<SourceCancel>> reading;
  {
    MutexLock lock(&mu_);
    reading = reading_;
  }
  for (const std::shared_ptr<SourceCancel>& cancel : reading) cancel->Cancel();
}

void TrainJob::EndTerminated() {
  {
    MutexLock lock(&mu_);
    if (over_) return;
    tally_.terminated = true;
    over_ = true;
    work_cv_.SignalAll();
  }
  CancelReading();
  signal_->Raise();
}

void TrainJob::Report(PartitionProgress::State state, Work& work, int64_t rows_refed,
                      absl::string_view reason) {
  PartitionProgress report = SessionProgress(state, *work.session);
  if (state == PartitionProgress::State::kRefeeding) {
    report.next_row = work.first_row;
    report.rows_refed = rows_refed;
    report.reason = std::string(reason);
  }
  report.refed_all = work.refed_all;
  report.refed_from = work.refed_from;
  if (work.refed_all > 0 && report.reason.empty()) report.reason = work.refed_reason;
  work.reported = RealClock()->SteadyNow();
  observer_->OnPartition(report);
}

void TrainJob::ReportInTime(PartitionProgress::State state, Work& work) {
  if (RealClock()->SteadyNow() - work.reported >= kPartitionReportInterval) Report(state, work);
}

void TrainJob::ReportEnd(Work& work) {
  bool terminated;
  {
    MutexLock lock(&mu_);
    terminated = failure_.ok();
  }
  Report(terminated ? PartitionProgress::State::kTerminated : PartitionProgress::State::kFailed,
         work);
}

// -------------------------------------------------------------------------------- feeding threads

void TrainJob::FeedLoop() {
  while (WorkPtr work = TakeWork()) {
    const std::shared_ptr<SourceCancel> cancel = work->rows.cancel();
    const absl::Status status = Feed(work);
    if (!status.ok()) Fail(status);
    // What no node has received is over with the call.
    if (work != nullptr && work->session != nullptr) ReportEnd(*work);
    {
      MutexLock lock(&mu_);
      if (work != nullptr) --in_hand_;
      reading_.erase(reading_.find(cancel));
    }
    signal_->Raise();
  }
}

TrainJob::WorkPtr TrainJob::TakeWork() {
  while (true) {
    std::map<std::string, int64_t> told;
    if (CheckEqual()) told = directory_->EqualRows(options_.feed_id);
    MutexLock lock(&mu_);
    if (over_) return nullptr;
    // Not if this thread was deposed once, and another one has its place.
    WorkPtr work = in_hand_ < max_in_hand_ ? NextWork(told) : nullptr;
    if (work != nullptr) {
      ++in_hand_;
      reading_.insert(work->rows.cancel());
      return work;
    }
    // Watch() has the deadline. What ranks tell wakes nobody.
    work_cv_.WaitWithTimeout(&mu_, equal_ ? kLookAgain : absl::InfiniteDuration());
  }
}

// What is to be fed again goes first. If ranks are equal it goes to its own rank, and waits until
// that one has nothing under way, while this thread feeds the others: a rank takes no more than its
// budget before the others have rows too. For the same reason a thread takes nothing that it would
// have to wait with.
TrainJob::WorkPtr TrainJob::NextWork(const std::map<std::string, int64_t>& told) {
  for (auto it = again_.begin(); it != again_.end(); ++it) {
    if (equal_) {
      if (!nodes_.ClaimAgain((*it)->session->target().node)) continue;
      (*it)->claimed = true;
    }
    WorkPtr work = std::move(*it);
    again_.erase(it);
    return work;
  }
  if (!begun_.empty()) {
    const auto first = begun_.begin();
    const int64_t partitions = source_->num_partitions();
    auto work = std::make_shared<Work>(source_, static_cast<int>(first->first % partitions),
                                       first->first / partitions, options_.batch_bytes, &keep_);
    work->begun = std::move(first->second);
    begun_.erase(first);
    return work;
  }
  if (next_epoch_ == options_.num_epochs) return nullptr;
  std::optional<std::string> node;
  if (equal_) {
    node = nodes_.ClaimLowest(Levels(told));
    if (!node.has_value()) return nullptr;
  }
  auto work =
      std::make_shared<Work>(source_, next_partition_, next_epoch_, options_.batch_bytes, &keep_);
  if (++next_partition_ == source_->num_partitions()) {
    next_partition_ = 0;
    ++next_epoch_;
  }
  SkipKnown();
  work->first_node = std::move(node);
  return work;
}

// Feeds `work` until a node has received all of it or another thread has taken it over (then it is
// nullptr), no node reads any more, or the call fails.
absl::Status TrainJob::Feed(WorkPtr& work) {
  while (true) {
    MILLRACE_ASSIGN_OR_RETURN(const std::optional<FeedTarget> target, NextTarget(*work));
    if (!target.has_value()) {
      EndTerminated();
      return absl::OkStatus();
    }
    MILLRACE_ASSIGN_OR_RETURN(const bool opened, OpenSession(*target, work));
    if (!opened) return absl::OkStatus();  // the call is over
    const std::shared_ptr<FeedSession> session = work->session;
    const absl::Status status = Stream(*work);
    bool deposed;
    {
      MutexLock lock(&mu_);
      deposed = feeding_.count(session) == 0;
      if (deposed) --deposed_;
    }
    if (deposed) {
      work = nullptr;
      return absl::OkStatus();
    }
    const SessionState state = session->state();
    const bool received = status.ok();
    const bool settles = received || IsSettled(state);
    const bool failed = !settles && state.end == SessionEnd::kOpen;  // the source, or a long wait
    nodes_.Release(target->node, /*outstanding=*/settles);
    if (received) {
      nodes_.Succeeded(target->node);
      Report(PartitionProgress::State::kReceived, *work);
    }
    if (failed) session->Abort(status);
    // At no time are its rows missing in Levels().
    MutexLock lock(&mu_);
    feeding_.erase(session);
    work_cv_.SignalAll();
    if (settles) {
      --in_hand_;
      outstanding_.push_back(std::move(work));
      return absl::OkStatus();
    }
    if (failed) return status;
    Count(*work);
    if (equal_) {  // it waits its turn: see NextWork()
      --in_hand_;
      again_.push_back(std::move(work));
      return absl::OkStatus();
    }
  }
}

// Where `work` goes next: anywhere, or, after a session that ended early, where Recover() says.
absl::StatusOr<std::optional<FeedTarget>> TrainJob::NextTarget(Work& work) {
  if (work.first_node.has_value()) {
    return nodes_.AcquireClaimed(*std::exchange(work.first_node, std::nullopt));
  }
  if (work.begun.has_value()) return ResumedTarget(work);
  if (work.session == nullptr) return FirstTarget();
  const bool equal = CheckEqual();
  MILLRACE_ASSIGN_OR_RETURN(Recovery recovery, nodes_.Recover(*work.session));
  PrepareRefeed(work, recovery);
  if (recovery.where == Recovery::Where::kElsewhere) {
    if (equal) return std::optional<FeedTarget>();  // without it the others cannot go on
    const SessionState state = work.session->state();
    if (state.end == SessionEnd::kRevoked) return nodes_.AcquireForMove(RestOf(state));
    return nodes_.AcquireNext();
  }
  if (recovery.where == Recovery::Where::kSameAttempt && work.breaks > kMaxBreaks) {
    return work.session->state().status;
  }
  if (!std::exchange(work.claimed, false)) nodes_.AcquireAgain(recovery.target.node);
  return std::optional<FeedTarget>(std::move(recovery.target));
}

bool TrainJob::CheckEqual() {
  {
    MutexLock lock(&mu_);
    if (equal_) return true;
  }
  if (!directory_->IsEqual(options_.queue)) return false;
  MutexLock lock(&mu_);
  equal_ = true;
  return true;
}

absl::StatusOr<std::optional<FeedTarget>> TrainJob::FirstTarget() {
  MILLRACE_ASSIGN_OR_RETURN(const std::optional<FeedTarget> target, nodes_.AcquireNext());
  // Nodes say so when their programs open the queue, perhaps only now.
  if (!target.has_value() || !CheckEqual()) return target;
  nodes_.Release(target->node);
  return LevelTarget();
}

absl::StatusOr<std::optional<FeedTarget>> TrainJob::LevelTarget() {
  while (true) {
    const std::map<std::string, int64_t> told = directory_->EqualRows(options_.feed_id);
    std::optional<std::string> node;
    {
      MutexLock lock(&mu_);
      if (over_) return std::optional<FeedTarget>();  // EndTerminated() does nothing any more
      node = nodes_.ClaimLowest(Levels(told));
      if (!node.has_value()) work_cv_.WaitWithTimeout(&mu_, kLookAgain);
    }
    if (node.has_value()) return nodes_.AcquireClaimed(*node);
  }
}

std::map<std::string, int64_t> TrainJob::Levels(const std::map<std::string, int64_t>& told) {
  std::map<std::string, int64_t> levels;
  for (const std::string& name : nodes_.names()) levels[name] = 0;
  if (!restarted_) {
    for (const auto& [node, rows] : tally_.rows_by_node) levels[node] = rows;
  }
  const auto add = [this, &levels](const FeedSession& session) {
    mu_.AssertHeld();
    const SessionState state = session.state();
    const int64_t first = restarted_ ? state.acked_rows : state.first_row;
    levels[session.target().node] += state.sent_rows - first;
  };
  for (const auto& [session, work] : feeding_) add(*session);
  for (const WorkPtr& work : outstanding_) add(*work->session);
  for (const WorkPtr& work : again_) {  // its node will have all of it
    const SessionState state = work->session->state();
    levels[work->session->target().node] += state.end_row.value_or(state.sent_rows);
  }
  for (const auto& [node, rows] : told) levels[node] = std::max(levels[node], rows);
  return levels;
}

void TrainJob::PrepareRefeed(Work& work, const Recovery& recovery) {
  const SessionState state = work.session->state();
  const bool resume = source_->deterministic() && recovery.where != Recovery::Where::kNewAttempt;
  const bool stuck = state.acked_rows == state.first_row;
  work.breaks = recovery.where == Recovery::Where::kSameAttempt && stuck ? work.breaks + 1 : 0;
  if (std::exchange(work.resumed, false) && !state.told) {
    if (recovery.where == Recovery::Where::kSameAttempt) {
      work.resumed = true;
    } else {
      FeedAllAgain(work, resume ? work.first_row : 0, recovery.reason);
    }
    return;
  }
  work.first_row = resume ? state.acked_rows : 0;
  // Rows that were sent may have been handed out, and even used, although this was not
  // acknowledged. Only TERMINATED and REVOKED say which were not, and sent_rows falls.
  const int64_t rows_refed = std::max<int64_t>(0, state.sent_rows - work.first_row);
  if (rows_refed > 0) {
    MILLRACE_LOG(WARNING) << work.session->Place() << ": " << rows_refed
                          << " rows are fed again: " << recovery.reason;
    work.refed = RefedRows{.partition = work.partition,
                           .data_epoch = work.epoch,
                           .rows = rows_refed,
                           .node = work.session->target().node,
                           .reason = recovery.reason};
  }
  if (state.end == SessionEnd::kRevoked) {
    MutexLock lock(&mu_);
    ++tally_.moved;
  }
  Report(PartitionProgress::State::kRefeeding, work, rows_refed, recovery.reason);
}

// False if the call is over.
absl::StatusOr<bool> TrainJob::OpenSession(const FeedTarget& target, const WorkPtr& work) {
  SessionOptions options{.queue = options_.queue,
                         .mode = FeedMode::kTrain,
                         .partition = work->partition,
                         .data_epoch = work->epoch,
                         .feeder_attempt = options_.feeder_attempt,
                         .first_row = work->first_row,
                         .resumed = work->resumed,
                         .feed_timeout = options_.feed_timeout,
                         .progress = nodes_.Progress(target),
                         .on_change = [signal = signal_] { signal->Raise(); }};
  {
    MutexLock lock(&mu_);
    if (feed_ended_.has_value()) {  // the nodes have closed the feed: see the header
      feed_ended_.reset();
      feed_id_ = absl::StrCat(options_.feed_id, ".", ++round_);
    }
    options.feed_id = feed_id_;
    std::string& process = processes_[target.node];
    if (!process.empty() && process != target.nonce) restarted_ = true;
    process = target.nonce;
  }
  MILLRACE_ASSIGN_OR_RETURN(std::shared_ptr<FeedSession> session,
                            feeder_->OpenSession(target, options));
  bool over;
  {
    MutexLock lock(&mu_);
    over = over_;
    if (!over) {
      work->session = session;
      feeding_.emplace(session, work);
      if (work->refed.has_value()) tally_.refed.push_back(*std::move(work->refed));
      work->refed.reset();
    }
  }
  if (over) {
    session->Abort(absl::CancelledError("the Train call is over"));
    return false;
  }
  Report(PartitionProgress::State::kFeeding, *work);
  return true;
}

absl::Status TrainJob::Stream(Work& work) {
  FeedSession& session = *work.session;
  if (work.resumed) MILLRACE_RETURN_IF_ERROR(TakeUp(work));
  absl::Duration began = RealClock()->SteadyNow();
  MILLRACE_RETURN_IF_ERROR(work.rows.Seek(work.first_row));
  while (true) {
    MILLRACE_ASSIGN_OR_RETURN(const std::optional<RecordBatch> batch, work.rows.Next());
    session.CountSource(RealClock()->SteadyNow() - began);
    if (!batch.has_value()) break;
    MILLRACE_RETURN_IF_ERROR(session.Send(*batch));
    work.rows.Release(session.state().acked_rows);
    ReportInTime(PartitionProgress::State::kFeeding, work);
    began = RealClock()->SteadyNow();
  }
  MILLRACE_RETURN_IF_ERROR(session.Finish(work.rows.position()));
  return session.WaitReceived();
}

// ---- the thread of Run() ------------------------------------------------------------------------

void TrainJob::Watch() {
  while (true) {
    CollectOutstanding();
    const bool equal = CheckEqual();
    Balance(equal);
    TakeOverWaiting();
    std::string feed_id;
    {
      MutexLock lock(&mu_);
      if (over_) return;
      if (AllReceived()) {
        if (outstanding_.empty() && feed_ended_.has_value()) {
          over_ = true;
          work_cv_.SignalAll();
          return;
        }
        // One that has ended since CollectOutstanding() may have to be fed again, in this feed.
        const bool all_open = std::all_of(
            outstanding_.begin(), outstanding_.end(),
            [](const WorkPtr& work) { return work->session->state().end == SessionEnd::kOpen; });
        if (!feed_ended_.has_value() && all_open && !MayStillMove()) {
          feed_ended_ = RealClock()->SteadyNow();
          feed_id = feed_id_;
        }
      }
    }
    if (!feed_id.empty()) {
      const absl::Status status = observer_->FeedEnd(feed_id, /*aborted=*/false);
      if (!status.ok()) Fail(status);
      continue;
    }
    CheckTimeouts();
    signal_->Wait(NextDeadline());
  }
}

bool TrainJob::AllGiven() {
  mu_.AssertHeld();
  return next_epoch_ == options_.num_epochs && again_.empty() && begun_.empty();
}

bool TrainJob::AllReceived() {
  mu_.AssertHeld();
  return AllGiven() && in_hand_ == 0;
}

// Sees which of the received partitions are acknowledged by now, and which have lost their node.
void TrainJob::CollectOutstanding() {
  std::vector<WorkPtr> done;
  std::vector<Work*> open;  // nobody else takes them from outstanding_
  {
    MutexLock lock(&mu_);
    for (auto it = outstanding_.begin(); it != outstanding_.end();) {
      Work& work = **it;
      const SessionState state = work.session->state();
      work.rows.Release(state.acked_rows);
      if (state.end == SessionEnd::kOpen) {
        open.push_back(&work);
        ++it;
        continue;
      }
      nodes_.Settle(work.session->target().node);
      Count(work);
      // A session that broke after its last row was acknowledged has done its work.
      if (state.acked_rows == state.end_row) {
        ++done_partitions_;
        done_rows_ += *state.end_row;
        if (work.refed_all > 0) {
          tally_.refed.push_back({.partition = work.partition,
                                  .data_epoch = work.epoch,
                                  .rows = work.refed_all * (*state.end_row - work.refed_from),
                                  .node = work.session->target().node,
                                  .reason = work.refed_reason});
        }
        done.push_back(std::move(*it));
      } else {
        again_.push_back(std::move(*it));
        work_cv_.SignalAll();
      }
      it = outstanding_.erase(it);
    }
  }
  for (Work* work : open) {
    const bool revoked = work->session->state().revoked_row.has_value();
    ReportInTime(revoked ? PartitionProgress::State::kFeeding : PartitionProgress::State::kReceived,
                 *work);
  }
  for (const WorkPtr& work : done) {
    nodes_.Succeeded(work->session->target().node);
    Report(PartitionProgress::State::kAcknowledged, *work);
  }
}

// Tells what the nodes have to do, and, once nothing is left to give out, takes back what another
// node will be done with sooner.
void TrainJob::Balance(bool equal) {
  std::map<std::string, NodeReading> readings;
  std::vector<std::pair<std::shared_ptr<FeedSession>, SessionState>> open;
  double partition_rows = 0;
  bool all_given = false;
  {
    MutexLock lock(&mu_);
    if (done_partitions_ > 0) {
      partition_rows = static_cast<double>(done_rows_) / static_cast<double>(done_partitions_);
    }
    all_given = AllGiven();
    for (const auto& [node, rows] : tally_.rows_by_node) readings[node].acked_rows = rows;
    for (const auto& [session, work] : feeding_) open.emplace_back(session, session->state());
    for (const WorkPtr& work : outstanding_) {
      open.emplace_back(work->session, work->session->state());
    }
  }
  int64_t acked = 0;
  for (const auto& [session, state] : open) {
    NodeReading& reading = readings[session->target().node];
    reading.acked_rows += state.acked_rows - state.first_row;
    ++reading.partitions;
    if (state.end == SessionEnd::kOpen) reading.rows += RowsLeft(state, partition_rows);
  }
  for (const auto& [node, reading] : readings) acked += reading.acked_rows;
  if (acked != std::exchange(acked_rows_, acked)) acked_at_ = RealClock()->SteadyNow();
  nodes_.Observe(readings, partition_rows);
  more_moves_ = false;
  if (equal) {
    // One that has no session would keep the others waiting while every thread waits for those.
    StartThreads(nodes_.size()).IgnoreError();  // there is one
    work_cv_.SignalAll();
    return;
  }
  if (!all_given || nodes_.size() < 2) return;

  std::vector<OpenPartition> partitions;
  std::vector<std::shared_ptr<FeedSession>> sessions;
  for (const auto& [session, state] : open) {
    if (state.end != SessionEnd::kOpen || !state.accepted) continue;
    if (state.revoking || state.revoked_row.has_value()) {
      more_moves_ = true;
      continue;
    }
    const bool begun = state.acked_rows > state.first_row;
    if (begun && !source_->deterministic()) continue;
    const auto node =
        std::find(nodes_.names().begin(), nodes_.names().end(), session->target().node);
    if (node == nodes_.names().end()) continue;
    partitions.push_back({.node = static_cast<size_t>(node - nodes_.names().begin()),
                          .begun = begun,
                          .rows = RowsLeft(state, partition_rows)});
    sessions.push_back(session);
  }
  const MovePlan plan = PlanMoves(nodes_.loads(), partitions);
  more_moves_ = more_moves_ || plan.more_later || !plan.take_back.empty();
  for (const size_t move : plan.take_back) {
    FeedSession& session = *sessions[move];
    session.Revoke(source_->deterministic() ? kMaxRow : session.options().first_row);
  }
}

// What moves once the feed has ended travels in one of its own.
bool TrainJob::MayStillMove() {
  return more_moves_ && RealClock()->SteadyNow() - acked_at_ < kOpenForMoves;
}

// A feeding thread that waits for the source does not see that nothing is left to be sent in its
// session. Other threads go on with what it has.
void TrainJob::TakeOverWaiting() {
  {
    MutexLock lock(&mu_);
    ended_in_hand_ = false;
    if (over_) return;
    for (auto it = feeding_.begin(); it != feeding_.end();) {
      const auto& [session, work] = *it;
      const SessionState state = session->state();
      const bool settles = IsSettled(state);
      if (state.end == SessionEnd::kOpen && !settles) {
        ++it;
        continue;
      }
      if (deposed_ >= kMaxDeposedThreads || !work->rows.TakeOver()) {
        ended_in_hand_ = true;
        ++it;
        continue;
      }
      ++deposed_;
      --in_hand_;
      nodes_.Release(session->target().node, /*outstanding=*/settles);
      if (settles) {
        outstanding_.push_back(work);
      } else {
        Count(*work);
        again_.push_back(work);
      }
      work_cv_.SignalAll();
      it = feeding_.erase(it);
    }
  }
  StartThreads(0).IgnoreError();  // a deposed one that comes back does it too
}

void TrainJob::Count(const Work& work) {
  mu_.AssertHeld();
  const SessionState state = work.session->state();
  const int64_t rows = state.acked_rows - state.first_row;
  if (rows > 0) tally_.rows_by_node[work.session->target().node] += rows;
}

// Acknowledgements can be asked for only once the feed has ended: before that a program may rightly
// hold rows in a batch that is not full. (A program that reads nothing shows before, by its
// credit.)
absl::Duration TrainJob::NextDeadline() {
  MutexLock lock(&mu_);
  absl::Duration deadline = absl::InfiniteDuration();
  const absl::Duration now = RealClock()->SteadyNow();
  // A node that is silent becomes slower; a thread may go and wait for the source.
  if (nodes_.size() > 1 || ended_in_hand_) deadline = kLookAgain;
  if (!feed_ended_.has_value()) return deadline;
  for (const WorkPtr& work : outstanding_) {
    const absl::Duration last = std::max(*feed_ended_, work->session->options().progress->last());
    deadline = std::min(deadline, last + options_.feed_timeout - now);
  }
  return std::max(deadline, absl::ZeroDuration());
}

void TrainJob::CheckTimeouts() {
  std::shared_ptr<FeedSession> late;
  {
    MutexLock lock(&mu_);
    if (!feed_ended_.has_value()) return;
    const absl::Duration now = RealClock()->SteadyNow();
    for (const WorkPtr& work : outstanding_) {
      const absl::Duration last = std::max(*feed_ended_, work->session->options().progress->last());
      if (now - last >= options_.feed_timeout) {
        late = work->session;
        break;
      }
    }
  }
  if (late != nullptr) Fail(late->TimeoutError());
}

}  // namespace millrace
