// File: dashboard/app/png.h
//
// Pixels as a PNG file.
//
// Defines: EncodePng().
//
// Thread safety: pure functions.

#ifndef DASHBOARD_APP_PNG_H_
#define DASHBOARD_APP_PNG_H_

#include <cstdint>
#include <span>
#include <string>

namespace millrace::dashboard {

// `rgba`: rows from the top, 4 bytes a pixel, width * height * 4 of them; alpha is left out. 8 bits
// a channel, RGB.
[[nodiscard]] std::string EncodePng(int width, int height, std::span<const uint8_t> rgba);

}  // namespace millrace::dashboard

#endif  // DASHBOARD_APP_PNG_H_
