// BatchDecoder of feed/ipc/ipc.h: section 7 of docs/feed_protocol.md.
//
// The order: the envelope; every number in the metadata against the schema, the rows and the body;
// then, in ValidateColumns(), what is in the buffers. Nothing in a buffer is read before its bytes
// are known to be there, and nanoarrow sees only lengths that cannot overflow.

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "core/base/status.h"
#include "core/base/text.h"
#include "feed/arrow/bitmap.h"
#include "feed/arrow/buffer.h"
#include "feed/arrow/make_record_batch.h"
#include "feed/arrow/validate.h"
#include "feed/ipc/flatbuffer.h"
#include "feed/ipc/ipc.h"
#include "feed/ipc/ipc_message.h"
#include "millrace/column_view.h"
#include "millrace/record_batch.h"
#include "millrace/schema.h"
#include "millrace/status_macros.h"

namespace millrace {
namespace {

absl::Status Bad(const auto&... parts) {
  return absl::InvalidArgumentError(absl::StrCat(parts...));
}

// The body: parts at their offsets.
class Body {
 public:
  explicit Body(std::vector<BodyPart> parts) : parts_(std::move(parts)), copies_(parts_.size()) {
    starts_.reserve(parts_.size());
    for (const BodyPart& part : parts_) {
      starts_.push_back(size_);
      size_ += (static_cast<int64_t>(part.size) + 7) & ~int64_t{7};
      shared_ |= part.shared;
    }
  }

  // Bytes, padding between and behind the parts included.
  int64_t size() const { return size_; }

  struct Buffer {
    const uint8_t* data = nullptr;  // null if length is 0
    int64_t length = 0;
  };

  // The buffer at [offset, offset + length) of the body, aligned to `alignment` (at most 8).
  absl::StatusOr<Buffer> Find(int64_t offset, int64_t length, int64_t alignment) {
    if (offset < 0 || offset % 8 != 0) return Bad("a buffer at offset ", offset);
    if (length < 0 || offset > size_) {
      return Bad("a buffer of ", length, " bytes at offset ", offset, " of a body of ", size_);
    }
    if (length == 0) return Buffer();
    const size_t part = static_cast<size_t>(
        std::upper_bound(starts_.begin(), starts_.end(), offset) - starts_.begin());  // behind it
    if (part == 0) return Bad("a buffer without a body");
    const BodyPart& in = parts_[part - 1];
    const int64_t at = offset - starts_[part - 1];
    if (at > static_cast<int64_t>(in.size) || length > static_cast<int64_t>(in.size) - at) {
      return Bad("a buffer of ", length, " bytes at offset ", offset,
                 " does not lie within one body part");
    }
    // Columns that shared bytes would let a small message become any amount of rows.
    if (length > size_ - claimed_) {
      return Bad("buffers that overlap: more than ", size_, " bytes in a body of ", size_);
    }
    claimed_ += length;
    return Buffer{Base(part - 1, alignment) + at, length};
  }

  // The first `bytes` bytes at `data`, which Find() returned, as they will stay: a copy if another
  // process may change them.
  const uint8_t* Pin(const uint8_t* data, int64_t bytes) {
    if (!shared_ || bytes == 0) return data;
    uint8_t* copy = NewUnsetBuffer(bytes, &owners_);
    std::memcpy(copy, data, static_cast<size_t>(bytes));
    return copy;
  }

  // What keeps alive whatever Find() returned.
  std::vector<std::shared_ptr<const void>> TakeOwners() {
    for (size_t i = 0; i < parts_.size(); ++i) {
      if (parts_[i].owner != nullptr) owners_.push_back(std::move(parts_[i].owner));
    }
    return std::move(owners_);
  }

 private:
  // Where the part begins, or a copy of it if values of `alignment` cannot be read there. A part is
  // copied once, however many buffers say they are in it.
  const uint8_t* Base(size_t i, int64_t alignment) {
    const BodyPart& part = parts_[i];
    if (reinterpret_cast<uintptr_t>(part.data) % static_cast<uintptr_t>(alignment) == 0) {
      return part.data;
    }
    if (copies_[i] == nullptr) {
      uint8_t* copy = NewUnsetBuffer(static_cast<int64_t>(part.size), &owners_);
      std::memcpy(copy, part.data, part.size);
      copies_[i] = copy;
    }
    return copies_[i];
  }

  std::vector<BodyPart> parts_;
  std::vector<int64_t> starts_;         // of each part, ascending
  std::vector<const uint8_t*> copies_;  // aligned copies of parts, where they were needed
  std::vector<std::shared_ptr<const void>> owners_;
  int64_t size_ = 0;
  bool shared_ = false;  // any of the parts
  int64_t claimed_ = 0;  // by buffers found so far; at most size_
};

// Reads columns in the order of the schema.
class ColumnReader {
 public:
  ColumnReader(FlatVector nodes, FlatVector buffers, int64_t rows, Body* body)
      : nodes_(nodes), buffers_(buffers), rows_(rows), body_(body) {}

  // A column or a struct's field (in_list false) of exactly `length` rows, or what is in lists, at
  // least `length`.
  absl::StatusOr<ColumnData> Read(const Type& type, int64_t length, bool in_list) {
    MILLRACE_ASSIGN_OR_RETURN(const int64_t nulls, ReadNode(length, in_list));
    ColumnData out;
    out.type = type;
    out.length = length;
    MILLRACE_ASSIGN_OR_RETURN(const Body::Buffer validity, NextBuffer(1));
    if (nulls > 0) {
      const int64_t bytes = BitmapBytes(node_length_);
      MILLRACE_RETURN_IF_ERROR(Require(validity, bytes, "validity"));
      out.validity = body_->Pin(validity.data, bytes);
    }
    if (type.is_struct()) return ReadStruct(std::move(out), in_list);
    if (type.is_fixed_size_list()) return ReadElements(length * type.list_size(), std::move(out));
    if (!type.is_primitive()) return ReadWithOffsets(std::move(out));
    const int64_t width = type.byte_width();
    MILLRACE_ASSIGN_OR_RETURN(const Body::Buffer data, NextBuffer(std::max<int64_t>(width, 1)));
    MILLRACE_RETURN_IF_ERROR(
        Require(data, width == 0 ? BitmapBytes(node_length_) : node_length_ * width, "values"));
    out.data = data.data;
    out.data_bytes = data.length;
    return out;
  }

  absl::Status CheckAllRead() const {
    if (next_node_ == nodes_.size() && next_buffer_ == buffers_.size()) return absl::OkStatus();
    return Bad(nodes_.size(), " nodes and ", buffers_.size(), " buffers where the schema has ",
               next_node_, " and ", next_buffer_);
  }

 private:
  // Null count of the next node; its length goes to node_length_, which is at most 2^31-1.
  absl::StatusOr<int64_t> ReadNode(int64_t length, bool in_list) {
    if (next_node_ == nodes_.size()) return Bad("no field node; there are ", nodes_.size());
    node_length_ = nodes_.Value<int64_t>(next_node_, 0);
    const int64_t nulls = nodes_.Value<int64_t>(next_node_, 8);
    ++next_node_;
    const bool fits = in_list ? node_length_ >= length && node_length_ <= kMaxBatchRows
                              : node_length_ == length && node_length_ <= rows_;
    if (!fits) return Bad("length ", node_length_, " where ", length, " is needed");
    if (nulls < 0 || nulls > node_length_) {
      return Bad("null count ", nulls, " of ", node_length_);
    }
    return nulls;
  }

  absl::StatusOr<Body::Buffer> NextBuffer(int64_t alignment) {
    if (next_buffer_ == buffers_.size()) return Bad("no buffer; there are ", buffers_.size());
    const int64_t offset = buffers_.Value<int64_t>(next_buffer_, 0);
    const int64_t length = buffers_.Value<int64_t>(next_buffer_, 8);
    ++next_buffer_;
    return body_->Find(offset, length, alignment);
  }

  static absl::Status Require(const Body::Buffer& buffer, int64_t bytes, absl::string_view what) {
    if (buffer.length >= bytes) return absl::OkStatus();
    return Bad("a ", what, " buffer of ", buffer.length, " bytes, ", bytes, " are needed");
  }

  // A list's values, of which there are at least `count`: below 2^62 where it is a product, since
  // both factors are below 2^31.
  absl::StatusOr<ColumnData> ReadElements(int64_t count, ColumnData out) {
    if (count > kMaxBatchRows) return Bad(count, " list elements");
    absl::StatusOr<ColumnData> child = Read(out.type.element().type, count, /*in_list=*/true);
    if (!child.ok()) return Annotate(child.status(), "values of the list");
    out.children.push_back(*std::move(child));
    return out;
  }

  absl::StatusOr<ColumnData> ReadStruct(ColumnData out, bool in_list) {
    // The fields have the length of the struct, rows that no list refers to included.
    const int64_t length = in_list ? node_length_ : out.length;
    for (const Field& field : out.type.children()) {
      absl::StatusOr<ColumnData> child = Read(field.type, length, in_list);
      if (!child.ok()) {
        return Annotate(child.status(),
                        absl::StrCat("field \"", EscapeControls(Ellipsize(field.name, 100)), "\""));
      }
      out.children.push_back(*std::move(child));
    }
    return out;
  }

  // Strings and lists.
  absl::StatusOr<ColumnData> ReadWithOffsets(ColumnData out) {
    const int64_t width = out.type.is_large() ? 8 : 4;
    MILLRACE_ASSIGN_OR_RETURN(const Body::Buffer offsets, NextBuffer(width));
    int64_t limit = kMaxBatchRows;  // of offsets
    if (out.type.is_variable()) {
      MILLRACE_ASSIGN_OR_RETURN(const Body::Buffer data, NextBuffer(1));
      limit = data.length;
      if (out.length > 0) {
        out.data = data.data;
        out.data_bytes = data.length;
      }
    }
    int64_t end = 0;
    if (out.length > 0) {
      const int64_t bytes = (node_length_ + 1) * width;
      MILLRACE_RETURN_IF_ERROR(Require(offsets, bytes, "offsets"));
      out.offsets = body_->Pin(offsets.data, bytes);
      const ColumnView view(&out, 0, out.length);
      const int64_t begin = view.OffsetAt(0);
      end = view.OffsetAt(out.length);
      if (begin < 0 || end < begin || end > limit) {
        return Bad("offsets from ", begin, " to ", end, " in ", limit,
                   out.type.is_list() ? " list elements" : " bytes of data");
      }
    }
    if (out.type.is_list()) return ReadElements(end, std::move(out));
    return out;
  }

  const FlatVector nodes_;
  const FlatVector buffers_;
  const int64_t rows_;
  Body* const body_;
  size_t next_node_ = 0;
  size_t next_buffer_ = 0;
  int64_t node_length_ = 0;  // of the node read last
};

struct RecordBatchHeader {
  FlatVector nodes;
  FlatVector buffers;
};

absl::StatusOr<RecordBatchHeader> ReadHeader(absl::string_view metadata, int64_t rows,
                                             int64_t body_bytes) {
  MILLRACE_ASSIGN_OR_RETURN(const EncapsulatedMessage message,
                            ReadMessage(metadata, arrow_ipc::kRecordBatchHeader));
  const FlatTable& header = message.header;
  if (message.body_length < 0 || message.body_length > body_bytes) {
    return Bad("the message has a body of ", message.body_length, " bytes, ", body_bytes, " came");
  }
  MILLRACE_ASSIGN_OR_RETURN(const int64_t length,
                            header.Scalar<int64_t>(arrow_ipc::record_batch::kLength, 0));
  if (length != rows) return Bad("the message has ", length, " rows, the frame ", rows);
  MILLRACE_ASSIGN_OR_RETURN(const std::optional<FlatTable> compression,
                            header.Table(arrow_ipc::record_batch::kCompression));
  if (compression.has_value()) return Bad("the body is compressed");
  MILLRACE_ASSIGN_OR_RETURN(const std::optional<FlatVector> nodes,
                            header.Vector(arrow_ipc::record_batch::kNodes, 16));
  MILLRACE_ASSIGN_OR_RETURN(const std::optional<FlatVector> buffers,
                            header.Vector(arrow_ipc::record_batch::kBuffers, 16));
  return RecordBatchHeader{nodes.value_or(FlatVector()), buffers.value_or(FlatVector())};
}

}  // namespace

absl::StatusOr<RecordBatch> BatchDecoder::Decode(absl::string_view metadata, uint32_t rows,
                                                 std::vector<BodyPart> parts) const {
  if (rows == 0 || rows > kMaxBatchRows) return Bad("a batch of ", rows, " rows");
  Body body(std::move(parts));
  MILLRACE_ASSIGN_OR_RETURN(const RecordBatchHeader header,
                            ReadHeader(metadata, rows, body.size()));
  ColumnReader reader(header.nodes, header.buffers, rows, &body);
  std::vector<ColumnData> columns;
  for (int i = 0; i < schema_.num_columns(); ++i) {
    absl::StatusOr<ColumnData> column = reader.Read(schema_.type(i), rows, /*in_list=*/false);
    if (!column.ok()) {
      return Annotate(
          column.status(),
          absl::StrCat("column \"", EscapeControls(Ellipsize(schema_.name(i), 100)), "\""));
    }
    columns.push_back(*std::move(column));
  }
  MILLRACE_RETURN_IF_ERROR(reader.CheckAllRead());
  MILLRACE_RETURN_IF_ERROR(ValidateColumns(schema_, rows, columns));
  return internal::MakeRecordBatch(schema_, rows, std::move(columns), body.TakeOwners());
}

}  // namespace millrace
