#include "feed/feeder/inference_job.h"

#include <algorithm>
#include <deque>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/base/clock.h"
#include "core/base/log.h"
#include "core/base/thread.h"
#include "millrace/status_macros.h"

namespace millrace {
namespace {

constexpr int kMaxFeedingThreads = 256;
// Sessions in a row that brought no new result.
constexpr int kMaxRestarts = 8;
constexpr absl::Duration kLookAgain = absl::Milliseconds(50);
// What results take besides their values, which may be few: messages, buffers, Arrow's structs.
constexpr int64_t kResultsOverheadBytes = 2048;

int64_t MemoryOf(const RecordBatch& results) { return results.byte_size() + kResultsOverheadBytes; }

}  // namespace

namespace inference_internal {

// What a job's readers share.
struct JobState {
  JobState(SessionOpener* feeder, NodeDirectory* directory, const PartitionedSource* source,
           PartitionObserver* observer, InferenceJobOptions given)
      : feeder(feeder),
        source(source),
        observer(observer),
        options(std::move(given)),
        nodes(directory, options.queue, options.feed_timeout) {}

  SessionOpener* const feeder;
  const PartitionedSource* const source;
  PartitionObserver* const observer;
  const InferenceJobOptions options;
  FeederNodes nodes;

  void Cancel(const absl::Status& status) {
    MILLRACE_CHECK(!status.ok());
    std::set<std::shared_ptr<FeedSession>, SessionOrder> open;
    std::set<std::shared_ptr<SourceCancel>> readers;
    {
      MutexLock lock(&mu);
      if (cancelled.ok()) cancelled = status;
      open = sessions;
      readers = reading;
      changed.SignalAll();
    }
    nodes.Cancel(status);
    for (const std::shared_ptr<SourceCancel>& reader : readers) reader->Cancel();
    for (const std::shared_ptr<FeedSession>& session : open) session->Abort(status);
  }

  Mutex mu;
  CondVar changed;  // cancelled, and what a Collector guards with mu
  absl::Status cancelled ABSL_GUARDED_BY(mu);
  std::set<std::shared_ptr<FeedSession>, SessionOrder> sessions
      ABSL_GUARDED_BY(mu);                                              // those of open readers
  std::set<std::shared_ptr<SourceCancel>> reading ABSL_GUARDED_BY(mu);  // of open readers
};

// Cancels the reader of a source when the session ends that its rows are for: the thread that waits
// in it is to feed them again, or to return the session's error. Thread safety: thread-safe.
class SourceWatch {
 public:
  void Begin(const std::shared_ptr<FeedSession>& session,
             std::shared_ptr<RecordBatchReader> reader) {
    {
      MutexLock lock(&mu_);
      session_ = session;
      reader_ = std::move(reader);
    }
    Look();
  }

  // The session has changed.
  void Look() {
    std::shared_ptr<FeedSession> session;
    std::shared_ptr<RecordBatchReader> reader;
    {
      MutexLock lock(&mu_);
      session = session_.lock();
      reader = reader_;
      if (session == nullptr || reader == nullptr) return;
      ++looking_;
    }
    const SessionEnd end = session->state().end;
    if (end != SessionEnd::kOpen && end != SessionEnd::kDone) reader->Cancel();
    reader.reset();
    MutexLock lock(&mu_);
    if (--looking_ == 0) idle_.SignalAll();
  }

  // The reader belongs to the caller alone when this returns.
  void End() {
    MutexLock lock(&mu_);
    reader_.reset();
    while (looking_ > 0) idle_.Wait(&mu_);
  }

 private:
  Mutex mu_;
  CondVar idle_;
  std::weak_ptr<FeedSession> session_ ABSL_GUARDED_BY(mu_);  // it keeps this
  std::shared_ptr<RecordBatchReader> reader_ ABSL_GUARDED_BY(mu_);
  int looking_ ABSL_GUARDED_BY(mu_) = 0;
};

// The results of Start() on their way from the threads that pull them to the one that reads them,
// partition by partition. Thread safety: thread-safe.
class Collector {
 public:
  explicit Collector(JobState* state) : state_(*state) {}

  // Pulling threads. nullopt: none is left, or it is all over.
  std::optional<int> TakePartition();
  // Blocks while too much waits to be read, or for partitions before this one.
  absl::Status WaitForRoom(int partition);
  // nullopt: the partition is complete.
  void Put(int partition, std::optional<RecordBatch> results);
  void Fail(const absl::Status& status);

  // The thread that reads: as InferenceResults::Next().
  absl::StatusOr<std::optional<PartitionResults>> Take();

 private:
  struct Buffer {
    std::deque<RecordBatch> results;
    bool complete = false;
  };
  bool HasRoom(int partition) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(state_.mu);
  bool HeadWaits() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(state_.mu);

  JobState& state_;
  int next_ ABSL_GUARDED_BY(state_.mu) = 0;  // the next partition to be pulled
  int head_ ABSL_GUARDED_BY(state_.mu) = 0;  // the one being handed over
  std::map<int, Buffer> buffers_ ABSL_GUARDED_BY(state_.mu);
  int64_t buffered_bytes_ ABSL_GUARDED_BY(state_.mu) = 0;
  absl::Status failure_ ABSL_GUARDED_BY(state_.mu);
};

std::optional<int> Collector::TakePartition() {
  MutexLock lock(&state_.mu);
  if (!failure_.ok() || !state_.cancelled.ok()) return std::nullopt;
  if (next_ == state_.source->num_partitions()) return std::nullopt;
  return next_++;
}

// True if the partition to be handed over next stands behind another of ours at its node: then the
// others must go on, whatever there is no room for. It happens only after a node was lost.
bool Collector::HeadWaits() const {
  for (const std::shared_ptr<FeedSession>& session : state_.sessions) {
    if (session->options().partition == head_) return session->state().wait_position > 0;
  }
  return false;
}

// However much the others have: what is read next may always come.
bool Collector::HasRoom(int partition) const {
  if (buffered_bytes_ < state_.options.max_unread_bytes) return true;
  if (partition != head_) return HeadWaits();
  const auto buffer = buffers_.find(head_);
  return buffer == buffers_.end() || buffer->second.results.empty();
}

absl::Status Collector::WaitForRoom(int partition) {
  MutexLock lock(&state_.mu);
  while (true) {
    MILLRACE_RETURN_IF_ERROR(failure_);
    MILLRACE_RETURN_IF_ERROR(state_.cancelled);
    if (HasRoom(partition)) return absl::OkStatus();
    state_.changed.WaitWithTimeout(&state_.mu, kLookAgain);  // nobody announces HeadWaits()
  }
}

void Collector::Put(int partition, std::optional<RecordBatch> results) {
  MutexLock lock(&state_.mu);
  Buffer& buffer = buffers_[partition];
  if (results.has_value()) {
    buffered_bytes_ += MemoryOf(*results);
    buffer.results.push_back(*std::move(results));
  } else {
    buffer.complete = true;
  }
  state_.changed.SignalAll();
}

void Collector::Fail(const absl::Status& status) {
  MutexLock lock(&state_.mu);
  if (failure_.ok()) failure_ = status;
  state_.changed.SignalAll();
}

absl::StatusOr<std::optional<PartitionResults>> Collector::Take() {
  MutexLock lock(&state_.mu);
  while (true) {
    MILLRACE_RETURN_IF_ERROR(failure_);
    MILLRACE_RETURN_IF_ERROR(state_.cancelled);
    if (head_ == state_.source->num_partitions()) return std::optional<PartitionResults>();
    Buffer& buffer = buffers_[head_];
    if (!buffer.results.empty()) {
      PartitionResults results{head_, std::move(buffer.results.front())};
      buffer.results.pop_front();
      buffered_bytes_ -= MemoryOf(results.rows);
      state_.changed.SignalAll();
      return std::optional<PartitionResults>(std::move(results));
    }
    if (buffer.complete) {
      buffers_.erase(head_++);
      state_.changed.SignalAll();
    } else {
      state_.changed.Wait(&state_.mu);  // the pulling threads have the deadlines
    }
  }
}

}  // namespace inference_internal

using inference_internal::Collector;
using inference_internal::JobState;
using inference_internal::SourceWatch;

// ------------------------------------------------------------------------------ InferenceReader

InferenceReader::InferenceReader(std::shared_ptr<JobState> job, int partition)
    : job_(std::move(job)),
      partition_(partition),
      rows_(job_->source, partition, /*data_epoch=*/0, job_->options.batch_bytes,
            /*keep=*/nullptr) {
  MutexLock lock(&job_->mu);
  job_->reading.insert(rows_.cancel());
}

InferenceReader::~InferenceReader() {
  GiveUp(absl::CancelledError("the reader of the results has gone"));
  MutexLock lock(&job_->mu);
  job_->reading.erase(rows_.cancel());
}

absl::StatusOr<std::optional<RecordBatch>> InferenceReader::Next() {
  MILLRACE_RETURN_IF_ERROR(error_);
  absl::StatusOr<std::optional<RecordBatch>> results = NextOrError();
  if (!results.ok()) {
    error_ = results.status();
    if (absl::IsCancelled(error_)) {  // a source that was told to end; here is why
      MutexLock lock(&job_->mu);
      if (!job_->cancelled.ok()) error_ = job_->cancelled;
    }
    GiveUp(error_);
    return error_;
  }
  return results;
}

void InferenceReader::EndSession(const absl::Status& status) {
  if (session_ == nullptr) return;
  source_watch_->End();
  session_->Abort(status);
  job_->nodes.Release(target_.node);
  MutexLock lock(&job_->mu);
  job_->sessions.erase(session_);
  session_.reset();
}

void InferenceReader::GiveUp(const absl::Status& status) {
  if (session_ != nullptr) {
    session_->Abort(status);
    Report(PartitionProgress::State::kFailed);
    EndSession(status);
  } else if (told_.has_value() && told_->state == PartitionProgress::State::kRefeeding) {
    told_->state = PartitionProgress::State::kFailed;
    Tell();
  }
}

void InferenceReader::Tell() const {
  if (job_->observer != nullptr) job_->observer->OnPartition(*told_);
}

void InferenceReader::Report(PartitionProgress::State state) {
  told_ = SessionProgress(state, *session_);
  told_at_ = RealClock()->SteadyNow();
  Tell();
}

absl::Status InferenceReader::OpenSession() {
  std::optional<FeedTarget> target = std::exchange(next_target_, std::nullopt);
  if (target.has_value()) {
    job_->nodes.AcquireAgain(target->node);
  } else {
    MILLRACE_ASSIGN_OR_RETURN(target, job_->nodes.Acquire());
  }
  if (!target.has_value()) {
    return absl::FailedPreconditionError(
        absl::StrCat("no node reads queue '", job_->options.queue, "' any more: partition ",
                     partition_, " has no results after row ", delivered_,
                     "; the program must call NextBatch and ", "BatchResults until ShouldStop"));
  }
  source_watch_ = std::make_shared<SourceWatch>();
  absl::StatusOr<std::shared_ptr<FeedSession>> session =
      job_->feeder->OpenSession(*target, {.feed_id = job_->options.feed_id,
                                          .queue = job_->options.queue,
                                          .mode = FeedMode::kInference,
                                          .partition = partition_,
                                          .feeder_attempt = job_->options.feeder_attempt,
                                          .feed_timeout = job_->options.feed_timeout,
                                          .progress = job_->nodes.Progress(*target),
                                          .on_change = [watch = source_watch_] { watch->Look(); }});
  if (!session.ok()) {
    job_->nodes.Release(target->node);
    return session.status();
  }
  session_ = *std::move(session);
  target_ = *std::move(target);
  pending_.reset();
  finished_ = false;
  sent_bytes_ = sent_rows_ = result_row_ = 0;
  absl::Status cancelled;
  {
    MutexLock lock(&job_->mu);
    cancelled = job_->cancelled;
    job_->sessions.insert(session_);
  }
  Report(PartitionProgress::State::kFeeding);
  MILLRACE_RETURN_IF_ERROR(cancelled);
  MILLRACE_RETURN_IF_ERROR(rows_.Seek(0));
  source_watch_->Begin(session_, rows_.reader());
  return absl::OkStatus();
}

// Reads the source for something to send, or says that there is no more.
absl::Status InferenceReader::FillPending() {
  const absl::Duration began = RealClock()->SteadyNow();
  MILLRACE_ASSIGN_OR_RETURN(const std::optional<RecordBatch> batch, rows_.Next());
  const absl::Duration now = RealClock()->SteadyNow();
  session_->CountSource(now - began);
  if (now - told_at_ >= kPartitionReportInterval) Report(PartitionProgress::State::kFeeding);
  if (!batch.has_value()) {
    finished_ = true;
    return session_->Finish(rows_.position());
  }
  MILLRACE_ASSIGN_OR_RETURN(pending_, session_->Prepare(*batch));
  return absl::OkStatus();
}

bool InferenceReader::MaySend(const FeedSession::Readiness& ready) const {
  if (finished_ || session_->unread_result_bytes() > job_->options.max_unread_bytes) return false;
  // The share of the rows that have no result yet stands for their bytes.
  const double open = sent_rows_ == 0
                          ? 0
                          : static_cast<double>(sent_rows_ - session_->state().returned_rows) /
                                static_cast<double>(sent_rows_);
  return !ready.has_result ||
         open * static_cast<double>(sent_bytes_) < static_cast<double>(job_->options.window_bytes);
}

absl::StatusOr<InferenceReader::Outcome> InferenceReader::Step() {
  if (session_ == nullptr) {
    MILLRACE_RETURN_IF_ERROR(OpenSession());
    return Outcome{};
  }
  MILLRACE_ASSIGN_OR_RETURN(const FeedSession::Readiness ready, session_->Ready());
  const bool may_send = MaySend(ready);
  if (may_send && !pending_.has_value()) {
    MILLRACE_RETURN_IF_ERROR(FillPending());
    return Outcome{};
  }
  if (may_send) {
    MILLRACE_ASSIGN_OR_RETURN(const bool sent, session_->TrySend(*pending_));
    if (sent) {
      sent_rows_ += pending_->rows;
      sent_bytes_ += pending_->size_bytes;
      pending_.reset();
      return Outcome{};
    }
  }
  if (!ready.has_result && !ready.done) {
    std::optional<int64_t> size_bytes;
    if (may_send) size_bytes = pending_->size_bytes;
    MILLRACE_RETURN_IF_ERROR(session_->WaitReady(size_bytes).status());
    return Outcome{};
  }
  MILLRACE_ASSIGN_OR_RETURN(std::optional<RecordBatch> results, session_->NextResult());
  if (!results.has_value()) return Outcome{.end = true};
  return Outcome{.results = Deliver(*std::move(results))};
}

absl::StatusOr<std::optional<RecordBatch>> InferenceReader::NextOrError() {
  while (!ended_) {
    absl::StatusOr<Outcome> outcome = Step();
    if (!outcome.ok()) {
      MILLRACE_RETURN_IF_ERROR(Restart(outcome.status()));
    } else if (outcome->results.has_value()) {
      return std::move(outcome->results);
    } else if (outcome->end) {
      ended_ = true;
      Report(PartitionProgress::State::kAcknowledged);
      EndSession(absl::CancelledError("the session is done"));
    }
  }
  return std::optional<RecordBatch>();
}

// What of `results` was not returned before a restart.
std::optional<RecordBatch> InferenceReader::Deliver(RecordBatch results) {
  const int64_t first_row = std::exchange(result_row_, result_row_ + results.num_rows());
  if (result_row_ <= delivered_) return std::nullopt;
  const int64_t skip = std::max<int64_t>(delivered_ - first_row, 0);
  delivered_ = result_row_;
  restarts_ = 0;
  job_->nodes.Succeeded(target_.node);
  return skip == 0 ? std::move(results) : results.Slice(skip, results.num_rows() - skip);
}

// After a step that failed with `status`: OK if the partition can be fed again.
absl::Status InferenceReader::Restart(const absl::Status& status) {
  // If the session is open, the error is not its own: the source failed, a wait took too long, or
  // the results are not being read.
  if (session_ == nullptr) return status;
  const SessionState state = session_->state();
  if (state.end == SessionEnd::kOpen || state.end == SessionEnd::kDone) return status;
  MILLRACE_ASSIGN_OR_RETURN(Recovery recovery, job_->nodes.Recover(*session_));
  if (++restarts_ > kMaxRestarts) return state.status;
  if (delivered_ > 0 && !job_->source->deterministic()) {
    return absl::UnavailableError(absl::StrCat(
        session_->Place(), ": ", recovery.reason, " after ", delivered_,
        " results were returned, and the source may yield other rows a second time; run the ",
        "inference again"));
  }
  MILLRACE_LOG(WARNING) << session_->Place() << ": fed again from row 0: " << recovery.reason;
  told_ = SessionProgress(PartitionProgress::State::kRefeeding, *session_);
  told_->rows_refed = state.sent_rows;
  told_->reason = recovery.reason;
  Tell();
  EndSession(status);
  if (recovery.where != Recovery::Where::kElsewhere) next_target_ = std::move(recovery.target);
  return absl::OkStatus();
}

// --------------------------------------------------------------------------------- InferenceJob

InferenceJob::InferenceJob(SessionOpener* feeder, NodeDirectory* directory,
                           const PartitionedSource* source, PartitionObserver* observer,
                           InferenceJobOptions options)
    : state_(std::make_shared<JobState>(feeder, directory, source, observer, std::move(options))) {}

absl::Status InferenceJob::Validate() const {
  const InferenceJobOptions& options = state_->options;
  if (options.feed_id.empty()) return absl::InvalidArgumentError("feed_id must not be empty");
  if (options.feed_timeout <= absl::ZeroDuration()) {
    return absl::InvalidArgumentError(
        "feed_timeout must be positive; absl::InfiniteDuration() waits for ever");
  }
  if (options.batch_bytes < 1 || options.window_bytes < 1 || options.max_unread_bytes < 1) {
    return absl::InvalidArgumentError(
        "batch_bytes, window_bytes and max_unread_bytes must be positive");
  }
  if (options.max_feeding_threads.value_or(1) < 1) {
    return absl::InvalidArgumentError(absl::StrCat("max_feeding_threads must be at least 1, found ",
                                                   *options.max_feeding_threads));
  }
  if (state_->nodes.size() == 0) {
    return absl::InvalidArgumentError(
        "the cluster has no node to feed: parameter servers and evaluators are not fed");
  }
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<InferenceReader>> InferenceJob::OpenPartition(int partition) {
  MILLRACE_RETURN_IF_ERROR(Validate());
  if (partition < 0 || partition >= state_->source->num_partitions()) {
    return absl::InvalidArgumentError(absl::StrCat("no partition ", partition, ", the source has ",
                                                   state_->source->num_partitions()));
  }
  return std::unique_ptr<InferenceReader>(new InferenceReader(state_, partition));
}

void InferenceJob::Cancel(const absl::Status& status) { state_->Cancel(status); }

absl::StatusOr<std::unique_ptr<InferenceResults>> InferenceJob::Start() {
  MILLRACE_RETURN_IF_ERROR(Validate());
  std::unique_ptr<InferenceResults> results(new InferenceResults(state_));
  MILLRACE_RETURN_IF_ERROR(results->StartThreads());
  return results;
}

absl::Status InferenceJob::Collect(const Sink& sink) {
  MILLRACE_ASSIGN_OR_RETURN(const std::unique_ptr<InferenceResults> results, Start());
  const auto collect = [&]() -> absl::Status {
    while (true) {
      MILLRACE_ASSIGN_OR_RETURN(std::optional<PartitionResults> some, results->Next());
      if (!some.has_value()) return absl::OkStatus();
      MILLRACE_RETURN_IF_ERROR(sink(some->partition, std::move(some->rows)));
    }
  };
  absl::Status status = collect();
  if (!status.ok()) Cancel(status);
  return status;
}

// ----------------------------------------------------------------------------- InferenceResults

InferenceResults::InferenceResults(std::shared_ptr<JobState> job)
    : job_(std::move(job)), collector_(std::make_unique<Collector>(job_.get())) {}

InferenceResults::~InferenceResults() {
  job_->Cancel(absl::CancelledError("the results are not wanted any more"));
  for (Thread& thread : threads_) thread.Join();
}

absl::Status InferenceResults::StartThreads() {
  const int threads = std::min({job_->options.max_feeding_threads.value_or(job_->nodes.size()),
                                job_->source->num_partitions(), kMaxFeedingThreads});
  for (int i = 0; i < threads; ++i) {
    absl::StatusOr<Thread> thread = Thread::Start(absl::StrCat("feed-infer-", i), [this] {
      while (std::optional<int> partition = collector_->TakePartition()) {
        const absl::Status status = RunPartition(*partition);
        if (!status.ok()) return collector_->Fail(status);
      }
    });
    if (!thread.ok()) return i == 0 ? thread.status() : absl::OkStatus();  // fewer do it too
    threads_.push_back(*std::move(thread));
  }
  return absl::OkStatus();
}

absl::Status InferenceResults::RunPartition(int partition) {
  InferenceReader reader(job_, partition);
  while (true) {
    MILLRACE_RETURN_IF_ERROR(collector_->WaitForRoom(partition));
    MILLRACE_ASSIGN_OR_RETURN(std::optional<RecordBatch> results, reader.Next());
    const bool end = !results.has_value();
    collector_->Put(partition, std::move(results));
    if (end) return absl::OkStatus();
  }
}

absl::StatusOr<std::optional<PartitionResults>> InferenceResults::Next() {
  return collector_->Take();
}

}  // namespace millrace
