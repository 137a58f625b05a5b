// File: millrace/data_feed.h
//
// How a node program reads the rows that are fed to it, and answers them in inference. The
// counterpart of TensorFlowOnSpark's DataFeed.
//
// Defines: DataFeed, DataFeedOptions, EqualRanks, FeedRows, FeedPosition.
//
// Training:
//
//   auto feed = ctx.GetDataFeed({.input_mapping = {{"image", "x"}, {"label", "y"}}});
//   while (!feed->ShouldStop()) {
//     MILLRACE_ASSIGN_OR_RETURN(Batch batch, feed->NextBatch(64));
//     if (batch.empty()) break;                      // the feed has ended while we waited
//     Step(batch.column<float>("x"), batch.column<float>("y"));
//   }
//
// Inference: every row gets exactly one result, in order.
//
//   auto feed = ctx.GetDataFeed({.train_mode = false});
//   while (!feed->ShouldStop()) {
//     MILLRACE_ASSIGN_OR_RETURN(Batch batch, feed->NextBatch(64));
//     if (batch.empty()) break;
//     MILLRACE_RETURN_IF_ERROR(feed->BatchResults(Predict(batch)));
//   }

#ifndef MILLRACE_DATA_FEED_H_
#define MILLRACE_DATA_FEED_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "millrace/batch.h"
#include "millrace/option_defaults.h"
#include "millrace/record_batch.h"

namespace millrace {

namespace internal {
class DataFeedImpl;
}

// Training where all ranks must take equally many steps, as they exchange something in each. A rank
// is a fed node, and all of them open the queue alike.
enum class EqualRanks {
  kOff,   // a rank reads what it gets
  kDrop,  // rows that do not fill a batch at every rank are dropped
  kPad,   // batches that lack rows are filled with rows that the rank was given before
};

struct DataFeedOptions {
  bool train_mode = true;
  std::string queue = kDefaultQueue;
  // (column, name in the program); empty: all columns under their own names. Whole columns only: of
  // {"point", "p"} the program reads the field x as "p.x".
  InputMapping input_mapping;
  // With kDrop or kPad every rank gets equally many batches of exactly `batch_rows` rows in each
  // Train call, whatever the partitions are, and a batch only when all ranks have theirs
  // (docs/feed_protocol.md, section 11). TrainResult counts what was dropped or repeated. Not in a
  // cluster whose driver may be replaced (resume.state_folder): UNIMPLEMENTED.
  EqualRanks equal = EqualRanks::kOff;
  int64_t batch_rows = 0;  // with `equal`: what every NextBatch asks for
};

// Rows of one partition, in one epoch of a Train call.
struct FeedRows {
  int64_t data_epoch = 0;
  int64_t partition = 0;
  int64_t first_row = 0;
  int64_t end_row = 0;  // the row after the last one
  bool operator==(const FeedRows&) const = default;
};

// Which rows of a Train call were used: what a checkpoint keeps, so that another process goes on.
struct FeedPosition {
  std::string feed_id;         // the call, within its cluster
  std::vector<FeedRows> rows;  // in order, without overlap
};

// Ownership: independent of the NodeContext it came from; after that has finished no rows come.
// Thread safety: thread-safe, meant for one reading thread. NextBatch calls take turns, and so do
// BatchResults calls; one of each may run at the same time, and the other methods at any time. With
// several threads in NextBatch a row counts as used when any of them asks for the next batch.
// Blocking: NextBatch; BatchResults encodes, and waits while the feeder has not taken enough of the
// results before (docs/feed_protocol.md, section 5).
class DataFeed {
 public:
  // NodeContext::GetDataFeed makes one.
  explicit DataFeed(std::unique_ptr<internal::DataFeedImpl> impl);
  ~DataFeed();
  DataFeed(const DataFeed&) = delete;
  DataFeed& operator=(const DataFeed&) = delete;

  // The next `rows` rows (at least 1). Asking says that the rows of the batch before have been
  // used: they are acknowledged, and not fed again should this program die.
  //
  // Training: waits for all `rows` rows; fewer (but one at least) come only at the end of a Train
  // call, which a batch never spans. Rows of several partitions mix, one received batch of each in
  // turn. Inference: fewer also at the end of a partition, which a batch never spans. It may be
  // called again before BatchResults as long as the partition has more rows. If there are none and
  // results are missing, that partition fails at its feeder with FAILED_PRECONDITION, and the next
  // one begins.
  //
  // A batch without rows says that ShouldStop() is true by now.
  //
  // Zero copy if the rows lie in one received batch, otherwise they are joined in new memory, and
  // need not fit into the budget together.
  //
  // With DataFeedOptions::equal a batch has always `rows` rows, which must be batch_rows; what is
  // left at the end of a Train call is dropped, or filled up, and NextBatch waits for the next
  // call. Returns ABORTED, naming the cause, when a rank has died or the call was aborted after
  // batches were given out: the others wait in vain for what that rank was to contribute. Asking
  // again goes on, once the rank is there again, with all ranks counting their steps anew.
  // FAILED_PRECONDITION: there is nothing to pad with at some rank.
  //
  // Returns INVALID_ARGUMENT if rows < 1, NOT_FOUND if the data has no column that input_mapping
  // names, FAILED_PRECONDITION if another DataFeed reads the queue in the other mode by now,
  // RESOURCE_EXHAUSTED if a text column of the joined batch would pass 2 GiB, INTERNAL if the
  // receiver has broken down.
  [[nodiscard]] absl::StatusOr<Batch> NextBatch(int64_t rows);
  // The same for programs that use few rows at a time, and keep what they have not used: a multiple
  // of `rows` rows, at most `most_rows`, if so many lie in the received batch in hand. It never
  // waits for more than `rows`. What it returned counts as used when the program asks again. With
  // DataFeedOptions::equal a batch has `rows` rows.
  [[nodiscard]] absl::StatusOr<Batch> NextBatch(int64_t rows, int64_t most_rows);

  // True when no rows will come any more: EndFeed (TrainOptions::end_of_feed), shutdown or
  // Terminate, and everything received has been read. Not between Train calls. Seeing true
  // acknowledges the last batch.
  [[nodiscard]] bool ShouldStop();

  // Inference: the results of the next results.num_rows() rows, in the order in which NextBatch
  // returned them; any division into calls will do. All results of a partition have one schema.
  // Those for rows of a partition that has failed meanwhile are dropped silently.
  //
  // Returns FAILED_PRECONDITION if there are more results than rows (the partition fails at its
  // feeder), or in training; INVALID_ARGUMENT if the schema differs from that of the results
  // before.
  [[nodiscard]] absl::Status BatchResults(const RecordBatch& results);

  // Says that the program wants no more rows: feeders of this queue turn to other nodes. The rows
  // that NextBatch has returned count as used. Idempotent. Returns FAILED_PRECONDITION if inference
  // rows are unanswered; their feeder gets the same.
  [[nodiscard]] absl::Status Terminate();

  // Training: the rows that NextBatch has returned of the Train call that it read last, the batch
  // in hand among them, and those that Resume() left out of it.
  [[nodiscard]] FeedPosition Position();
  // Training: NextBatch leaves these rows out, since they were used before the program was started
  // again; they count as used. Positions add up: take those of all nodes, because a partition may
  // come to another one now. They hold for the call `feed_id`; if that is empty, in a new cluster,
  // for its first one. It must feed the same rows in the same partitions.
  // Returns INVALID_ARGUMENT for rows that cannot be, FAILED_PRECONDITION in inference or once rows
  // of the queue were returned.
  [[nodiscard]] absl::Status Resume(const FeedPosition& position);

 private:
  const std::unique_ptr<internal::DataFeedImpl> impl_;
};

}  // namespace millrace

#endif  // MILLRACE_DATA_FEED_H_
