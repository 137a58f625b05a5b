#include "dashboard/report/html_text.h"

#include "absl/strings/str_replace.h"
#include "core/base/text.h"

namespace millrace::dashboard {

std::string EscapeHtml(absl::string_view text, size_t max_bytes) {
  return absl::StrReplaceAll(
      EscapeControls(Ellipsize(text, max_bytes)),
      {{"&", "&amp;"}, {"<", "&lt;"}, {">", "&gt;"}, {"\"", "&quot;"}, {"'", "&#39;"}});
}

}  // namespace millrace::dashboard
