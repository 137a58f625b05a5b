// The node's side of the feed without a cluster: what the connector's feeder is tested against.
//
//   feed_node --mode=inference --batch-rows=64
//
// It writes JSON Lines: `ready` with what a lookup would say, `rows` for each batch that is not
// empty (their number, and the sum of the int64 column "id" where there is one), `stopped` at the
// end. Inference answers each batch with itself. Lines on stdin: `feed_end ID`, `announce PRINCIPAL
// KEY` (with
// --curve), `end`; it ends with stdin.

#include <signal.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <iostream>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/str_split.h"
#include "core/base/json.h"
#include "core/base/mutex.h"
#include "core/base/random.h"
#include "feed/receiver/receiver.h"
#include "millrace/data_feed.h"
#include "millrace/status_macros.h"

namespace millrace {
namespace {

struct Flags {
  std::string mode = "train";
  std::string queue = "input";
  int64_t batch_rows = 64;
  int64_t budget_bytes = int64_t{256} << 20;
  int64_t die_after_rows = -1;
  int64_t fail_after_rows = -1;
  int64_t terminate_after_rows = -1;
  bool hold = false;  // reads nothing
  bool shared_memory = true;
  bool curve = false;  // listens on 127.0.0.1 for feeders of other hosts too
};

void Say(const Json& line) {
  std::printf("%s\n", line.dump().c_str());
  std::fflush(stdout);
}

int64_t SumOfIds(const Batch& batch) {
  int64_t sum = 0;
  const auto ids = batch.TryColumn<int64_t>("id");
  if (!ids.ok()) return 0;
  for (const int64_t id : *ids) sum += id;
  return sum;
}

absl::Status Serve(DataFeed& feed, const Flags& flags) {
  int64_t rows = 0;
  while (!feed.ShouldStop()) {
    MILLRACE_ASSIGN_OR_RETURN(const Batch batch, feed.NextBatch(flags.batch_rows));
    if (batch.empty()) continue;
    rows += batch.num_rows();
    Say({{"event", "rows"}, {"rows", batch.num_rows()}, {"sum", SumOfIds(batch)}});
    if (flags.die_after_rows >= 0 && rows >= flags.die_after_rows) ::raise(SIGKILL);
    if (flags.fail_after_rows >= 0 && rows >= flags.fail_after_rows) {
      return absl::InternalError("the program was told to fail");
    }
    if (flags.mode == "inference") {
      MILLRACE_RETURN_IF_ERROR(feed.BatchResults(batch.record_batch()));
    }
    if (flags.terminate_after_rows >= 0 && rows >= flags.terminate_after_rows) {
      return feed.Terminate();
    }
  }
  return absl::OkStatus();
}

int Main(const Flags& flags) {
  const std::string nonce = RandomHex(8);
  absl::StatusOr<std::unique_ptr<FeedReceiver>> receiver =
      FeedReceiver::Start({.node_name = "worker:0",
                           .nonce = nonce,
                           .queues = {flags.queue},
                           .budget_bytes = flags.budget_bytes,
                           .advertise_host = flags.curve ? "127.0.0.1" : "",
                           .shared_memory = flags.shared_memory});
  if (!receiver.ok()) {
    std::cerr << receiver.status() << "\n";
    return 1;
  }
  Say({{"event", "ready"},
       {"endpoint", (*receiver)->endpoints().tcp},
       {"key", (*receiver)->endpoints().key},
       {"curve", (*receiver)->endpoints().curve},
       {"curve_key", (*receiver)->endpoints().curve_key},
       {"nonce", nonce}});
  Mutex mu;
  bool finished = false;  // guarded by mu: the receiver is gone
  // Ended by _exit: a read of stdin cannot be called off.
  std::thread([&receiver, &flags, &mu, &finished] {
    std::string line;
    bool more = true;
    while (more) {
      more = static_cast<bool>(std::getline(std::cin, line));
      MutexLock lock(&mu);
      if (finished) return;
      if (!more || line == "end") (*receiver)->EndAllFeeds();
      if (more && absl::StartsWith(line, "feed_end ")) {
        (*receiver)->FeedEnd(line.substr(9), false);
      }
      if (more && absl::StartsWith(line, "announce ")) {
        const std::vector<std::string> words = absl::StrSplit(line, ' ');
        const absl::Status status = (*receiver)->AnnounceFeeder(words.at(1), words.at(2));
        if (!status.ok()) std::cerr << status << "\n";
      }
    }
    if (flags.hold) ::_exit(0);
  }).detach();
  if (flags.hold) {
    while (true) ::pause();
  }
  absl::StatusOr<std::unique_ptr<DataFeed>> feed =
      (*receiver)->GetDataFeed({.train_mode = flags.mode == "train", .queue = flags.queue});
  absl::Status status = feed.ok() ? Serve(**feed, flags) : feed.status();
  status = (*receiver)->Finish(std::move(status));
  const FeedReceiverStats stats = (*receiver)->stats();
  {
    MutexLock lock(&mu);
    finished = true;
    receiver->reset();  // closes the sockets: what is on its way out goes out
  }
  Say({{"event", "stopped"},
       {"status", status.ToString()},
       {"peak_bytes", stats.peak_committed_bytes},
       {"batches_placed", stats.queues[0].batches_placed},
       {"why_not_shared", stats.why_not_shared}});
  ::_exit(status.ok() ? 0 : 1);
}

}  // namespace
}  // namespace millrace

int main(int argc, char** argv) {
  millrace::Flags flags;
  CLI::App app("A node program that reads rows.");
  app.add_option("--mode", flags.mode)->check(CLI::IsMember({"train", "inference"}));
  app.add_option("--queue", flags.queue);
  app.add_option("--batch-rows", flags.batch_rows);
  app.add_option("--budget-bytes", flags.budget_bytes);
  app.add_option("--die-after-rows", flags.die_after_rows);
  app.add_option("--fail-after-rows", flags.fail_after_rows);
  app.add_option("--terminate-after-rows", flags.terminate_after_rows);
  app.add_flag("--hold", flags.hold);
  app.add_flag("--shared-memory,!--no-shared-memory", flags.shared_memory);
  app.add_flag("--curve", flags.curve);
  CLI11_PARSE(app, argc, argv);
  return millrace::Main(flags);
}
