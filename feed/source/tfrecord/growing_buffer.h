// File: feed/source/tfrecord/growing_buffer.h
//
// A buffer of a column that grows by its end, and becomes part of a record batch without a copy.
//
// Defines: GrowingBuffer.

#ifndef FEED_SOURCE_TFRECORD_GROWING_BUFFER_H_
#define FEED_SOURCE_TFRECORD_GROWING_BUFFER_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <type_traits>
#include <utility>
#include <vector>

namespace millrace {

// Thread safety: one thread at a time.
class GrowingBuffer {
 public:
  // Room for `bytes` more, which the caller writes; valid until the next call.
  [[nodiscard]] uint8_t* Extend(size_t bytes) {
    if (bytes > capacity_ - size_) Grow(bytes);
    uint8_t* const room = memory_.get() + size_;
    size_ += bytes;
    return room;
  }
  // For numbers; the buffer holds nothing else.
  template <typename T>
  requires std::is_arithmetic_v<T>
  void Append(T value) { std::memcpy(Extend(sizeof(value)), &value, sizeof(value)); }

  [[nodiscard]] size_t size() const { return size_; }

  // What was written, which `owners` keep; never null. The next buffer begins as large as this one
  // became: batches of one file are alike.
  [[nodiscard]] const uint8_t* Take(std::vector<std::shared_ptr<const void>>* owners) {
    if (memory_ == nullptr) Grow(1);
    const uint8_t* const data = memory_.get();
    owners->push_back(std::move(memory_));
    first_capacity_ = size_ + size_ / 16;
    size_ = capacity_ = 0;
    return data;
  }

 private:
  void Grow(size_t bytes) {
    constexpr size_t kLeastBytes = 64;
    const size_t capacity = std::max({size_ + bytes, 2 * capacity_, first_capacity_, kLeastBytes});
    std::shared_ptr<uint8_t[]> larger(new uint8_t[capacity]);  // aligned to 16
    if (size_ > 0) std::memcpy(larger.get(), memory_.get(), size_);
    memory_ = std::move(larger);
    capacity_ = capacity;
  }

  std::shared_ptr<uint8_t[]> memory_;
  size_t size_ = 0;
  size_t capacity_ = 0;
  size_t first_capacity_ = 0;
};

}  // namespace millrace

#endif  // FEED_SOURCE_TFRECORD_GROWING_BUFFER_H_
