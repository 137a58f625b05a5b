#include "feed/arrow/bitmap.h"

#include <bit>
#include <cstring>

namespace millrace {
namespace {

// Bits [first, first + count) of `bits` as the low bits of a byte; 0 < count <= 8.
uint8_t LoadBits(const uint8_t* bits, int64_t first, int64_t count) {
  const int64_t shift = first & 7;
  unsigned value = bits[first >> 3] >> shift;
  if (shift + count > 8) value |= static_cast<unsigned>(bits[(first >> 3) + 1]) << (8 - shift);
  return static_cast<uint8_t>(value & (0xffu >> (8 - count)));
}

void StoreBit(uint8_t* bits, int64_t i, bool value) {
  const uint8_t mask = static_cast<uint8_t>(1u << (i & 7));
  if (value) {
    bits[i >> 3] |= mask;
  } else {
    bits[i >> 3] &= static_cast<uint8_t>(~mask);
  }
}

}  // namespace

int64_t CountZeroBits(const uint8_t* bits, int64_t first, int64_t count) {
  int64_t ones = 0;
  int64_t i = first;
  const int64_t end = first + count;
  while (i < end && (i & 7) != 0) ones += GetBit(bits, i++);
  for (; i + 64 <= end; i += 64) {
    uint64_t word;
    std::memcpy(&word, bits + (i >> 3), sizeof(word));
    ones += std::popcount(word);
  }
  while (i < end) ones += GetBit(bits, i++);
  return count - ones;
}

void CopyBits(const uint8_t* from, int64_t from_first, int64_t count, uint8_t* to,
              int64_t to_first) {
  int64_t done = 0;
  while (done < count && ((to_first + done) & 7) != 0) {
    StoreBit(to, to_first + done, GetBit(from, from_first + done));
    ++done;
  }
  const int64_t whole_bytes = (count - done) / 8;
  if (whole_bytes > 0) {
    uint8_t* out = to + ((to_first + done) >> 3);
    if (((from_first + done) & 7) == 0) {
      std::memcpy(out, from + ((from_first + done) >> 3), static_cast<size_t>(whole_bytes));
    } else {
      for (int64_t i = 0; i < whole_bytes; ++i) {
        out[i] = LoadBits(from, from_first + done + 8 * i, 8);
      }
    }
    done += whole_bytes * 8;
  }
  for (; done < count; ++done) {
    StoreBit(to, to_first + done, GetBit(from, from_first + done));
  }
}

void SetBits(uint8_t* bits, int64_t first, int64_t count, bool value) {
  int64_t i = first;
  const int64_t end = first + count;
  while (i < end && (i & 7) != 0) StoreBit(bits, i++, value);
  const int64_t whole_bytes = (end - i) / 8;
  if (whole_bytes > 0) {
    std::memset(bits + (i >> 3), value ? 0xff : 0, static_cast<size_t>(whole_bytes));
    i += whole_bytes * 8;
  }
  while (i < end) StoreBit(bits, i++, value);
}

}  // namespace millrace
