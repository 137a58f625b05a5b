// The driver: two nodes on this machine square five numbers.
//
//   squares NODE_PROGRAM

#include <cstdio>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "millrace/batch.h"
#include "millrace/cluster.h"
#include "millrace/source.h"

absl::Status Run(const std::string& node) {
  millrace::LocalLauncher launcher;
  MILLRACE_ASSIGN_OR_RETURN(
      const std::unique_ptr<millrace::Cluster> cluster,
      millrace::Cluster::Run(launcher, millrace::NodeProgram::File(node),
                             {.num_executors = 2, .input_mode = millrace::InputMode::kFeed}));

  millrace::BatchBuilder numbers;
  numbers.AddColumn("x", std::vector<double>{1, 2, 3, 4, 5});
  MILLRACE_ASSIGN_OR_RETURN(const millrace::RecordBatch rows, numbers.Build());
  MILLRACE_ASSIGN_OR_RETURN(std::unique_ptr<millrace::MemorySource> source,
                            millrace::MemorySource::Split(rows, /*num_partitions=*/2));
  MILLRACE_ASSIGN_OR_RETURN(millrace::InferenceResult result,
                            cluster->Inference(std::move(source)));
  MILLRACE_ASSIGN_OR_RETURN(const std::vector<millrace::RecordBatch> results, result.Collect());
  for (const millrace::RecordBatch& some : results) {
    MILLRACE_ASSIGN_OR_RETURN(const millrace::Batch batch, millrace::Batch::Create(some));
    for (const double square : batch.column<double>("square")) std::printf("%g\n", square);
  }
  return cluster->Shutdown();
}

int main(int argc, char** argv) {
  const absl::Status status =
      argc == 2 ? Run(argv[1]) : absl::InvalidArgumentError("which node program?");
  if (!status.ok()) std::fprintf(stderr, "%s\n", status.ToString().c_str());
  return status.ok() ? 0 : 1;
}
