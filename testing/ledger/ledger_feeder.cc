// A feeder process of the ledger tests: the SDK's jobs, with the arguments and events of
// //testing/reference_peer:feeder, as far as those tests use them.
//
//   ledger_feeder --lookup-file FILE --mode train|inference --partitions N --rows N --batch-rows N
//                 --feed-id ID --feed-timeout SECONDS ...
//
// "sent" is printed when the job has read rows from their source, which is before they go out.
// "end" comes once, for all partitions, and "feed_end" (`feed`) where a coordinator would push it.

#include <algorithm>
#include <cstdint>
#include <cstdio>
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
#include "absl/time/time.h"
#include "core/base/file.h"
#include "core/base/json.h"
#include "core/base/log.h"
#include "feed/feeder/feeder.h"
#include "feed/feeder/inference_job.h"
#include "feed/feeder/node_directory.h"
#include "feed/feeder/train_job.h"
#include "millrace/record_batch.h"
#include "millrace/source.h"
#include "millrace/status_macros.h"
#include "testing/ledger/ledger_rows.h"

namespace millrace {
namespace {

// Written at once: a SIGKILL takes nothing back.
void Tell(const Json& event) {
  const std::string line = absl::StrCat(event.dump(), "\n");
  std::fwrite(line.data(), 1, line.size(), stdout);
  std::fflush(stdout);
}

// The file stands for the coordinator.
class FileDirectory : public NodeDirectory {
 public:
  explicit FileDirectory(std::string path) : path_(std::move(path)) {}

  std::vector<std::string> fed_nodes() override { return {"worker:0"}; }
  absl::StatusOr<FeedTarget> Lookup(const std::string& node) override {
    MILLRACE_ASSIGN_OR_RETURN(const std::string text, ReadFile(path_));
    MILLRACE_ASSIGN_OR_RETURN(const Json json, ParseJson(text));
    return FeedTarget{.node = node,
                      .executor_id = 0,
                      .nonce = json.at("nonce").get<std::string>(),
                      .tcp_endpoint = json.at("endpoint").get<std::string>(),
                      .key = json.at("key").get<std::string>(),
                      .state = json.at("state") == "running" ? FeedTarget::State::kRunning
                                                             : FeedTarget::State::kRestarting};
  }
  bool IsEqual(const std::string& /*queue*/) override { return false; }
  absl::Status Cause(const std::string& node) override {
    return absl::AbortedError(absl::StrCat(node, " has failed"));
  }

 private:
  const std::string path_;
};

class Observer : public TrainObserver {
 public:
  void OnPartition(const PartitionProgress&) override {}
  absl::Status FeedEnd(const std::string& feed_id, bool aborted) override {
    if (!aborted) Tell({{"event", "feed_end"}, {"feed", feed_id}});
    return absl::OkStatus();
  }
};

struct Options {
  std::string mode;
  std::string feed_id;
  int partitions = 0;
  int64_t rows = 0;
  int64_t batch_rows = 0;
  absl::Duration feed_timeout;
};

absl::Status Train(const Options& options, Feeder* feeder, FileDirectory* directory,
                   const GeneratorSource& source, int64_t* refed) {
  Observer observer;
  TrainJob job(feeder, directory, &source, &observer,
               {.feed_id = options.feed_id,
                .feed_timeout = options.feed_timeout,
                .max_feeding_threads = options.partitions});
  MILLRACE_ASSIGN_OR_RETURN(const TrainTally result, job.Run());
  *refed = result.rows_refed();
  return absl::OkStatus();
}

absl::Status Infer(const Options& options, Feeder* feeder, FileDirectory* directory,
                   const GeneratorSource& source) {
  InferenceJob job(feeder, directory, &source, /*observer=*/nullptr,
                   {.feed_id = options.feed_id,
                    .feed_timeout = options.feed_timeout,
                    .max_feeding_threads = options.partitions});
  std::vector<int64_t> next(static_cast<size_t>(options.partitions));
  MILLRACE_RETURN_IF_ERROR(job.Collect([&](int partition, const RecordBatch& results) {
    int64_t& row = next[static_cast<size_t>(partition)];
    if (!results.Equals(LedgerRows(0, partition, row, results.num_rows()))) {
      Tell({{"event", "wrong_result"}, {"partition", partition}, {"first_row", row}});
    }
    row += results.num_rows();
    return absl::OkStatus();
  }));
  for (int p = 0; p < options.partitions; ++p) {
    const int64_t rows = next[static_cast<size_t>(p)];
    if (rows != options.rows) Tell({{"event", "wrong_result"}, {"partition", p}, {"rows", rows}});
  }
  return absl::OkStatus();
}

int Main(int argc, char** argv) {
  std::map<std::string, std::string> flags;
  for (int i = 1; i + 1 < argc; i += 2) flags[argv[i]] = argv[i + 1];
  Options options{.mode = flags["--mode"], .feed_id = flags["--feed-id"]};
  int64_t timeout_s = 0;
  MILLRACE_CHECK(absl::SimpleAtoi(flags["--partitions"], &options.partitions) &&
                 absl::SimpleAtoi(flags["--rows"], &options.rows) &&
                 absl::SimpleAtoi(flags["--batch-rows"], &options.batch_rows) &&
                 absl::SimpleAtoi(flags["--feed-timeout"], &timeout_s));
  options.feed_timeout = absl::Seconds(timeout_s);
  const auto feeder = Feeder::Start({.shared_memory = true, .shared_min_bytes = 1});
  MILLRACE_CHECK(feeder.ok()) << feeder.status();
  FileDirectory directory(flags["--lookup-file"]);
  const auto source = GeneratorSource::Create(
      LedgerRows(0, 0, 0, 1).schema(), options.partitions,
      [&options](int partition, int64_t,
                 int64_t batch) -> absl::StatusOr<std::optional<RecordBatch>> {
        const int64_t first = batch * options.batch_rows;
        const int64_t rows = std::min(options.batch_rows, options.rows - first);
        if (rows <= 0) return std::optional<RecordBatch>();
        Tell({{"event", "sent"}, {"partition", partition}, {"row", first + rows}});
        return std::optional(LedgerRows(0, partition, first, rows));
      },
      /*deterministic=*/true);
  MILLRACE_CHECK(source.ok()) << source.status();
  int64_t refed = 0;
  const absl::Status status = options.mode == "train"
                                  ? Train(options, feeder->get(), &directory, **source, &refed)
                                  : Infer(options, feeder->get(), &directory, **source);
  Tell({{"event", "end"},
        {"kind", status.ok() ? "done" : "error"},
        {"code", absl::StatusCodeToString(status.code())},
        {"message", std::string(status.message())},
        {"refed", refed}});
  return status.ok() ? 0 : 1;
}

}  // namespace
}  // namespace millrace

int main(int argc, char** argv) { return millrace::Main(argc, argv); }
