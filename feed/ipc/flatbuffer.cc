#include "feed/ipc/flatbuffer.h"

#include <cstdint>
#include <cstring>
#include <optional>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "millrace/status_macros.h"

namespace millrace {
namespace {

absl::Status Outside(absl::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat("malformed flatbuffer: ", what));
}

template <typename T>
T Load(absl::string_view bytes, size_t at) {
  T value;
  std::memcpy(&value, bytes.data() + at, sizeof(T));
  return value;
}

bool Contains(absl::string_view bytes, size_t at, size_t size) {
  return at <= bytes.size() && size <= bytes.size() - at;
}

}  // namespace

absl::StatusOr<FlatTable> FlatTable::Root(absl::string_view bytes) {
  if (bytes.size() < 4) return Outside("no root");
  return At(bytes, Load<uint32_t>(bytes, 0));
}

absl::StatusOr<FlatTable> FlatTable::At(absl::string_view bytes, size_t at) {
  if (!Contains(bytes, at, 4)) return Outside("a table outside");
  FlatTable table(bytes, at);
  const int64_t vtable = static_cast<int64_t>(at) - Load<int32_t>(bytes, at);
  if (vtable < 0 || !Contains(bytes, static_cast<size_t>(vtable), 4)) {
    return Outside("a vtable outside");
  }
  table.vtable_ = static_cast<size_t>(vtable);
  table.vtable_bytes_ = Load<uint16_t>(bytes, table.vtable_);
  table.table_bytes_ = Load<uint16_t>(bytes, table.vtable_ + 2);
  if (table.vtable_bytes_ < 4 || table.vtable_bytes_ % 2 != 0 || table.table_bytes_ < 4 ||
      !Contains(bytes, table.vtable_, table.vtable_bytes_) ||
      !Contains(bytes, at, table.table_bytes_)) {
    return Outside("a vtable of impossible sizes");
  }
  return table;
}

absl::StatusOr<size_t> FlatTable::Find(int slot, size_t size) const {
  const size_t entry = 4 + 2 * static_cast<size_t>(slot);
  if (entry + 2 > vtable_bytes_) return 0;
  const size_t offset = Load<uint16_t>(bytes_, vtable_ + entry);
  if (offset == 0) return 0;
  if (offset < 4 || offset + size > table_bytes_) return Outside("a field outside its table");
  return at_ + offset;
}

absl::StatusOr<size_t> FlatTable::Follow(int slot) const {
  MILLRACE_ASSIGN_OR_RETURN(const size_t at, Find(slot, 4));
  if (at == 0) return 0;
  const size_t target = at + Load<uint32_t>(bytes_, at);
  if (target == at || !Contains(bytes_, target, 4)) return Outside("an offset outside");
  return target;
}

absl::StatusOr<std::optional<FlatTable>> FlatTable::Table(int slot) const {
  MILLRACE_ASSIGN_OR_RETURN(const size_t at, Follow(slot));
  if (at == 0) return std::optional<FlatTable>();
  MILLRACE_ASSIGN_OR_RETURN(const FlatTable table, At(bytes_, at));
  return std::optional<FlatTable>(table);
}

absl::StatusOr<std::optional<absl::string_view>> FlatTable::String(int slot) const {
  MILLRACE_ASSIGN_OR_RETURN(const std::optional<FlatVector> text, Vector(slot, 1));
  if (!text.has_value()) return std::optional<absl::string_view>();
  return std::optional<absl::string_view>(bytes_.substr(text->first_, text->size_));
}

absl::StatusOr<std::optional<FlatVector>> FlatTable::Vector(int slot, size_t element_bytes) const {
  MILLRACE_ASSIGN_OR_RETURN(const size_t at, Follow(slot));
  if (at == 0) return std::optional<FlatVector>();
  FlatVector vector;
  vector.bytes_ = bytes_;
  vector.first_ = at + 4;
  vector.size_ = Load<uint32_t>(bytes_, at);
  vector.element_bytes_ = element_bytes;
  // Both factors are below 2^32: no overflow.
  if (!Contains(bytes_, vector.first_, vector.size_ * element_bytes)) {
    return Outside("a vector outside");
  }
  return std::optional<FlatVector>(vector);
}

absl::StatusOr<FlatTable> FlatVector::Table(size_t i) const {
  if (i >= size_) return Outside("no such element");
  const size_t at = first_ + i * element_bytes_;
  return FlatTable::At(bytes_, at + Value<uint32_t>(i));
}

}  // namespace millrace
