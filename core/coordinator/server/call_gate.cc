#include "core/coordinator/server/call_gate.h"

#include <iterator>  // for std::next
#include <string>

#include "core/base/peer_version.h"
#include "core/base/version.h"

namespace millrace {
namespace {

absl::Status CheckCaller(const grpc::CallbackServerContext& context) {
  const auto& metadata = context.client_metadata();
  const auto version = metadata.find(kVersionMetadata);
  if (version == metadata.end()) return absl::OkStatus();
  return CheckVersions({"this coordinator", kMillraceVersion},
                       {"the caller", {version->second.data(), version->second.size()}});
}

}  // namespace

absl::Status CallGate::Admit(const grpc::CallbackServerContext& context, absl::string_view method,
                             std::initializer_list<TokenKind> allowed) const {
  const auto& metadata = context.client_metadata();
  const auto [first, last] = metadata.equal_range("authorization");
  absl::string_view authorization;
  // Twice the key: whichever one is meant, it is not a client of ours.
  if (first != last && std::next(first) == last) {
    authorization = absl::string_view(first->second.data(), first->second.size());
  }
  absl::Status admitted = tokens_->Check(authorization, allowed);
  if (admitted.ok()) admitted = CheckCaller(context);
  if (admitted.ok()) {
    acceptor_->Admitted(context.peer());
  } else {
    recorder_->Refused(method, context.peer(), admitted);
  }
  return admitted;
}

}  // namespace millrace
