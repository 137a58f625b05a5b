#include "millrace/column.h"

#include <algorithm>
#include <cstdlib>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "core/base/log.h"
#include "core/base/text.h"
#include "millrace/status_macros.h"
#include "millrace/types.h"

namespace millrace {
namespace {

// A type for a message: a wide struct's is not shown whole.
std::string Shown(const Type& type) { return EscapeControls(Ellipsize(type.ToString(), 300)); }

// No rows of a scalar type.
ColumnView NoRows(TypeId wanted) {
  static const auto* const columns = [] {
    auto* made = new std::vector<ColumnData>();
    for (int id = 0; id <= static_cast<int>(TypeId::kLargeBinary); ++id) {
      made->push_back({.type = Type::Scalar(static_cast<TypeId>(id))});
    }
    return made;
  }();
  return ColumnView(&(*columns)[static_cast<size_t>(wanted)], 0, 0);
}

}  // namespace

absl::Time TimeColumn::operator[](size_t row) const {
  switch (view_.type().id()) {
    case TypeId::kDate32:
      return absl::UnixEpoch() + absl::Hours(24) * view_.values<Date32>()[row].days;
    case TypeId::kDate64:
      return absl::FromUnixMillis(view_.values<Date64>()[row].ms);
    default:
      return view_.values<Timestamp>()[row].ToTime(view_.type().time_unit());
  }
}

int64_t Validity::null_count() const {
  if (std::none_of(around_.begin(), around_.end(),
                   [](const ColumnView& view) { return view.may_have_nulls(); })) {
    return view_.CountNulls();
  }
  int64_t nulls = 0;
  for (size_t row = 0; row < size(); ++row) nulls += (*this)[row] ? 0 : 1;
  return nulls;
}

Column::Column() : view_(NoRows(TypeId::kBool)) {}

void Column::EndProgram(const absl::Status& why) {
  MILLRACE_CHECK(why.ok()) << why.message();
  std::abort();
}

absl::Status Column::Mismatch(absl::string_view wanted) const {
  std::string message =
      absl::StrCat("column \"", name_, "\": wanted ", wanted, ", found ", Shown(type()));
  if (&type() != column_ && type() != *column_) {
    absl::StrAppend(&message, " within ", Shown(*column_));
  }
  return absl::InvalidArgumentError(message);
}

absl::InlinedVector<int64_t, 4> Column::shape() const {
  absl::InlinedVector<int64_t, 4> shape = {view_.length()};
  for (const Type* type = &this->type(); type->is_fixed_size_list(); type = &type->element().type) {
    shape.push_back(type->list_size());
  }
  return shape;
}

absl::StatusOr<ColumnView> Column::FindValues(TypeId wanted) const {
  if (column_ == nullptr) return NoRows(wanted);
  ColumnView view = view_;
  while (view.type().is_fixed_size_list()) view = view.Elements();
  if (view.type().id() == wanted) return view;
  return Mismatch(TypeIdName(wanted));
}

absl::StatusOr<ColumnView> Column::FindStrings() const {
  if (column_ == nullptr) return NoRows(TypeId::kUtf8);
  if (type().is_variable()) return view_;
  return Mismatch("utf8 or binary");
}

absl::StatusOr<ColumnView> Column::FindTimes() const {
  if (column_ == nullptr) return NoRows(TypeId::kTimestamp);
  if (type().is_time()) return view_;
  return Mismatch("date32, date64 or timestamp");
}

absl::StatusOr<BoolColumn> Column::TryBools() const {
  MILLRACE_ASSIGN_OR_RETURN(const ColumnView view, FindValues(TypeId::kBool));
  return BoolColumn(view);
}

absl::StatusOr<StringColumn> Column::TryStrings() const {
  MILLRACE_ASSIGN_OR_RETURN(const ColumnView view, FindStrings());
  return StringColumn(view);
}

absl::StatusOr<TimeColumn> Column::TryTimes() const {
  MILLRACE_ASSIGN_OR_RETURN(const ColumnView view, FindTimes());
  return TimeColumn(view);
}

ListColumn Column::list() const { return Checked(TryList()); }

absl::StatusOr<ListColumn> Column::TryList() const {
  if (column_ == nullptr || type().is_list()) return ListColumn(*this);
  return Mismatch("a list");
}

Column Column::field(absl::string_view name) const { return Checked(TryField(name)); }

absl::StatusOr<Column> Column::TryField(absl::string_view name) const {
  if (column_ == nullptr) return Column();
  if (!type().is_struct()) return Mismatch("a struct");
  const int field = type().FindField(name);
  if (field < 0) {
    return absl::NotFoundError(
        absl::StrCat("column \"", name_, "\" has no field \"", name, "\"; it is ", Shown(type())));
  }
  return Column(name_, column_, view_.Child(static_cast<size_t>(field)));
}

Column ListColumn::operator[](size_t row) const {
  return Column(column_.name_, column_.column_, column_.view_.ListAt(static_cast<int64_t>(row)));
}

Column ListColumn::elements() const {
  if (column_.column_ == nullptr) return Column();
  return Column(column_.name_, column_.column_, column_.view_.Elements());
}

}  // namespace millrace
