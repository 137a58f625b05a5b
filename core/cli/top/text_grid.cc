#include "core/cli/top/text_grid.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "core/base/text.h"

namespace millrace::cli {
namespace {

// Terminals that know it show what comes between in one piece; the others pass it over.
constexpr char kBeginUpdate[] = "\x1b[?2026h";
constexpr char kEndUpdate[] = "\x1b[?2026l";
// Equal cells between two changes that are written again rather than jumped over.
constexpr int kShortGap = 6;

struct Range {
  char32_t first, last;
};

// What joins the character before, sets the direction of writing, or is not seen.
constexpr Range kNoWidth[] = {
    {0x00ad, 0x00ad}, {0x0300, 0x036f}, {0x0483, 0x0489}, {0x0591, 0x05bd}, {0x0610, 0x061c},
    {0x064b, 0x065f}, {0x06d6, 0x06dd}, {0x0900, 0x0902}, {0x093c, 0x093c}, {0x094d, 0x094d},
    {0x0e31, 0x0e31}, {0x0e34, 0x0e3a}, {0x0e47, 0x0e4e}, {0x1160, 0x11ff}, {0x1ab0, 0x1aff},
    {0x1dc0, 0x1dff}, {0x200b, 0x200f}, {0x2028, 0x202e}, {0x2060, 0x206f}, {0x20d0, 0x20ff},
    {0xfe00, 0xfe0f}, {0xfe20, 0xfe2f}, {0xfeff, 0xfeff}, {0xfff9, 0xfffb}, {0xe0000, 0xe0fff}};
// East Asian wide and full-width characters, and pictures.
constexpr Range kTwoColumns[] = {
    {0x1100, 0x115f},   {0x231a, 0x231b},   {0x2e80, 0x303e},   {0x3041, 0xa4cf},
    {0xa960, 0xa97f},   {0xac00, 0xd7a3},   {0xf900, 0xfaff},   {0xfe30, 0xfe6f},
    {0xff00, 0xff60},   {0xffe0, 0xffe6},   {0x16fe0, 0x18aff}, {0x1b000, 0x1b2ff},
    {0x1f300, 0x1f64f}, {0x1f680, 0x1f6ff}, {0x1f900, 0x1f9ff}, {0x20000, 0x3fffd}};

template <size_t kSize>
bool IsIn(const Range (&ranges)[kSize], char32_t code) {
  return std::any_of(std::begin(ranges), std::end(ranges), [code](const Range& range) {
    return range.first <= code && code <= range.last;
  });
}

int WidthOf(char32_t code) {
  if (code < 0x80) return 1;
  if (IsIn(kNoWidth, code)) return 0;
  return IsIn(kTwoColumns, code) ? 2 : 1;
}

// Takes the character at the front of valid UTF-8.
char32_t TakeCode(absl::string_view* text) {
  const size_t length = std::max<size_t>(1, Utf8SequenceLength(*text));
  const auto byte = [&](size_t i) {
    return static_cast<char32_t>(static_cast<unsigned char>((*text)[i]));
  };
  char32_t code = length == 1 ? byte(0) : byte(0) & (0xffU >> (length + 1));
  for (size_t i = 1; i < length; ++i) code = (code << 6) | (byte(i) & 0x3fU);
  text->remove_prefix(length);
  return code;
}

void AppendUtf8(char32_t code, std::string* out) {
  const auto put = [out](char32_t byte) { out->push_back(static_cast<char>(byte)); };
  if (code < 0x80) return put(code);
  if (code < 0x800) {
    put(0xc0U | (code >> 6));
  } else if (code < 0x10000) {
    put(0xe0U | (code >> 12));
    put(0x80U | ((code >> 6) & 0x3fU));
  } else {
    put(0xf0U | (code >> 18));
    put(0x80U | ((code >> 12) & 0x3fU));
    put(0x80U | ((code >> 6) & 0x3fU));
  }
  put(0x80U | (code & 0x3fU));
}

char32_t AsciiLike(char32_t code) {
  switch (code) {
    case U'–':
    case U'—':
    case U'─':
    case U'·':
      return U'-';
    case U'…':
      return U'~';
    case U'▲':
      return U'^';
    case U'▼':
      return U'v';
    case U'°':
      return U' ';
    case U'→':
      return U'>';
    default:
      return code < 0x80 ? code : U'?';
  }
}

std::string LookCode(const Look& look, bool colour) {
  const bool bold = look.bold || look.style == Style::kBold;
  const bool more = colour && look.style != Style::kPlain && look.style != Style::kBold;
  return absl::StrCat("\x1b[0", bold ? ";1" : "", look.reverse ? ";7" : "", more ? ";" : "",
                      more ? StyleNumber(look.style) : "", "m");
}

}  // namespace

TextGrid::TextGrid(const GridOptions& options)
    : options_(options),
      cells_(static_cast<size_t>(options.columns) * static_cast<size_t>(options.rows)) {}

void TextGrid::Set(int row, int column, char32_t code, int width, const Look& look) {
  const size_t at = At(row, column);
  // Half of a wide character is none.
  if (cells_[at].code == 0 && column > 0) cells_[at - 1].code = U' ';
  const size_t after = at + static_cast<size_t>(width);
  if (column + width < columns() && cells_[after].code == 0) cells_[after].code = U' ';
  cells_[at] = {code, look};
  if (width == 2) cells_[at + 1] = {0, look};
}

int TextGrid::Put(int row, int column, absl::string_view text, const Look& look, int width) {
  width = std::min(width, columns() - column);
  if (row < 0 || row >= rows() || column < 0 || width <= 0) return 0;
  const std::string harmless = EscapeControls(text);
  absl::string_view rest = harmless;
  const bool cut = ColumnsOf(harmless) > width;
  const int room = cut ? width - 1 : width;
  int used = 0;
  while (!rest.empty()) {
    char32_t code = TakeCode(&rest);
    const int wide = WidthOf(code);
    if (used + wide > room) break;
    if (wide == 0) continue;
    if (!options_.utf8) code = AsciiLike(code);
    Set(row, column + used, code, options_.utf8 ? wide : 1, look);
    // A question mark for each column keeps what follows at its place.
    if (wide == 2 && !options_.utf8) Set(row, column + used + 1, code, 1, look);
    used += wide;
  }
  if (cut) Set(row, column + used++, options_.utf8 ? U'…' : U'~', 1, look);
  return used;
}

void TextGrid::PutRight(int row, int column, absl::string_view text, const Look& look, int width) {
  const int blank = std::max(0, width - ColumnsOf(text));
  Put(row, column + blank, text, look, width - blank);
}

void TextGrid::Paint(int row, int column, int width, const Look& look) {
  if (row < 0 || row >= rows()) return;
  for (int i = std::max(0, column); i < std::min(columns(), column + width); ++i) {
    cells_[At(row, i)].look = look;
  }
}

std::string TextGrid::Line(int row) const {
  std::string line;
  for (int column = 0; column < columns(); ++column) {
    const char32_t code = cells_[At(row, column)].code;
    if (code != 0) AppendUtf8(code, &line);
  }
  line.erase(line.find_last_not_of(' ') + 1);
  return line;
}

std::string TextGrid::Text() const {
  std::string text;
  for (int row = 0; row < rows(); ++row) absl::StrAppend(&text, Line(row), "\n");
  return text;
}

std::string Changes(const TextGrid* shown, const TextGrid& next) {
  const TextGrid blank(next.options_);
  std::string out;
  if (shown == nullptr || shown->columns() != next.columns() || shown->rows() != next.rows()) {
    out = "\x1b[0m\x1b[2J";
    shown = &blank;
  }
  Look look;  // that the terminal writes with
  bool look_known = false;
  const auto wear = [&](const Look& wanted) {
    if (look_known && look == wanted) return;
    out += LookCode(wanted, next.options_.colour);
    look = wanted;
    look_known = true;
  };
  for (int row = 0; row < next.rows(); ++row) {
    const TextGrid::Cell* const from = &shown->cells_[next.At(row, 0)];
    const TextGrid::Cell* const to = &next.cells_[next.At(row, 0)];
    int end = next.columns();  // of what is not blank
    while (end > 0 && to[end - 1] == TextGrid::Cell()) --end;
    int column = 0;
    while (column < next.columns()) {
      if (from[column] == to[column]) {
        ++column;
        continue;
      }
      if (to[column].code == 0) --column;  // with its left half
      absl::StrAppend(&out, "\x1b[", row + 1, ";", column + 1, "H");
      int equal = 0;
      while (column < end) {
        // What is equal up to the next change is written along, if that is short.
        equal = 0;
        while (column + equal < end && from[column + equal] == to[column + equal] &&
               equal <= kShortGap) {
          ++equal;
        }
        if (equal > kShortGap || column + equal >= end) break;
        wear(to[column].look);
        if (to[column].code != 0) AppendUtf8(to[column].code, &out);
        ++column;
      }
      if (column + equal < end) continue;
      // The rest is blank, and perhaps was not.
      column += equal;
      if (std::any_of(from + end, from + next.columns(),
                      [](const TextGrid::Cell& cell) { return cell != TextGrid::Cell(); })) {
        if (equal > 0) absl::StrAppend(&out, "\x1b[", row + 1, ";", end + 1, "H");
        wear(Look());
        out += "\x1b[K";
      }
      break;
    }
  }
  if (out.empty()) return out;
  wear(Look());
  return absl::StrCat(kBeginUpdate, out, kEndUpdate);
}

int ColumnsOf(absl::string_view text) {
  const std::string harmless = EscapeControls(text);
  int columns = 0;
  for (absl::string_view rest = harmless; !rest.empty();) columns += WidthOf(TakeCode(&rest));
  return columns;
}

std::vector<std::string> WrapText(absl::string_view text, int width, size_t max_lines) {
  std::vector<std::string> lines;
  std::string line;
  for (const absl::string_view word : absl::StrSplit(text, ' ', absl::SkipEmpty())) {
    const bool fits = line.empty() || ColumnsOf(line) + 1 + ColumnsOf(word) <= width;
    if (!fits && lines.size() + 1 < max_lines) lines.push_back(std::exchange(line, ""));
    absl::StrAppend(&line, line.empty() ? "" : " ", word);
  }
  if (!line.empty()) lines.push_back(std::move(line));
  return lines;
}

}  // namespace millrace::cli
