// File: feed/ipc/flatbuffer.h
//
// Reads FlatBuffers that nobody has verified. Every access is checked against the bytes there are,
// so any bytes are safe; nothing is assumed about alignment, and nothing is allocated.
//
// Defines: FlatTable, FlatVector.
//
//   MILLRACE_ASSIGN_OR_RETURN(FlatTable message, FlatTable::Root(bytes));
//   MILLRACE_ASSIGN_OR_RETURN(int64_t body_length, message.Scalar<int64_t>(3, 0));
//   MILLRACE_ASSIGN_OR_RETURN(std::optional<FlatTable> header, message.Table(2));
//
// (The verifier that nanoarrow carries walks every path to a table anew, so a few hundred bytes of
// tables that refer to one another cost it unbounded time. Here the caller decides where to go.)
//
// Each function returns INVALID_ARGUMENT if what it is to read does not lie within the bytes.
// `slot` is the number of a field in the order of its declaration, from 0; a union takes two.
// Ownership: views into the caller's bytes. Thread safety: immutable.

#ifndef FEED_IPC_FLATBUFFER_H_
#define FEED_IPC_FLATBUFFER_H_

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace millrace {

static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "FlatBuffers are read as they lie");

class FlatVector;

class FlatTable {
 public:
  // The table that the first four bytes point to.
  [[nodiscard]] static absl::StatusOr<FlatTable> Root(absl::string_view bytes);

  template <typename T>
  [[nodiscard]] absl::StatusOr<T> Scalar(int slot, T otherwise) const {
    absl::StatusOr<size_t> at = Find(slot, sizeof(T));
    if (!at.ok()) return at.status();
    if (*at == 0) return otherwise;
    T value;
    std::memcpy(&value, bytes_.data() + *at, sizeof(T));
    return value;
  }

  // Absent fields are nullopt.
  [[nodiscard]] absl::StatusOr<std::optional<FlatTable>> Table(int slot) const;
  [[nodiscard]] absl::StatusOr<std::optional<absl::string_view>> String(int slot) const;
  // A vector of scalars or structs of `element_bytes` each; 4 for tables.
  [[nodiscard]] absl::StatusOr<std::optional<FlatVector>> Vector(int slot,
                                                                 size_t element_bytes) const;

 private:
  friend class FlatVector;

  FlatTable(absl::string_view bytes, size_t at) : bytes_(bytes), at_(at) {}
  [[nodiscard]] static absl::StatusOr<FlatTable> At(absl::string_view bytes, size_t at);
  // Position of the field's `size` inline bytes, 0 if it is absent.
  [[nodiscard]] absl::StatusOr<size_t> Find(int slot, size_t size) const;
  // Position that the offset field points to, 0 if it is absent; 4 bytes can be read there.
  [[nodiscard]] absl::StatusOr<size_t> Follow(int slot) const;

  absl::string_view bytes_;
  size_t at_ = 0;  // the table lies at [at_, at_ + table_bytes_)
  size_t table_bytes_ = 0;
  size_t vtable_ = 0;  // its vtable at [vtable_, vtable_ + vtable_bytes_)
  size_t vtable_bytes_ = 0;
};

class FlatVector {
 public:
  FlatVector() = default;  // empty

  [[nodiscard]] size_t size() const { return size_; }

  // Element i of a vector of tables.
  [[nodiscard]] absl::StatusOr<FlatTable> Table(size_t i) const;

  // `T` at byte `offset` of element i, which must exist; offset + sizeof(T) <= element_bytes.
  template <typename T>
  [[nodiscard]] T Value(size_t i, size_t offset = 0) const {
    T value;
    std::memcpy(&value, bytes_.data() + first_ + i * element_bytes_ + offset, sizeof(T));
    return value;
  }

 private:
  friend class FlatTable;

  absl::string_view bytes_;
  size_t first_ = 0;  // all elements lie within bytes_
  size_t size_ = 0;
  size_t element_bytes_ = 0;
};

}  // namespace millrace

#endif  // FEED_IPC_FLATBUFFER_H_
