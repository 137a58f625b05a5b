// File: feed/arrow/buffer.h
//
// Memory for the buffers of record batches.
//
// Defines: NewBuffer(), NewUnsetBuffer().

#ifndef FEED_ARROW_BUFFER_H_
#define FEED_ARROW_BUFFER_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

namespace millrace {

// `bytes` zeroed bytes, aligned for every value type and never null; `owners` gets what keeps them
// alive. Zeroed because padding bits travel: no process memory leaks with them.
inline uint8_t* NewBuffer(int64_t bytes, std::vector<std::shared_ptr<const void>>* owners) {
  const size_t size = bytes > 0 ? static_cast<size_t>(bytes) : 1;
  std::shared_ptr<uint8_t[]> memory(new uint8_t[size]());  // aligned to 16
  uint8_t* data = memory.get();
  owners->push_back(std::move(memory));
  return data;
}

// The same, for who writes every one of them: to zero a large buffer first costs as much as to copy
// it.
inline uint8_t* NewUnsetBuffer(int64_t bytes, std::vector<std::shared_ptr<const void>>* owners) {
  std::shared_ptr<uint8_t[]> memory(new uint8_t[bytes > 0 ? static_cast<size_t>(bytes) : 1]);
  uint8_t* data = memory.get();
  owners->push_back(std::move(memory));
  return data;
}

}  // namespace millrace

#endif  // FEED_ARROW_BUFFER_H_
