// File: feed/receiver/data_feed.h
//
// What stands behind a DataFeed (millrace/data_feed.h): one reader of a queue of a ReceiverCore.
//
// Defines: MakeDataFeed(), internal::DataFeedImpl.

#ifndef FEED_RECEIVER_DATA_FEED_H_
#define FEED_RECEIVER_DATA_FEED_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "feed/arrow/batch_layout.h"
#include "feed/receiver/receive_queue.h"
#include "feed/receiver/receive_session.h"
#include "feed/receiver/receiver_core.h"
#include "millrace/batch.h"
#include "millrace/data_feed.h"
#include "millrace/record_batch.h"

namespace millrace {

// `queue` and the mode of `options` were opened by core->OpenReader; the DataFeed closes them.
[[nodiscard]] std::unique_ptr<DataFeed> MakeDataFeed(std::shared_ptr<ReceiverCore> core,
                                                     size_t queue, DataFeedOptions options);

namespace internal {

class DataFeedImpl {
 public:
  DataFeedImpl(std::shared_ptr<ReceiverCore> core, size_t queue, DataFeedOptions options);
  ~DataFeedImpl();
  DataFeedImpl(const DataFeedImpl&) = delete;
  DataFeedImpl& operator=(const DataFeedImpl&) = delete;

  // As DataFeed's.
  [[nodiscard]] absl::StatusOr<Batch> NextBatch(int64_t rows, int64_t most_rows);
  [[nodiscard]] bool ShouldStop();
  [[nodiscard]] absl::Status BatchResults(const RecordBatch& results);
  [[nodiscard]] absl::Status Terminate();
  [[nodiscard]] FeedPosition Position();
  [[nodiscard]] absl::Status Resume(const FeedPosition& position);

 private:
  [[nodiscard]] absl::StatusOr<Batch> NextBatchSlow(int64_t rows)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(reader_.mu);
  // nullopt if the rows have become void on the way.
  [[nodiscard]] absl::StatusOr<std::optional<Batch>> Unpack(Delivery delivery)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(reader_.mu);
  [[nodiscard]] absl::Status Layout(const RecordBatch& rows)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(reader_.mu);
  // Notes that rows of `session` before `end_row` are being returned. False if they must not be.
  [[nodiscard]] bool HandOut(const std::shared_ptr<ReceiveSession>& session, int64_t end_row)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(reader_.mu);
  // What the last NextBatch returned has been used.
  void UseLast() ABSL_EXCLUSIVE_LOCKS_REQUIRED(reader_.mu);
  // For the rows that `place` says.
  [[nodiscard]] absl::StatusOr<std::vector<OutgoingFrame>> EncodeResults(
      const RecordBatch& results, const ReceiveQueue::ResultPlace& place)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(reader_.results_mu);

  const std::shared_ptr<ReceiverCore> core_;
  const size_t queue_;
  const DataFeedOptions options_;
  const FeedMode mode_;
  QueueReader& reader_;                      // of *core_
  const std::shared_ptr<EqualSteps> equal_;  // null: this node reads what it gets

  std::optional<Schema> layout_schema_ ABSL_GUARDED_BY(reader_.mu);
  std::shared_ptr<const BatchLayout> layout_ ABSL_GUARDED_BY(reader_.mu);  // of layout_schema_
  Batch no_rows_ ABSL_GUARDED_BY(reader_.mu);                              // with its columns
};

}  // namespace internal
}  // namespace millrace

#endif  // FEED_RECEIVER_DATA_FEED_H_
