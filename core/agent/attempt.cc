#include "core/agent/attempt.h"

#include <cstddef>

#include "absl/strings/str_cat.h"
#include "core/base/text.h"
#include "millrace/status_macros.h"

namespace millrace {
namespace {

constexpr size_t kMaxEarlyPushes = 1024;

}  // namespace

bool Attempt::BeginGpuClaim() {
  if (gpus_ != Gpus::kNone) return false;
  gpus_ = Gpus::kClaiming;
  return true;
}

absl::Status Attempt::Launch(std::unique_ptr<NodeRunner> runner, NodeRunner::Options options) {
  runner_ = std::move(runner);
  context_path_ = options.environment.context_path;
  MILLRACE_RETURN_IF_ERROR(runner_->Launch(std::move(options)));
  for (const Json& frame : early_pushes_) runner_->Push(frame);
  early_pushes_.clear();
  return absl::OkStatus();
}

void Attempt::Push(const Json& frame) {
  if (runner_ != nullptr) {
    runner_->Push(frame);
  } else if (early_pushes_.size() < kMaxEarlyPushes) {
    early_pushes_.push_back(frame);
  }
}

void Attempt::EndFeed(const std::string& queue) {
  if (ended_queues_.insert(queue).second) Push(Json{{"push", "end_feed"}, {"queue", queue}});
}

void Attempt::AddSidecar(std::unique_ptr<SidecarRunner> sidecar) {
  sidecars_.push_back(std::move(sidecar));
}

void Attempt::OnSidecarUrl(const std::string& name, const std::string& url) {
  if (url.empty()) {
    sidecar_urls_.erase(name);
  } else {
    sidecar_urls_[name] = url;
  }
}

void Attempt::StopSidecars() {
  sidecars_.clear();
  sidecar_urls_.clear();
}

std::optional<v1::NodeEndpoints> Attempt::Published() const {
  if (!endpoints_.has_value() && sidecar_urls_.empty()) return std::nullopt;
  v1::NodeEndpoints published = endpoints_.value_or(v1::NodeEndpoints());
  for (const auto& [name, url] : sidecar_urls_) (*published.mutable_other())[name] = url;
  return published;
}

absl::Status Attempt::RunError(const ExitStatus& exit, absl::string_view who) const {
  if (const int signal = runner_->killed_as_stopped_by(); signal != 0) {
    return absl::AbortedError(absl::StrCat(who, " was stopped by signal ", signal, " (",
                                           SignalName(signal),
                                           ") for longer than stop_timeout, and was killed"));
  }
  if (runner_->said_exit().has_value() && !runner_->said_exit()->ok()) {
    return *runner_->said_exit();
  }
  const std::vector<std::string> tail = runner_->StderrTail();
  return absl::AbortedError(absl::StrCat(
      who, " ended with ", DescribeExit(exit),
      tail.empty() ? "" : absl::StrCat("; last line of stderr: ", Ellipsize(tail.back(), 500))));
}

bool Attempt::knows_why() const {
  return runner_->killed_as_stopped_by() != 0 || runner_->said_exit().has_value();
}

void Attempt::AddEndTo(const ExitStatus& exit, v1::NodeUpdate* update) const {
  if (exit.kind == ExitStatus::Kind::kSignaled) {
    update->mutable_exit()->set_signal(exit.signal);
  } else {
    update->mutable_exit()->set_code(exit.code);
  }
  for (std::string& line : runner_->StderrTail()) update->add_stderr_tail(std::move(line));
}

std::unique_ptr<NodeRunner> Attempt::Retire(absl::Status error) {
  error_ = std::move(error);
  return std::move(runner_);
}

}  // namespace millrace
