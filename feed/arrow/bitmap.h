// File: feed/arrow/bitmap.h
//
// Arrow's bitmaps: bit i is bit i % 8, from the least significant, of byte i / 8.
//
// Defines: BitmapBytes(), GetBit(), CountZeroBits(), CopyBits(), SetBits().
//
// Thread safety: pure functions over the caller's memory.

#ifndef FEED_ARROW_BITMAP_H_
#define FEED_ARROW_BITMAP_H_

#include <cstdint>

namespace millrace {

// Bytes that `bits` bits take.
[[nodiscard]] constexpr int64_t BitmapBytes(int64_t bits) { return bits / 8 + (bits % 8 != 0); }

[[nodiscard]] inline bool GetBit(const uint8_t* bits, int64_t i) {
  return ((bits[i >> 3] >> (i & 7)) & 1) != 0;
}

// Zeros among the bits [first, first + count).
[[nodiscard]] int64_t CountZeroBits(const uint8_t* bits, int64_t first, int64_t count);

// Copies bits [from_first, from_first + count) of `from` to [to_first, ...) of `to`; other bits of
// `to` stay. The ranges must not overlap.
void CopyBits(const uint8_t* from, int64_t from_first, int64_t count, uint8_t* to,
              int64_t to_first);

// Sets bits [first, first + count) to `value`.
void SetBits(uint8_t* bits, int64_t first, int64_t count, bool value);

}  // namespace millrace

#endif  // FEED_ARROW_BITMAP_H_
