#include "core/node/feed_sample.h"

#include <utility>

#include "absl/time/time.h"

namespace millrace {

// The names are those of v1::QueueSample, the one table for whoever reads them. This is a second
// one, since a node program has no Protobuf; node_requests_test compares the two.
Json FeedSampleJson(const FeedReceiverStats& stats) {
  Json queues = Json::array();
  for (const FeedQueueStats& queue : stats.queues) {
    const bool used = queue.sessions_opened > 0 || queue.compute_time > absl::ZeroDuration() ||
                      queue.wait_time > absl::ZeroDuration();
    if (!used) continue;
    queues.push_back({{"queue", queue.queue},
                      {"rows_received", queue.rows_received},
                      {"rows_acked", queue.rows_acked},
                      {"rows_returned", queue.rows_returned},
                      {"bytes_received", queue.bytes_received},
                      {"batches_received", queue.batches_received},
                      {"batches_placed", queue.batches_placed},
                      {"credit_outstanding_bytes", queue.credit_outstanding_bytes},
                      {"queued_rows", queue.queued_rows},
                      {"queued_bytes", queue.queued_bytes},
                      {"open_sessions", queue.open_sessions},
                      {"waiting_sessions", queue.waiting_sessions},
                      {"partitions_received", queue.partitions_received},
                      {"wait_us", absl::ToInt64Microseconds(queue.wait_time)},
                      {"compute_us", absl::ToInt64Microseconds(queue.compute_time)},
                      {"decode_us", absl::ToInt64Microseconds(queue.decode_time)},
                      {"queued_us", absl::ToInt64Microseconds(queue.queued_time)},
                      {"full_us", absl::ToInt64Microseconds(queue.full_time)},
                      {"program_done", queue.program_done}});
  }
  return Json{{"budget_bytes", stats.budget_bytes},
              {"held_bytes", stats.committed_bytes},
              {"why_not_shared", stats.why_not_shared},
              {"queues", std::move(queues)}};
}

}  // namespace millrace
