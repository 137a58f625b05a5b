#include "millrace/c/cluster.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "core/base/json.h"
#include "core/base/mutex.h"
#include "millrace/c/c_support.h"
#include "millrace/c/cluster_options.h"
#include "millrace/cluster.h"
#include "millrace/cluster_status.h"
#include "millrace/node_program.h"
#include "millrace/record_batch.h"
#include "millrace/schema.h"
#include "millrace/source.h"
#include "millrace/status_macros.h"
#include "millrace/stop_request.h"
#include "nanoarrow/nanoarrow.hpp"

struct millrace_source {
  const std::shared_ptr<const millrace::PartitionedSource> rows;
};

// Whoever it was given to holds it too.
struct millrace_stop {
  const std::shared_ptr<millrace::StopRequest> request = std::make_shared<millrace::StopRequest>();
};

namespace millrace {
namespace {

// Calls on_failure once, whoever hears of the failure first; all others wait until it has returned.
// Results share it with their cluster, and may outlive that.
class FailureTeller {
 public:
  using Callback = void (*)(const millrace_failure* failure, void* user_data);

  FailureTeller(Callback callback, void* user_data) : callback_(callback), user_data_(user_data) {}

  // Whose cause OrTold() looks for; null once it is about to go.
  void Watch(const Cluster* cluster) {
    MutexLock lock(&mu_);
    cluster_ = cluster;
  }

  void Tell(const NodeFailure& failure) {
    MutexLock lock(&mu_);
    Call(failure);
  }

  // What a call returns. Its error may be known before the cluster's own thread tells the cause.
  absl::Status OrTold(absl::Status status) {
    if (status.ok()) return status;
    MutexLock lock(&mu_);
    if (cluster_ == nullptr) return status;
    const std::optional<NodeFailure> cause = cluster_->Status().first_cause;
    if (cause.has_value()) Call(*cause);
    return status;
  }

 private:
  void Call(const NodeFailure& failure) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    if (callback_ == nullptr || std::exchange(told_, true)) return;
    const FailureForC told(failure);
    callback_(&told.get(), user_data_);
  }

  const Callback callback_;
  void* const user_data_;
  Mutex mu_;  // held while on_failure runs, which must not call the cluster
  bool told_ ABSL_GUARDED_BY(mu_) = false;
  const Cluster* cluster_ ABSL_GUARDED_BY(mu_) = nullptr;
};

}  // namespace
}  // namespace millrace

struct millrace_cluster {
  millrace_cluster(const millrace_cluster_options& options, millrace::Agents of)
      : stop(options.stop == nullptr ? std::make_shared<millrace::StopRequest>()
                                     : options.stop->request),
        failure(std::make_shared<millrace::FailureTeller>(options.observer.on_failure,
                                                          options.observer.user_data)),
        agents(std::move(of)) {}
  ~millrace_cluster() { failure->Watch(nullptr); }

  // The cluster goes first.
  const std::shared_ptr<millrace::StopRequest> stop;
  const std::shared_ptr<millrace::FailureTeller> failure;
  const millrace::Agents agents;
  std::string address;
  std::unique_ptr<millrace::Cluster> running;
};

namespace millrace {
namespace {

absl::StatusOr<std::vector<RecordBatch>> ReadAll(ArrowArrayStream* stream) {
  MILLRACE_ASSIGN_OR_RETURN(const std::unique_ptr<RecordBatchReader> reader,
                            MakeStreamReader(stream));
  std::vector<RecordBatch> batches;
  while (true) {
    MILLRACE_ASSIGN_OR_RETURN(std::optional<RecordBatch> batch, reader->Next());
    if (!batch.has_value()) return batches;
    batches.push_back(*std::move(batch));
  }
}

absl::StatusOr<millrace_source*> SplitSource(ArrowArrayStream* stream, int32_t num_partitions) {
  nanoarrow::UniqueArrayStream owned(stream);
  MILLRACE_ASSIGN_OR_RETURN(const std::vector<RecordBatch> batches, ReadAll(owned.get()));
  MILLRACE_ASSIGN_OR_RETURN(std::unique_ptr<MemorySource> source,
                            MemorySource::Split(batches, num_partitions));
  return new millrace_source{std::move(source)};
}

absl::StatusOr<millrace_source*> SourceFromMemory(ArrowArrayStream* streams, int32_t num_streams) {
  std::vector<nanoarrow::UniqueArrayStream> owned;
  for (int32_t i = 0; i < num_streams; ++i) owned.emplace_back(&streams[i]);
  std::vector<std::vector<RecordBatch>> partitions;
  for (nanoarrow::UniqueArrayStream& stream : owned) {
    MILLRACE_ASSIGN_OR_RETURN(std::vector<RecordBatch> partition, ReadAll(stream.get()));
    partitions.push_back(std::move(partition));
  }
  MILLRACE_ASSIGN_OR_RETURN(std::unique_ptr<MemorySource> source,
                            MemorySource::Create(std::move(partitions)));
  return new millrace_source{std::move(source)};
}

absl::StatusOr<millrace_source*> SourceFromFunction(int32_t num_partitions,
                                                    millrace_open_partition open, void* user_data,
                                                    bool deterministic) {
  const auto call = [open, user_data](int partition, int64_t data_epoch, ArrowArrayStream* out) {
    millrace_error error = MILLRACE_ERROR_INIT;
    const int32_t code = open(partition, data_epoch, user_data, out, &error);
    const absl::Status opened = StatusOf(code, error);
    ReportStatus(absl::OkStatus(), &error);  // frees the text
    return opened;
  };
  MILLRACE_ASSIGN_OR_RETURN(std::unique_ptr<StreamSource> source,
                            StreamSource::Create(num_partitions, call, deterministic));
  return new millrace_source{std::move(source)};
}

// The results of a call, with what has to live as long as they are read.
class ResultsReader final : public RecordBatchReader {
 public:
  ResultsReader(std::shared_ptr<StopRequest> stop, std::shared_ptr<FailureTeller> failure,
                std::unique_ptr<RecordBatchReader> results)
      : stop_(std::move(stop)), failure_(std::move(failure)), results_(std::move(results)) {}

  const Schema& schema() const override { return results_->schema(); }
  absl::StatusOr<std::optional<RecordBatch>> Next() override {
    absl::StatusOr<std::optional<RecordBatch>> next = results_->Next();
    failure_->OrTold(next.status()).IgnoreError();
    return next;
  }

 private:
  // The results go first.
  const std::shared_ptr<StopRequest> stop_;
  const std::shared_ptr<FailureTeller> failure_;
  const std::unique_ptr<RecordBatchReader> results_;
};

absl::Status Run(const millrace_cluster_options* given, millrace_cluster** cluster) {
  MILLRACE_ASSIGN_OR_RETURN(const millrace_cluster_options known, ReadStruct(given));
  MILLRACE_ASSIGN_OR_RETURN(const NodeProgram program, ProgramOf(known));
  MILLRACE_ASSIGN_OR_RETURN(ClusterOptions options, OptionsOf(known));
  MILLRACE_ASSIGN_OR_RETURN(Agents agents, AgentsOf(known));
  MILLRACE_RETURN_IF_ERROR(TakeShape(known, agents, &options));
  auto started = std::make_unique<millrace_cluster>(known, std::move(agents));
  options.stop_request = started->stop.get();
  options.observer.on_failure = [teller = started->failure](const NodeFailure& failure) {
    teller->Tell(failure);
  };
  MILLRACE_ASSIGN_OR_RETURN(started->running,
                            Cluster::Run(*started->agents.launcher, program, std::move(options)));
  started->failure->Watch(started->running.get());
  started->address = started->running->server_address();
  *cluster = started.release();
  return absl::OkStatus();
}

absl::Status Train(millrace_cluster* cluster, const millrace_source* source,
                   const millrace_feed_call* call, millrace_train_result* result) {
  MILLRACE_ASSIGN_OR_RETURN(const millrace_feed_call given, ReadStruct(call));
  TrainOptions options;
  if (given.num_epochs != 0) options.num_epochs = given.num_epochs;
  options.end_of_feed = given.end_of_feed != 0;
  TakeOption(given.feed_timeout_ms, &options.feed_timeout);
  TakeOption(given.queue, &options.queue);
  if (given.batch_bytes != 0) options.batch_bytes = given.batch_bytes;
  const std::shared_ptr<StopRequest> stop = given.stop == nullptr ? nullptr : given.stop->request;
  options.stop_request = stop.get();
  if (result != nullptr) MILLRACE_RETURN_IF_ERROR(WriteStruct(millrace_train_result{}, result));
  MILLRACE_ASSIGN_OR_RETURN(const TrainResult trained,
                            cluster->running->Train(*source->rows, options));
  if (result == nullptr) return absl::OkStatus();
  millrace_train_result told = {};
  told.rows = trained.rows;
  told.rows_refed = trained.rows_refed;
  told.elapsed_ms = absl::ToInt64Milliseconds(trained.elapsed);
  told.terminated = trained.terminated ? 1 : 0;
  told.exactly_once = trained.exactly_once ? 1 : 0;
  told.dropped_rows = trained.dropped_rows;
  told.repeated_rows = trained.repeated_rows;
  // A caller that does not know the member would not free it.
  const bool knows = result->struct_size >= sizeof(told);
  if (knows && !trained.equal_nodes.empty()) {
    Json nodes = Json::array();
    for (const EqualNodeRows& rows : trained.equal_nodes) {
      nodes.push_back(Json{{"node", rows.node},
                           {"dropped_rows", rows.dropped_rows},
                           {"repeated_rows", rows.repeated_rows}});
    }
    told.equal_nodes = CopyText(DumpJson(nodes));
  }
  return WriteStruct(told, result);
}

absl::Status Infer(millrace_cluster* cluster, const millrace_source* source,
                   const millrace_feed_call* call, ArrowArrayStream* results) {
  MILLRACE_ASSIGN_OR_RETURN(const millrace_feed_call given, ReadStruct(call));
  InferenceOptions options;
  TakeOption(given.feed_timeout_ms, &options.feed_timeout);
  TakeOption(given.queue, &options.queue);
  if (given.batch_bytes != 0) options.batch_bytes = given.batch_bytes;
  const std::shared_ptr<StopRequest> stop = given.stop == nullptr ? nullptr : given.stop->request;
  options.stop_request = stop.get();
  MILLRACE_ASSIGN_OR_RETURN(InferenceResult inference,
                            cluster->running->Inference(source->rows, options));
  MILLRACE_ASSIGN_OR_RETURN(std::unique_ptr<RecordBatchReader> reader, inference.Open());
  ExportReader(std::make_unique<ResultsReader>(stop, cluster->failure, std::move(reader)), results);
  return absl::OkStatus();
}

absl::Status Shutdown(millrace_cluster* cluster, const millrace_shutdown* given) {
  MILLRACE_ASSIGN_OR_RETURN(const millrace_shutdown known, ReadStruct(given));
  ShutdownOptions options;
  TakeOption(known.grace_ms, &options.grace);
  TakeOption(known.timeout_ms, &options.timeout);
  return cluster->running->Shutdown(options);
}

std::string NodesJson(const ClusterStatus& status) {
  Json nodes = Json::array();
  for (const SlotStatus& slot : status.slots) {
    nodes.push_back({{"executor_id", slot.executor_id},
                     {"job_name", slot.role.job_name},
                     {"task_index", slot.role.task_index},
                     {"state", std::string(SlotStateName(slot.state))},
                     {"attempt", slot.attempt},
                     {"host", slot.host},
                     {"address", slot.address},
                     {"pid", slot.node_pid}});
  }
  return DumpJson(nodes);
}

}  // namespace
}  // namespace millrace

using ::millrace::NullArgument;
using ::millrace::ReportStatus;

// ---- where rows come from -----------------------------------------------------------------------

int32_t millrace_source_from_memory(struct ArrowArrayStream* streams, int32_t num_streams,
                                    millrace_source** source, millrace_error* error) {
  if (source == nullptr || (streams == nullptr && num_streams > 0)) {
    return ReportStatus(NullArgument("millrace_source_from_memory", "streams or source"), error);
  }
  const absl::StatusOr<millrace_source*> made = millrace::SourceFromMemory(streams, num_streams);
  if (made.ok()) *source = *made;
  return ReportStatus(made.status(), error);
}

int32_t millrace_source_split(struct ArrowArrayStream* stream, int32_t num_partitions,
                              millrace_source** source, millrace_error* error) {
  if (source == nullptr || stream == nullptr) {
    return ReportStatus(NullArgument("millrace_source_split", "stream or source"), error);
  }
  const absl::StatusOr<millrace_source*> made = millrace::SplitSource(stream, num_partitions);
  if (made.ok()) *source = *made;
  return ReportStatus(made.status(), error);
}

int32_t millrace_stream_of_batch(struct ArrowSchema* schema, struct ArrowArray* array,
                                 struct ArrowArrayStream* out, millrace_error* error) {
  if (schema == nullptr || array == nullptr || out == nullptr) {
    return ReportStatus(NullArgument("millrace_stream_of_batch", "schema, array or out"), error);
  }
  nanoarrow::UniqueSchema owned_schema(schema);
  nanoarrow::UniqueArray owned_array(array);
  if (ArrowBasicArrayStreamInit(out, owned_schema.get(), 1) != NANOARROW_OK) {
    return ReportStatus(absl::ResourceExhaustedError("millrace_stream_of_batch: out of memory"),
                        error);
  }
  ArrowBasicArrayStreamSetArray(out, 0, owned_array.get());
  return ReportStatus(absl::OkStatus(), error);
}

int32_t millrace_source_from_function(int32_t num_partitions,
                                      millrace_open_partition open_partition, void* user_data,
                                      int32_t deterministic, millrace_source** source,
                                      millrace_error* error) {
  if (source == nullptr || open_partition == nullptr) {
    return ReportStatus(NullArgument("millrace_source_from_function", "open_partition or source"),
                        error);
  }
  const absl::StatusOr<millrace_source*> made =
      millrace::SourceFromFunction(num_partitions, open_partition, user_data, deterministic != 0);
  if (made.ok()) *source = *made;
  return ReportStatus(made.status(), error);
}

void millrace_source_free(millrace_source* source) { delete source; }

// ---- stopping -----------------------------------------------------------------------------------

millrace_stop* millrace_stop_new(void) { return new millrace_stop; }

void millrace_stop_free(millrace_stop* stop) { delete stop; }

void millrace_stop_request(millrace_stop* stop, const char* reason, int32_t now) {
  if (stop == nullptr) return;
  const std::shared_ptr<millrace::StopRequest> request = stop->request;
  request->Request(reason == nullptr ? "stopped" : reason, now != 0);
}

// ---- a cluster ----------------------------------------------------------------------------------

int32_t millrace_cluster_run(const millrace_cluster_options* options, millrace_cluster** cluster,
                             millrace_error* error) {
  if (options == nullptr || cluster == nullptr) {
    return ReportStatus(NullArgument("millrace_cluster_run", "options or cluster"), error);
  }
  return ReportStatus(millrace::Run(options, cluster), error);
}

void millrace_cluster_free(millrace_cluster* cluster) { delete cluster; }

const char* millrace_cluster_id(const millrace_cluster* cluster) {
  return cluster == nullptr ? "" : cluster->running->cluster_id().c_str();
}

int32_t millrace_cluster_spec(const millrace_cluster* cluster, char** json, millrace_error* error) {
  if (cluster == nullptr || json == nullptr) {
    return ReportStatus(NullArgument("millrace_cluster_spec", "cluster or json"), error);
  }
  *json = millrace::CopyText(cluster->running->cluster_spec().ToJson());
  return ReportStatus(absl::OkStatus(), error);
}

int32_t millrace_cluster_nodes(const millrace_cluster* cluster, char** json,
                               millrace_error* error) {
  if (cluster == nullptr || json == nullptr) {
    return ReportStatus(NullArgument("millrace_cluster_nodes", "cluster or json"), error);
  }
  *json = millrace::CopyText(millrace::NodesJson(cluster->running->Status()));
  return ReportStatus(absl::OkStatus(), error);
}

const char* millrace_cluster_address(const millrace_cluster* cluster) {
  return cluster == nullptr ? "" : cluster->address.c_str();
}

int32_t millrace_cluster_tensorboard_url(const millrace_cluster* cluster, char** url,
                                         millrace_error* error) {
  if (cluster == nullptr || url == nullptr) {
    return ReportStatus(NullArgument("millrace_cluster_tensorboard_url", "cluster or url"), error);
  }
  *url = millrace::CopyText(cluster->running->tensorboard_url());
  return ReportStatus(absl::OkStatus(), error);
}

int32_t millrace_cluster_train(millrace_cluster* cluster, const millrace_source* source,
                               const millrace_feed_call* call, millrace_train_result* result,
                               millrace_error* error) {
  if (cluster == nullptr || source == nullptr) {
    return ReportStatus(NullArgument("millrace_cluster_train", "cluster or source"), error);
  }
  return ReportStatus(cluster->failure->OrTold(millrace::Train(cluster, source, call, result)),
                      error);
}

int32_t millrace_cluster_inference(millrace_cluster* cluster, const millrace_source* source,
                                   const millrace_feed_call* call, struct ArrowArrayStream* results,
                                   millrace_error* error) {
  if (cluster == nullptr || source == nullptr || results == nullptr) {
    return ReportStatus(NullArgument("millrace_cluster_inference", "cluster, source or results"),
                        error);
  }
  return ReportStatus(cluster->failure->OrTold(millrace::Infer(cluster, source, call, results)),
                      error);
}

int32_t millrace_stream_error(const struct ArrowArrayStream* stream, millrace_error* error) {
  if (stream == nullptr) {
    return ReportStatus(NullArgument("millrace_stream_error", "stream"), error);
  }
  return ReportStatus(millrace::ExportedStatus(*stream), error);
}

int32_t millrace_cluster_end_feed(millrace_cluster* cluster, const char* queue,
                                  millrace_error* error) {
  if (cluster == nullptr) {
    return ReportStatus(NullArgument("millrace_cluster_end_feed", "cluster"), error);
  }
  const absl::Status ended = cluster->running->EndFeed(queue == nullptr ? "input" : queue);
  return ReportStatus(cluster->failure->OrTold(ended), error);
}

int32_t millrace_cluster_shutdown(millrace_cluster* cluster, const millrace_shutdown* options,
                                  millrace_error* error) {
  if (cluster == nullptr) {
    return ReportStatus(NullArgument("millrace_cluster_shutdown", "cluster"), error);
  }
  return ReportStatus(cluster->failure->OrTold(millrace::Shutdown(cluster, options)), error);
}

void millrace_cluster_stop(millrace_cluster* cluster, const char* reason, int32_t now) {
  if (cluster == nullptr) return;
  cluster->stop->Request(reason == nullptr ? "stopped" : reason, now != 0);
}
