#include "feed/record_batch.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <limits>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "core/base/log.h"
#include "core/base/status.h"
#include "core/base/status_macros.h"
#include "feed/bitmap.h"
#include "feed/buffer.h"
#include "feed/column.h"
#include "feed/schema.h"

namespace millrace {
namespace {

// Concatenates the rows of one column. Appends the memory it makes to `owners`.
class ColumnConcat {
 public:
  explicit ColumnConcat(std::vector<std::shared_ptr<const void>>* owners) : owners_(owners) {}

  absl::StatusOr<ColumnData> Run(const std::vector<ColumnView>& pieces) {
    ColumnData out;
    out.type = pieces[0].type();
    bool nulls = false;
    for (const ColumnView& piece : pieces) {
      out.length += piece.length();
      nulls = nulls || piece.may_have_nulls();
    }
    if (nulls) out.validity = Validity(pieces, out.length);
    if (out.type.is_list()) {
      std::vector<ColumnView> elements;
      elements.reserve(pieces.size());
      for (const ColumnView& piece : pieces) elements.push_back(piece.Elements());
      MILLRACE_ASSIGN_OR_RETURN(ColumnData child, Run(elements));
      out.children.push_back(std::move(child));
      return out;
    }
    if (out.type.is_variable()) {
      MILLRACE_RETURN_IF_ERROR(out.type.is_large() ? Strings<int64_t>(pieces, &out)
                                                   : Strings<int32_t>(pieces, &out));
      return out;
    }
    Values(pieces, &out);
    return out;
  }

 private:
  const uint8_t* Validity(const std::vector<ColumnView>& pieces, int64_t length) {
    uint8_t* bits = NewBuffer(BitmapBytes(length), owners_);
    int64_t done = 0;
    for (const ColumnView& piece : pieces) {
      if (piece.may_have_nulls()) {
        CopyBits(piece.data().validity, piece.first(), piece.length(), bits, done);
      } else {
        SetBits(bits, done, piece.length(), true);
      }
      done += piece.length();
    }
    return bits;
  }

  void Values(const std::vector<ColumnView>& pieces, ColumnData* out) {
    const int64_t width = out->type.byte_width();
    out->data_bytes = width == 0 ? BitmapBytes(out->length) : out->length * width;
    uint8_t* data = NewBuffer(out->data_bytes, owners_);
    int64_t done = 0;
    for (const ColumnView& piece : pieces) {
      if (piece.length() == 0) continue;
      if (width == 0) {
        CopyBits(piece.data().data, piece.first(), piece.length(), data, done);
      } else {
        std::memcpy(data + done * width, piece.data().data + piece.first() * width,
                    static_cast<size_t>(piece.length() * width));
      }
      done += piece.length();
    }
    out->data = data;
  }

  template <typename Offset>
  absl::Status Strings(const std::vector<ColumnView>& pieces, ColumnData* out) {
    int64_t bytes = 0;
    for (const ColumnView& piece : pieces) {
      bytes += piece.OffsetAt(piece.length()) - piece.OffsetAt(0);
    }
    if (bytes > std::numeric_limits<Offset>::max()) {
      return absl::ResourceExhaustedError(absl::StrCat(
          bytes, " bytes in one ", out->type.ToString(), " column; at most 2 GiB fit"));
    }
    Offset* offsets =
        reinterpret_cast<Offset*>(NewBuffer((out->length + 1) * int64_t{sizeof(Offset)}, owners_));
    uint8_t* data = NewBuffer(bytes, owners_);
    int64_t row = 0;
    int64_t done = 0;
    for (const ColumnView& piece : pieces) {
      const int64_t begin = piece.OffsetAt(0);
      for (int64_t i = 0; i < piece.length(); ++i) {
        offsets[row++] = static_cast<Offset>(piece.OffsetAt(i) - begin + done);
      }
      const int64_t size = piece.OffsetAt(piece.length()) - begin;
      if (size > 0) std::memcpy(data + done, piece.data().data + begin, static_cast<size_t>(size));
      done += size;
    }
    offsets[row] = static_cast<Offset>(done);
    out->offsets = reinterpret_cast<const uint8_t*>(offsets);
    out->data = data;
    out->data_bytes = bytes;
    return absl::OkStatus();
  }

  std::vector<std::shared_ptr<const void>>* const owners_;
};

bool EqualColumns(const ColumnView& a, const ColumnView& b) {
  for (int64_t row = 0; row < a.length(); ++row) {
    if (a.IsNull(row) != b.IsNull(row)) return false;
    if (a.IsNull(row)) continue;
    if (a.type().is_list()) {
      const int64_t size = a.type().list_size();
      const ColumnView x(&a.data().children[0], (a.first() + row) * size, size);
      const ColumnView y(&b.data().children[0], (b.first() + row) * size, size);
      if (!EqualColumns(x, y)) return false;
    } else if (a.type().is_variable()) {
      if (a.BytesAt(row) != b.BytesAt(row)) return false;
    } else if (a.type().id() == TypeId::kBool) {
      if (a.BoolAt(row) != b.BoolAt(row)) return false;
    } else {
      const int64_t width = a.type().byte_width();
      if (std::memcmp(a.data().data + (a.first() + row) * width,
                      b.data().data + (b.first() + row) * width, static_cast<size_t>(width)) != 0) {
        return false;
      }
    }
  }
  return true;
}

}  // namespace

RecordBatch::RecordBatch() {
  static const std::shared_ptr<const Data>* const empty =
      new std::shared_ptr<const Data>(std::make_shared<Data>());
  data_ = *empty;
}

RecordBatch::RecordBatch(std::shared_ptr<const Data> data, int64_t first, int64_t rows)
    : data_(std::move(data)), first_(first), rows_(rows) {}

RecordBatch RecordBatch::FromColumns(Schema schema, int64_t rows, std::vector<ColumnData> columns,
                                     std::vector<std::shared_ptr<const void>> owners) {
  MILLRACE_CHECK(columns.size() == static_cast<size_t>(schema.num_columns()));
  auto data = std::make_shared<Data>();
  data->schema = std::move(schema);
  data->rows = rows;
  data->columns = std::move(columns);
  data->owners = std::move(owners);
  return RecordBatch(std::move(data), 0, rows);
}

const Schema& RecordBatch::schema() const { return data_->schema; }

ColumnView RecordBatch::column(int i) const {
  MILLRACE_CHECK(i >= 0 && i < num_columns()) << "column " << i << " of " << num_columns();
  return ColumnView(&data_->columns[static_cast<size_t>(i)], first_, rows_);
}

RecordBatch RecordBatch::Slice(int64_t first, int64_t rows) const {
  MILLRACE_CHECK(first >= 0 && rows >= 0 && first <= rows_ && rows <= rows_ - first)
      << "rows [" << first << ", +" << rows << ") of " << rows_;
  return RecordBatch(data_, first_ + first, rows);
}

int64_t RecordBatch::byte_size() const {
  int64_t bytes = 0;
  for (int i = 0; i < num_columns(); ++i) bytes += column(i).byte_size();
  return bytes;
}

absl::StatusOr<RecordBatch> RecordBatch::Concat(absl::Span<const RecordBatch> batches) {
  if (batches.empty()) return absl::InvalidArgumentError("Concat() of no record batches");
  const Schema& schema = batches[0].schema();
  int64_t rows = 0;
  for (const RecordBatch& batch : batches) {
    if (batch.schema() != schema) {
      return absl::InvalidArgumentError(
          absl::StrCat("record batches of different schemas: ",
                       Schema::DescribeDifference(schema, batch.schema())));
    }
    rows += batch.num_rows();
  }
  std::vector<ColumnData> columns;
  std::vector<std::shared_ptr<const void>> owners;
  for (int i = 0; i < schema.num_columns(); ++i) {
    std::vector<ColumnView> pieces;
    pieces.reserve(batches.size());
    for (const RecordBatch& batch : batches) pieces.push_back(batch.column(i));
    absl::StatusOr<ColumnData> column = ColumnConcat(&owners).Run(pieces);
    if (!column.ok()) {
      return Annotate(column.status(), absl::StrCat("column \"", schema.name(i), "\""));
    }
    columns.push_back(*std::move(column));
  }
  return FromColumns(schema, rows, std::move(columns), std::move(owners));
}

bool RecordBatch::Equals(const RecordBatch& other) const {
  if (rows_ != other.rows_ || schema() != other.schema()) return false;
  for (int i = 0; i < num_columns(); ++i) {
    if (!EqualColumns(column(i), other.column(i))) return false;
  }
  return true;
}

std::vector<RecordBatch> SliceBySize(const RecordBatch& batch, int64_t target_bytes) {
  std::vector<RecordBatch> slices;
  int64_t first = 0;
  while (first < batch.num_rows()) {
    // The most rows that fit, found by doubling and then by bisection: a row more is never smaller.
    const int64_t left = batch.num_rows() - first;
    const auto fits = [&](int64_t rows) {
      return batch.Slice(first, rows).byte_size() <= target_bytes;
    };
    int64_t good = 1;
    int64_t bad = 2;
    while (bad <= left && fits(bad)) {
      good = bad;
      bad *= 2;
    }
    bad = std::min(bad, left + 1);
    while (bad - good > 1) {
      const int64_t middle = good + (bad - good) / 2;
      (fits(middle) ? good : bad) = middle;
    }
    slices.push_back(batch.Slice(first, good));
    first += good;
  }
  return slices;
}

}  // namespace millrace
