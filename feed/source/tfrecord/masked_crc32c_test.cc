#include "feed/source/tfrecord/masked_crc32c.h"

#include <cstdint>
#include <random>
#include <string>

#include "absl/strings/string_view.h"
#include "gtest/gtest.h"

namespace millrace {
namespace {

uint32_t Unmask(uint32_t masked) {
  const uint32_t rotated = masked - 0xa282ead8;
  return (rotated >> 17) | (rotated << 15);
}

// One bit after the other, as RFC 3720 defines it.
uint32_t SlowCrc32c(absl::string_view bytes) {
  uint32_t crc = ~uint32_t{0};
  for (const char byte : bytes) {
    crc ^= static_cast<uint8_t>(byte);
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1) != 0 ? 0x82f63b78 : 0);
  }
  return ~crc;
}

TEST(MaskedCrc32c, IsThatOfRfc3720) {
  EXPECT_EQ(Unmask(MaskedCrc32c("")), 0u);
  EXPECT_EQ(Unmask(MaskedCrc32c("123456789")), 0xe3069283u);
  EXPECT_EQ(Unmask(MaskedCrc32c(std::string(32, '\0'))), 0x8a9136aau);
  EXPECT_EQ(Unmask(MaskedCrc32c(std::string(32, '\xff'))), 0x62a8ab43u);
}

TEST(MaskedCrc32c, IsTheSameOfAnyLengthAndAtAnyAddress) {
  std::mt19937_64 random(1);
  std::string bytes(5000, '\0');
  for (char& byte : bytes) byte = static_cast<char>(random());
  const absl::string_view all = bytes;
  for (size_t size = 0; size < all.size(); size += 1 + size / 7) {
    const absl::string_view part = all.substr(size % 31, size);
    EXPECT_EQ(Unmask(MaskedCrc32c(part)), SlowCrc32c(part)) << size;
  }
}

}  // namespace
}  // namespace millrace
