#include "testing/tfrecord/fixed_sizes.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "millrace/schema.h"
#include "millrace/status_macros.h"
#include "millrace/types.h"

namespace millrace {

absl::StatusOr<std::unique_ptr<TfRecordSource>> OpenWithFixedSizes(
    const std::string& path, TfRecordSourceOptions options, const std::vector<std::string>& fixed) {
  MILLRACE_ASSIGN_OR_RETURN(std::unique_ptr<TfRecordSource> inferred,
                            TfRecordSource::Create({path}, options));
  if (fixed.empty()) return inferred;
  std::vector<Field> fields = inferred->schema().fields();
  for (const std::string& text : fixed) {
    const std::vector<std::string> parts = absl::StrSplit(text, ':');
    int32_t size = 0;
    const std::optional<int> at = inferred->schema().Find(parts[0]);
    if (parts.size() != 2 || !absl::SimpleAtoi(parts[1], &size) || !at.has_value() ||
        !inferred->schema().type(*at).is_list()) {
      return absl::InvalidArgumentError(absl::StrCat(text, " names no list, or no size"));
    }
    Type& type = fields[static_cast<size_t>(*at)].type;
    type = Type::FixedSizeList(type.element().type, size);
  }
  options.binary_features.clear();
  MILLRACE_ASSIGN_OR_RETURN(options.schema, Schema::FromFields(std::move(fields)));
  return TfRecordSource::Create({path}, options);
}

}  // namespace millrace
