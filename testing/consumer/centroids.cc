// The driver: starts two nodes on this machine, feeds them train.csv, and has them classify
// test.csv.
//
//   centroids NODE_PROGRAM TRAIN_CSV TEST_CSV

#include <cstdint>
#include <cstdio>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "millrace/batch.h"
#include "millrace/client.h"
#include "millrace/cluster.h"
#include "millrace/resolver.h"
#include "millrace/source.h"
#include "millrace/status_macros.h"

namespace {

// The cluster as any other program of this user sees it.
absl::Status Look(const std::string& cluster_id) {
  MILLRACE_ASSIGN_OR_RETURN(const millrace::ClusterFile file,
                            millrace::FindClusterFile(cluster_id));
  MILLRACE_ASSIGN_OR_RETURN(
      const std::unique_ptr<millrace::ClusterClient> client,
      millrace::ClusterClient::Connect(millrace::ClusterClientOptionsFrom(file)));
  MILLRACE_ASSIGN_OR_RETURN(const millrace::ClusterSnapshot now, client->Snapshot());
  for (const millrace::SlotStatus& slot : now.slots) {
    std::printf("%s is %s\n", slot.role.ToString().c_str(),
                std::string(millrace::SlotStateName(slot.state)).c_str());
  }
  return absl::OkStatus();
}

absl::Status Infer(millrace::Cluster& cluster, const std::string& csv) {
  MILLRACE_ASSIGN_OR_RETURN(std::shared_ptr<millrace::CsvSource> source,
                            millrace::CsvSource::FromFiles({csv}, {.num_partitions = 3}));
  MILLRACE_ASSIGN_OR_RETURN(millrace::InferenceResult result, cluster.Inference(source));
  MILLRACE_ASSIGN_OR_RETURN(const std::vector<millrace::RecordBatch> batches, result.Collect());
  MILLRACE_ASSIGN_OR_RETURN(const millrace::RecordBatch rows,
                            millrace::RecordBatch::Concat(batches));
  MILLRACE_ASSIGN_OR_RETURN(const millrace::Batch got, millrace::Batch::Create(rows));

  // Results come in the order of the rows.
  std::vector<int64_t> labels;
  for (int partition = 0; partition < source->num_partitions(); ++partition) {
    MILLRACE_ASSIGN_OR_RETURN(const std::unique_ptr<millrace::RecordBatchReader> reader,
                              source->Open(partition, 0));
    while (true) {
      MILLRACE_ASSIGN_OR_RETURN(const std::optional<millrace::RecordBatch> next, reader->Next());
      if (!next.has_value()) break;
      MILLRACE_ASSIGN_OR_RETURN(const millrace::Batch batch, millrace::Batch::Create(*next));
      const std::span<const int64_t> some = batch.column<int64_t>("label");
      labels.insert(labels.end(), some.begin(), some.end());
    }
  }
  const std::span<const int64_t> predictions = got.column<int64_t>("prediction");
  size_t right = 0;
  for (size_t row = 0; row < labels.size(); ++row) right += predictions[row] == labels[row];
  std::printf("accuracy: %.2f on %zu rows\n", static_cast<double>(right) / labels.size(),
              labels.size());
  return absl::OkStatus();
}

absl::Status Main(const std::string& node, const std::string& train, const std::string& test) {
  millrace::LocalLauncher launcher;
  MILLRACE_ASSIGN_OR_RETURN(
      const std::unique_ptr<millrace::Cluster> cluster,
      millrace::Cluster::Run(
          launcher, millrace::NodeProgram::File(node),
          {.num_executors = 2, .master_node = "chief", .input_mode = millrace::InputMode::kFeed}));
  MILLRACE_ASSIGN_OR_RETURN(
      const std::unique_ptr<millrace::StaticResolver> resolver,
      millrace::StaticResolver::Create({.cluster_spec = cluster->cluster_spec()}));
  MILLRACE_ASSIGN_OR_RETURN(const std::string chief, resolver->master("chief", 0));
  std::printf("the chief is at %s\n", chief.c_str());

  MILLRACE_ASSIGN_OR_RETURN(const std::unique_ptr<millrace::CsvSource> source,
                            millrace::CsvSource::FromFiles({train}, {.num_partitions = 4}));
  MILLRACE_ASSIGN_OR_RETURN(const millrace::TrainResult trained,
                            cluster->Train(*source, {.num_epochs = 2, .end_of_feed = true}));
  std::printf("trained on %lld rows\n", static_cast<long long>(trained.rows));

  MILLRACE_RETURN_IF_ERROR(Look(cluster->cluster_id()));
  MILLRACE_RETURN_IF_ERROR(Infer(*cluster, test));
  return cluster->Shutdown();
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) {
    std::fprintf(stderr, "usage: %s NODE_PROGRAM TRAIN_CSV TEST_CSV\n", argv[0]);
    return 2;
  }
  const absl::Status status = Main(argv[1], argv[2], argv[3]);
  if (!status.ok()) std::fprintf(stderr, "%s: %s\n", argv[0], status.ToString().c_str());
  return status.ok() ? 0 : 1;
}
