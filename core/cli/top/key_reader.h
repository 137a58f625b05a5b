// File: core/cli/top/key_reader.h
//
// Keys, from the bytes that a terminal sends for them.
//
// Defines: KeyCode, Key, KeyReader.
//
//   reader.Add(bytes);
//   while (std::optional<Key> key = reader.Next(/*all=*/false)) Handle(*key);
//
// Thread safety: not thread-safe. Blocking: never.
#ifndef CORE_CLI_TOP_KEY_READER_H_
#define CORE_CLI_TOP_KEY_READER_H_

#include <optional>
#include <string>

#include "absl/strings/string_view.h"

namespace millrace::cli {

enum class KeyCode {
  kText,  // Key.text
  kEnter,
  kTab,
  kBackTab,
  kBackspace,
  kDelete,
  kEscape,
  kUp,
  kDown,
  kLeft,
  kRight,
  kPageUp,
  kPageDown,
  kHome,
  kEnd,
  kF1,
  kF2,
  kF3,
  kF4,
  kF5,
  kF6,
  kF7,
  kF8,
  kF9,
  kF10,
  kRedraw,  // Ctrl-L
  kOther,   // that nothing is done for
};

struct Key {
  KeyCode code = KeyCode::kOther;
  std::string text;  // one character in UTF-8, no control
  friend bool operator==(const Key&, const Key&) = default;
};

class KeyReader {
 public:
  void Add(absl::string_view bytes) { bytes_.append(bytes.data(), bytes.size()); }

  // The next key. None: the bytes are used up, or are the beginning of a key whose rest may still
  // come (waiting()). `all`: it does not, so that they are keys of their own.
  [[nodiscard]] std::optional<Key> Next(bool all);
  [[nodiscard]] bool waiting() const { return !bytes_.empty(); }

 private:
  std::string bytes_;
};

}  // namespace millrace::cli

#endif  // CORE_CLI_TOP_KEY_READER_H_
