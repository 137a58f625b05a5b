// The node program of fed_driver: writes down every row that it is given.
//
//   fed_node FOLDER [BATCH_ROWS [PAUSE_US [equal]]]
//
// Appends the numbers of each batch, one a line, to FOLDER/rows-RANK-ATTEMPT before it asks for the
// next, and takes PAUSE_US for it. FOLDER/pid-RANK has its process. Files in FOLDER hold it up: it
// joins its cluster once there is no "start" there; with "batches", which has a number, it asks for
// no more than so many. After its training it answers each row with the number and one.

#include <fcntl.h>
#include <unistd.h>

#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "core/base/file.h"
#include "core/base/unique_fd.h"
#include "millrace/batch_builder.h"
#include "millrace/node.h"

namespace millrace {
namespace {

struct Args {
  std::string folder;
  int64_t batch_rows = 7;
  absl::Duration pause;
  bool equal = false;
};

bool Exists(const std::string& path) { return ::access(path.c_str(), F_OK) == 0; }

int64_t AllowedBatches(const std::string& folder) {
  int64_t number = 0;
  const absl::StatusOr<std::string> text = ReadFile(JoinPath(folder, "batches"));
  return text.ok() && absl::SimpleAtoi(*text, &number) ? number
                                                       : std::numeric_limits<int64_t>::max();
}

absl::Status Train(NodeContext& ctx, const Args& args) {
  const std::string path =
      JoinPath(args.folder, absl::StrCat("rows-", ctx.rank(), "-", ctx.attempt()));
  const UniqueFd file(::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600));
  if (!file.valid()) return absl::InternalError(absl::StrCat("cannot open ", path));
  DataFeedOptions options;
  options.equal = args.equal ? EqualRanks::kDrop : EqualRanks::kOff;
  options.batch_rows = args.equal ? args.batch_rows : 0;
  std::unique_ptr<DataFeed> feed = ctx.GetDataFeed(options);
  for (int64_t batches = 0; !feed->ShouldStop(); ++batches) {
    while (batches >= AllowedBatches(args.folder)) absl::SleepFor(absl::Milliseconds(2));
    MILLRACE_ASSIGN_OR_RETURN(const Batch batch, feed->NextBatch(args.batch_rows));
    if (batch.empty()) continue;
    std::string lines;
    for (const int64_t id : batch.column<int64_t>("id")) absl::StrAppend(&lines, id, "\n");
    if (::write(file.get(), lines.data(), lines.size()) != static_cast<ssize_t>(lines.size())) {
      return absl::InternalError(absl::StrCat("cannot write ", path));
    }
    absl::SleepFor(args.pause);
  }
  return absl::OkStatus();
}

absl::Status Answer(NodeContext& ctx, const Args& args) {
  std::unique_ptr<DataFeed> feed = ctx.GetDataFeed({.train_mode = false});
  while (!feed->ShouldStop()) {
    MILLRACE_ASSIGN_OR_RETURN(const Batch batch, feed->NextBatch(args.batch_rows));
    if (batch.empty()) continue;
    std::vector<int64_t> answers;
    for (const int64_t id : batch.column<int64_t>("id")) answers.push_back(id + 1);
    MILLRACE_ASSIGN_OR_RETURN(const RecordBatch results,
                              BatchBuilder().AddColumn("next", answers).Build());
    absl::SleepFor(args.pause);
    MILLRACE_RETURN_IF_ERROR(feed->BatchResults(results));
  }
  return absl::OkStatus();
}

}  // namespace
}  // namespace millrace

int main(int argc, char** argv) {
  millrace::Args args{.folder = argc > 1 ? argv[1] : "."};
  int64_t pause_us = 0;
  if (argc > 2 && !absl::SimpleAtoi(argv[2], &args.batch_rows)) return 64;
  if (argc > 3 && !absl::SimpleAtoi(argv[3], &pause_us)) return 64;
  args.pause = absl::Microseconds(pause_us);
  args.equal = argc > 4 && std::string(argv[4]) == "equal";
  while (millrace::Exists(millrace::JoinPath(args.folder, "start"))) {
    absl::SleepFor(absl::Milliseconds(2));
  }
  return millrace::RunNode(argc, argv, [&args](millrace::NodeContext& ctx) -> absl::Status {
    MILLRACE_RETURN_IF_ERROR(
        millrace::WriteFileAtomic(millrace::JoinPath(args.folder, absl::StrCat("pid-", ctx.rank())),
                                  absl::StrCat(::getpid())));
    MILLRACE_RETURN_IF_ERROR(millrace::Train(ctx, args));
    return millrace::Answer(ctx, args);
  });
}
