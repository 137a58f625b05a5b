#include "feed/ipc/ipc_message.h"

#include <cstdint>
#include <cstring>
#include <optional>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "millrace/status_macros.h"

namespace millrace {

absl::StatusOr<EncapsulatedMessage> ReadMessage(absl::string_view bytes,
                                                arrow_ipc::HeaderType wanted) {
  uint32_t continuation = 0;
  int32_t length = 0;
  if (bytes.size() < arrow_ipc::kPrefixBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("an Arrow message of ", bytes.size(), " bytes is truncated"));
  }
  std::memcpy(&continuation, bytes.data(), sizeof(continuation));
  std::memcpy(&length, bytes.data() + 4, sizeof(length));
  bytes.remove_prefix(arrow_ipc::kPrefixBytes);
  if (continuation != arrow_ipc::kContinuation) {
    return absl::InvalidArgumentError("an Arrow message does not begin with 0xFFFFFFFF");
  }
  if (length < 0 || static_cast<size_t>(length) != bytes.size()) {
    return absl::InvalidArgumentError(absl::StrCat("an Arrow message says it has ", length,
                                                   " bytes, but there are ", bytes.size()));
  }
  MILLRACE_ASSIGN_OR_RETURN(const FlatTable root, FlatTable::Root(bytes));
  MILLRACE_ASSIGN_OR_RETURN(const int16_t version,
                            root.Scalar<int16_t>(arrow_ipc::message::kVersion, 0));
  if (version != arrow_ipc::kVersion4 && version != arrow_ipc::kVersion5) {
    return absl::InvalidArgumentError(
        absl::StrCat("Arrow metadata version V", version + 1, ", wanted V4 or V5"));
  }
  MILLRACE_ASSIGN_OR_RETURN(const uint8_t type,
                            root.Scalar<uint8_t>(arrow_ipc::message::kHeaderType, 0));
  if (type != wanted) {
    return absl::InvalidArgumentError(
        absl::StrCat("an Arrow message of type ", type, ", wanted ",
                     wanted == arrow_ipc::kSchemaHeader ? "a Schema" : "a RecordBatch"));
  }
  MILLRACE_ASSIGN_OR_RETURN(const std::optional<FlatTable> header,
                            root.Table(arrow_ipc::message::kHeader));
  if (!header.has_value()) return absl::InvalidArgumentError("an Arrow message without a header");
  MILLRACE_ASSIGN_OR_RETURN(const int64_t body_length,
                            root.Scalar<int64_t>(arrow_ipc::message::kBodyLength, 0));
  return EncapsulatedMessage{*header, body_length};
}

}  // namespace millrace
