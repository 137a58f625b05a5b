// File: core/base/text.h
//
// What happens to foreign text (a peer's message, a child's stderr) before it enters an error, a
// log line or a table: it is short, on one line, and harmless to a terminal.
//
// Defines: FirstLine(), Ellipsize(), EscapeControls(), CommandText(), Utf8SequenceLength().
//
//   return absl::InternalError(absl::StrCat("nvidia-smi: ", Ellipsize(FirstLine(output), 200)));
//
// Thread safety: pure functions. Any bytes are accepted, valid UTF-8 or not.

#ifndef CORE_BASE_TEXT_H_
#define CORE_BASE_TEXT_H_

#include <cstddef>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace millrace {

// The first line of `text` that is not blank, without white space around it; empty if there is
// none.
[[nodiscard]] std::string FirstLine(absl::string_view text);

// `text` if it has at most `max_bytes` bytes, otherwise its beginning with "..." at the end, at
// most `max_bytes` together. A UTF-8 sequence is never cut. With max_bytes < 3 only dots remain.
[[nodiscard]] std::string Ellipsize(absl::string_view text, size_t max_bytes);

// Replaces control characters by their C escapes (\n, \r, \t, otherwise \xNN): C0 (bytes below
// 0x20, 0x7f), C1 (U+0080 to U+009F, also their lone bytes), and bytes that are not UTF-8.
[[nodiscard]] std::string EscapeControls(absl::string_view text);

// A program and its arguments as somebody would type them in a shell, without the program's folder:
// "python3 train.py --name 'a b'". Control characters are escaped; at most `max_bytes`, as
// Ellipsize().
[[nodiscard]] std::string CommandText(absl::string_view program,
                                      const std::vector<std::string>& args, size_t max_bytes);

// Length in bytes of the well-formed UTF-8 sequence at the front of `text` (1 to 4), or 0 if there
// is none: empty text, truncated, overlong, surrogate, above U+10FFFF.
[[nodiscard]] size_t Utf8SequenceLength(absl::string_view text);

}  // namespace millrace

#endif  // CORE_BASE_TEXT_H_
