// RecordBatch to and from the Arrow C Data Interface.

#include <cstdint>
#include <cstring>
#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "core/base/status.h"
#include "core/base/text.h"
#include "feed/arrow/bitmap.h"
#include "feed/arrow/buffer.h"
#include "feed/arrow/make_record_batch.h"
#include "feed/arrow/validate.h"
#include "millrace/column_view.h"
#include "millrace/record_batch.h"
#include "millrace/schema.h"
#include "millrace/status_macros.h"
#include "nanoarrow/nanoarrow.h"
#include "nanoarrow/nanoarrow.hpp"

namespace millrace {
namespace {

// Lengths and offsets above this are impossible in memory: sums and products with small factors
// stay far from overflow.
constexpr int64_t kMaxLength = int64_t{1} << 44;

absl::Status Bad(const auto&... parts) {
  return absl::InvalidArgumentError(absl::StrCat(parts...));
}

// Buffers of a column itself, in Arrow's layout.
int64_t NumBuffers(const Type& type) {
  if (type.is_struct() || type.is_fixed_size_list()) return 1;
  return type.is_variable() ? 3 : 2;
}

// For messages: which child.
std::string ChildName(const Type& type, size_t i) {
  if (type.is_list()) return "values of the list";
  return absl::StrCat("field \"", EscapeControls(Ellipsize(type.children()[i].name, 100)), "\"");
}

// Reads the tree of an ArrowArray whose producer is believed about the sizes of its buffers.
class Importer {
 public:
  explicit Importer(std::vector<std::shared_ptr<const void>>* owners) : owners_(owners) {}

  // Rows [skip, skip + rows) of `array`.
  absl::StatusOr<ColumnData> Import(const Type& type, const ArrowArray& array, int64_t skip,
                                    int64_t rows) {
    MILLRACE_RETURN_IF_ERROR(CheckShape(type, array));
    if (skip > array.length || rows > array.length - skip) {
      return Bad(array.length, " rows where ", skip + rows, " are needed");
    }
    ColumnData out;
    out.type = type;
    out.length = rows;
    const int64_t first = array.offset + skip;
    out.offset = rows == 0 ? 0 : first;
    if (array.null_count != 0 && rows > 0) {
      out.validity = static_cast<const uint8_t*>(array.buffers[0]);
      if (out.validity == nullptr && array.null_count > 0) {
        return Bad(array.null_count, " nulls without a validity buffer");
      }
    }
    if (!type.children().empty()) return ImportNested(array, first, std::move(out));
    if (rows == 0) return out;
    if (type.is_variable()) {
      MILLRACE_RETURN_IF_ERROR(type.is_large() ? Strings<int64_t>(array, &out)
                                               : Strings<int32_t>(array, &out));
      return out;
    }
    out.data = static_cast<const uint8_t*>(array.buffers[1]);
    if (out.data == nullptr) return Bad("no values buffer for ", rows, " rows");
    const int64_t end = out.offset + rows;
    const int64_t width = type.byte_width();
    out.data_bytes = width == 0 ? BitmapBytes(end) : end * width;
    if (width > 1) out.data = Aligned(out.data, out.data_bytes, width);
    return out;
  }

 private:
  static absl::Status CheckShape(const Type& type, const ArrowArray& array) {
    const int64_t buffers = NumBuffers(type);
    const int64_t children = static_cast<int64_t>(type.children().size());
    if (array.release == nullptr) return Bad("the array is released");
    if (array.dictionary != nullptr) return Bad("the array is dictionary encoded");
    if (array.n_buffers != buffers || array.buffers == nullptr) {
      return Bad(array.n_buffers, " buffers, ", type.ToString(), " has ", buffers);
    }
    if (array.n_children != children || (children > 0 && array.children == nullptr)) {
      return Bad(array.n_children, " children, ", type.ToString(), " has ", children);
    }
    if (array.length < 0 || array.length > kMaxLength || array.offset < 0 ||
        array.offset > kMaxLength || array.null_count < -1 || array.null_count > array.length) {
      return Bad("impossible length ", array.length, ", offset ", array.offset, " or null count ",
                 array.null_count);
    }
    if (type.is_fixed_size_list() && (array.offset + array.length) > 0 &&
        type.list_size() > kMaxLength / (array.offset + array.length)) {
      return Bad("impossible length ", array.length, " of a list");
    }
    return absl::OkStatus();
  }

  // Lists and structs, of which `out` has type, length and validity. Only the values of these rows
  // are taken of a child: an array may be one of many slices, and each pays for its own.
  absl::StatusOr<ColumnData> ImportNested(const ArrowArray& array, int64_t first, ColumnData out) {
    int64_t skip = out.length == 0 ? 0 : first;
    int64_t length = out.length;
    if (out.type.is_fixed_size_list()) {
      skip *= out.type.list_size();
      length *= out.type.list_size();
    } else if (out.type.is_variable_list()) {
      skip = length = 0;
      if (out.length > 0) {
        MILLRACE_RETURN_IF_ERROR(out.type.is_large() ? ListOffsets<int64_t>(array, &out, &skip)
                                                     : ListOffsets<int32_t>(array, &out, &skip));
        out.offset = 0;
        length = ColumnView(&out, 0, out.length).OffsetAt(out.length);
      }
    }
    out.offset = 0;
    if (out.validity != nullptr) out.validity = RebasedBits(out.validity, first, out.length);
    for (size_t i = 0; i < out.type.children().size(); ++i) {
      absl::StatusOr<ColumnData> child =
          Import(out.type.children()[i].type, *array.children[i], skip, length);
      if (!child.ok()) return Annotate(child.status(), ChildName(out.type, i));
      out.children.push_back(*std::move(child));
    }
    return out;
  }

  // The offsets of a list's rows, which begin with 0 afterwards; *first is what they began with.
  template <typename Offset>
  absl::Status ListOffsets(const ArrowArray& array, ColumnData* out, int64_t* first) {
    MILLRACE_RETURN_IF_ERROR(Offsets<Offset>(array, out));
    const auto* offsets = reinterpret_cast<const Offset*>(out->offsets) + out->offset;
    *first = offsets[0];
    if (*first == 0) {
      out->offsets = reinterpret_cast<const uint8_t*>(offsets);
      return absl::OkStatus();
    }
    auto* rebased = reinterpret_cast<Offset*>(
        NewUnsetBuffer((out->length + 1) * int64_t{sizeof(Offset)}, owners_));
    for (int64_t i = 0; i <= out->length; ++i) {
      // Wrong ones in the middle, which are found later, must not overflow here.
      rebased[i] = static_cast<Offset>(static_cast<uint64_t>(offsets[i]) -
                                       static_cast<uint64_t>(offsets[0]));
    }
    out->offsets = reinterpret_cast<const uint8_t*>(rebased);
    return absl::OkStatus();
  }

  // The offsets of strings or lists, of which first and last are in order.
  template <typename Offset>
  absl::Status Offsets(const ArrowArray& array, ColumnData* out) {
    const auto* raw = static_cast<const uint8_t*>(array.buffers[1]);
    if (raw == nullptr) return Bad("no offsets buffer for ", out->length, " rows");
    const int64_t end = out->offset + out->length;
    out->offsets = Aligned(raw, (end + 1) * int64_t{sizeof(Offset)}, sizeof(Offset));
    const auto* offsets = reinterpret_cast<const Offset*>(out->offsets);
    if (offsets[out->offset] < 0 || offsets[end] < offsets[out->offset]) {
      return Bad("offsets from ", offsets[out->offset], " to ", offsets[end]);
    }
    return absl::OkStatus();
  }

  template <typename Offset>
  absl::Status Strings(const ArrowArray& array, ColumnData* out) {
    MILLRACE_RETURN_IF_ERROR(Offsets<Offset>(array, out));
    out->data_bytes = ColumnView(out, 0, out->length).OffsetAt(out->length);
    out->data = static_cast<const uint8_t*>(array.buffers[2]);
    if (out->data == nullptr && out->data_bytes > 0) {
      return Bad("no data buffer for ", out->data_bytes, " bytes");
    }
    return absl::OkStatus();
  }

  const uint8_t* Aligned(const uint8_t* data, int64_t bytes, int64_t alignment) {
    if (reinterpret_cast<uintptr_t>(data) % static_cast<uintptr_t>(alignment) == 0) return data;
    uint8_t* copy = NewUnsetBuffer(bytes, owners_);
    std::memcpy(copy, data, static_cast<size_t>(bytes));
    return copy;
  }

  const uint8_t* RebasedBits(const uint8_t* bits, int64_t first, int64_t count) {
    if (first % 8 == 0) return bits + first / 8;
    uint8_t* copy = NewBuffer(BitmapBytes(count), owners_);
    CopyBits(bits, first, count, copy, 0);
    return copy;
  }

  std::vector<std::shared_ptr<const void>>* const owners_;
};

absl::Status CheckRoot(const Schema& schema, const ArrowArray& root) {
  if (root.dictionary != nullptr || root.n_children != schema.num_columns() ||
      (root.n_children > 0 && root.children == nullptr)) {
    return Bad("the array is no struct of ", schema.num_columns(), " columns");
  }
  if (root.length < 0 || root.length > kMaxLength || root.offset < 0 || root.offset > kMaxLength) {
    return Bad("impossible length ", root.length, " or offset ", root.offset);
  }
  if (root.null_count != 0 && root.n_buffers > 0 && root.buffers[0] != nullptr &&
      CountZeroBits(static_cast<const uint8_t*>(root.buffers[0]), root.offset, root.length) > 0) {
    return Bad("whole rows are null; a record batch has no such rows");
  }
  return absl::OkStatus();
}

// One exported node and what it points to. Every node can be moved out of its parent and outlive
// it, so each holds the memory.
struct ExportedNode {
  std::shared_ptr<const void> owner;
  const void* buffers[3] = {nullptr, nullptr, nullptr};
  std::vector<ArrowArray> children;
  std::vector<ArrowArray*> child_pointers;
};

void ReleaseExported(ArrowArray* array) {
  auto* node = static_cast<ExportedNode*>(array->private_data);
  for (ArrowArray& child : node->children) {
    if (child.release != nullptr) child.release(&child);
  }
  delete node;
  array->release = nullptr;
}

// Fills *out with everything but buffers and children, for `children` of which there is room.
ExportedNode* NewNode(const std::shared_ptr<const void>& owner, int64_t length, int64_t offset,
                      int64_t null_count, int64_t buffers, size_t children, ArrowArray* out) {
  auto* node = new ExportedNode;
  node->owner = owner;
  node->children.resize(children);
  for (ArrowArray& child : node->children) node->child_pointers.push_back(&child);
  *out = ArrowArray{};
  out->length = length;
  out->offset = offset;
  out->null_count = null_count;
  out->n_buffers = buffers;
  out->buffers = node->buffers;
  out->n_children = static_cast<int64_t>(children);
  out->children = children == 0 ? nullptr : node->child_pointers.data();
  out->release = &ReleaseExported;
  out->private_data = node;
  return node;
}

void ExportColumn(const std::shared_ptr<const void>& owner, const ColumnView& view,
                  ArrowArray* out) {
  static constexpr int64_t kZeroOffset = 0;  // what an empty column's offsets point to
  const ColumnData& data = view.data();
  const Type& type = view.type();
  const int64_t nulls = view.may_have_nulls() ? -1 : 0;
  ExportedNode* node = NewNode(owner, view.length(), view.first(), nulls, NumBuffers(type),
                               data.children.size(), out);
  node->buffers[0] = data.validity;
  for (size_t i = 0; i < data.children.size(); ++i) {
    const ColumnData& child = data.children[i];
    ExportColumn(owner, ColumnView(&child, 0, child.length), &node->children[i]);
  }
  if (type.is_variable() || type.is_variable_list()) {
    if (data.offsets == nullptr) out->offset = 0;
    node->buffers[1] =
        data.offsets == nullptr ? static_cast<const void*>(&kZeroOffset) : data.offsets;
    if (type.is_variable()) node->buffers[2] = data.data;
  } else if (type.is_primitive()) {
    node->buffers[1] = data.data;
  }
}

}  // namespace

absl::StatusOr<RecordBatch> RecordBatch::FromArrowArray(const Schema& schema, ArrowArray* array) {
  auto root =
      std::make_shared<nanoarrow::UniqueArray>(array);  // moves; released with the last owner
  if ((*root)->release == nullptr) return absl::InvalidArgumentError("the array is released");
  MILLRACE_RETURN_IF_ERROR(CheckRoot(schema, *root->get()));
  std::vector<ColumnData> columns;
  std::vector<std::shared_ptr<const void>> owners = {root};
  for (int i = 0; i < schema.num_columns(); ++i) {
    absl::StatusOr<ColumnData> column = Importer(&owners).Import(
        schema.type(i), *(*root)->children[i], (*root)->offset, (*root)->length);
    if (!column.ok()) {
      return Annotate(column.status(),
                      absl::StrCat("column \"", EscapeControls(schema.name(i)), "\""));
    }
    columns.push_back(*std::move(column));
  }
  MILLRACE_RETURN_IF_ERROR(ValidateColumns(schema, (*root)->length, columns));
  return internal::MakeRecordBatch(schema, (*root)->length, std::move(columns), std::move(owners));
}

absl::StatusOr<RecordBatch> RecordBatch::Import(ArrowSchema* schema, ArrowArray* array) {
  const nanoarrow::UniqueSchema owned_schema(schema);
  nanoarrow::UniqueArray owned_array(array);
  MILLRACE_ASSIGN_OR_RETURN(const Schema columns, Schema::FromArrowSchema(*owned_schema.get()));
  return FromArrowArray(columns, owned_array.get());
}

void RecordBatch::Export(ArrowArray* out) const {
  ExportedNode* root = NewNode(data_, rows_, 0, 0, 1, static_cast<size_t>(num_columns()), out);
  for (int i = 0; i < num_columns(); ++i) {
    ExportColumn(data_, column(i), &root->children[static_cast<size_t>(i)]);
  }
}

}  // namespace millrace
