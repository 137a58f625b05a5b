// File: core/agent/modes/coordinator_params.h
//
// Parameters and results of the methods of `millrace-agent coordinator` (docs/control_protocol.md,
// section 5), between JSON and the values of core/coordinator. Those of `start`:
// core/agent/modes/coordinator_start.h.
//
// Parsers return INVALID_ARGUMENT naming the field; unknown fields are ignored: a later parent may
// know more. Thread safety: pure functions.

#ifndef CORE_AGENT_MODES_COORDINATOR_PARAMS_H_
#define CORE_AGENT_MODES_COORDINATOR_PARAMS_H_

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "core/base/json.h"
#include "core/coordinator/state/coordinator_options.h"
#include "core/coordinator/state/feed_ledger.h"
#include "millrace/cluster_status.h"

namespace millrace {

// `<key>_ms`: -1 is InfiniteDuration(), absent is `fallback`.
[[nodiscard]] absl::StatusOr<absl::Duration> GetDuration(const Json& params, absl::string_view key,
                                                         absl::Duration fallback,
                                                         absl::string_view where = "params");
// "fed", "ps_and_evaluator", "evaluator" or "all" (also if absent).
[[nodiscard]] absl::StatusOr<NodeFilter> GetFilter(const Json& params);
[[nodiscard]] absl::StatusOr<int> GetExecutor(const Json& params);

// {"code", "message"}; null for OK.
[[nodiscard]] Json StatusToJson(const absl::Status& status);
[[nodiscard]] Json SlotToJson(const SlotStatus& slot);
// Slots from `first`, at most `limit`; "next" is there if there are more.
[[nodiscard]] Json ClusterToJson(const ClusterStatus& status, int first, int limit);
[[nodiscard]] Json FailureToJson(const NodeFailure& failure, int folded);
[[nodiscard]] Json SummaryToJson(const FeedSummary& summary);

}  // namespace millrace

#endif  // CORE_AGENT_MODES_COORDINATOR_PARAMS_H_
