// Reads a TFRecord file and writes what it read, and prints the schema.
//
//   rewrite IN OUT [--compression=gzip] [--raw] [--fixed=x:3] [--binary=image]
//
// --fixed=NAME:SIZE: the list NAME, as it is inferred, is of this size in every record.

#include <cstdio>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/status/status.h"
#include "millrace/record_batch.h"
#include "millrace/source.h"
#include "millrace/status_macros.h"
#include "millrace/tf_record.h"
#include "testing/tfrecord/fixed_sizes.h"

namespace millrace {
namespace {

struct Flags {
  std::string in;
  std::string out;
  std::string compression = "none";
  bool raw = false;
  std::vector<std::string> fixed;
  std::vector<std::string> binary;
};

absl::Status Run(const Flags& flags) {
  const std::map<std::string, TfRecordCompression> compressions = {
      {"none", TfRecordCompression::kNone},
      {"gzip", TfRecordCompression::kGzip},
      {"zlib", TfRecordCompression::kZlib}};
  const auto compression = compressions.find(flags.compression);
  if (compression == compressions.end()) return absl::InvalidArgumentError("--compression");
  TfRecordSourceOptions options;
  options.raw = flags.raw;
  options.binary_features = flags.binary;
  MILLRACE_ASSIGN_OR_RETURN(const std::unique_ptr<TfRecordSource> source,
                            OpenWithFixedSizes(flags.in, options, flags.fixed));
  std::puts(source->schema().ToString().c_str());
  MILLRACE_ASSIGN_OR_RETURN(
      const std::unique_ptr<TfRecordWriter> writer,
      TfRecordWriter::Create(flags.out, source->schema(),
                             {.compression = compression->second, .raw = flags.raw}));
  MILLRACE_ASSIGN_OR_RETURN(const std::unique_ptr<RecordBatchReader> reader, source->Open(0, 0));
  while (true) {
    MILLRACE_ASSIGN_OR_RETURN(const std::optional<RecordBatch> batch, reader->Next());
    if (!batch.has_value()) return writer->Finish();
    MILLRACE_RETURN_IF_ERROR(writer->Write(*batch));
  }
}

}  // namespace
}  // namespace millrace

int main(int argc, char** argv) {
  CLI::App app("Reads a TFRecord file and writes what it read");
  millrace::Flags flags;
  app.add_option("in", flags.in)->required();
  app.add_option("out", flags.out)->required();
  app.add_option("--compression", flags.compression);
  app.add_flag("--raw", flags.raw);
  app.add_option("--fixed", flags.fixed);
  app.add_option("--binary", flags.binary);
  CLI11_PARSE(app, argc, argv);
  const absl::Status status = millrace::Run(flags);
  if (!status.ok()) std::fprintf(stderr, "%s\n", std::string(status.message()).c_str());
  return status.ok() ? 0 : 1;
}
