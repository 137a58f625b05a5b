// The node's output on its way to a driver that wants all of it, and its lines to the parent.

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"
#include "core/agent/agent.h"
#include "core/client/cluster_view.h"

namespace millrace {

void Agent::TellOutput(const v1::LogLines& log) {
  untold_lines_ += log.dropped();
  if (parent_.congested()) {
    untold_lines_ += log.lines_size();
    return;
  }
  parent_.Event("output",
                {{"node", NodeName()},
                 {"attempt", log.attempt()},
                 {"source", std::string(LogSourceText(log.source()))},
                 {"lines", std::vector<std::string>(log.lines().begin(), log.lines().end())},
                 {"dropped", std::exchange(untold_lines_, 0)}});
}

void Agent::OpenOutput(NodeRunner::Hooks* hooks) {
  const uint32_t attempt = registered_->attempt();
  OutputSender::Hooks sender_hooks;
  sender_hooks.send = [this](v1::AgentMessage message) { return link_->Send(std::move(message)); };
  sender_hooks.hold = [this, attempt](bool hold) {
    // What an attempt left that has ended holds up nobody.
    if (runner() != nullptr && registered_->attempt() == attempt) runner()->HoldOutput(hold);
  };
  sender_hooks.on_done = [this, attempt] {
    loop_->Defer([this, attempt] {  // this is its own callback
      outputs_.erase(attempt);
      FinishLink();
    });
  };
  auto sender = std::make_unique<OutputSender>(registered_->node().output_window_bytes(), attempt,
                                               std::move(sender_hooks));
  outputs_[attempt] = std::move(sender);
  hooks->on_bytes = [this, attempt](v1::LogLines::Source source, absl::string_view bytes) {
    if (const auto output = outputs_.find(attempt); output != outputs_.end()) {
      output->second->Add(source, bytes);
    }
  };
  hooks->on_output_end = [this, attempt] {
    if (const auto output = outputs_.find(attempt); output != outputs_.end()) output->second->End();
  };
}

void Agent::OnOutputCredit(uint32_t attempt, uint64_t offset) {
  const auto found = outputs_.find(attempt);
  if (found != outputs_.end()) found->second->OnCredit(offset);
}

void Agent::FinishLink() {
  if (link_finishes_ && outputs_.empty()) link_->Finish();
}

}  // namespace millrace
