#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "core/base/status.h"
#include "feed/ipc/flatbuffer.h"
#include "feed/ipc/ipc.h"
#include "feed/source/source_file.h"
#include "millrace/record_batch.h"
#include "millrace/source.h"
#include "millrace/status_macros.h"

namespace millrace {
namespace {

constexpr absl::string_view kMagic("ARROW1\0\0", 8);
constexpr size_t kPrefixBytes = 8;
constexpr uint32_t kContinuation = 0xFFFFFFFF;
// From Arrow's Message.fbs.
constexpr int kHeaderTypeSlot = 1, kHeaderSlot = 2, kBodyLengthSlot = 3, kRowsSlot = 0;
constexpr uint8_t kDictionaryBatch = 2, kRecordBatch = 3;

// The messages of one file, in order.
class MessageReader {
 public:
  static absl::StatusOr<std::unique_ptr<MessageReader>> Open(const std::string& path) {
    MILLRACE_ASSIGN_OR_RETURN(SourceFile file, SourceFile::Open(path));
    std::unique_ptr<MessageReader> reader(new MessageReader(std::move(file)));
    std::string first(kMagic.size(), '\0');
    if (reader->Left() >= first.size()) {
      MILLRACE_RETURN_IF_ERROR(reader->Read(first.data(), first.size()));
    }
    if (first != kMagic) reader->at_ = 0;
    return reader;
  }

  // One encapsulated message, without its body; nullopt at the end.
  absl::StatusOr<std::optional<std::string>> NextMessage() {
    began_ = at_;
    std::string message(kPrefixBytes, '\0');
    MILLRACE_RETURN_IF_ERROR(Read(message.data(), message.size()));
    uint32_t continuation = 0;
    int32_t length = 0;
    std::memcpy(&continuation, message.data(), sizeof(continuation));
    std::memcpy(&length, message.data() + 4, sizeof(length));
    if (continuation != kContinuation) {
      return Bad(
          "no Arrow IPC message; files of other formats, and streams of before Arrow 0.15, "
          "are not read");
    }
    if (length == 0) return std::optional<std::string>();
    if (length < 0 || static_cast<size_t>(length) > kMaxSchemaMessageBytes) {
      return Bad(absl::StrCat("a message of ", length, " bytes"));
    }
    if (static_cast<uint64_t>(length) > Left()) return Cut();
    message.resize(kPrefixBytes + static_cast<size_t>(length));
    MILLRACE_RETURN_IF_ERROR(Read(message.data() + kPrefixBytes, static_cast<size_t>(length)));
    return std::optional<std::string>(std::move(message));
  }

  absl::StatusOr<BodyPart> NextBody(int64_t length) {
    if (length < 0) return Bad(absl::StrCat("a body of ", length, " bytes"));
    if (static_cast<uint64_t>(length) > Left()) return Cut();
    // An array of uint64_t is aligned to 8 bytes, as offsets within the body are.
    const size_t size = static_cast<size_t>(length);
    const std::shared_ptr<uint64_t[]> owner(new uint64_t[size / 8 + 1]);
    auto* const data = reinterpret_cast<uint8_t*>(owner.get());
    MILLRACE_RETURN_IF_ERROR(Read(reinterpret_cast<char*>(data), size));
    return BodyPart{.data = data, .size = size, .owner = owner};
  }

  // INVALID_ARGUMENT that names the message read last.
  absl::Status Bad(absl::string_view what) const {
    return absl::InvalidArgumentError(absl::StrCat(file_.path(), ", byte ", began_, ": ", what));
  }
  absl::Status In(const absl::Status& status) const {
    return Annotate(status, absl::StrCat(file_.path(), ", byte ", began_));
  }

 private:
  explicit MessageReader(SourceFile file) : file_(std::move(file)) {}

  uint64_t Left() const { return file_.size() - at_; }
  absl::Status Cut() const {
    return absl::DataLossError(absl::StrCat(file_.path(), " is cut short: it has ", file_.size(),
                                            " bytes, and the message at byte ", began_,
                                            " does not end within them"));
  }
  absl::Status Read(char* out, size_t bytes) {
    if (bytes > Left()) return Cut();
    while (bytes > 0) {
      MILLRACE_ASSIGN_OR_RETURN(const size_t got, file_.ReadAt(at_, out, bytes));
      if (got == 0) return Cut();  // it was longer when it was opened
      out += got;
      bytes -= got;
      at_ += got;
    }
    return absl::OkStatus();
  }

  const SourceFile file_;
  uint64_t at_ = 0;
  uint64_t began_ = 0;
};

absl::StatusOr<Schema> ReadSchema(MessageReader* messages) {
  MILLRACE_ASSIGN_OR_RETURN(const std::optional<std::string> message, messages->NextMessage());
  if (!message.has_value()) return messages->Bad("no schema");
  absl::StatusOr<Schema> schema = DecodeSchema(*message);
  // What feeds do not carry is here the file's own fault, whatever the code.
  if (!schema.ok()) return messages->Bad(schema.status().message());
  return schema;
}

class ArrowIpcReader final : public RecordBatchReader {
 public:
  ArrowIpcReader(std::unique_ptr<MessageReader> messages, Schema schema)
      : messages_(std::move(messages)), decoder_(std::move(schema)) {}

  const Schema& schema() const override { return decoder_.schema(); }

  absl::StatusOr<std::optional<RecordBatch>> Next() override {
    while (!ended_) {
      MILLRACE_ASSIGN_OR_RETURN(const std::optional<std::string> message, messages_->NextMessage());
      if (!message.has_value()) break;
      MILLRACE_ASSIGN_OR_RETURN(const Header header, ReadHeader(*message));
      MILLRACE_ASSIGN_OR_RETURN(BodyPart body, messages_->NextBody(header.body_bytes));
      if (header.rows == 0) continue;
      std::vector<BodyPart> parts;
      if (body.size > 0) parts.push_back(std::move(body));
      absl::StatusOr<RecordBatch> batch =
          decoder_.Decode(*message, static_cast<uint32_t>(header.rows), std::move(parts));
      if (!batch.ok()) return messages_->In(batch.status());
      return std::optional<RecordBatch>(*std::move(batch));
    }
    ended_ = true;
    return std::optional<RecordBatch>();
  }

 private:
  struct Header {
    int64_t body_bytes = 0;
    int64_t rows = 0;
  };

  // What is needed to read the body and call the decoder, which checks everything again.
  absl::StatusOr<Header> ReadHeader(absl::string_view message) const {
    const absl::StatusOr<FlatTable> root = FlatTable::Root(message.substr(kPrefixBytes));
    if (!root.ok()) return messages_->In(root.status());
    const absl::StatusOr<uint8_t> type = root->Scalar<uint8_t>(kHeaderTypeSlot, 0);
    const absl::StatusOr<int64_t> body_bytes = root->Scalar<int64_t>(kBodyLengthSlot, 0);
    const absl::StatusOr<std::optional<FlatTable>> batch = root->Table(kHeaderSlot);
    for (const absl::Status& status : {type.status(), body_bytes.status(), batch.status()}) {
      if (!status.ok()) return messages_->In(status);
    }
    if (*type == kDictionaryBatch) {
      return messages_->Bad("dictionary-encoded columns are not fed; write the file without");
    }
    if (*type != kRecordBatch || !batch->has_value()) return messages_->Bad("no record batch");
    const absl::StatusOr<int64_t> rows = (*batch)->Scalar<int64_t>(kRowsSlot, 0);
    if (!rows.ok()) return messages_->In(rows.status());
    if (*rows < 0 || *rows > kMaxBatchRows) {
      return messages_->Bad(absl::StrCat("a batch of ", *rows, " rows"));
    }
    return Header{*body_bytes, *rows};
  }

  const std::unique_ptr<MessageReader> messages_;
  const BatchDecoder decoder_;
  bool ended_ = false;
};

}  // namespace

absl::StatusOr<std::unique_ptr<ArrowIpcSource>> ArrowIpcSource::Create(
    std::vector<std::string> paths) {
  if (paths.empty()) return absl::InvalidArgumentError("an Arrow IPC source needs a file");
  std::optional<Schema> schema;
  for (const std::string& path : paths) {
    MILLRACE_ASSIGN_OR_RETURN(const std::unique_ptr<MessageReader> messages,
                              MessageReader::Open(path));
    MILLRACE_ASSIGN_OR_RETURN(Schema own, ReadSchema(messages.get()));
    if (schema.has_value() && !(*schema == own)) {
      return absl::InvalidArgumentError(
          absl::StrCat(path, " has another schema than ", paths.front()));
    }
    if (!schema.has_value()) schema = std::move(own);
  }
  return std::unique_ptr<ArrowIpcSource>(new ArrowIpcSource(*std::move(schema), std::move(paths)));
}

absl::StatusOr<std::unique_ptr<RecordBatchReader>> ArrowIpcSource::Open(
    int partition, int64_t /*data_epoch*/) const {
  if (partition < 0 || partition >= num_partitions()) {
    return absl::InvalidArgumentError(
        absl::StrCat("partition ", partition, " of ", num_partitions()));
  }
  MILLRACE_ASSIGN_OR_RETURN(std::unique_ptr<MessageReader> messages,
                            MessageReader::Open(paths_[static_cast<size_t>(partition)]));
  MILLRACE_ASSIGN_OR_RETURN(Schema schema, ReadSchema(messages.get()));
  if (!(schema == schema_)) return messages->Bad("the schema is another than it was");
  return std::unique_ptr<RecordBatchReader>(
      std::make_unique<ArrowIpcReader>(std::move(messages), std::move(schema)));
}

}  // namespace millrace
