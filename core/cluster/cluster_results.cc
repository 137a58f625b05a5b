// How a cluster's inference is read: InferenceResult, and what stands behind it.

#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "core/base/mutex.h"
#include "core/base/random.h"
#include "core/base/status.h"
#include "core/cluster/cluster_impl.h"
#include "core/cluster/ledger_observer.h"
#include "feed/feeder/inference_job.h"
#include "millrace/cluster.h"
#include "millrace/record_batch.h"
#include "millrace/schema.h"
#include "millrace/source.h"
#include "millrace/status_macros.h"

namespace millrace {
namespace {

InferenceJobOptions JobOptions(const InferenceOptions& options) {
  InferenceJobOptions job;
  job.feed_id = RandomHex(8);
  job.queue = options.queue;
  job.feed_timeout = options.feed_timeout;
  job.batch_bytes = options.batch_bytes;
  return job;
}

}  // namespace

// The results of one call. Whoever reads them and the cluster share it, and the one that goes first
// ends the call: afterwards nothing here uses the cluster.
//
// Thread safety: all methods; one thread at a time reads.
class [[gnu::visibility("hidden")]] Cluster::Impl::Results
    : public std::enable_shared_from_this<Results> {
 public:
  Results(Impl * cluster, std::shared_ptr<const PartitionedSource> source,
          const InferenceOptions& options)
      : cluster_(cluster), source_(std::move(source)), options_(options) {
    call_.stop = options.stop_request;
    InferenceJobOptions job = JobOptions(options);
    observer_ = std::make_unique<LedgerObserver>(cluster->coordinator_.get(), /*progress=*/nullptr,
                                                 job.feed_id, source_->num_partitions(),
                                                 /*num_epochs=*/1);
    job_ = std::make_shared<InferenceJob>(cluster->feeder_.get(), cluster->directory_.get(),
                                          source_.get(), observer_.get(), std::move(job));
  }

  // Begins the call. Blocks until the nodes can be fed.
  absl::Status Start() {
    MutexLock lock(&mu_);
    OpenCall open;
    open.cancel = [job = job_](const absl::Status& why) { job->Cancel(why); };
    open.end = [self = shared_from_this()](const absl::Status& why) {
      self->End(Annotate(why, "the results were not all read"));
    };
    absl::Status status = cluster_->BeginCall(std::move(open), options_.feed_timeout, &call_);
    if (status.ok()) status = StartJob();
    return status.ok() ? status : Finish(std::move(status));
  }

  // The next results; nullopt at the end. After that, and after an error, the call is over.
  absl::StatusOr<std::optional<PartitionResults>> Next() {
    MutexLock lock(&mu_);
    if (ended_.has_value()) return AtEnd(*ended_);
    absl::StatusOr<std::optional<PartitionResults>> some = results_->Next();
    if (some.ok() && some->has_value()) return some;
    return AtEnd(Finish(some.status()));
  }

  // Ends the wait of who reads.
  void Cancel(const absl::Status& why) { job_->Cancel(why); }

  // Ends the call, if that has not happened; what was not read is given up.
  void End(const absl::Status& why) {
    job_->Cancel(why);  // whoever reads returns
    MutexLock lock(&mu_);
    if (!ended_.has_value()) Finish(why).IgnoreError();
  }

 private:
  static absl::StatusOr<std::optional<PartitionResults>> AtEnd(const absl::Status& status) {
    if (!status.ok()) return status;
    return std::optional<PartitionResults>();
  }

  absl::Status StartJob() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    MILLRACE_RETURN_IF_ERROR(observer_->Open(options_.queue));
    MILLRACE_ASSIGN_OR_RETURN(results_, job_->Start());
    return absl::OkStatus();
  }

  absl::Status Finish(absl::Status status) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    results_.reset();   // its threads have ended
    observer_.reset();  // the ledger knows
    ended_ = cluster_->EndCall(&call_, std::move(status));
    return *ended_;
  }

  Impl* const cluster_;  // gone, perhaps, once ended_ is set
  const std::shared_ptr<const PartitionedSource> source_;
  const InferenceOptions options_;
  std::shared_ptr<InferenceJob> job_;  // written by the constructor only
  // Held while the call begins, while somebody reads, and while it ends.
  Mutex mu_;
  Call call_ ABSL_GUARDED_BY(mu_);
  std::unique_ptr<LedgerObserver> observer_ ABSL_GUARDED_BY(mu_);
  std::unique_ptr<InferenceResults> results_ ABSL_GUARDED_BY(mu_);
  std::optional<absl::Status> ended_ ABSL_GUARDED_BY(mu_);  // OK: every result was read
};

// What InferenceResult::Open() returns.
class [[gnu::visibility("hidden")]] Cluster::Impl::ResultsReader final : public RecordBatchReader {
 public:
  explicit ResultsReader(std::shared_ptr<Results> results) : results_(std::move(results)) {}
  ~ResultsReader() override { results_->End(absl::CancelledError("nobody reads the results")); }

  // The first results say what the columns are.
  absl::Status ReadFirst() {
    MILLRACE_ASSIGN_OR_RETURN(first_, results_->Next());
    if (first_.has_value()) schema_ = first_->rows.schema();
    return absl::OkStatus();
  }

  const Schema& schema() const override { return schema_; }

  absl::StatusOr<std::optional<RecordBatch>> Next() override {
    std::optional<PartitionResults> some = std::exchange(first_, std::nullopt);
    if (!some.has_value()) {
      MILLRACE_ASSIGN_OR_RETURN(some, results_->Next());
      if (!some.has_value()) return std::optional<RecordBatch>();
    }
    if (some->rows.schema() != schema_) {
      const absl::Status mixed = absl::InvalidArgumentError(
          absl::StrCat("results of one call have one schema: ",
                       Schema::DescribeDifference(schema_, some->rows.schema())));
      results_->End(mixed);
      return mixed;
    }
    return std::optional<RecordBatch>(std::move(some->rows));
  }

  void Cancel() override { results_->Cancel(absl::CancelledError("nobody reads the results")); }

 private:
  const std::shared_ptr<Results> results_;
  std::optional<PartitionResults> first_;
  Schema schema_;  // without columns if there was no row
};

absl::Status Cluster::Impl::CheckInference(const InferenceOptions& options) {
  return CheckFeed(options.queue, options.feed_timeout, options.batch_bytes);
}

absl::Status Cluster::Impl::Infer(const std::shared_ptr<const PartitionedSource>& source,
                                  const InferenceOptions& options, const Sink& sink) {
  MILLRACE_RETURN_IF_ERROR(CheckInference(options));
  const auto results = std::make_shared<Results>(this, source, options);
  MILLRACE_RETURN_IF_ERROR(results->Start());
  while (true) {
    MILLRACE_ASSIGN_OR_RETURN(std::optional<PartitionResults> some, results->Next());
    if (!some.has_value()) return absl::OkStatus();
    const absl::Status taken = sink(some->partition, std::move(some->rows));
    if (taken.ok()) continue;
    results->End(taken);
    return taken;
  }
}

absl::StatusOr<std::unique_ptr<RecordBatchReader>> Cluster::Impl::OpenResults(
    const std::shared_ptr<const PartitionedSource>& source, const InferenceOptions& options) {
  MILLRACE_RETURN_IF_ERROR(CheckInference(options));
  const auto results = std::make_shared<Results>(this, source, options);
  MILLRACE_RETURN_IF_ERROR(results->Start());
  auto reader = std::make_unique<ResultsReader>(results);
  MILLRACE_RETURN_IF_ERROR(reader->ReadFirst());
  return std::unique_ptr<RecordBatchReader>(std::move(reader));
}

// ---- InferenceResult ----------------------------------------------------------------------------

class [[gnu::visibility("hidden")]] InferenceResult::Impl {
 public:
  Impl(Cluster::Impl * cluster, std::shared_ptr<const PartitionedSource> source,
       InferenceOptions options)
      : cluster_(cluster), source_(std::move(source)), options_(std::move(options)) {}

  int num_partitions() const { return source_->num_partitions(); }
  absl::Status Run(const Cluster::Impl::Sink& sink) {
    return cluster_->Infer(source_, options_, sink);
  }
  absl::StatusOr<std::unique_ptr<RecordBatchReader>> Open() {
    return cluster_->OpenResults(source_, options_);
  }

 private:
  Cluster::Impl* const cluster_;
  const std::shared_ptr<const PartitionedSource> source_;
  const InferenceOptions options_;
};

absl::StatusOr<InferenceResult> Cluster::Inference(std::shared_ptr<const PartitionedSource> source,
                                                   const InferenceOptions& options) {
  if (source == nullptr) return absl::InvalidArgumentError("Inference: there is no source");
  MILLRACE_RETURN_IF_ERROR(impl_->CheckInference(options));
  return InferenceResult(
      std::make_unique<InferenceResult::Impl>(impl_.get(), std::move(source), options));
}

InferenceResult::InferenceResult(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
InferenceResult::~InferenceResult() = default;
InferenceResult::InferenceResult(InferenceResult&&) noexcept = default;
InferenceResult& InferenceResult::operator=(InferenceResult&&) noexcept = default;

int InferenceResult::num_partitions() const { return impl_->num_partitions(); }

absl::StatusOr<std::vector<RecordBatch>> InferenceResult::Collect() {
  std::vector<RecordBatch> batches;
  MILLRACE_RETURN_IF_ERROR(impl_->Run([&batches](int, RecordBatch results) {
    batches.push_back(std::move(results));
    return absl::OkStatus();
  }));
  return batches;
}

absl::Status InferenceResult::ForEach(
    const std::function<absl::Status(int partition, const RecordBatch&)>& consume) {
  return impl_->Run(consume);
}

absl::StatusOr<std::unique_ptr<RecordBatchReader>> InferenceResult::Open() { return impl_->Open(); }

}  // namespace millrace
