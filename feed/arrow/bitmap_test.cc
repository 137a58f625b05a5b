#include "feed/arrow/bitmap.h"

#include <cstdint>
#include <random>
#include <vector>

#include "gtest/gtest.h"

namespace millrace {
namespace {

std::vector<uint8_t> RandomBytes(size_t count, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<uint8_t> bytes(count);
  for (uint8_t& byte : bytes) byte = static_cast<uint8_t>(random());
  return bytes;
}

TEST(BitmapTest, BytesRoundUpAndDoNotOverflow) {
  EXPECT_EQ(BitmapBytes(0), 0);
  EXPECT_EQ(BitmapBytes(1), 1);
  EXPECT_EQ(BitmapBytes(8), 1);
  EXPECT_EQ(BitmapBytes(9), 2);
  EXPECT_EQ(BitmapBytes(INT64_MAX), INT64_MAX / 8 + 1);
}

TEST(BitmapTest, CountsZerosOfEveryRange) {
  const std::vector<uint8_t> bits = RandomBytes(40, 1);
  for (int64_t first = 0; first < 20; ++first) {
    for (int64_t count = 0; first + count <= 320; ++count) {
      int64_t zeros = 0;
      for (int64_t i = first; i < first + count; ++i) zeros += !GetBit(bits.data(), i);
      ASSERT_EQ(CountZeroBits(bits.data(), first, count), zeros) << first << " " << count;
    }
  }
}

TEST(BitmapTest, CopiesEveryRangeAndNothingElse) {
  const std::vector<uint8_t> from = RandomBytes(8, 2);
  const std::vector<uint8_t> before = RandomBytes(8, 3);
  for (int64_t from_first = 0; from_first < 17; ++from_first) {
    for (int64_t to_first = 0; to_first < 17; ++to_first) {
      for (int64_t count = 0; count <= 40; ++count) {
        std::vector<uint8_t> to = before;
        CopyBits(from.data(), from_first, count, to.data(), to_first);
        for (int64_t i = 0; i < 64; ++i) {
          const bool copied = i >= to_first && i < to_first + count;
          const bool expected =
              copied ? GetBit(from.data(), from_first + i - to_first) : GetBit(before.data(), i);
          ASSERT_EQ(GetBit(to.data(), i), expected)
              << from_first << " " << to_first << " " << count;
        }
      }
    }
  }
}

TEST(BitmapTest, SetsEveryRangeAndNothingElse) {
  const std::vector<uint8_t> before = RandomBytes(8, 4);
  for (int64_t first = 0; first < 20; ++first) {
    for (int64_t count = 0; count <= 44; ++count) {
      for (bool value : {false, true}) {
        std::vector<uint8_t> bits = before;
        SetBits(bits.data(), first, count, value);
        for (int64_t i = 0; i < 64; ++i) {
          const bool set = i >= first && i < first + count;
          ASSERT_EQ(GetBit(bits.data(), i), set ? value : GetBit(before.data(), i));
        }
      }
    }
  }
}

}  // namespace
}  // namespace millrace
