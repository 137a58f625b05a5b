#include "core/coordinator/server/operator_control.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "core/base/mutex.h"

namespace millrace {

void OperatorControl::StopCluster(absl::string_view reason, bool now) {
  const std::string text = absl::StrCat("stopped by an operator: ", reason);
  bool shut_down = false;
  state_->Do([&](TableEffects* /*effects*/) ABSL_EXCLUSIVE_LOCKS_REQUIRED(state_->mu) {
    shut_down = state_->shut_down;
    if (shut_down) return;
    state_->recorder->StopRequested(reason, now);
    if (state_->cancelled.ok()) state_->cancelled = absl::CancelledError(text);
    if (state_->stop_request.ok()) {
      state_->stop_request = absl::CancelledError(text);
      state_->JournalCancel(text, /*by_operator=*/true);
    }
    state_->observer.PostStopRequest(state_->stop_request, now);
    state_->changed.SignalAll();
  });
  if (shut_down) return;
  state_->StopNodes(NodeFilter::kAll, text, now);
}

absl::StatusOr<uint32_t> OperatorControl::RestartNode(int executor_id, absl::string_view reason) {
  absl::StatusOr<uint32_t> attempt = absl::CancelledError("the coordinator was shut down");
  state_->Do([&](TableEffects* effects) ABSL_EXCLUSIVE_LOCKS_REQUIRED(state_->mu) {
    if (state_->shut_down) return;
    const bool known = state_->table.Has(executor_id);
    const uint32_t before = known ? state_->table.attempt(executor_id) : 0;
    // Of one that is early the agent is there already.
    const uint32_t more = known && state_->table.IsEarly(executor_id) ? 0 : 1;
    const absl::Status asked = state_->table.Restart(
        executor_id, absl::StrCat("restarted by an operator: ", reason), effects);
    attempt = asked.ok() ? absl::StatusOr<uint32_t>(before + more) : asked;
  });
  if (attempt.ok()) state_->recorder->RestartRequested(executor_id, reason);
  return attempt;
}

uint64_t OperatorControl::Kv(const v1::KvRequest& request,
                             const std::shared_ptr<AttachStream>& answer) {
  uint64_t id = 0;
  state_->Do([&](TableEffects* /*effects*/) ABSL_EXCLUSIVE_LOCKS_REQUIRED(state_->mu) {
    if (state_->shut_down) {
      answer->Close(absl::CancelledError("the coordinator shuts down"));
      state_->to_flush.push_back(answer);
      return;
    }
    id = state_->next_stream_id++;
    // Never registered: it hears of nothing but its answer.
    state_->streams[id] = {answer, -1, false};
    requests_->Kv(id, -1, request);
  });
  return id;
}

void OperatorControl::EndKv(uint64_t id) {
  MutexLock lock(&state_->mu);
  if (!state_->shut_down) state_->DropStream(id);
}

void OperatorControl::ListKeys(absl::string_view prefix, size_t limit,
                               v1::ListKeysReply* reply) const {
  std::vector<std::pair<std::string, size_t>> keys;
  {
    MutexLock lock(&state_->mu);
    keys = state_->kv.List(prefix, limit + 1);
  }
  reply->set_more(keys.size() > limit);
  for (size_t i = 0; i < std::min(limit, keys.size()); ++i) {
    v1::ListKeysReply::Entry* entry = reply->add_entries();
    entry->set_key(std::move(keys[i].first));
    entry->set_value_bytes(keys[i].second);
  }
}

size_t OperatorControl::KvWaits() const {
  MutexLock lock(&state_->mu);
  return state_->kv.waits();
}

}  // namespace millrace
