// Reads a TFRecord file into record batches, or writes what is in it, and prints how long that
// took. Of tfrecord.py.
//
//   tfrecord_end IN [--out=OUT] [--compression=gzip] [--fixed=x:784]
//   FIGURE {"rows": 20000, "seconds": 0.02, "cpu_seconds": 0.02}

#include <cstdint>
#include <cstdio>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "core/base/json.h"
#include "millrace/record_batch.h"
#include "millrace/source.h"
#include "millrace/status_macros.h"
#include "millrace/tf_record.h"
#include "testing/bench/bench_report.h"
#include "testing/tfrecord/fixed_sizes.h"

namespace millrace::bench {
namespace {

struct Flags {
  std::string in;
  std::string out;
  std::string compression = "none";
  std::vector<std::string> fixed;
};

class Stopwatch {
 public:
  void Print(int64_t rows) const {
    const Json figure = {{"rows", rows},
                         {"seconds", absl::ToDoubleSeconds(absl::Now() - began_)},
                         {"cpu_seconds", absl::ToDoubleSeconds(SelfCpuTime() - cpu_)}};
    std::printf("FIGURE %s\n", figure.dump().c_str());
  }

 private:
  const absl::Time began_ = absl::Now();
  const absl::Duration cpu_ = SelfCpuTime();
};

// Batches are dropped as they come unless they are to be kept.
absl::StatusOr<int64_t> Read(const TfRecordSource& source, std::vector<RecordBatch>* kept) {
  MILLRACE_ASSIGN_OR_RETURN(const std::unique_ptr<RecordBatchReader> reader, source.Open(0, 0));
  int64_t rows = 0;
  while (true) {
    MILLRACE_ASSIGN_OR_RETURN(const std::optional<RecordBatch> batch, reader->Next());
    if (!batch.has_value()) return rows;
    rows += batch->num_rows();
    if (kept != nullptr) kept->push_back(*batch);
  }
}

absl::Status Run(const Flags& flags) {
  const std::map<std::string, TfRecordCompression> compressions = {
      {"none", TfRecordCompression::kNone},
      {"gzip", TfRecordCompression::kGzip},
      {"zlib", TfRecordCompression::kZlib}};
  const auto compression = compressions.find(flags.compression);
  if (compression == compressions.end()) return absl::InvalidArgumentError("--compression");
  MILLRACE_ASSIGN_OR_RETURN(const std::unique_ptr<TfRecordSource> source,
                            OpenWithFixedSizes(flags.in, {}, flags.fixed));
  if (flags.out.empty()) {
    const Stopwatch watch;
    MILLRACE_ASSIGN_OR_RETURN(const int64_t rows, Read(*source, nullptr));
    watch.Print(rows);
    return absl::OkStatus();
  }
  std::vector<RecordBatch> batches;
  MILLRACE_ASSIGN_OR_RETURN(const int64_t rows, Read(*source, &batches));
  const Stopwatch watch;
  MILLRACE_ASSIGN_OR_RETURN(
      const std::unique_ptr<TfRecordWriter> writer,
      TfRecordWriter::Create(flags.out, source->schema(), {.compression = compression->second}));
  for (const RecordBatch& batch : batches) MILLRACE_RETURN_IF_ERROR(writer->Write(batch));
  MILLRACE_RETURN_IF_ERROR(writer->Finish());
  watch.Print(rows);
  return absl::OkStatus();
}

}  // namespace
}  // namespace millrace::bench

int main(int argc, char** argv) {
  CLI::App app("Reads or writes a TFRecord file");
  millrace::bench::Flags flags;
  app.add_option("in", flags.in)->required();
  app.add_option("--out", flags.out, "write what was read to this file, and measure that");
  app.add_option("--compression", flags.compression, "of --out");
  app.add_option("--fixed", flags.fixed);
  CLI11_PARSE(app, argc, argv);
  const absl::Status status = millrace::bench::Run(flags);
  if (!status.ok()) std::fprintf(stderr, "%s\n", std::string(status.message()).c_str());
  return status.ok() ? 0 : 1;
}
