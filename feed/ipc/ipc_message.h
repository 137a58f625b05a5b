// File: feed/ipc/ipc_message.h
//
// What encoder and decoder of feed/ipc/ipc.h share: the numbers of Arrow's Message.fbs and
// Schema.fbs, and the envelope around a message. Private to feed/ipc.
//
// Defines: constants in namespace arrow_ipc, EncapsulatedMessage, ReadMessage().

#ifndef FEED_IPC_IPC_MESSAGE_H_
#define FEED_IPC_IPC_MESSAGE_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "feed/ipc/flatbuffer.h"

namespace millrace {
namespace arrow_ipc {

inline constexpr uint32_t kContinuation = 0xFFFFFFFF;
inline constexpr size_t kPrefixBytes = 8;

inline constexpr int16_t kVersion4 = 3;
inline constexpr int16_t kVersion5 = 4;

enum HeaderType : uint8_t { kSchemaHeader = 1, kRecordBatchHeader = 3 };

// Slots of the tables.
namespace message {
inline constexpr int kVersion = 0, kHeaderType = 1, kHeader = 2, kBodyLength = 3;
}
namespace record_batch {
inline constexpr int kLength = 0, kNodes = 1, kBuffers = 2, kCompression = 3;
}
namespace schema {
inline constexpr int kEndianness = 0, kFields = 1;
}
namespace field {
inline constexpr int kName = 0, kNullable = 1, kTypeType = 2, kType = 3, kDictionary = 4,
                     kChildren = 5;
}

// Members of the union Type.
enum TypeType : uint8_t {
  kNull = 1,
  kInt = 2,
  kFloatingPoint = 3,
  kBinary = 4,
  kUtf8 = 5,
  kBool = 6,
  kDecimal = 7,
  kDate = 8,
  kTime = 9,
  kTimestamp = 10,
  kInterval = 11,
  kList = 12,
  kStruct = 13,
  kUnion = 14,
  kFixedSizeBinary = 15,
  kFixedSizeList = 16,
  kMap = 17,
  kDuration = 18,
  kLargeBinary = 19,
  kLargeUtf8 = 20,
  kLargeList = 21,
};

// Units of the type Date.
inline constexpr int16_t kDateDay = 0, kDateMillisecond = 1;

}  // namespace arrow_ipc

// A message whose envelope is right: version 4 or 5 and the header that was asked for.
struct EncapsulatedMessage {
  FlatTable header;
  int64_t body_length = 0;
};

// Returns INVALID_ARGUMENT if `bytes` is not exactly one encapsulated message with such a header.
[[nodiscard]] absl::StatusOr<EncapsulatedMessage> ReadMessage(absl::string_view bytes,
                                                              arrow_ipc::HeaderType wanted);

}  // namespace millrace

#endif  // FEED_IPC_IPC_MESSAGE_H_
