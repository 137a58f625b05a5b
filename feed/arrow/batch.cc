#include "millrace/batch.h"

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
#include "core/base/text.h"
#include "feed/arrow/batch_layout.h"
#include "millrace/status_macros.h"

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

}  // namespace

namespace internal {

absl::StatusOr<std::shared_ptr<const BatchLayout>> BatchLayout::Create(
    const Schema& schema, const InputMapping& mapping) {
  auto layout = std::make_shared<BatchLayout>();
  const auto add = [&layout](const std::string& name, int column) {
    layout->names_.push_back(name);
    return layout->columns_.emplace(name, column).second;
  };
  if (mapping.empty()) {
    for (int i = 0; i < schema.num_columns(); ++i) add(schema.name(i), i);
  }
  for (const auto& [from, to] : mapping) {
    const std::optional<int> column = schema.Find(from);
    if (!column.has_value()) {
      std::vector<std::string> names;
      for (const Field& field : schema.fields()) names.push_back(field.name);
      const std::string head = from.substr(0, from.find('.'));
      const std::optional<int> whole = schema.Find(head);
      const bool field_of_struct = whole.has_value() && schema.type(*whole).is_struct();
      return absl::NotFoundError(absl::StrCat(
          "input_mapping names the column \"", from, "\"; the feed has: ", NameList(names),
          field_of_struct ? absl::StrCat(". Map \"", head, "\" and read its field as \"",
                                         to.empty() ? head : to, from.substr(head.size()), "\"")
                          : ""));
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
  return layout;
}

int BatchLayout::Find(absl::string_view name) const {
  const auto it = columns_.find(name);
  return it == columns_.end() ? -1 : it->second;
}

Batch MakeBatch(RecordBatch rows, std::shared_ptr<const BatchLayout> layout) {
  Batch batch;
  batch.rows_ = std::move(rows);
  batch.layout_ = std::move(layout);
  return batch;
}

}  // namespace internal

absl::StatusOr<Batch> Batch::Create(RecordBatch rows, const InputMapping& mapping) {
  MILLRACE_ASSIGN_OR_RETURN(auto layout, internal::BatchLayout::Create(rows.schema(), mapping));
  return internal::MakeBatch(std::move(rows), std::move(layout));
}

absl::StatusOr<Batch> Batch::Import(ArrowSchema* schema, ArrowArray* array) {
  MILLRACE_ASSIGN_OR_RETURN(RecordBatch rows, RecordBatch::Import(schema, array));
  return Create(std::move(rows));
}

const std::vector<std::string>& Batch::names() const {
  static const std::vector<std::string>* const none = new std::vector<std::string>();
  return layout_ == nullptr ? *none : layout_->names();
}

bool Batch::has_column(absl::string_view name) const {
  return layout_ != nullptr && Resolve(name, nullptr).ok();
}

void Batch::Export(ArrowSchema* schema, ArrowArray* array) const {
  std::vector<int> columns;
  std::vector<Field> fields;
  for (const std::string& name : names()) {
    columns.push_back(layout_->Find(name));
    fields.push_back(rows_.schema().field(columns.back()));
    fields.back().name = name;
  }
  const absl::StatusOr<Schema> named = Schema::FromFields(std::move(fields));
  MILLRACE_CHECK(named.ok()) << named.status().message();  // the layout's names are as good
  named->Export(schema);
  rows_.Select(columns, *named).Export(array);
}

absl::StatusOr<Column> Batch::Resolve(absl::string_view name,
                                      std::vector<ColumnView>* around) const {
  if (layout_ == nullptr) return Column();
  const int column = layout_->Find(name);
  if (column < 0) return ResolveField(name, around);
  const ColumnView view = rows_.column(column);
  return Column(name, &view.type(), view);
}

absl::StatusOr<Column> Batch::ResolveField(absl::string_view name,
                                           std::vector<ColumnView>* around) const {
  // The longest column before a dot, then field by field, each name as long as possible.
  for (size_t dot = name.rfind('.'); dot != name.npos && dot > 0; dot = name.rfind('.', dot - 1)) {
    const int column = layout_->Find(name.substr(0, dot));
    if (column < 0 || !rows_.column(column).type().is_struct()) continue;
    const Type* type = &rows_.column(column).type();
    ColumnView view = rows_.column(column);
    absl::string_view rest = name.substr(dot + 1);
    while (true) {
      if (around != nullptr) around->push_back(view);
      absl::string_view field = rest;
      while (view.type().FindField(field) < 0) {
        const size_t end = field.rfind('.');
        if (!view.type().is_struct() || end == field.npos) {
          return Column(name.substr(0, name.size() - rest.size() - 1), type, view)
              .TryField(rest)
              .status();
        }
        field = field.substr(0, end);
      }
      view = view.Child(static_cast<size_t>(view.type().FindField(field)));
      if (field.size() == rest.size()) return Column(name, type, view);
      rest.remove_prefix(field.size() + 1);
    }
  }
  return absl::NotFoundError(
      absl::StrCat("the batch has no column \"", name, "\"; it has: ", NameList(names())));
}

Column Batch::Resolved(absl::string_view name) const {
  absl::StatusOr<Column> found = Resolve(name, nullptr);
  MILLRACE_CHECK(found.ok()) << found.status().message();
  return *found;
}

Column Batch::at(absl::string_view name) const {
  const absl::StatusOr<Column> found = TryAt(name);
  MILLRACE_CHECK(found.ok()) << found.status().message();
  return *found;
}

absl::StatusOr<Column> Batch::TryAt(absl::string_view name) const {
  MILLRACE_ASSIGN_OR_RETURN(const Column found, Resolve(name, nullptr));
  if (layout_ == nullptr) return found;
  // The column is kept, so its name must be one that lives as long as the batch.
  while (layout_->Find(name) < 0) name = name.substr(0, name.rfind('.'));
  return found.Renamed(layout_->Stored(name));
}

BoolColumn Batch::bools(absl::string_view name) const { return Resolved(name).bools(); }

absl::StatusOr<BoolColumn> Batch::TryBools(absl::string_view name) const {
  MILLRACE_ASSIGN_OR_RETURN(const Column found, Resolve(name, nullptr));
  return found.TryBools();
}

StringColumn Batch::strings(absl::string_view name) const { return Resolved(name).strings(); }

absl::StatusOr<StringColumn> Batch::TryStrings(absl::string_view name) const {
  MILLRACE_ASSIGN_OR_RETURN(const Column found, Resolve(name, nullptr));
  return found.TryStrings();
}

TimeColumn Batch::times(absl::string_view name) const { return Resolved(name).times(); }

absl::StatusOr<TimeColumn> Batch::TryTimes(absl::string_view name) const {
  MILLRACE_ASSIGN_OR_RETURN(const Column found, Resolve(name, nullptr));
  return found.TryTimes();
}

ListColumn Batch::list(absl::string_view name) const {
  const absl::StatusOr<ListColumn> list = TryList(name);
  MILLRACE_CHECK(list.ok()) << list.status().message();
  return *list;
}

absl::StatusOr<ListColumn> Batch::TryList(absl::string_view name) const {
  // An error about the type shows the name that the caller used.
  MILLRACE_ASSIGN_OR_RETURN(const Column found, Resolve(name, nullptr));
  MILLRACE_RETURN_IF_ERROR(found.TryList().status());
  MILLRACE_ASSIGN_OR_RETURN(const Column kept, TryAt(name));
  return kept.TryList();
}

int64_t Batch::list_size(absl::string_view name) const {
  int64_t size = 1;
  for (const Type* of = &type(name); of->is_fixed_size_list(); of = &of->element().type) {
    size *= of->list_size();
  }
  return size;
}

Row Batch::row(int64_t index) const {
  MILLRACE_CHECK(index >= 0 && index < num_rows()) << "row " << index << " of " << num_rows();
  return Row(this, index);
}

Validity Batch::validity(absl::string_view name) const {
  const absl::StatusOr<Validity> validity = TryValidity(name);
  MILLRACE_CHECK(validity.ok()) << validity.status().message();
  return *validity;
}

absl::StatusOr<Validity> Batch::TryValidity(absl::string_view name) const {
  std::vector<ColumnView> around;
  MILLRACE_ASSIGN_OR_RETURN(const Column found, Resolve(name, &around));
  return Validity(found.view(), std::move(around));
}

Validity Batch::element_validity(absl::string_view name) const {
  const Column found = Resolved(name);
  if (layout_ == nullptr) return found.validity();
  MILLRACE_CHECK(found.type().is_list())
      << "column \"" << name << "\": wanted a list, found " << found.type().ToString();
  ColumnView view = found.view().Elements();
  while (found.type().is_fixed_size_list() && view.type().is_fixed_size_list()) {
    view = view.Elements();
  }
  return Validity(view);
}

bool Batch::IsNull(absl::string_view name, int64_t row) const {
  const Validity valid = validity(name);
  MILLRACE_CHECK(row >= 0 && row < static_cast<int64_t>(valid.size()))
      << "row " << row << " of " << valid.size();
  return !valid[static_cast<size_t>(row)];
}

const Type& Batch::type(absl::string_view name) const {
  // The type lives in the batch's memory, not in the view.
  return Resolved(name).view().data().type;
}

}  // namespace millrace
