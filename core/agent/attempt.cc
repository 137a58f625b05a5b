#include "core/agent/attempt.h"

#include <cstddef>

namespace millrace {
namespace {

constexpr size_t kMaxEarlyPushes = 1024;

}  // namespace

void Attempt::Push(const Json& frame) {
  if (runner != nullptr) {
    runner->Push(frame);
  } else if (early_pushes_.size() < kMaxEarlyPushes) {
    early_pushes_.push_back(frame);
  }
}

void Attempt::Launched() {
  for (const Json& frame : early_pushes_) runner->Push(frame);
  early_pushes_.clear();
}

std::optional<v1::NodeEndpoints> Attempt::Published() const {
  if (!endpoints.has_value() && sidecar_urls.empty()) return std::nullopt;
  v1::NodeEndpoints published = endpoints.value_or(v1::NodeEndpoints());
  for (const auto& [name, url] : sidecar_urls) (*published.mutable_other())[name] = url;
  return published;
}

void Attempt::StopSidecars() {
  sidecars.clear();
  sidecar_urls.clear();
}

}  // namespace millrace
