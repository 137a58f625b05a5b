#include "feed/feeder/reply_dispatch.h"

#include <memory>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "core/base/text.h"
#include "millrace/status_macros.h"

namespace millrace {

absl::Status DispatchReply(FeedSession& session, const FrameHeader& header,
                           std::vector<ZmqMessage>& parts) {
  const absl::string_view metadata = parts.size() > 1 ? parts[1].view() : absl::string_view();
  SessionSocketSide& side = session.socket_side();
  switch (header.type) {
    case FrameType::kCredit: {
      MILLRACE_ASSIGN_OR_RETURN(const CreditFrame frame, DecodeCredit(metadata));
      return side.OnCredit(frame);
    }
    case FrameType::kReceived: {
      MILLRACE_ASSIGN_OR_RETURN(const RowFrame frame, DecodeRow(metadata));
      return side.OnReceived(frame.row);
    }
    case FrameType::kAck: {
      MILLRACE_ASSIGN_OR_RETURN(const RowFrame frame, DecodeRow(metadata));
      return side.OnAck(frame.row);
    }
    case FrameType::kRevoked: {
      MILLRACE_ASSIGN_OR_RETURN(const RowFrame frame, DecodeRow(metadata));
      return side.OnRevoked(frame.row);
    }
    case FrameType::kWait: {
      MILLRACE_ASSIGN_OR_RETURN(const WaitFrame frame, DecodeWait(metadata));
      return side.OnWait(frame);
    }
    case FrameType::kSchema:
      return side.OnSchema(metadata);
    case FrameType::kResult: {
      MILLRACE_ASSIGN_OR_RETURN(const BatchPrefix prefix, DecodeBatchPrefix(metadata));
      std::vector<BodyPart> body;
      for (size_t i = 2; i < parts.size(); ++i) {
        auto owner = std::make_shared<const ZmqMessage>(std::move(parts[i]));
        body.push_back({owner->data(), owner->size(), owner});
      }
      return side.OnResult(prefix, std::string(metadata.substr(kBatchPrefixSize)), std::move(body));
    }
    case FrameType::kDone: {
      MILLRACE_ASSIGN_OR_RETURN(const DoneFrame frame, DecodeDone(metadata));
      side.OnDone(frame);
      return absl::OkStatus();
    }
    case FrameType::kTerminated: {
      MILLRACE_ASSIGN_OR_RETURN(const TerminatedFrame frame, DecodeTerminated(metadata));
      return side.OnTerminated(frame);
    }
    case FrameType::kError: {
      MILLRACE_ASSIGN_OR_RETURN(const ErrorFrame frame, DecodeError(metadata));
      side.OnEnd(frame.program_ended ? SessionEnd::kFailed : SessionEnd::kError,
                 absl::Status(frame.code,
                              absl::StrCat(session.Place(), ": ", EscapeControls(frame.message))));
      return absl::OkStatus();
    }
    case FrameType::kOpen:
    case FrameType::kBatch:
    case FrameType::kEndPartition:
    case FrameType::kAbort:
    case FrameType::kBlocked:
    case FrameType::kResultCredit:
    case FrameType::kRevoke:
    case FrameType::kMapped:
    case FrameType::kPlaced:
    case FrameType::kSegment:
    case FrameType::kRoom:
    case FrameType::kPlacedResult:
      break;
  }
  return absl::InvalidArgumentError(
      absl::StrCat("a node does not send ", FrameTypeName(header.type)));
}

}  // namespace millrace
