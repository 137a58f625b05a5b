#include "core/cli/top/key_reader.h"

#include <algorithm>
#include <cstddef>
#include <iterator>

#include "absl/strings/match.h"
#include "core/base/text.h"

namespace millrace::cli {
namespace {

// A longer one is none that a key sends.
constexpr size_t kMaxSequence = 32;

struct Sequence {
  absl::string_view bytes;
  KeyCode code;
};

// As xterm, VT220, rxvt and the Linux console send them.
constexpr Sequence kSequences[] = {
    {"[A", KeyCode::kUp},      {"[B", KeyCode::kDown},    {"[C", KeyCode::kRight},
    {"[D", KeyCode::kLeft},    {"OA", KeyCode::kUp},      {"OB", KeyCode::kDown},
    {"OC", KeyCode::kRight},   {"OD", KeyCode::kLeft},    {"[H", KeyCode::kHome},
    {"[F", KeyCode::kEnd},     {"OH", KeyCode::kHome},    {"OF", KeyCode::kEnd},
    {"[1~", KeyCode::kHome},   {"[7~", KeyCode::kHome},   {"[4~", KeyCode::kEnd},
    {"[8~", KeyCode::kEnd},    {"[5~", KeyCode::kPageUp}, {"[6~", KeyCode::kPageDown},
    {"[3~", KeyCode::kDelete}, {"[Z", KeyCode::kBackTab}, {"OP", KeyCode::kF1},
    {"OQ", KeyCode::kF2},      {"OR", KeyCode::kF3},      {"OS", KeyCode::kF4},
    {"[11~", KeyCode::kF1},    {"[12~", KeyCode::kF2},    {"[13~", KeyCode::kF3},
    {"[14~", KeyCode::kF4},    {"[15~", KeyCode::kF5},    {"[17~", KeyCode::kF6},
    {"[18~", KeyCode::kF7},    {"[19~", KeyCode::kF8},    {"[20~", KeyCode::kF9},
    {"[21~", KeyCode::kF10},   {"[[A", KeyCode::kF1},     {"[[B", KeyCode::kF2},
    {"[[C", KeyCode::kF3},     {"[[D", KeyCode::kF4},     {"[[E", KeyCode::kF5},
    {"OM", KeyCode::kEnter}};

// How long the sequence after ESC is, or nothing if its end is not there yet.
std::optional<size_t> LengthOfSequence(absl::string_view rest) {
  if (rest.empty()) return std::nullopt;
  if (rest[0] == 'O') return rest.size() < 2 ? std::nullopt : std::optional<size_t>(2);
  if (absl::StartsWith(rest, "[["))
    return rest.size() < 3 ? std::nullopt : std::optional<size_t>(3);
  if (rest[0] != '[') return 0;
  const auto end =
      std::find_if(rest.begin() + 1, rest.end(), [](char c) { return c < 0x20 || c >= 0x40; });
  if (end != rest.end()) return static_cast<size_t>(end - rest.begin()) + 1;
  return rest.size() < kMaxSequence ? std::nullopt : std::optional<size_t>(rest.size());
}

KeyCode CodeOfSequence(absl::string_view sequence) {
  const auto* const known =
      std::find_if(std::begin(kSequences), std::end(kSequences),
                   [&](const Sequence& each) { return each.bytes == sequence; });
  return known == std::end(kSequences) ? KeyCode::kOther : known->code;
}

KeyCode CodeOfControl(char c) {
  switch (c) {
    case '\r':
    case '\n':
      return KeyCode::kEnter;
    case '\t':
      return KeyCode::kTab;
    case '\b':
    case '\x7f':
      return KeyCode::kBackspace;
    case '\f':
      return KeyCode::kRedraw;
    default:
      return KeyCode::kOther;
  }
}

}  // namespace

std::optional<Key> KeyReader::Next(bool all) {
  if (bytes_.empty()) return std::nullopt;
  const absl::string_view bytes = bytes_;
  Key key;
  size_t length = 1;
  if (bytes[0] == '\x1b') {
    const std::optional<size_t> sequence = LengthOfSequence(bytes.substr(1));
    if (!sequence.has_value() && !all) return std::nullopt;
    const size_t taken = sequence.value_or(0);
    key.code = taken == 0 ? KeyCode::kEscape : CodeOfSequence(bytes.substr(1, taken));
    length += taken;
  } else if (const size_t character = Utf8SequenceLength(bytes);
             character > 0 && static_cast<unsigned char>(bytes[0]) >= 0x20 && bytes[0] != '\x7f') {
    key = {KeyCode::kText, std::string(bytes.substr(0, character))};
    length = character;
  } else if (static_cast<unsigned char>(bytes[0]) >= 0xc2 && bytes.size() < 4 && !all) {
    // The beginning of a character, perhaps.
    return std::nullopt;
  } else {
    key.code = CodeOfControl(bytes[0]);
  }
  bytes_.erase(0, length);
  return key;
}

}  // namespace millrace::cli
