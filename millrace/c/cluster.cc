#include "millrace/c/cluster.h"

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "core/base/status_macros.h"
#include "core/cluster/cluster.h"
#include "core/cluster/local_launcher.h"
#include "core/cluster/node_program.h"
#include "core/cluster/stop_request.h"
#include "feed/arrow/record_batch.h"
#include "feed/arrow/schema.h"
#include "feed/source/memory_source.h"
#include "feed/source/source.h"
#include "millrace/c/c_support.h"
#include "nanoarrow/nanoarrow.hpp"

struct millrace_source {
  const std::shared_ptr<millrace::PartitionedSource> rows;
};

struct millrace_cluster {
  explicit millrace_cluster(const char* agent_path)
      : launcher({.agent_path = agent_path == nullptr ? "" : agent_path}) {}

  // The cluster goes first.
  millrace::StopRequest stop;
  millrace::LocalLauncher launcher;
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

absl::StatusOr<millrace_source*> SourceFromMemory(ArrowArrayStream* streams, int32_t num_streams) {
  std::vector<nanoarrow::UniqueArrayStream> owned;
  for (int32_t i = 0; i < num_streams; ++i) owned.emplace_back(&streams[i]);
  std::vector<std::vector<RecordBatch>> partitions;
  for (nanoarrow::UniqueArrayStream& stream : owned) {
    MILLRACE_ASSIGN_OR_RETURN(std::vector<RecordBatch> partition, ReadAll(stream.get()));
    partitions.push_back(std::move(partition));
  }
  MILLRACE_ASSIGN_OR_RETURN(MemorySource source, MemorySource::Create(std::move(partitions)));
  return new millrace_source{std::make_shared<MemorySource>(std::move(source))};
}

std::shared_ptr<PartitionedSource> SourceFromFunction(int32_t num_partitions,
                                                      millrace_open_partition open, void* user_data,
                                                      bool deterministic) {
  const auto call = [open, user_data](int partition, int64_t data_epoch, ArrowArrayStream* out) {
    millrace_error error = MILLRACE_ERROR_INIT;
    const int32_t code = open(partition, data_epoch, user_data, out, &error);
    const absl::Status opened = StatusOf(code, error);
    ReportStatus(absl::OkStatus(), &error);  // frees the text
    return opened;
  };
  return std::make_shared<StreamSource>(num_partitions, call, deterministic);
}

// Batches that are in memory, for a consumer of streams.
class CollectedReader final : public RecordBatchReader {
 public:
  CollectedReader(Schema schema, std::vector<RecordBatch> batches)
      : schema_(std::move(schema)), batches_(std::move(batches)) {}

  const Schema& schema() const override { return schema_; }
  absl::StatusOr<std::optional<RecordBatch>> Next() override {
    if (next_ == batches_.size()) return std::optional<RecordBatch>();
    return std::optional<RecordBatch>(std::move(batches_[next_++]));
  }

 private:
  const Schema schema_;
  std::vector<RecordBatch> batches_;
  size_t next_ = 0;
};

void Take(const char* text, std::string* into) {
  if (text != nullptr) *into = text;
}

// Zero is the default.
void Take(int64_t ms, absl::Duration* into) {
  if (ms != 0) *into = DurationOf(ms);
}

absl::StatusOr<NodeProgram> ProgramOf(const millrace_cluster_options& given) {
  if (given.program == nullptr) return NullArgument("millrace_cluster_run", "options->program");
  // All nodes are on this host: nothing is shipped, and what lies beside the program is found.
  std::string path = given.program;
  if (path.find('/') != std::string::npos) {
    std::error_code failed;
    const std::filesystem::path absolute = std::filesystem::absolute(path, failed);
    if (!failed) path = absolute.string();
  }
  NodeProgram program = NodeProgram::Path(std::move(path));
  std::vector<std::string> args;
  for (size_t i = 0; i < given.num_args; ++i) {
    if (given.args == nullptr || given.args[i] == nullptr) {
      return NullArgument("millrace_cluster_run", absl::StrCat("options->args[", i, "]"));
    }
    args.emplace_back(given.args[i]);
  }
  std::map<std::string, std::string> env;
  for (size_t i = 0; i < given.num_env; ++i) {
    if (given.env == nullptr || given.env[i].name == nullptr || given.env[i].value == nullptr) {
      return NullArgument("millrace_cluster_run", absl::StrCat("options->env[", i, "]"));
    }
    env[given.env[i].name] = given.env[i].value;
  }
  program.Args(std::move(args)).Env(std::move(env));
  return program;
}

void TakeCallbacks(const millrace_cluster_options& given, ClusterOptions* options) {
  void* const user_data = given.user_data;
  if (given.on_log != nullptr) {
    options->on_log = [on_log = given.on_log, user_data](absl::string_view node,
                                                         absl::string_view line) {
      on_log(std::string(node).c_str(), std::string(line).c_str(), user_data);
    };
  }
  if (given.on_metric != nullptr) {
    options->on_metric = [on_metric = given.on_metric, user_data](absl::string_view node,
                                                                  absl::string_view name,
                                                                  int64_t step, double value) {
      on_metric(std::string(node).c_str(), std::string(name).c_str(), step, value, user_data);
    };
  }
}

absl::StatusOr<ClusterOptions> OptionsOf(const millrace_cluster_options& given) {
  ClusterOptions options;
  if (given.num_executors != 0) options.num_executors = given.num_executors;
  options.num_ps = given.num_ps;
  Take(given.master_node, &options.master_node);
  options.eval_node = given.eval_node != 0;
  options.input_mode = given.feed != 0 ? InputMode::kFeed : InputMode::kDirect;
  if (given.num_queues > 0) options.queues.clear();
  for (size_t i = 0; i < given.num_queues; ++i) {
    if (given.queues == nullptr || given.queues[i] == nullptr) {
      return NullArgument("millrace_cluster_run", absl::StrCat("options->queues[", i, "]"));
    }
    options.queues.emplace_back(given.queues[i]);
  }
  Take(given.log_dir, &options.log_dir);
  Take(given.working_dir, &options.working_dir);
  Take(given.default_fs, &options.default_fs);
  options.release_port = given.keep_port == 0;
  options.gpus_per_node = given.gpus_per_node;
  options.restart.max_restarts = given.max_restarts;
  Take(given.reservation_timeout_ms, &options.reservation_timeout);
  if (given.feed_budget_bytes != 0) options.feed_budget_bytes = given.feed_budget_bytes;
  if (given.progress != 0) options.progress = given.progress > 0;
  options.cluster_file = given.no_cluster_file == 0;
  TakeCallbacks(given, &options);
  return options;
}

absl::Status Run(const millrace_cluster_options* given, millrace_cluster** cluster) {
  MILLRACE_ASSIGN_OR_RETURN(const millrace_cluster_options known, ReadStruct(given));
  MILLRACE_ASSIGN_OR_RETURN(const NodeProgram program, ProgramOf(known));
  MILLRACE_ASSIGN_OR_RETURN(ClusterOptions options, OptionsOf(known));
  auto started = std::make_unique<millrace_cluster>(known.agent_path);
  options.stop_request = &started->stop;
  MILLRACE_ASSIGN_OR_RETURN(started->running,
                            Cluster::Run(started->launcher, program, std::move(options)));
  *cluster = started.release();
  return absl::OkStatus();
}

absl::Status Train(millrace_cluster* cluster, const millrace_source* source,
                   const millrace_feed_call* call, millrace_train_result* result) {
  MILLRACE_ASSIGN_OR_RETURN(const millrace_feed_call given, ReadStruct(call));
  TrainOptions options;
  if (given.num_epochs != 0) options.num_epochs = given.num_epochs;
  options.end_of_feed = given.end_of_feed != 0;
  Take(given.feed_timeout_ms, &options.feed_timeout);
  Take(given.queue, &options.queue);
  if (given.batch_bytes != 0) options.batch_bytes = given.batch_bytes;
  if (result != nullptr) MILLRACE_RETURN_IF_ERROR(WriteStruct(millrace_train_result{}, result));
  MILLRACE_ASSIGN_OR_RETURN(const TrainResult trained,
                            cluster->running->Train(source->rows, options));
  if (result == nullptr) return absl::OkStatus();
  millrace_train_result told = {};
  told.rows = trained.rows();
  told.refed_rows = trained.refed_rows();
  told.elapsed_ms = absl::ToInt64Milliseconds(trained.elapsed);
  told.terminated = trained.terminated ? 1 : 0;
  return WriteStruct(told, result);
}

absl::Status Infer(millrace_cluster* cluster, const millrace_source* source,
                   const millrace_feed_call* call, ArrowArrayStream* results) {
  MILLRACE_ASSIGN_OR_RETURN(const millrace_feed_call given, ReadStruct(call));
  InferenceOptions options;
  Take(given.feed_timeout_ms, &options.feed_timeout);
  Take(given.queue, &options.queue);
  if (given.batch_bytes != 0) options.batch_bytes = given.batch_bytes;
  MILLRACE_ASSIGN_OR_RETURN(InferenceResult inference,
                            cluster->running->Inference(source->rows, options));
  MILLRACE_ASSIGN_OR_RETURN(std::vector<RecordBatch> batches, inference.Collect());
  Schema schema;
  if (!batches.empty()) schema = batches[0].schema();
  for (const RecordBatch& batch : batches) {
    if (batch.schema() == schema) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("results of one call have one schema: ",
                     Schema::DescribeDifference(schema, batch.schema())));
  }
  ExportReader(std::make_unique<CollectedReader>(std::move(schema), std::move(batches)), results);
  return absl::OkStatus();
}

absl::Status Shutdown(millrace_cluster* cluster, const millrace_shutdown* given) {
  MILLRACE_ASSIGN_OR_RETURN(const millrace_shutdown known, ReadStruct(given));
  ShutdownOptions options;
  Take(known.grace_ms, &options.grace);
  Take(known.timeout_ms, &options.timeout);
  return cluster->running->Shutdown(options);
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

int32_t millrace_source_from_function(int32_t num_partitions,
                                      millrace_open_partition open_partition, void* user_data,
                                      int32_t deterministic, millrace_source** source,
                                      millrace_error* error) {
  if (source == nullptr || open_partition == nullptr) {
    return ReportStatus(NullArgument("millrace_source_from_function", "open_partition or source"),
                        error);
  }
  if (num_partitions < 1) {
    return ReportStatus(
        absl::InvalidArgumentError(absl::StrCat("millrace_source_from_function: ", num_partitions,
                                                " partitions; the least is 1")),
        error);
  }
  *source = new millrace_source{
      millrace::SourceFromFunction(num_partitions, open_partition, user_data, deterministic != 0)};
  return ReportStatus(absl::OkStatus(), error);
}

void millrace_source_free(millrace_source* source) { delete source; }

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

int32_t millrace_cluster_train(millrace_cluster* cluster, const millrace_source* source,
                               const millrace_feed_call* call, millrace_train_result* result,
                               millrace_error* error) {
  if (cluster == nullptr || source == nullptr) {
    return ReportStatus(NullArgument("millrace_cluster_train", "cluster or source"), error);
  }
  return ReportStatus(millrace::Train(cluster, source, call, result), error);
}

int32_t millrace_cluster_inference(millrace_cluster* cluster, const millrace_source* source,
                                   const millrace_feed_call* call, struct ArrowArrayStream* results,
                                   millrace_error* error) {
  if (cluster == nullptr || source == nullptr || results == nullptr) {
    return ReportStatus(NullArgument("millrace_cluster_inference", "cluster, source or results"),
                        error);
  }
  return ReportStatus(millrace::Infer(cluster, source, call, results), error);
}

int32_t millrace_cluster_end_feed(millrace_cluster* cluster, const char* queue,
                                  millrace_error* error) {
  if (cluster == nullptr) {
    return ReportStatus(NullArgument("millrace_cluster_end_feed", "cluster"), error);
  }
  return ReportStatus(cluster->running->EndFeed(queue == nullptr ? "input" : queue), error);
}

int32_t millrace_cluster_shutdown(millrace_cluster* cluster, const millrace_shutdown* options,
                                  millrace_error* error) {
  if (cluster == nullptr) {
    return ReportStatus(NullArgument("millrace_cluster_shutdown", "cluster"), error);
  }
  return ReportStatus(millrace::Shutdown(cluster, options), error);
}

void millrace_cluster_stop(millrace_cluster* cluster, const char* reason, int32_t now) {
  if (cluster == nullptr) return;
  cluster->stop.Request(reason == nullptr ? "stopped" : reason, now != 0);
}
