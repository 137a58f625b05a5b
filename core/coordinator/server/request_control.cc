#include "core/coordinator/server/request_control.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "core/coordinator/state/kv_store.h"
#include "core/proto/time_proto.h"

namespace millrace {
namespace {

constexpr size_t kMaxRemembered = 64;  // answers of each kind, of each node

}  // namespace

void RequestControl::Kv(uint64_t stream_id, int executor_id, const v1::KvRequest& request) {
  state_->mu.AssertHeld();
  std::optional<absl::StatusOr<std::string>> result;
  std::vector<KvStore::Completion> woken;
  v1::CoordinatorMessage message;
  switch (request.op_case()) {
    case v1::KvRequest::kSet: {
      const absl::Status status = state_->kv.Set(request.key(), request.set(), &woken);
      if (status.ok()) state_->JournalKv(request.key(), &request.set());
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
        if (result->ok()) state_->JournalKv(request.key(), &result->value());
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
      if (result->ok()) state_->JournalKv(request.key(), &result->value());
      v1::AnswerRecord answer;
      *answer.mutable_kv() = adds.back().second;
      JournalAnswer(executor_id, std::move(answer));
      if (adds.size() > kMaxRemembered) adds.erase(adds.begin());
      break;
    }
    case v1::KvRequest::kDelete:
      result = state_->kv.Delete(request.key());
      if (result->ok()) state_->JournalKv(request.key(), nullptr);
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

void RequestControl::JournalAnswer(int executor_id, v1::AnswerRecord answer) {
  state_->mu.AssertHeld();
  answer.set_executor_id(executor_id);
  answer.set_attempt(state_->table.attempt(executor_id));
  v1::StateRecord record;
  *record.mutable_answer() = std::move(answer);
  state_->Journal(std::move(record));
}

void RequestControl::Barrier(uint64_t stream_id, int executor_id,
                             const v1::BarrierRequest& request) {
  state_->mu.AssertHeld();
  const absl::Duration now = state_->clock->SteadyNow();
  const absl::Duration timeout = DurationFromProto(request.timeout());
  // An agent that came back repeats what was not answered: the others have passed it long since.
  const std::vector<uint64_t>& passed = state_->NodeOf(executor_id).passed;
  if (std::find(passed.begin(), passed.end(), request.request_id()) != passed.end()) {
    state_->ReplyBarrier({{{stream_id, request.request_id()}, absl::OkStatus()}});
    return;
  }
  const std::vector<BarrierSet::Completion> over = state_->barriers.Arrive(
      request.name(), executor_id, {stream_id, request.request_id()}, timeout, now);
  for (const BarrierSet::Completion& completion : over) {
    const auto stream = state_->streams.find(completion.waiter.owner);
    if (!completion.status.ok() || stream == state_->streams.end()) continue;
    const int id = stream->second.executor_id;
    std::vector<uint64_t>& answers = state_->NodeOf(id).passed;
    answers.push_back(completion.waiter.request_id);
    if (answers.size() > kMaxRemembered) answers.erase(answers.begin());
    v1::AnswerRecord answer;
    answer.set_barrier(completion.waiter.request_id);
    JournalAnswer(id, std::move(answer));
  }
  state_->ReplyBarrier(over);
  state_->WakeTimerFor(now + timeout);
}

}  // namespace millrace
