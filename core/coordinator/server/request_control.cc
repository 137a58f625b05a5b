#include "core/coordinator/server/request_control.h"

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "core/coordinator/state/kv_store.h"
#include "core/proto/time_proto.h"

namespace millrace {
namespace {

constexpr size_t kMaxRememberedAdds = 64;

}  // namespace

void RequestControl::Kv(uint64_t stream_id, int executor_id, const v1::KvRequest& request) {
  state_->mu.AssertHeld();
  std::optional<absl::StatusOr<std::string>> result;
  std::vector<KvStore::Completion> woken;
  v1::CoordinatorMessage message;
  switch (request.op_case()) {
    case v1::KvRequest::kSet: {
      const absl::Status status = state_->kv.Set(request.key(), request.set(), &woken);
      result.emplace(status.ok() ? absl::StatusOr<std::string>("") : status);
      break;
    }
    case v1::KvRequest::kGet: {
      const absl::Duration now = state_->clock->SteadyNow();
      const absl::Duration timeout = DurationFromProto(request.get());
      result = state_->kv.Get(request.key(), timeout, {stream_id, request.request_id()}, now);
      if (!result.has_value()) state_->WakeTimerFor(now + timeout);
      break;
    }
    case v1::KvRequest::kAdd: {
      if (executor_id < 0) {  // an operator's, once
        result = state_->kv.Add(request.key(), request.add(), &woken);
        break;
      }
      // An agent that came back repeats what was not answered: an add must not count twice.
      auto& adds = state_->NodeOf(executor_id).adds;
      auto done = std::find_if(adds.begin(), adds.end(), [&](const auto& entry) {
        return entry.first == request.request_id();
      });
      if (done != adds.end()) {
        *message.mutable_kv() = done->second;
        state_->Send(stream_id, message);
        return;
      }
      result = state_->kv.Add(request.key(), request.add(), &woken);
      adds.emplace_back(request.request_id(), ToKvReply(request.request_id(), *result));
      if (adds.size() > kMaxRememberedAdds) adds.pop_front();
      break;
    }
    case v1::KvRequest::kDelete:
      result = state_->kv.Delete(request.key());
      break;
    default:
      result.emplace(absl::UnimplementedError("this coordinator does not know the kv operation"));
  }
  if (result.has_value()) {
    *message.mutable_kv() = ToKvReply(request.request_id(), *result);
    state_->Send(stream_id, message);
  }
  state_->ReplyKv(woken);
}

void RequestControl::Barrier(uint64_t stream_id, int executor_id,
                             const v1::BarrierRequest& request) {
  state_->mu.AssertHeld();
  const absl::Duration now = state_->clock->SteadyNow();
  const absl::Duration timeout = DurationFromProto(request.timeout());
  state_->ReplyBarrier(state_->barriers.Arrive(request.name(), executor_id,
                                               {stream_id, request.request_id()}, timeout, now));
  state_->WakeTimerFor(now + timeout);
}

}  // namespace millrace
