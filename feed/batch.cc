#include "feed/batch.h"

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "core/base/log.h"
#include "core/base/status_macros.h"
#include "core/base/text.h"

namespace millrace {
namespace {

// Names for a message; a wide table's are not all listed.
std::string NameList(const std::vector<std::string>& names) {
  constexpr size_t kMost = 20;
  if (names.empty()) return "none";
  std::string list;
  for (size_t i = 0; i < names.size() && i < kMost; ++i) {
    absl::StrAppend(&list, i == 0 ? "" : ", ", EscapeControls(names[i]));
  }
  if (names.size() > kMost) absl::StrAppend(&list, " and ", names.size() - kMost, " more");
  return list;
}

// What a Batch that knows no columns answers: no rows of whatever is wanted.
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

absl::StatusOr<BatchLayout> BatchLayout::Create(const Schema& schema, const InputMapping& mapping) {
  auto data = std::make_shared<Data>();
  const auto add = [&data](const std::string& name, int column) {
    data->names.push_back(name);
    return data->columns.emplace(name, column).second;
  };
  if (mapping.empty()) {
    for (int i = 0; i < schema.num_columns(); ++i) add(schema.name(i), i);
  }
  for (const auto& [from, to] : mapping) {
    const std::optional<int> column = schema.Find(from);
    if (!column.has_value()) {
      std::vector<std::string> names;
      for (const Field& field : schema.fields()) names.push_back(field.name);
      return absl::NotFoundError(absl::StrCat("input_mapping names the column \"", from,
                                              "\"; the feed has: ", NameList(names)));
    }
    if (to.empty()) {
      return absl::InvalidArgumentError(
          absl::StrCat("input_mapping gives the column \"", from, "\" no name"));
    }
    if (!add(to, *column)) {
      return absl::InvalidArgumentError(
          absl::StrCat("input_mapping gives the name \"", to, "\" twice"));
    }
  }
  BatchLayout layout;
  layout.data_ = std::move(data);
  return layout;
}

const std::vector<std::string>& BatchLayout::names() const {
  static const std::vector<std::string>* const none = new std::vector<std::string>();
  return data_ == nullptr ? *none : data_->names;
}

int BatchLayout::Find(absl::string_view name) const {
  if (data_ == nullptr) return -1;
  const auto it = data_->columns.find(name);
  return it == data_->columns.end() ? -1 : it->second;
}

absl::StatusOr<Batch> Batch::Create(RecordBatch rows, const InputMapping& mapping) {
  MILLRACE_ASSIGN_OR_RETURN(BatchLayout layout, BatchLayout::Create(rows.schema(), mapping));
  return Batch(std::move(rows), std::move(layout));
}

absl::StatusOr<ColumnView> Batch::Find(absl::string_view name, TypeId otherwise) const {
  if (!layout_.known()) return NoRows(otherwise);
  const int column = layout_.Find(name);
  if (column < 0) {
    return absl::NotFoundError(
        absl::StrCat("the batch has no column \"", name, "\"; it has: ", NameList(names())));
  }
  return rows_.column(column);
}

absl::StatusOr<ColumnView> Batch::FindValues(absl::string_view name, TypeId wanted) const {
  MILLRACE_ASSIGN_OR_RETURN(const ColumnView view, Find(name, wanted));
  if (view.type().id() == wanted) return view;
  if (view.type().is_list() && view.type().element().type.id() == wanted) return view.Elements();
  return absl::InvalidArgumentError(absl::StrCat(
      "column \"", name, "\": wanted ", TypeIdName(wanted), ", found ", view.type().ToString()));
}

absl::StatusOr<ColumnView> Batch::FindStrings(absl::string_view name) const {
  MILLRACE_ASSIGN_OR_RETURN(const ColumnView view, Find(name, TypeId::kUtf8));
  if (view.type().is_variable()) return view;
  return absl::InvalidArgumentError(
      absl::StrCat("column \"", name, "\": wanted utf8 or binary, found ", view.type().ToString()));
}

ColumnView Batch::Checked(const absl::StatusOr<ColumnView>& view) {
  MILLRACE_CHECK(view.ok()) << view.status().message();
  return *view;
}

BoolColumn Batch::bools(absl::string_view name) const {
  return BoolColumn(Checked(FindValues(name, TypeId::kBool)));
}

absl::StatusOr<BoolColumn> Batch::TryBools(absl::string_view name) const {
  MILLRACE_ASSIGN_OR_RETURN(const ColumnView view, FindValues(name, TypeId::kBool));
  return BoolColumn(view);
}

StringColumn Batch::strings(absl::string_view name) const {
  return StringColumn(Checked(FindStrings(name)));
}

absl::StatusOr<StringColumn> Batch::TryStrings(absl::string_view name) const {
  MILLRACE_ASSIGN_OR_RETURN(const ColumnView view, FindStrings(name));
  return StringColumn(view);
}

int64_t Batch::list_size(absl::string_view name) const {
  const Type& column_type = type(name);
  return column_type.is_list() ? column_type.list_size() : 1;
}

Validity Batch::validity(absl::string_view name) const { return Validity(Checked(Find(name))); }

absl::StatusOr<Validity> Batch::TryValidity(absl::string_view name) const {
  MILLRACE_ASSIGN_OR_RETURN(const ColumnView view, Find(name));
  return Validity(view);
}

Validity Batch::element_validity(absl::string_view name) const {
  const ColumnView view = Checked(Find(name));
  if (!layout_.known()) return Validity(view);
  MILLRACE_CHECK(view.type().is_list())
      << "column \"" << name << "\": wanted a list, found " << view.type().ToString();
  return Validity(view.Elements());
}

bool Batch::IsNull(absl::string_view name, int64_t row) const {
  const ColumnView view = Checked(Find(name));
  MILLRACE_CHECK(row >= 0 && row < view.length()) << "row " << row << " of " << view.length();
  return view.IsNull(row);
}

const Type& Batch::type(absl::string_view name) const {
  // The type lives in the batch's memory, not in the view.
  return Checked(Find(name)).type();
}

}  // namespace millrace
