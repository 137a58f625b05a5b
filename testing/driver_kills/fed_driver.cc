// A driver that tests kill in the middle of what it feeds: takes the cluster of a state folder over
// if there is one, begins it otherwise, trains some times, perhaps asks about all rows, and ends
// the cluster.
//
//   fed_driver --state=FOLDER --secret=FILE --folder=FOLDER --agents=ADDRESS,... --node=PROGRAM
//       [--node-args=ARG,...] [--restarts=0] [--lease-ms=300000] [--trains=1] [--partitions=4]
//       [--rows=100] [--epochs=1] [--infer] [--unstable]
//
// Row r of partition p in epoch e of the t-th call of Train is the number
// ((t * 100 + e) * 100 + p) * 100000 + r, in column "id", in batches of 10. Files in --folder hold
// it up: with "rows", which has a number, no partition yields more than so many rows; with "calls",
// no more than so many calls (the end is one, too) begin.
//
// Says on stdout "new ID" or "resumed ID" when all nodes run; "trained T rows R refed F exactly E";
// "asked about N rows"; and at the end "ended with CODE: MESSAGE".

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "core/base/file.h"
#include "millrace/adopting_launcher.h"
#include "millrace/batch_builder.h"
#include "millrace/cluster.h"
#include "millrace/cluster_spec.h"
#include "millrace/node_program.h"
#include "millrace/source.h"
#include "millrace/status_macros.h"
#include "resolver/scripted_resolver.h"

namespace millrace {
namespace {

constexpr int64_t kBatchRows = 10;

void Say(const std::string& line) {
  std::printf("%s\n", line.c_str());
  std::fflush(stdout);
}

// The number in a file; the largest one if there is none.
int64_t Allowed(const std::string& path) {
  int64_t number = 0;
  const absl::StatusOr<std::string> text = ReadFile(path);
  return text.ok() && absl::SimpleAtoi(*text, &number) ? number
                                                       : std::numeric_limits<int64_t>::max();
}

RecordBatch Ids(int64_t first, int64_t rows) {
  std::vector<int64_t> ids;
  for (int64_t id = first; id < first + rows; ++id) ids.push_back(id);
  return *BatchBuilder().AddColumn("id", ids).Build();
}

class Reader final : public RecordBatchReader {
 public:
  Reader(std::string gate, int64_t first, int64_t rows)
      : gate_(std::move(gate)), first_(first), rows_(rows), schema_(Ids(0, 1).schema()) {}

  const Schema& schema() const override { return schema_; }
  absl::StatusOr<std::optional<RecordBatch>> Next() override {
    if (row_ == rows_) return std::optional<RecordBatch>();
    const int64_t count = std::min(kBatchRows, rows_ - row_);
    while (row_ + count > Allowed(gate_)) {
      if (cancelled_) return absl::CancelledError("nobody wants more rows");
      absl::SleepFor(absl::Milliseconds(2));
    }
    const int64_t row = std::exchange(row_, row_ + count);
    return std::optional<RecordBatch>(Ids(first_ + row, count));
  }
  void Cancel() override { cancelled_ = true; }

 private:
  const std::string gate_;
  const int64_t first_;
  const int64_t rows_;
  const Schema schema_;
  int64_t row_ = 0;
  std::atomic<bool> cancelled_ = false;
};

class Source final : public PartitionedSource {
 public:
  Source(std::string gate, int64_t call, int partitions, int64_t rows, bool deterministic)
      : gate_(std::move(gate)),
        call_(call),
        partitions_(partitions),
        rows_(rows),
        deterministic_(deterministic) {}

  int num_partitions() const override { return partitions_; }
  absl::StatusOr<std::unique_ptr<RecordBatchReader>> Open(int partition,
                                                          int64_t epoch) const override {
    const int64_t first = ((call_ * 100 + epoch) * 100 + partition) * 100'000;
    return std::make_unique<Reader>(gate_, first, rows_);
  }
  bool deterministic() const override { return deterministic_; }

 private:
  const std::string gate_;
  const int64_t call_;
  const int partitions_;
  const int64_t rows_;
  const bool deterministic_;
};

using Flags = std::map<std::string, std::string>;

int64_t Number(const Flags& flags, const std::string& name, int64_t otherwise) {
  const auto flag = flags.find(name);
  int64_t number = otherwise;
  if (flag != flags.end() && !absl::SimpleAtoi(flag->second, &number)) return otherwise;
  return number;
}

// One result for each row: its number and one.
absl::Status Ask(Cluster& cluster, std::shared_ptr<const PartitionedSource> source) {
  MILLRACE_ASSIGN_OR_RETURN(InferenceResult result, cluster.Inference(std::move(source)));
  MILLRACE_ASSIGN_OR_RETURN(const std::vector<RecordBatch> batches, result.Collect());
  int64_t rows = 0;
  for (const RecordBatch& batch : batches) rows += batch.num_rows();
  Say(absl::StrCat("asked about ", rows, " rows"));
  return absl::OkStatus();
}

absl::Status Drive(const Flags& flags) {
  const std::string folder = flags.at("folder");
  const auto wait_for_call = [&folder](int64_t call) {
    while (call >= Allowed(JoinPath(folder, "calls"))) absl::SleepFor(absl::Milliseconds(2));
  };
  const std::vector<std::string> addresses = absl::StrSplit(flags.at("agents"), ',');
  MILLRACE_ASSIGN_OR_RETURN(ClusterSpec members, ClusterSpec::Create({{"worker", addresses}}));
  ScriptedResolver resolver(std::move(members));
  AdoptingLauncher launcher(resolver,
                            {.secret = {.file = flags.at("secret")}, .bind_address = "127.0.0.1"});
  ClusterOptions options;
  options.num_executors = static_cast<int>(addresses.size());
  options.input_mode = InputMode::kFeed;
  options.reservation_timeout = absl::Seconds(60);
  options.failure.restart.max_restarts = static_cast<int>(Number(flags, "restarts", 0));
  options.failure.restart.initial_backoff = absl::Milliseconds(50);
  options.cluster_file = false;
  options.resume.state_folder = flags.at("state");
  options.resume.lease = absl::Milliseconds(Number(flags, "lease-ms", 300'000));
  NodeProgram program = NodeProgram::Path(flags.at("node"));
  std::vector<std::string> args = {folder};
  if (flags.contains("node-args")) {
    for (const auto arg : absl::StrSplit(flags.at("node-args"), ',')) args.emplace_back(arg);
  }
  program.Args(args);
  MILLRACE_ASSIGN_OR_RETURN(const bool resume, Cluster::CanResume(options.resume.state_folder));
  MILLRACE_ASSIGN_OR_RETURN(const std::unique_ptr<Cluster> cluster,
                            resume ? Cluster::Resume(launcher, program, options)
                                   : Cluster::Run(launcher, program, options));
  Say(absl::StrCat(resume ? "resumed " : "new ", cluster->cluster_id()));
  const int64_t calls = Number(flags, "trains", 1);
  const auto source = [&](int64_t call) {
    return std::make_shared<Source>(JoinPath(folder, "rows"), call,
                                    static_cast<int>(Number(flags, "partitions", 4)),
                                    Number(flags, "rows", 100), !flags.contains("unstable"));
  };
  for (int64_t call = 0; call < calls; ++call) {
    wait_for_call(call);
    MILLRACE_ASSIGN_OR_RETURN(
        const TrainResult result,
        cluster->Train(*source(call), {.num_epochs = static_cast<int>(Number(flags, "epochs", 1)),
                                       .batch_bytes = 64}));
    Say(absl::StrCat("trained ", call, " rows ", result.rows, " refed ", result.rows_refed,
                     " exactly ", result.exactly_once ? 1 : 0));
  }
  wait_for_call(calls);
  if (flags.contains("infer")) {
    MILLRACE_RETURN_IF_ERROR(cluster->EndFeed());
    MILLRACE_RETURN_IF_ERROR(Ask(*cluster, source(calls)));
  }
  return cluster->Shutdown();
}

}  // namespace
}  // namespace millrace

int main(int argc, char** argv) {
  millrace::Flags flags;
  for (int i = 1; i < argc; ++i) {
    absl::string_view text = argv[i];
    absl::ConsumePrefix(&text, "--");
    const std::pair<std::string, std::string> flag = absl::StrSplit(text, absl::MaxSplits('=', 1));
    flags.insert(flag);
  }
  for (const char* name : {"state", "secret", "folder", "agents", "node"}) {
    if (!flags.contains(name)) return 64;
  }
  const absl::Status status = millrace::Drive(flags);
  millrace::Say(
      absl::StrCat("ended with ", absl::StatusCodeToString(status.code()), ": ", status.message()));
  return status.ok() ? 0 : 1;
}
