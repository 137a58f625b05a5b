// File: feed/source/tfrecord/masked_crc32c.h
//
// The checksum of TFRecord files: CRC-32C, rotated and moved, so that data which has such checksums
// in it can have one itself.
//
// Defines: MaskedCrc32c().

#ifndef FEED_SOURCE_TFRECORD_MASKED_CRC32C_H_
#define FEED_SOURCE_TFRECORD_MASKED_CRC32C_H_

#include <cstdint>

#include "absl/strings/string_view.h"

namespace millrace {

// `bytes` has less than 2^31. Thread safety: pure function.
[[nodiscard]] uint32_t MaskedCrc32c(absl::string_view bytes);

}  // namespace millrace

#endif  // FEED_SOURCE_TFRECORD_MASKED_CRC32C_H_
