// A node of the ledger tests: reads a queue in random bites, and writes down every row before
// anybody else can know of it.
//
//   ledger_node MODE SEED MAX_BITE BUDGET_BYTES NONCE LOG CONTROL
//
// It asks for 1 to MAX_BITE rows at a time. MODE is train, whole (asks for MAX_BITE rows each
// time), inference (rows are echoed), stop (calls Terminate once it has had 100 rows), sleep (takes
// one batch, then waits for "end"), or queues (reads "validation" too, on a thread of its own). LOG
// gets int64 numbers: a row's id when NextBatch has returned it, -1 - id when it has been used.
// CONTROL is a file of lines, read as they come: "feed_end FEED_ID", "feed_aborted FEED_ID", "end".
// On stdout: "ready ENDPOINT KEY". Exit code 0 if the program ended well.

#include <fcntl.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "core/base/log.h"
#include "core/base/mutex.h"
#include "core/base/thread.h"
#include "core/base/unique_fd.h"
#include "feed/receiver/receiver.h"
#include "millrace/batch.h"
#include "millrace/data_feed.h"
#include "millrace/status_macros.h"
#include "testing/ledger/ledger_rows.h"

namespace millrace {
namespace {

constexpr int64_t kStopAfterRows = 100;

class RowLog {
 public:
  explicit RowLog(const char* path)
      : fd_(open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600)) {
    MILLRACE_CHECK(fd_.valid()) << path;
  }
  // Written before it returns: a SIGKILL takes nothing back.
  void Add(const std::vector<int64_t>& numbers) {
    const size_t size = numbers.size() * sizeof(int64_t);
    MILLRACE_CHECK(write(fd_.get(), numbers.data(), size) == static_cast<ssize_t>(size));
  }

 private:
  const UniqueFd fd_;
};

// The agent's part: what the coordinator would push.
void Obey(const std::string& path, FeedReceiver* receiver) {
  std::ifstream control(path);
  std::string line;
  while (true) {
    if (!std::getline(control, line)) {
      control.clear();
      absl::SleepFor(absl::Milliseconds(5));
      continue;
    }
    const std::vector<std::string> words = absl::StrSplit(line, ' ');
    if (words[0] == "end") return receiver->EndAllFeeds();
    MILLRACE_CHECK(words.size() == 2) << line;
    receiver->FeedEnd(words[1], /*aborted=*/words[0] == "feed_aborted");
  }
}

absl::Status CheckRow(int64_t id, absl::string_view name) {
  if (name == LedgerRowName(id)) return absl::OkStatus();
  return absl::DataLossError(absl::StrCat("row ", id, " came with the name ", std::string(name)));
}

struct Options {
  std::string mode;
  uint64_t seed = 0;
  int64_t max_bite = 0;
  int64_t budget_bytes = 0;
};

absl::Status ReadQueue(FeedReceiver* receiver, const Options& options, const std::string& queue,
                       RowLog* log, Notification* ended) {
  std::mt19937_64 random(options.seed);
  const bool train = options.mode != "inference";
  MILLRACE_ASSIGN_OR_RETURN(auto feed,
                            receiver->GetDataFeed({.train_mode = train, .queue = queue}));
  int64_t had = 0;
  std::vector<int64_t> used;
  while (true) {
    log->Add(used);  // before asking, which is what acknowledges them
    used.clear();
    if (feed->ShouldStop()) return absl::OkStatus();
    if (options.mode == "stop" && had >= kStopAfterRows) return feed->Terminate();
    if (options.mode == "sleep" && had > 0) ended->WaitForNotification();
    const int64_t bite =
        1 + static_cast<int64_t>(random() % static_cast<uint64_t>(options.max_bite));
    const int64_t rows = options.mode == "whole" ? options.max_bite : bite;
    MILLRACE_ASSIGN_OR_RETURN(const Batch batch, feed->NextBatch(rows));
    if (batch.empty()) continue;
    had += batch.num_rows();
    const auto ids = batch.column<int64_t>("id");
    log->Add({ids.begin(), ids.end()});
    const StringColumn names = batch.strings("name");
    for (int64_t i = 0; i < batch.num_rows(); ++i) {
      MILLRACE_RETURN_IF_ERROR(CheckRow(ids[i], names[i]));
      used.push_back(-1 - ids[i]);
    }
    if (random() % 8 == 0) absl::SleepFor(absl::Milliseconds(random() % 20));
    if (!train) MILLRACE_RETURN_IF_ERROR(feed->BatchResults(batch.record_batch()));
  }
}

absl::Status Program(FeedReceiver* receiver, const Options& options, RowLog* log,
                     Notification* ended) {
  if (options.mode != "queues") return ReadQueue(receiver, options, "input", log, ended);
  absl::Status validation;
  Thread thread("validation",
                [&] { validation = ReadQueue(receiver, options, "validation", log, ended); });
  absl::Status status = ReadQueue(receiver, options, "input", log, ended);
  thread.Join();
  status.Update(validation);
  return status;
}

int Main(char** argv) {
  Options options{.mode = argv[1]};
  MILLRACE_CHECK(absl::SimpleAtoi(argv[2], &options.seed) &&
                 absl::SimpleAtoi(argv[3], &options.max_bite) &&
                 absl::SimpleAtoi(argv[4], &options.budget_bytes));
  auto receiver = FeedReceiver::Start({.node_name = "node",
                                       .nonce = argv[5],
                                       .queues = {"input", "validation"},
                                       .budget_bytes = options.budget_bytes,
                                       .shared_min_bytes = 1});
  MILLRACE_CHECK(receiver.ok()) << receiver.status();
  RowLog log(argv[6]);
  Notification ended;
  Thread obey("control", [&, path = std::string(argv[7])] {
    Obey(path, receiver->get());
    ended.Notify();
  });
  std::printf("ready %s %s\n", (*receiver)->endpoints().tcp.c_str(),
              (*receiver)->endpoints().key.c_str());
  std::fflush(stdout);
  const absl::Status status = (*receiver)->Finish(Program(receiver->get(), options, &log, &ended));
  if (!status.ok()) std::fprintf(stderr, "%s\n", status.ToString().c_str());
  // A program that stops by itself is not told to: the control thread may wait for ever.
  std::_Exit(status.ok() ? 0 : 1);
}

}  // namespace
}  // namespace millrace

int main(int argc, char** argv) {
  if (argc != 8) {
    std::fprintf(stderr, "usage: %s MODE SEED MAX_BITE BUDGET_BYTES NONCE LOG CONTROL\n", argv[0]);
    return 2;
  }
  return millrace::Main(argv);
}
