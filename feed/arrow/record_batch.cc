#include "millrace/record_batch.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <limits>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "core/base/log.h"
#include "core/base/status.h"
#include "feed/arrow/bitmap.h"
#include "feed/arrow/buffer.h"
#include "feed/arrow/make_record_batch.h"
#include "millrace/column_view.h"
#include "millrace/schema.h"
#include "millrace/status_macros.h"

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
    if (out.type.is_primitive()) {
      Values(pieces, &out);
      return out;
    }
    if (out.type.is_variable() || out.type.is_variable_list()) {
      MILLRACE_RETURN_IF_ERROR(out.type.is_large() ? Offsets<int64_t>(pieces, &out)
                                                   : Offsets<int32_t>(pieces, &out));
    }
    if (out.type.is_variable()) {
      Bytes(pieces, &out);
    } else if (out.type.is_list()) {
      MILLRACE_RETURN_IF_ERROR(Child(
          pieces, [](const ColumnView& piece) { return piece.Elements(); }, &out));
    } else {
      for (size_t i = 0; i < out.type.children().size(); ++i) {
        MILLRACE_RETURN_IF_ERROR(Child(
            pieces, [i](const ColumnView& piece) { return piece.Child(i); }, &out));
      }
    }
    return out;
  }

 private:
  // Appends the concatenation of what `part` gives of each piece to out->children.
  absl::Status Child(const std::vector<ColumnView>& pieces,
                     absl::FunctionRef<ColumnView(const ColumnView&)> part, ColumnData* out) {
    std::vector<ColumnView> parts;
    parts.reserve(pieces.size());
    for (const ColumnView& piece : pieces) parts.push_back(part(piece));
    MILLRACE_ASSIGN_OR_RETURN(ColumnData child, Run(parts));
    out->children.push_back(std::move(child));
    return absl::OkStatus();
  }

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
    uint8_t* data =
        width == 0 ? NewBuffer(out->data_bytes, owners_) : NewUnsetBuffer(out->data_bytes, owners_);
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

  // Offsets of all rows, from 0 on.
  template <typename Offset>
  absl::Status Offsets(const std::vector<ColumnView>& pieces, ColumnData* out) {
    int64_t end = 0;
    for (const ColumnView& piece : pieces)
      end += piece.OffsetAt(piece.length()) - piece.OffsetAt(0);
    if (end > std::numeric_limits<Offset>::max()) {
      return absl::ResourceExhaustedError(
          out->type.is_list()
              ? absl::StrCat(end, " values in one column of lists; at most 2^31-1 fit")
              : absl::StrCat(end, " bytes in one ", out->type.ToString(),
                             " column; at most 2 GiB fit"));
    }
    Offset* offsets = reinterpret_cast<Offset*>(
        NewUnsetBuffer((out->length + 1) * int64_t{sizeof(Offset)}, owners_));
    int64_t row = 0;
    int64_t done = 0;
    for (const ColumnView& piece : pieces) {
      const int64_t begin = piece.OffsetAt(0);
      for (int64_t i = 0; i < piece.length(); ++i) {
        offsets[row++] = static_cast<Offset>(piece.OffsetAt(i) - begin + done);
      }
      done += piece.OffsetAt(piece.length()) - begin;
    }
    offsets[row] = static_cast<Offset>(done);
    out->offsets = reinterpret_cast<const uint8_t*>(offsets);
    return absl::OkStatus();
  }

  // The bytes of strings whose offsets are there.
  void Bytes(const std::vector<ColumnView>& pieces, ColumnData* out) {
    out->data_bytes = ColumnView(out, 0, out->length).OffsetAt(out->length);
    uint8_t* data = NewUnsetBuffer(out->data_bytes, owners_);
    int64_t done = 0;
    for (const ColumnView& piece : pieces) {
      const int64_t begin = piece.OffsetAt(0);
      const int64_t size = piece.OffsetAt(piece.length()) - begin;
      if (size > 0) std::memcpy(data + done, piece.data().data + begin, static_cast<size_t>(size));
      done += size;
    }
    out->data = data;
  }

  std::vector<std::shared_ptr<const void>>* const owners_;
};

bool EqualColumns(const ColumnView& a, const ColumnView& b) {
  for (int64_t row = 0; row < a.length(); ++row) {
    if (a.IsNull(row) != b.IsNull(row)) return false;
    if (a.IsNull(row)) continue;
    if (a.type().is_list()) {
      const ColumnView x = a.ListAt(row);
      const ColumnView y = b.ListAt(row);
      if (x.length() != y.length() || !EqualColumns(x, y)) return false;
    } else if (a.type().is_struct()) {
      for (size_t i = 0; i < a.type().children().size(); ++i) {
        const ColumnView x = a.Child(i);
        const ColumnView y = b.Child(i);
        if (!EqualColumns(ColumnView(&x.data(), x.first() - x.data().offset + row, 1),
                          ColumnView(&y.data(), y.first() - y.data().offset + row, 1))) {
          return false;
        }
      }
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

struct [[gnu::visibility("hidden")]] RecordBatch::Data {
  Schema schema;
  int64_t rows = 0;
  std::vector<ColumnData> columns;                  // one per column of `schema`
  std::vector<std::shared_ptr<const void>> owners;  // of all memory that `columns` point to
};

RecordBatch::RecordBatch() {
  static const std::shared_ptr<const Data>* const empty =
      new std::shared_ptr<const Data>(std::make_shared<Data>());
  data_ = *empty;
}

RecordBatch::RecordBatch(std::shared_ptr<const Data> data, int64_t first, int64_t rows)
    : data_(std::move(data)), first_(first), rows_(rows) {}

RecordBatch internal::MakeRecordBatch(Schema schema, int64_t rows, std::vector<ColumnData> columns,
                                      std::vector<std::shared_ptr<const void>> owners) {
  MILLRACE_CHECK(columns.size() == static_cast<size_t>(schema.num_columns()));
  auto data = std::make_shared<RecordBatch::Data>();
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

absl::StatusOr<RecordBatch> RecordBatch::Concat(std::span<const RecordBatch> batches) {
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
  return internal::MakeRecordBatch(schema, rows, std::move(columns), std::move(owners));
}

RecordBatch RecordBatch::Select(std::span<const int> columns, const Schema& schema) const {
  MILLRACE_CHECK(columns.size() == static_cast<size_t>(schema.num_columns()));
  std::vector<ColumnData> selected;
  for (size_t i = 0; i < columns.size(); ++i) {
    const ColumnView view = column(columns[i]);
    MILLRACE_CHECK(view.type() == schema.type(static_cast<int>(i)))
        << view.type().ToString() << " for " << schema.name(static_cast<int>(i));
    selected.push_back(view.data());
  }
  RecordBatch all = internal::MakeRecordBatch(schema, data_->rows, std::move(selected), {data_});
  return all.Slice(first_, rows_);
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
