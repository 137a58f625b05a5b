#include "millrace/c/batch.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "feed/arrow/make_record_batch.h"
#include "millrace/c/c_support.h"
#include "millrace/column.h"
#include "millrace/column_view.h"
#include "millrace/record_batch.h"
#include "millrace/schema.h"
#include "millrace/status_macros.h"
#include "millrace/types.h"
#include "nanoarrow/nanoarrow.hpp"

// As DLPack lays them out (dlpack.h, before its versioned tensors).
struct DLDevice {
  int32_t device_type;
  int32_t device_id;
};
struct DLDataType {
  uint8_t code;
  uint8_t bits;
  uint16_t lanes;
};
struct DLTensor {
  void* data;
  DLDevice device;
  int32_t ndim;
  DLDataType dtype;
  int64_t* shape;
  int64_t* strides;
  uint64_t byte_offset;
};
struct DLManagedTensor {
  DLTensor dl_tensor;
  void* manager_ctx;
  void (*deleter)(DLManagedTensor* self);
};

namespace millrace {
namespace {

// ---- tensors ------------------------------------------------------------------------------------

int32_t TensorType(const Type& type) {
  switch (type.id()) {
    case TypeId::kInt8:
      return MILLRACE_INT8;
    case TypeId::kInt16:
      return MILLRACE_INT16;
    case TypeId::kInt32:
      return MILLRACE_INT32;
    case TypeId::kInt64:
      return MILLRACE_INT64;
    case TypeId::kUint8:
      return MILLRACE_UINT8;
    case TypeId::kUint16:
      return MILLRACE_UINT16;
    case TypeId::kUint32:
      return MILLRACE_UINT32;
    case TypeId::kUint64:
      return MILLRACE_UINT64;
    case TypeId::kFloat16:
      return MILLRACE_FLOAT16;
    case TypeId::kFloat32:
      return MILLRACE_FLOAT32;
    case TypeId::kFloat64:
      return MILLRACE_FLOAT64;
    case TypeId::kDate32:
      return MILLRACE_DATE32;
    case TypeId::kDate64:
      return MILLRACE_DATE64;
    case TypeId::kTimestamp:
      return MILLRACE_TIMESTAMP_S + static_cast<int32_t>(type.time_unit());
    default:
      return 0;
  }
}

// What all rows of a list have many of.
absl::StatusOr<int64_t> EqualLength(absl::string_view name, const ColumnView& lists) {
  if (lists.length() == 0) return 0;
  const int64_t size = lists.OffsetAt(1) - lists.OffsetAt(0);
  for (int64_t row = 1; row < lists.length(); ++row) {
    const int64_t length = lists.OffsetAt(row + 1) - lists.OffsetAt(row);
    if (length == size) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        "column \"", name, "\": its lists have several lengths (", size, " in row 0, ", length,
        " in row ", row, "), so that it is no tensor; read it through Arrow, or as lists"));
  }
  return size;
}

absl::Status NoTensor(absl::string_view name, const Type& type) {
  return absl::InvalidArgumentError(
      absl::StrCat("column \"", name, "\" of type ", type.ToString(),
                   " is no tensor of numbers; read it through Arrow"));
}

absl::StatusOr<millrace_tensor> TensorOf(absl::string_view name, const Column& column,
                                         const Validity& validity) {
  millrace_tensor tensor = {};
  ColumnView view = column.view();
  tensor.num_nulls = validity.null_count();
  tensor.shape[tensor.ndim++] = view.length();
  while (view.type().is_list()) {
    if (tensor.ndim == MILLRACE_MAX_DIMENSIONS) return NoTensor(name, column.type());
    int64_t size = view.type().list_size();
    if (view.type().is_variable_list()) {
      if (tensor.ndim > 1) return NoTensor(name, column.type());
      MILLRACE_ASSIGN_OR_RETURN(size, EqualLength(name, view));
    }
    tensor.shape[tensor.ndim++] = size;
    view = view.Elements();
    if (view.may_have_nulls()) tensor.num_nulls += view.CountNulls();
  }
  tensor.type = TensorType(view.type());
  if (tensor.type == 0) return NoTensor(name, column.type());
  if (view.data().data != nullptr && view.length() > 0) {
    tensor.data = const_cast<uint8_t*>(view.data().data) + view.first() * view.type().byte_width();
  }
  return tensor;
}

absl::StatusOr<millrace_tensor> TensorOf(const Batch& rows, absl::string_view name) {
  MILLRACE_ASSIGN_OR_RETURN(const Column column, rows.TryAt(name));
  MILLRACE_ASSIGN_OR_RETURN(const Validity validity, rows.TryValidity(name));
  return TensorOf(name, column, validity);
}

bool HasNumbers(const Type& type) {
  const Type* leaf = &type;
  while (leaf->is_list()) leaf = &leaf->element().type;
  return TensorType(*leaf) != 0;
}

absl::Status TensorsOf(const Batch& rows, millrace_tensor* tensors, int32_t num_tensors) {
  const std::vector<std::string>& names = rows.names();
  if (static_cast<size_t>(num_tensors) != names.size()) {
    return absl::InvalidArgumentError(
        absl::StrCat("num_tensors is ", num_tensors, "; the batch has ", names.size(), " columns"));
  }
  if (names.empty()) return absl::OkStatus();
  const size_t size = tensors->struct_size;
  if (size % alignof(millrace_tensor) != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("struct_size is ", size, "; set it to sizeof(millrace_tensor)"));
  }
  char* next = reinterpret_cast<char*>(tensors);
  for (const std::string& name : names) {
    const Column column = rows.at(name);
    absl::StatusOr<millrace_tensor> found = millrace_tensor{};
    if (HasNumbers(column.type())) found = TensorOf(name, column, column.validity());
    auto* const tensor = reinterpret_cast<millrace_tensor*>(next);
    tensor->struct_size = size;
    MILLRACE_RETURN_IF_ERROR(WriteStruct(found.value_or(millrace_tensor{}), tensor));
    next += size;
  }
  return absl::OkStatus();
}

absl::StatusOr<DLDataType> DlpackType(absl::string_view name, int32_t type) {
  constexpr uint8_t kInt = 0, kUint = 1, kFloat = 2;
  constexpr uint8_t kWidths[] = {8, 16, 32, 64};
  if (type >= MILLRACE_INT8 && type <= MILLRACE_INT64) {
    return DLDataType{kInt, kWidths[type - MILLRACE_INT8], 1};
  }
  if (type >= MILLRACE_UINT8 && type <= MILLRACE_UINT64) {
    return DLDataType{kUint, kWidths[type - MILLRACE_UINT8], 1};
  }
  if (type >= MILLRACE_FLOAT16 && type <= MILLRACE_FLOAT64) {
    return DLDataType{kFloat, kWidths[type - MILLRACE_FLOAT16 + 1], 1};
  }
  return absl::InvalidArgumentError(
      absl::StrCat("column \"", name,
                   "\" has dates or timestamps, which DLPack does not know; read them through "
                   "Arrow, or take the numbers that stand for them (millrace_batch_tensor)"));
}

struct SharedTensor {
  explicit SharedTensor(Batch of) : rows(std::move(of)) {}

  const Batch rows;  // holds the memory
  millrace_tensor tensor = {};
  DLManagedTensor managed = {};
};

absl::StatusOr<DLManagedTensor*> ShareTensor(const Batch& rows, absl::string_view name) {
  auto shared = std::make_unique<SharedTensor>(rows);
  MILLRACE_ASSIGN_OR_RETURN(shared->tensor, TensorOf(rows, name));
  const millrace_tensor& tensor = shared->tensor;
  if (tensor.num_nulls > 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        "column \"", name, "\" has ", tensor.num_nulls,
        " nulls, which a tensor cannot say; fill them at the source, or read the column "
        "through Arrow"));
  }
  DLTensor& made = shared->managed.dl_tensor;
  MILLRACE_ASSIGN_OR_RETURN(made.dtype, DlpackType(name, tensor.type));
  made.data = tensor.data;
  made.device = {/*device_type=*/1, /*device_id=*/0};  // the CPU
  made.ndim = tensor.ndim;
  made.shape = shared->tensor.shape;
  shared->managed.deleter = [](DLManagedTensor* self) {
    delete static_cast<SharedTensor*>(self->manager_ctx);
  };
  shared->managed.manager_ctx = shared.get();
  return &shared.release()->managed;
}

// ---- Arrow --------------------------------------------------------------------------------------

absl::Status ExportColumn(const Batch& rows, absl::string_view name, ArrowSchema* schema,
                          ArrowArray* array) {
  MILLRACE_ASSIGN_OR_RETURN(const Column column, rows.TryAt(name));
  ColumnData data = column.view().data();
  data.offset = column.view().first();
  data.length = column.view().length();
  MILLRACE_ASSIGN_OR_RETURN(
      Schema alone, Schema::FromFields({{std::string(name), data.type, /*nullable=*/true}}));
  std::vector<ColumnData> columns;
  columns.push_back(std::move(data));
  const RecordBatch batch = internal::MakeRecordBatch(alone, rows.num_rows(), std::move(columns),
                                                      {rows.record_batch().owner()});
  nanoarrow::UniqueSchema table_schema;
  nanoarrow::UniqueArray table;
  alone.Export(table_schema.get());
  batch.Export(table.get());
  ArrowSchemaMove(table_schema->children[0], schema);
  ArrowArrayMove(table->children[0], array);
  return absl::OkStatus();
}

}  // namespace
}  // namespace millrace

using ::millrace::NullArgument;
using ::millrace::ReportStatus;

void millrace_batch_free(millrace_batch* batch) { delete batch; }

int64_t millrace_batch_num_rows(const millrace_batch* batch) {
  return batch == nullptr ? 0 : batch->rows.num_rows();
}

int32_t millrace_batch_num_columns(const millrace_batch* batch) {
  return batch == nullptr ? 0 : static_cast<int32_t>(batch->rows.names().size());
}

const char* millrace_batch_column_name(const millrace_batch* batch, int32_t column) {
  if (column < 0 || column >= millrace_batch_num_columns(batch)) return nullptr;
  return batch->rows.names()[static_cast<size_t>(column)].c_str();
}

const char* millrace_batch_names(const millrace_batch* batch, size_t* size) {
  if (batch == nullptr || size == nullptr) return nullptr;
  std::call_once(batch->names_made, [batch] {
    for (const std::string& name : batch->rows.names()) {
      absl::StrAppend(&batch->names, name, absl::string_view("\0", 1));
    }
  });
  *size = batch->names.size();
  return batch->names.data();
}

int32_t millrace_batch_column_type(const millrace_batch* batch, const char* column, char** out,
                                   millrace_error* error) {
  if (batch == nullptr || column == nullptr || out == nullptr) {
    return ReportStatus(NullArgument("millrace_batch_column_type", "batch, column or out"), error);
  }
  const absl::StatusOr<millrace::Column> found = batch->rows.TryAt(column);
  if (found.ok()) *out = millrace::CopyText(found->type().ToString());
  return ReportStatus(found.status(), error);
}

int32_t millrace_batch_export(const millrace_batch* batch, struct ArrowSchema* schema,
                              struct ArrowArray* array, millrace_error* error) {
  if (batch == nullptr || schema == nullptr || array == nullptr) {
    return ReportStatus(NullArgument("millrace_batch_export", "batch, schema or array"), error);
  }
  batch->rows.Export(schema, array);
  return ReportStatus(absl::OkStatus(), error);
}

int32_t millrace_batch_export_column(const millrace_batch* batch, const char* column,
                                     struct ArrowSchema* schema, struct ArrowArray* array,
                                     millrace_error* error) {
  if (batch == nullptr || column == nullptr || schema == nullptr || array == nullptr) {
    return ReportStatus(
        NullArgument("millrace_batch_export_column", "batch, column, schema or array"), error);
  }
  return ReportStatus(millrace::ExportColumn(batch->rows, column, schema, array), error);
}

int32_t millrace_batch_tensor(const millrace_batch* batch, const char* column,
                              millrace_tensor* tensor, millrace_error* error) {
  if (batch == nullptr || column == nullptr || tensor == nullptr) {
    return ReportStatus(NullArgument("millrace_batch_tensor", "batch, column or tensor"), error);
  }
  const absl::StatusOr<millrace_tensor> found = millrace::TensorOf(batch->rows, column);
  return ReportStatus(found.ok() ? millrace::WriteStruct(*found, tensor) : found.status(), error);
}

int32_t millrace_batch_tensors(const millrace_batch* batch, millrace_tensor* tensors,
                               int32_t num_tensors, millrace_error* error) {
  if (batch == nullptr || tensors == nullptr) {
    return ReportStatus(NullArgument("millrace_batch_tensors", "batch or tensors"), error);
  }
  return ReportStatus(millrace::TensorsOf(batch->rows, tensors, num_tensors), error);
}

int32_t millrace_batch_dlpack(const millrace_batch* batch, const char* column,
                              struct DLManagedTensor** out, millrace_error* error) {
  if (batch == nullptr || column == nullptr || out == nullptr) {
    return ReportStatus(NullArgument("millrace_batch_dlpack", "batch, column or out"), error);
  }
  const absl::StatusOr<DLManagedTensor*> shared = millrace::ShareTensor(batch->rows, column);
  if (shared.ok()) *out = *shared;
  return ReportStatus(shared.status(), error);
}
