#include "feed/source/tfrecord/masked_crc32c.h"

#include "isa-l/crc.h"

namespace millrace {

uint32_t MaskedCrc32c(absl::string_view bytes) {
  // It only reads the bytes. The sums before and after are inverted, as everywhere but in iSCSI.
  auto* const data = reinterpret_cast<unsigned char*>(const_cast<char*>(bytes.data()));
  const uint32_t crc = ~crc32_iscsi(data, static_cast<int>(bytes.size()), ~uint32_t{0});
  constexpr uint32_t kMaskDelta = 0xa282ead8;
  return ((crc >> 15) | (crc << 17)) + kMaskDelta;
}

}  // namespace millrace
