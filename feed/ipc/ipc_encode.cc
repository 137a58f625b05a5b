// EncodeBatch() of feed/ipc/ipc.h.

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "feed/arrow/bitmap.h"
#include "feed/arrow/buffer.h"
#include "feed/ipc/ipc.h"
#include "feed/ipc/ipc_message.h"
#include "millrace/column_view.h"
#include "millrace/record_batch.h"

namespace millrace {
namespace {

constexpr size_t RoundUp8(size_t size) { return (size + 7) & ~size_t{7}; }

struct Node {
  int64_t length;
  int64_t null_count;
};

struct BufferRange {
  int64_t offset;
  int64_t length;
};

// Collects nodes and buffers in the order of the schema. Small buffers are gathered into the first
// part, whose size is known only at the end; until then the others' offsets count from its end.
class BodyWriter {
 public:
  explicit BodyWriter(std::shared_ptr<const void> batch_owner)
      : batch_owner_(std::move(batch_owner)) {}

  void Write(const ColumnView& column) {
    const int64_t nulls = column.CountNulls();
    nodes_.push_back({column.length(), nulls});
    if (nulls > 0) {
      AddBits(column.data().validity, column.first(), column.length());
    } else {
      Add(nullptr, 0, batch_owner_);
    }
    const Type& type = column.type();
    if (type.id() == TypeId::kBool) {
      AddBits(column.data().data, column.first(), column.length());
    } else if (type.is_primitive()) {
      const int64_t width = type.byte_width();
      Add(At(column.data().data, column.first() * width), column.length() * width, batch_owner_);
    } else if (type.is_struct()) {
      for (size_t i = 0; i < type.children().size(); ++i) Write(column.Child(i));
    } else {
      if (!type.is_fixed_size_list()) WriteOffsets(column);
      if (type.is_list()) {
        Write(column.Elements());
      } else {
        const int64_t begin = column.OffsetAt(0);
        Add(At(column.data().data, begin), column.OffsetAt(column.length()) - begin, batch_owner_);
      }
    }
    longest_ = std::max(longest_, column.length());
  }

  // The largest length of all columns and of the values of lists written so far.
  int64_t longest() const { return longest_; }

  EncodedBatch Finish(int64_t rows) {
    gathered_.resize(RoundUp8(gathered_.size()));
    for (size_t i = 0; i < buffers_.size(); ++i) {
      if (large_[i]) buffers_[i].offset += static_cast<int64_t>(gathered_.size());
    }
    EncodedBatch out;
    out.metadata = Message(rows, static_cast<int64_t>(gathered_.size() + large_bytes_));
    if (!gathered_.empty()) {
      auto part = std::make_shared<const std::string>(std::move(gathered_));
      out.parts.push_back({reinterpret_cast<const uint8_t*>(part->data()), part->size(), part});
    }
    for (BodyPart& part : large_parts_) out.parts.push_back(std::move(part));
    return out;
  }

 private:
  static const uint8_t* At(const uint8_t* data, int64_t offset) {
    return data == nullptr ? nullptr : data + offset;
  }

  void Add(const uint8_t* data, int64_t bytes, const std::shared_ptr<const void>& owner) {
    const size_t size = static_cast<size_t>(bytes);
    if (size >= kZeroCopyMinBytes) {
      buffers_.push_back({static_cast<int64_t>(large_bytes_), bytes});
      large_.push_back(true);
      large_parts_.push_back({data, size, owner});
      large_bytes_ += RoundUp8(size);
      return;
    }
    gathered_.resize(RoundUp8(gathered_.size()));
    buffers_.push_back({static_cast<int64_t>(gathered_.size()), bytes});
    large_.push_back(false);
    if (size > 0) gathered_.append(reinterpret_cast<const char*>(data), size);
  }

  // Bits [first, first + count): as they lie if they begin with a byte, otherwise shifted.
  void AddBits(const uint8_t* bits, int64_t first, int64_t count) {
    const int64_t bytes = BitmapBytes(count);
    if (first % 8 == 0 && (count % 8 == 0 || static_cast<size_t>(bytes) >= kZeroCopyMinBytes)) {
      Add(At(bits, first / 8), bytes, batch_owner_);
      return;
    }
    std::vector<std::shared_ptr<const void>> owner;
    uint8_t* shifted = NewBuffer(bytes, &owner);  // zeroed: no bits of other rows at the end
    CopyBits(bits, first, count, shifted, 0);
    Add(shifted, bytes, owner[0]);
  }

  void WriteOffsets(const ColumnView& column) {
    if (column.type().is_large()) {
      WriteOffsets<int64_t>(column);
    } else {
      WriteOffsets<int32_t>(column);
    }
  }

  // Offsets as they lie if they begin with 0, otherwise counted from the first row's.
  template <typename Offset>
  void WriteOffsets(const ColumnView& column) {
    const int64_t count = column.length() + 1;
    const int64_t bytes = count * int64_t{sizeof(Offset)};
    const int64_t begin = column.OffsetAt(0);
    if (begin == 0 && column.data().offsets != nullptr) {
      Add(column.data().offsets + column.first() * int64_t{sizeof(Offset)}, bytes, batch_owner_);
      return;
    }
    std::vector<std::shared_ptr<const void>> owner;
    auto* rebased = reinterpret_cast<Offset*>(NewUnsetBuffer(bytes, &owner));
    for (int64_t i = 0; i < count; ++i) {
      rebased[i] = static_cast<Offset>(column.OffsetAt(i) - begin);
    }
    Add(reinterpret_cast<const uint8_t*>(rebased), bytes, owner[0]);
  }

  // The encapsulated message. Its tables have a fixed shape, so their places are constants (bytes
  // from the beginning of the flatbuffer):
  //
  //    0 root          4 vtable of Message       16 Message         36 vtable of RecordBatch
  //   48 RecordBatch  68 count of nodes, then nodes from 72, count of buffers, then buffers
  std::string Message(int64_t rows, int64_t body_length) const {
    std::string out;
    out.reserve(96 + nodes_.size() * sizeof(Node) + buffers_.size() * sizeof(BufferRange));
    const auto put = [&out](auto value) {
      out.append(reinterpret_cast<const char*>(&value), sizeof(value));
    };
    const size_t nodes_bytes = nodes_.size() * sizeof(Node);
    const size_t buffers_bytes = buffers_.size() * sizeof(BufferRange);
    const size_t buffers_count_at = 76 + nodes_bytes;
    put(arrow_ipc::kContinuation);
    put(static_cast<int32_t>(80 + nodes_bytes + buffers_bytes));
    put(uint32_t{16});                                                      // 0: root
    for (int v : {12, 20, 16, 18, 4, 8}) put(static_cast<uint16_t>(v));     // 4: vtable
    put(int32_t{16 - 4});                                                   // 16: Message
    put(uint32_t{48 - 20});                                                 // 20: header
    put(body_length);                                                       // 24
    put(arrow_ipc::kVersion5);                                              // 32
    put(uint8_t{arrow_ipc::kRecordBatchHeader});                            // 34
    put(uint8_t{0});                                                        // 35
    for (int v : {10, 20, 8, 4, 16}) put(static_cast<uint16_t>(v));         // 36: vtable
    put(uint16_t{0});                                                       // 46
    put(int32_t{48 - 36});                                                  // 48: RecordBatch
    put(uint32_t{68 - 52});                                                 // 52: nodes
    put(rows);                                                              // 56: length
    put(static_cast<uint32_t>(buffers_count_at - 64));                      // 64: buffers
    put(static_cast<uint32_t>(nodes_.size()));                              // 68
    out.append(reinterpret_cast<const char*>(nodes_.data()), nodes_bytes);  // 72
    put(uint32_t{0});
    put(static_cast<uint32_t>(buffers_.size()));
    out.append(reinterpret_cast<const char*>(buffers_.data()), buffers_bytes);
    return out;
  }

  const std::shared_ptr<const void> batch_owner_;
  std::vector<Node> nodes_;
  std::vector<BufferRange> buffers_;
  std::vector<bool> large_;  // per buffer: its offset counts from the end of gathered_
  std::string gathered_;
  std::vector<BodyPart> large_parts_;
  size_t large_bytes_ = 0;
  int64_t longest_ = 0;
};

}  // namespace

size_t EncodedBatch::byte_size() const {
  size_t bytes = metadata.size();
  for (const BodyPart& part : parts) bytes += part.size;
  return bytes;
}

size_t EncodedBatch::body_size() const {
  size_t bytes = 0;
  for (const BodyPart& part : parts) bytes = RoundUp8(bytes) + part.size;
  return bytes;
}

void EncodedBatch::CopyBody(uint8_t* to) const {
  size_t at = 0;
  for (const BodyPart& part : parts) {
    at = RoundUp8(at);
    std::memcpy(to + at, part.data, part.size);
    at += part.size;
  }
}

absl::StatusOr<EncodedBatch> EncodeBatch(const RecordBatch& batch) {
  if (batch.num_rows() < 1 || batch.num_rows() > kMaxBatchRows) {
    return absl::InvalidArgumentError(absl::StrCat(
        "a batch of ", batch.num_rows(), " rows cannot be sent; 1 to ", kMaxBatchRows, " can"));
  }
  BodyWriter writer(batch.owner());
  for (int i = 0; i < batch.num_columns(); ++i) {
    writer.Write(batch.column(i));
    if (writer.longest() > kMaxBatchRows) {
      return absl::InvalidArgumentError(
          absl::StrCat("column \"", batch.schema().name(i), "\": ", writer.longest(),
                       " values of lists in one batch; at most ", kMaxBatchRows, " can be sent"));
    }
  }
  return writer.Finish(batch.num_rows());
}

}  // namespace millrace
