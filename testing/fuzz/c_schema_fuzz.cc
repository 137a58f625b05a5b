// The Arrow C Data Interface: an ArrowSchema whose format strings, names, flags and children the
// input gives, as a library of another language might. What is taken is exported, and taken to be
// the same.
//
// The input is the tree from its root down: one byte (bits 0 and 1: children, bit 2: nullable, bit
// 3: no name, bit 4: a dictionary of its values follows as a further child), the format up to a
// newline, the name up to a newline.

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "millrace/schema.h"
#include "nanoarrow/nanoarrow.h"
#include "testing/fuzz/fuzz.h"

namespace millrace {
namespace {

constexpr int kMaxDepth = 64;  // twice what a feed carries

absl::string_view TakeLine(absl::string_view* input) {
  const size_t end = input->find('\n');
  const absl::string_view line = input->substr(0, end);
  input->remove_prefix(end == absl::string_view::npos ? input->size() : end + 1);
  return line;
}

void Build(absl::string_view* input, int depth, ArrowSchema* out) {
  ArrowSchemaInit(out);
  const auto bits = static_cast<unsigned char>(input->empty() ? 0 : input->front());
  if (!input->empty()) input->remove_prefix(1);
  const std::string format(TakeLine(input));
  const std::string name(TakeLine(input));
  FUZZ_CHECK(ArrowSchemaSetFormat(out, format.c_str()) == NANOARROW_OK);
  FUZZ_CHECK(ArrowSchemaSetName(out, (bits & 8) != 0 ? nullptr : name.c_str()) == NANOARROW_OK);
  out->flags = (bits & 4) != 0 ? ARROW_FLAG_NULLABLE : 0;
  if (depth == kMaxDepth) return;
  const int64_t children = bits & 3;
  FUZZ_CHECK(ArrowSchemaAllocateChildren(out, children) == NANOARROW_OK);
  for (int64_t i = 0; i < children; ++i) Build(input, depth + 1, out->children[i]);
  if ((bits & 16) == 0) return;
  FUZZ_CHECK(ArrowSchemaAllocateDictionary(out) == NANOARROW_OK);
  Build(input, depth + 1, out->dictionary);
}

}  // namespace

void Fuzz(absl::string_view input) {
  ArrowSchema given;
  Build(&input, 0, &given);
  const absl::StatusOr<Schema> schema = Schema::FromArrowSchema(given);
  ArrowSchemaRelease(&given);
  if (!schema.ok()) return;
  ArrowSchema exported;
  schema->Export(&exported);
  const absl::StatusOr<Schema> again = Schema::FromArrowSchema(exported);
  ArrowSchemaRelease(&exported);
  FUZZ_CHECK(again.ok() && *again == *schema);
}

}  // namespace millrace
