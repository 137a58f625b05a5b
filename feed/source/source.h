// File: feed/source/source.h
//
// Where the rows of a Train or Inference call come from: partitions, each a stream of record
// batches.
//
// Defines: RecordBatchReader, PartitionedSource, MakeStreamReader(), ExportReader(), StreamSource.
//
//   for (int p = 0; p < source.num_partitions(); ++p) {
//     MILLRACE_ASSIGN_OR_RETURN(auto reader, source.Open(p, /*data_epoch=*/0));
//     while (true) {
//       MILLRACE_ASSIGN_OR_RETURN(std::optional<RecordBatch> batch, reader->Next());
//       if (!batch.has_value()) break;
//       ...
//     }
//   }
//
// Sources: feed/source/memory_source.h, feed/source/csv_source.h, and StreamSource for whatever
// speaks the Arrow C stream interface (Arrow, DuckDB, ADBC).

#ifndef FEED_SOURCE_SOURCE_H_
#define FEED_SOURCE_SOURCE_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "feed/arrow/record_batch.h"
#include "feed/arrow/schema.h"

struct ArrowArrayStream;  // Arrow C stream interface

namespace millrace {

// The batches of one partition, in order, once.
// Thread safety: one thread at a time, but for Cancel(). Blocking: Next() may do I/O.
class RecordBatchReader {
 public:
  virtual ~RecordBatchReader() = default;

  [[nodiscard]] virtual const Schema& schema() const = 0;

  // The next batch, of schema(); nullopt at the end, then and whenever asked again. A batch may
  // have no rows. After an error the reader must not be used any more.
  [[nodiscard]] virtual absl::StatusOr<std::optional<RecordBatch>> Next() = 0;

  // No more rows are wanted: the nodes have stopped reading, or the call has failed. A Next() that
  // waits (for a queue, a socket, a user) is to return soon, with CANCELLED; the call ends only
  // then. For any thread, at any time, more than once; must not block. Does nothing by default,
  // which is right where Next() never takes long.
  virtual void Cancel() {}
};

// Thread safety: Open() may be called from several threads at once; readers are independent. A
// source outlives its readers.
class PartitionedSource {
 public:
  virtual ~PartitionedSource() = default;

  // At least 1; the same for the source's whole life.
  [[nodiscard]] virtual int num_partitions() const = 0;

  // Reads `partition` from its first row. A partition may be opened more than once: again in every
  // epoch, and after a node's death. All partitions have one schema. `data_epoch` counts from 0; a
  // source may use it to shuffle, but equal arguments mean equal rows if deterministic().
  // Returns INVALID_ARGUMENT if `partition` is out of range; otherwise the source's own errors.
  [[nodiscard]] virtual absl::StatusOr<std::unique_ptr<RecordBatchReader>> Open(
      int partition, int64_t data_epoch) const = 0;

  // True if Open() with equal arguments yields the same rows in the same order every time. Only
  // then does training resume in the middle of a partition after a failure.
  [[nodiscard]] virtual bool deterministic() const = 0;
};

// Reads a C stream, which is taken over (moved from). Batches come unchanged, without copy.
// Returns the stream's error with its message (its errno value mapped as absl::ErrnoToStatus does),
// or INVALID_ARGUMENT if its schema is not one that a feed carries; *stream is released then too.
[[nodiscard]] absl::StatusOr<std::unique_ptr<RecordBatchReader>> MakeStreamReader(
    ArrowArrayStream* stream);

// The other way round: `reader` as a C stream, which owns it.
void ExportReader(std::unique_ptr<RecordBatchReader> reader, ArrowArrayStream* out);

// Partitions that are C streams.
class StreamSource final : public PartitionedSource {
 public:
  // Fills *out, which the caller then owns, with the rows of one partition; called from any thread.
  using OpenFunction =
      std::function<absl::Status(int partition, int64_t data_epoch, ArrowArrayStream* out)>;

  // num_partitions > 0 (checked). `deterministic`: see PartitionedSource.
  StreamSource(int num_partitions, OpenFunction open, bool deterministic);

  [[nodiscard]] int num_partitions() const override { return num_partitions_; }
  [[nodiscard]] absl::StatusOr<std::unique_ptr<RecordBatchReader>> Open(
      int partition, int64_t data_epoch) const override;
  [[nodiscard]] bool deterministic() const override { return deterministic_; }

 private:
  const int num_partitions_;
  const OpenFunction open_;
  const bool deterministic_;
};

}  // namespace millrace

#endif  // FEED_SOURCE_SOURCE_H_
