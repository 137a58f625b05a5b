#include "dashboard/app/png.h"

#include <cstring>
#include <vector>

#include "absl/strings/string_view.h"
#include "zlib.h"

namespace millrace::dashboard {
namespace {

void AppendBigEndian(uint32_t value, std::string* out) {
  for (int shift = 24; shift >= 0; shift -= 8) out->push_back(static_cast<char>(value >> shift));
}

void AppendChunk(absl::string_view type, absl::string_view data, std::string* out) {
  AppendBigEndian(static_cast<uint32_t>(data.size()), out);
  const size_t begin = out->size();
  out->append(type.data(), type.size());
  out->append(data.data(), data.size());
  const uLong crc = crc32(0, reinterpret_cast<const Bytef*>(out->data() + begin),
                          static_cast<uInt>(out->size() - begin));
  AppendBigEndian(static_cast<uint32_t>(crc), out);
}

}  // namespace

std::string EncodePng(int width, int height, std::span<const uint8_t> rgba) {
  // Each row after a filter byte: 2, the difference to the row above, which packs flat areas well.
  const size_t row_bytes = static_cast<size_t>(width) * 3;
  std::vector<uint8_t> raw((row_bytes + 1) * height);
  for (int y = 0; y < height; ++y) {
    uint8_t* row = raw.data() + (row_bytes + 1) * y;
    *row++ = 2;
    const uint8_t* from = rgba.data() + static_cast<size_t>(width) * 4 * y;
    const uint8_t* above = y == 0 ? nullptr : from - static_cast<size_t>(width) * 4;
    for (int x = 0; x < width; ++x) {
      for (int channel = 0; channel < 3; ++channel) {
        const uint8_t up = above == nullptr ? 0 : above[x * 4 + channel];
        *row++ = static_cast<uint8_t>(from[x * 4 + channel] - up);
      }
    }
  }
  uLongf packed_size = compressBound(static_cast<uLong>(raw.size()));
  std::string packed(packed_size, '\0');
  compress2(reinterpret_cast<Bytef*>(packed.data()), &packed_size, raw.data(),
            static_cast<uLong>(raw.size()), 6);
  packed.resize(packed_size);

  std::string png("\x89PNG\r\n\x1a\n", 8);
  std::string header;
  AppendBigEndian(static_cast<uint32_t>(width), &header);
  AppendBigEndian(static_cast<uint32_t>(height), &header);
  header.append("\x08\x02\x00\x00\x00", 5);  // 8 bits a channel, RGB
  AppendChunk("IHDR", header, &png);
  AppendChunk("IDAT", packed, &png);
  AppendChunk("IEND", "", &png);
  return png;
}

}  // namespace millrace::dashboard
