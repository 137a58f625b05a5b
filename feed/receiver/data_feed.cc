#include "feed/receiver/data_feed.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/base/mutex.h"
#include "core/base/status.h"
#include "feed/ipc/ipc.h"
#include "feed/segment/segment.h"
#include "feed/wire/frame.h"
#include "millrace/status_macros.h"

namespace millrace {
namespace {

// A RESULT is at most about as large, unless one row is larger: a feeder's credit may be exceeded
// by one.
constexpr int64_t kMaxResultBytes = int64_t{4} << 20;
// One in shared memory, of a single row, would take the room of many if it were larger.
constexpr int64_t kMaxPlacedBytes = int64_t{64} << 20;

FeedMode ModeOf(const DataFeedOptions& options) {
  return options.train_mode ? FeedMode::kTrain : FeedMode::kInference;
}

}  // namespace

std::unique_ptr<DataFeed> MakeDataFeed(std::shared_ptr<ReceiverCore> core, size_t queue,
                                       DataFeedOptions options) {
  return std::make_unique<DataFeed>(
      std::make_unique<internal::DataFeedImpl>(std::move(core), queue, std::move(options)));
}

DataFeed::DataFeed(std::unique_ptr<internal::DataFeedImpl> impl) : impl_(std::move(impl)) {}

DataFeed::~DataFeed() = default;

absl::StatusOr<Batch> DataFeed::NextBatch(int64_t rows) { return impl_->NextBatch(rows, rows); }

absl::StatusOr<Batch> DataFeed::NextBatch(int64_t rows, int64_t most_rows) {
  return impl_->NextBatch(rows, most_rows);
}

bool DataFeed::ShouldStop() { return impl_->ShouldStop(); }

absl::Status DataFeed::BatchResults(const RecordBatch& results) {
  return impl_->BatchResults(results);
}

absl::Status DataFeed::Terminate() { return impl_->Terminate(); }

FeedPosition DataFeed::Position() { return impl_->Position(); }

absl::Status DataFeed::Resume(const FeedPosition& position) { return impl_->Resume(position); }

namespace internal {

DataFeedImpl::DataFeedImpl(std::shared_ptr<ReceiverCore> core, size_t queue,
                           DataFeedOptions options)
    : core_(std::move(core)),
      queue_(queue),
      options_(std::move(options)),
      mode_(ModeOf(options_)),
      reader_(*core_->reader(queue_, mode_)),
      equal_(mode_ == FeedMode::kTrain ? core_->equal(options_.queue) : nullptr) {}

DataFeedImpl::~DataFeedImpl() { core_->CloseReader(queue_, mode_); }

// ------------------------------------------------------------------------------------ NextBatch

// The common case, a slice of the BATCH in hand, allocates nothing and takes only the reader's own
// lock, for which there is no contention.
absl::StatusOr<Batch> DataFeedImpl::NextBatch(int64_t rows, int64_t most_rows) {
  if (rows < 1) {
    return absl::InvalidArgumentError(absl::StrCat("NextBatch needs at least 1 row, not ", rows));
  }
  if (equal_ != nullptr && rows != equal_->batch_rows()) {
    return absl::InvalidArgumentError(absl::StrCat(
        core_->node_name(), ": the feed was opened for batches of ", equal_->batch_rows(),
        " rows at every rank (DataFeedOptions::batch_rows); NextBatch asked for ", rows));
  }
  MutexLock lock(&reader_.mu);
  UseLast();
  if (!reader_.current.has_value()) return NextBatchSlow(rows);
  TakenRows& current = *reader_.current;
  const int64_t room = std::min(most_rows, current.remaining());
  const int64_t take = equal_ == nullptr && room >= rows ? room - room % rows : rows;
  const auto hand_out = [&] {
    reader_.mu.AssertHeld();
    return HandOut(current.session, current.RowAfter(current.offset + take));
  };
  if (current.remaining() < rows || !layout_schema_.has_value() ||
      layout_schema_->c_schema() != current.rows.schema().c_schema() ||
      !(equal_ == nullptr ? hand_out() : equal_->TakeStep(hand_out))) {
    return NextBatchSlow(rows);
  }
  const int64_t offset = std::exchange(current.offset, current.offset + take);
  return MakeBatch(current.rows.Slice(offset, take), layout_);
}

absl::StatusOr<Batch> DataFeedImpl::NextBatchSlow(int64_t rows) {
  while (true) {
    reader_.last.clear();
    std::optional<TakenRows> current = std::exchange(reader_.current, std::nullopt);
    MILLRACE_ASSIGN_OR_RETURN(std::optional<Delivery> delivery,
                              core_->Next(queue_, mode_, rows, std::move(current)));
    if (!delivery.has_value()) return no_rows_;
    MILLRACE_ASSIGN_OR_RETURN(std::optional<Batch> batch, Unpack(*std::move(delivery)));
    if (batch.has_value()) return *std::move(batch);
  }
}

absl::StatusOr<std::optional<Batch>> DataFeedImpl::Unpack(Delivery delivery) {
  reader_.current = std::move(delivery.current);
  if (delivery.pieces.empty() && delivery.repeated.empty()) {
    TakenRows& current = *reader_.current;
    MILLRACE_RETURN_IF_ERROR(Layout(current.rows));
    // A step that was granted is taken: those rows were handed out with it.
    if (!HandOut(current.session, current.RowAfter(delivery.rows)) && equal_ == nullptr) {
      return std::optional<Batch>();
    }
    current.offset = delivery.rows;
    return std::optional<Batch>(MakeBatch(current.rows.Slice(0, delivery.rows), layout_));
  }
  std::vector<RecordBatch> parts;
  parts.reserve(delivery.pieces.size() + delivery.repeated.size());
  for (const TakenRows& piece : delivery.pieces) parts.push_back(piece.rows);
  for (const RecordBatch& rows : delivery.repeated) parts.push_back(rows);
  MILLRACE_ASSIGN_OR_RETURN(RecordBatch joined, RecordBatch::Concat(parts));
  MILLRACE_RETURN_IF_ERROR(Layout(joined));
  // They were handed out as the batch was complete.
  for (const TakenRows& piece : delivery.pieces) {
    reader_.last.emplace_back(piece.session, piece.RowAfter(piece.rows.num_rows()));
  }
  return std::optional<Batch>(MakeBatch(std::move(joined), layout_));
}

absl::Status DataFeedImpl::Layout(const RecordBatch& rows) {
  const Schema& schema = rows.schema();
  if (layout_schema_.has_value() && layout_schema_->c_schema() == schema.c_schema()) {
    return absl::OkStatus();
  }
  auto layout = BatchLayout::Create(schema, options_.input_mapping);
  if (!layout.ok()) return Annotate(layout.status(), core_->node_name());
  const RecordBatch none = rows.Slice(0, 0);
  MILLRACE_ASSIGN_OR_RETURN(RecordBatch own, RecordBatch::Concat(std::vector<RecordBatch>{none}));
  layout_ = *std::move(layout);
  layout_schema_ = schema;
  no_rows_ = MakeBatch(std::move(own), layout_);
  return absl::OkStatus();
}

bool DataFeedImpl::HandOut(const std::shared_ptr<ReceiveSession>& session, int64_t end_row) {
  if (!session->handed.Advance(end_row)) return false;
  if (reader_.last.size() == 1 && reader_.last.front().first == session) {
    reader_.last.front().second = end_row;
    return true;
  }
  // The fast path comes here when the BATCH in hand was begun by a joined batch.
  reader_.last.emplace_back(session, end_row);
  return true;
}

void DataFeedImpl::UseLast() {
  for (const auto& [session, end_row] : reader_.last) {
    session->used_row.store(end_row, std::memory_order_relaxed);
  }
}

bool DataFeedImpl::ShouldStop() {
  if (!core_->Stopped(queue_, mode_)) return false;
  {
    MutexLock lock(&reader_.mu);
    if (reader_.current.has_value() && reader_.current->remaining() > 0 &&
        !reader_.current->session->handed.closed()) {
      return false;
    }
    UseLast();
  }
  core_->Wake();
  return true;
}

// -------------------------------------------------------------------------------------- Results

absl::Status DataFeedImpl::BatchResults(const RecordBatch& results) {
  if (mode_ == FeedMode::kTrain) {
    return absl::FailedPreconditionError(absl::StrCat(
        core_->node_name(), ": BatchResults needs a DataFeed with train_mode = false"));
  }
  if (results.empty()) return absl::OkStatus();
  MutexLock lock(&reader_.results_mu);
  MILLRACE_ASSIGN_OR_RETURN(ReceiveQueue::ResultPlace place,
                            core_->PlaceResults(queue_, results.num_rows()));
  if (place.session == nullptr) return absl::OkStatus();
  const RecordBatch wanted = results.Slice(place.skip, results.num_rows() - place.skip);
  MILLRACE_ASSIGN_OR_RETURN(std::vector<OutgoingFrame> frames, EncodeResults(wanted, place));
  core_->AddResults(queue_, place.session, wanted.num_rows(), std::move(frames));
  return absl::OkStatus();
}

absl::StatusOr<std::vector<OutgoingFrame>> DataFeedImpl::EncodeResults(
    const RecordBatch& results, const ReceiveQueue::ResultPlace& place) {
  const std::shared_ptr<ReceiveSession>& session = place.session;
  int64_t row = place.first_row;
  std::vector<OutgoingFrame> frames;
  // Only BatchResults touches result_schema. Everything else is the core's, under its lock:
  // NextBatch may be giving the same rows up.
  if (!session->result_schema.has_value()) {
    MILLRACE_ASSIGN_OR_RETURN(std::string schema, EncodeSchema(results.schema()));
    frames.push_back({.header = {.type = FrameType::kSchema}, .metadata = std::move(schema)});
    session->result_schema = results.schema();
  } else if (!(*session->result_schema == results.schema())) {
    return absl::InvalidArgumentError(absl::StrCat(
        core_->node_name(), ": results of ", session->PartitionName(), " change their schema: ",
        Schema::DescribeDifference(*session->result_schema, results.schema())));
  }
  for (const RecordBatch& piece : SliceBySize(results, kMaxResultBytes)) {
    MILLRACE_ASSIGN_OR_RETURN(EncodedBatch encoded, EncodeBatch(piece));
    const auto bytes = static_cast<int64_t>(kBatchPrefixSize + encoded.byte_size());
    if (bytes > kMaxBatchBytes) {
      return absl::InvalidArgumentError(absl::StrCat(
          core_->node_name(), ": the result for row ", row, " of ", session->PartitionName(),
          " takes ", bytes, " bytes, and a result is at most ", kMaxBatchBytes));
    }
    std::string metadata =
        EncodeBatchPrefix({.first_row = row, .rows = piece.num_rows()}) + encoded.metadata;
    row += piece.num_rows();
    const auto body_bytes = static_cast<int64_t>(encoded.body_size());
    std::shared_ptr<ResultRoom> room;
    const bool fits = body_bytes >= std::max<int64_t>(1, core_->shared_min_bytes()) &&
                      body_bytes <= kMaxPlacedBytes;
    if (place.segment != nullptr && fits) room = place.segment->TakeForResult(body_bytes);
    if (room == nullptr) {
      frames.push_back({.header = {.type = FrameType::kResult},
                        .metadata = std::move(metadata),
                        .body = std::move(encoded.parts)});
      continue;
    }
    encoded.CopyBody(room->data());
    frames.push_back(
        {.header = {.type = FrameType::kPlacedResult},
         .metadata =
             EncodePlacedPrefix({.offset = room->room().offset, .length = body_bytes}) + metadata,
         .body_bytes = static_cast<int64_t>(metadata.size()) + body_bytes,
         .room = std::move(room)});
  }
  return frames;
}

absl::Status DataFeedImpl::Terminate() { return core_->Terminate(queue_, mode_); }

FeedPosition DataFeedImpl::Position() { return core_->Position(queue_); }

absl::Status DataFeedImpl::Resume(const FeedPosition& position) {
  if (mode_ == FeedMode::kInference) {
    return absl::FailedPreconditionError(
        absl::StrCat(core_->node_name(), ": inference begins anew; only training is resumed"));
  }
  return core_->Resume(queue_, position);
}

}  // namespace internal
}  // namespace millrace
