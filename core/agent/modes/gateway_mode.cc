#include "core/agent/modes/gateway_mode.h"

#include <unistd.h>

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "core/agent/loop/exit_codes.h"
#include "core/base/text.h"
#include "millrace/status_macros.h"

namespace millrace {

GatewayMode::GatewayMode(EventLoop* loop, Options options)
    : loop_(loop),
      options_(std::move(options)),
      parent_(loop, options_.in_fd, options_.out_fd,
              {.on_request = [this](const Json& id, const std::string& method,
                                    const Json& params) { OnRequest(id, method, params); },
               .on_end = [this](const absl::Status& status) { OnParentGone(status); }}) {}

void GatewayMode::Start() {
  parent_.Event("ready", {{"protocol", 1}, {"version", options_.version}, {"pid", getpid()}});
  parent_.Start();
}

void GatewayMode::OnRequest(const Json& id, const std::string& method, const Json& params) {
  if (method == "start") {
    parent_.Reply(id, Connect(params));
  } else if (!GatewayCalls::Knows(method)) {
    parent_.Reply(id, absl::UnimplementedError(absl::StrCat(
                          "no method \"", Ellipsize(method, 64),
                          "\"; a gateway knows start, lookup, cause, report, announce, pace "
                          "and agent_gone")));
  } else if (calls_ == nullptr) {
    parent_.Reply(id, absl::FailedPreconditionError(absl::StrCat(method, " comes after start")));
  } else {
    calls_->Start(method, params,
                  [this, id](const absl::StatusOr<Json>& outcome) { parent_.Reply(id, outcome); });
  }
}

absl::StatusOr<Json> GatewayMode::Connect(const Json& params) {
  if (calls_ != nullptr) return absl::FailedPreconditionError("start was called before");
  MILLRACE_ASSIGN_OR_RETURN(CoordinatorEndpoint endpoint, ParseCoordinatorEndpoint(params));
  channel_ = MakeCoordinatorChannel(endpoint);
  calls_ =
      std::make_unique<GatewayCalls>(loop_, std::move(endpoint.token), [this] { return channel_; });
  return Json::object();
}

void GatewayMode::OnParentGone(const absl::Status& status) {
  if (!status.ok()) {
    exit_code_ = kExitAgentFailed;
    parent_.Event("error",
                  {{"code", "INVALID_ARGUMENT"},
                   {"message", absl::StrCat("the parent broke the protocol: ", status.message())}});
  }
  loop_->Quit();
}

void GatewayMode::OnSignal(int) { loop_->Quit(); }

int GatewayMode::Cleanup() {
  parent_.Flush(absl::Milliseconds(100));
  return exit_code_;
}

}  // namespace millrace
