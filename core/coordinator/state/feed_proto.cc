#include "core/coordinator/state/feed_proto.h"

#include <cstdint>

namespace millrace {

v1::FeederStages ToFeederStagesProto(const FeederStages& stages) {
  v1::FeederStages out;
  out.set_source_us(stages.source_us);
  out.set_encode_us(stages.encode_us);
  out.set_credit_us(stages.credit_us);
  out.set_wire_us(stages.wire_us);
  return out;
}

v1::FeedInfo ToFeedInfoProto(const FeedSummary& feed) {
  v1::FeedInfo info;
  info.set_feed_id(feed.feed_id);
  info.set_queue(feed.queue);
  info.set_partitions(feed.partitions);
  info.set_pending(feed.pending);
  info.set_feeding(feed.feeding);
  info.set_received(feed.received);
  info.set_done(feed.done);
  info.set_failed(feed.failed);
  info.set_rows_received(feed.rows_received);
  info.set_rows_acked(feed.rows_acked);
  info.set_rows_returned(feed.rows_returned);
  info.set_partitions_refed(feed.partitions_refed);
  info.set_rows_refed(feed.rows_refed);
  info.set_exactly_once(feed.exactly_once);
  info.set_closed(feed.closed);
  for (const int64_t partition : feed.failed_partitions) info.add_failed_partitions(partition);
  for (const int64_t partition : feed.refed_partitions) info.add_refed_partitions(partition);
  for (const RefedSummary& refed : feed.refed) {
    v1::RefedRows* out = info.add_refed();
    out->set_executor_id(refed.executor_id);
    out->set_reason(refed.reason);
    out->set_times(refed.times);
    out->set_rows(refed.rows);
  }
  *info.mutable_stages() = ToFeederStagesProto(feed.stages);
  return info;
}

}  // namespace millrace
