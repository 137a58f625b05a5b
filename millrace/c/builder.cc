// Rows that a program makes without Arrow at hand.

#include <cstdint>
#include <limits>
#include <memory>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "millrace/batch_builder.h"
#include "millrace/c/c_support.h"
#include "millrace/c/millrace.h"
#include "millrace/record_batch.h"
#include "millrace/schema.h"
#include "millrace/status_macros.h"
#include "millrace/types.h"

struct millrace_builder {
  std::unique_ptr<millrace::BatchBuilder> columns = std::make_unique<millrace::BatchBuilder>();
};

namespace millrace {
namespace {

// Validity as BatchBuilder takes it.
class Valid {
 public:
  Valid(const uint8_t* bytes, int64_t rows) {
    if (bytes == nullptr || rows <= 0) return;
    rows_ = static_cast<size_t>(rows);
    flags_ = std::make_unique<bool[]>(rows_);
    for (size_t i = 0; i < rows_; ++i) flags_[i] = bytes[i] != 0;
  }
  [[nodiscard]] std::span<const bool> span() const { return {flags_.get(), rows_}; }

 private:
  size_t rows_ = 0;
  std::unique_ptr<bool[]> flags_;
};

template <typename T>
std::vector<T> CopyValues(const millrace_tensor& tensor, size_t count) {
  const T* values = static_cast<const T*>(tensor.data);
  return count == 0 ? std::vector<T>() : std::vector<T>(values, values + count);
}

void AddNumbers(absl::string_view name, const millrace_tensor& tensor, size_t count,
                std::span<const bool> valid, BatchBuilder* builder) {
  const auto add = [&]<typename T>(T) {
    builder->AddColumn(name, CopyValues<T>(tensor, count), valid);
  };
  switch (tensor.type) {
    case MILLRACE_INT8:
      return add(int8_t{});
    case MILLRACE_INT16:
      return add(int16_t{});
    case MILLRACE_INT32:
      return add(int32_t{});
    case MILLRACE_INT64:
      return add(int64_t{});
    case MILLRACE_UINT8:
      return add(uint8_t{});
    case MILLRACE_UINT16:
      return add(uint16_t{});
    case MILLRACE_UINT32:
      return add(uint32_t{});
    case MILLRACE_UINT64:
      return add(uint64_t{});
    case MILLRACE_FLOAT16:
      return add(Float16{});
    case MILLRACE_FLOAT32:
      return add(float{});
    case MILLRACE_FLOAT64:
      return add(double{});
    case MILLRACE_DATE32:
      return add(Date32{});
    case MILLRACE_DATE64:
      return add(Date64{});
    default:
      builder->AddTimestamps(name, CopyValues<Timestamp>(tensor, count),
                             static_cast<TimeUnit>(tensor.type - MILLRACE_TIMESTAMP_S), "", valid);
  }
}

// The number of values.
absl::StatusOr<size_t> CheckTensor(absl::string_view name, const millrace_tensor& tensor) {
  if (tensor.type < MILLRACE_INT8 || tensor.type > MILLRACE_TIMESTAMP_NS) {
    return absl::InvalidArgumentError(
        absl::StrCat("column \"", name, "\": ", tensor.type, " is no millrace_type"));
  }
  if (tensor.ndim < 1 || tensor.ndim > MILLRACE_MAX_DIMENSIONS) {
    return absl::InvalidArgumentError(absl::StrCat("column \"", name, "\": ", tensor.ndim,
                                                   " dimensions; 1 to ", MILLRACE_MAX_DIMENSIONS,
                                                   " will do, the first for the rows"));
  }
  int64_t count = 1;
  for (int32_t i = 0; i < tensor.ndim; ++i) {
    const int64_t size = tensor.shape[i];
    const int64_t most = i == 0 ? int64_t{1} << 40 : std::numeric_limits<int32_t>::max();
    if (size < (i == 0 ? 0 : 1) || size > most || count * size > (int64_t{1} << 40)) {
      return absl::InvalidArgumentError(absl::StrCat("column \"", name, "\": dimension ", i, " of ",
                                                     tensor.ndim, " cannot have the size ", size));
    }
    count *= size;
  }
  if (count > 0 && tensor.data == nullptr) {
    return absl::InvalidArgumentError(absl::StrCat("column \"", name, "\": no values"));
  }
  return static_cast<size_t>(count);
}

absl::Status Add(absl::string_view name, const millrace_tensor* given, const uint8_t* valid_bytes,
                 BatchBuilder* builder) {
  MILLRACE_ASSIGN_OR_RETURN(const millrace_tensor tensor, ReadStruct(given));
  MILLRACE_ASSIGN_OR_RETURN(const size_t count, CheckTensor(name, tensor));
  const Valid valid(valid_bytes, tensor.shape[0]);
  if (tensor.ndim == 1) {
    AddNumbers(name, tensor, count, valid.span(), builder);
    return absl::OkStatus();
  }
  BatchBuilder innermost;
  AddNumbers("item", tensor, count, {}, &innermost);
  MILLRACE_ASSIGN_OR_RETURN(RecordBatch elements, innermost.Build());
  for (int32_t i = tensor.ndim - 1; i > 1; --i) {
    BatchBuilder around;
    around.AddFixedSizeList("item", elements, static_cast<int32_t>(tensor.shape[i]));
    MILLRACE_ASSIGN_OR_RETURN(elements, around.Build());
  }
  builder->AddFixedSizeList(name, elements, static_cast<int32_t>(tensor.shape[1]), valid.span());
  return absl::OkStatus();
}

absl::Status AddStrings(absl::string_view name, const char* bytes, const int64_t* offsets,
                        int64_t rows, bool binary, const uint8_t* valid_bytes,
                        BatchBuilder* builder) {
  std::vector<std::string_view> values;
  for (int64_t row = 0; row < rows; ++row) {
    const int64_t size = offsets[row + 1] - offsets[row];
    if (offsets[row] < 0 || size < 0 || (size > 0 && bytes == nullptr)) {
      return absl::InvalidArgumentError(
          absl::StrCat("column \"", name, "\": the offsets of row ", row, " are none"));
    }
    values.emplace_back(bytes + offsets[row], static_cast<size_t>(size));
  }
  const Valid valid(valid_bytes, rows);
  if (binary) {
    builder->AddBinary(name, values, valid.span());
  } else {
    builder->AddStrings(name, values, valid.span());
  }
  return absl::OkStatus();
}

}  // namespace
}  // namespace millrace

using ::millrace::NullArgument;
using ::millrace::ReportStatus;

millrace_builder* millrace_builder_new(void) { return new millrace_builder(); }

void millrace_builder_free(millrace_builder* builder) { delete builder; }

int32_t millrace_builder_add(millrace_builder* builder, const char* column,
                             const millrace_tensor* values, const uint8_t* valid,
                             millrace_error* error) {
  if (builder == nullptr || column == nullptr || values == nullptr) {
    return ReportStatus(NullArgument("millrace_builder_add", "builder, column or values"), error);
  }
  return ReportStatus(millrace::Add(column, values, valid, builder->columns.get()), error);
}

int32_t millrace_builder_add_bools(millrace_builder* builder, const char* column,
                                   const uint8_t* values, int64_t rows, const uint8_t* valid,
                                   millrace_error* error) {
  if (builder == nullptr || column == nullptr || rows < 0 || (values == nullptr && rows > 0)) {
    return ReportStatus(NullArgument("millrace_builder_add_bools", "builder, column or values"),
                        error);
  }
  const std::vector<bool> flags(values, values + rows);
  const millrace::Valid present(valid, rows);
  builder->columns->AddBools(column, flags, present.span());
  return ReportStatus(absl::OkStatus(), error);
}

int32_t millrace_builder_add_strings(millrace_builder* builder, const char* column,
                                     const char* bytes, const int64_t* offsets, int64_t rows,
                                     int32_t binary, const uint8_t* valid, millrace_error* error) {
  if (builder == nullptr || column == nullptr || rows < 0 || (offsets == nullptr && rows > 0)) {
    return ReportStatus(NullArgument("millrace_builder_add_strings", "builder, column or offsets"),
                        error);
  }
  return ReportStatus(millrace::AddStrings(column, bytes, offsets, rows, binary != 0, valid,
                                           builder->columns.get()),
                      error);
}

int32_t millrace_builder_finish(millrace_builder* builder, struct ArrowSchema* schema,
                                struct ArrowArray* array, millrace_error* error) {
  if (builder == nullptr || schema == nullptr || array == nullptr) {
    return ReportStatus(NullArgument("millrace_builder_finish", "builder, schema or array"), error);
  }
  const auto columns = std::exchange(builder->columns, std::make_unique<millrace::BatchBuilder>());
  const absl::StatusOr<millrace::RecordBatch> rows = columns->Build();
  if (!rows.ok()) return ReportStatus(rows.status(), error);
  rows->schema().Export(schema);
  rows->Export(array);
  return ReportStatus(absl::OkStatus(), error);
}
