// File: feed/receiver/receiver.h
//
// The node side of the feed: listens for feeders, holds what they send, and hands it to the program
// through DataFeed. docs/feed_protocol.md says what travels.
//
// Defines: FeedReceiver, FeedReceiverOptions.
//
//   auto receiver = FeedReceiver::Start({.node_name = "worker:1", .nonce = nonce});
//   Announce((*receiver)->endpoints());
//   auto feed = (*receiver)->GetDataFeed({.input_mapping = {{"image", "x"}}});
//   absl::Status status = RunProgram(**feed);
//   status = (*receiver)->Finish(status);

#ifndef FEED_RECEIVER_RECEIVER_H_
#define FEED_RECEIVER_RECEIVER_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "core/base/clock.h"
#include "core/base/mutex.h"
#include "core/base/thread.h"
#include "core/net/port_range.h"
#include "feed/receiver/receiver_core.h"
#include "feed/receiver/receiver_loop.h"
#include "millrace/data_feed.h"
#include "millrace/option_defaults.h"

namespace millrace {

struct FeedReceiverOptions {
  std::string node_name = "node";  // "worker:1"; for messages
  std::string nonce;               // names this attempt of the node; letters, digits, _.:-
  std::vector<std::string> queues = {kDefaultQueue};
  // Of rows received and not used, all queues together.
  int64_t budget_bytes = kDefaultFeedBudgetBytes;
  Clock* clock = RealClock();  // not owned
  PortRange tcp_ports;         // where TCP endpoints are bound; {0, 0}: any
  // The host name or numeric address at which other hosts reach this one. A second data socket, for
  // CURVE, listens there: on this address if the host has it, otherwise (a name, NAT) on every
  // interface. Empty: feeders of this host only.
  std::string advertise_host;
  // Let feeders of this host that can do so write into memory of this process, budget_bytes of it
  // at most (docs/feed_protocol.md, section 10).
  bool shared_memory = true;
  // Results of at least so many bytes of body come to them in the same way.
  int64_t shared_min_bytes = int64_t{32} << 10;
  // As ReceiverCore::Options'.
  std::function<void(const ReceiverRows&)> tell_rows;
};

// A program that ends by _exit(), or a signal, without Finish() or the destructor loses what is on
// its way out: the last ACK, RESULT and DONE frames. Its feeders then feed those rows again, or
// fail. exit() and a return from main() do the same to a FeedReceiver that nothing destroys.
//
// Ownership: owns the socket thread; DataFeeds are independent of it and may live longer.
// Thread safety: thread-safe.
// Blocking: Start, Finish and the destructor wait for the socket thread, which never blocks; Finish
// also for what is on its way out, two seconds at most.
class FeedReceiver {
 public:
  // Binds, and starts to serve. Returns INVALID_ARGUMENT for options that make no sense,
  // RESOURCE_EXHAUSTED if the system has no descriptor or thread left, or tcp_ports no free port,
  // UNAVAILABLE if nothing can be bound.
  [[nodiscard]] static absl::StatusOr<std::unique_ptr<FeedReceiver>> Start(
      FeedReceiverOptions options);

  // As Finish(CANCELLED), if Finish was not called.
  ~FeedReceiver();
  FeedReceiver(const FeedReceiver&) = delete;
  FeedReceiver& operator=(const FeedReceiver&) = delete;

  // For the coordinator's lookup. The key is secret.
  [[nodiscard]] const FeedEndpoints& endpoints() const { return loop_->endpoints(); }

  // As ReceiverLoop::AnnounceFeeder: whom the CURVE endpoint admits. Nobody, until it is called.
  [[nodiscard]] absl::Status AnnounceFeeder(absl::string_view principal,
                                            absl::string_view curve_key) {
    return loop_->AnnounceFeeder(principal, curve_key);
  }

  // From here on the queue's feeders are served. Several DataFeeds of one queue and mode go on
  // where the other stopped.
  //
  // Returns NOT_FOUND, naming the queues there are; FAILED_PRECONDITION if a DataFeed reads the
  // queue in the other mode and has not come to its end; UNAVAILABLE after Finish.
  //
  // With options.equal the coordinator has to know that this node reads the queue so, before its
  // feeders are served: `join` is called for that, and its error returned.
  [[nodiscard]] absl::StatusOr<std::unique_ptr<DataFeed>> GetDataFeed(
      DataFeedOptions options = {}, absl::FunctionRef<absl::Status()> join = NoJoin);

  // feed_end of section 6: no more rows of this feed will come. NextBatch returns the short tail.
  // `aborted`: the call has failed, and rows that NextBatch has not returned are dropped.
  void FeedEnd(absl::string_view feed_id, bool aborted);

  // What the coordinator grants. For a queue that is not read so: nothing happens.
  void Grant(const ReceiverGrant& grant) { core_->Grant(grant); }

  // Ends reading the queue in the mode in which the program reads it now (training if it does not
  // read yet): ShouldStop() turns true when what was received has been read. The other mode is not
  // touched, so that a program may serve inference after its training has ended. An unknown queue
  // is logged.
  void EndFeed(absl::string_view queue);
  // Shutdown: EndFeed of all queues and modes.
  void EndAllFeeds();

  // The program has returned `program_status`. If OK, everything handed out is acknowledged, open
  // training sessions get TERMINATED and open inference sessions ERROR FAILED_PRECONDITION;
  // otherwise every session gets ERROR with this status. Idempotent: later calls do nothing.
  // Returns `program_status`, or FAILED_PRECONDITION if that is OK but inference rows that the
  // program has read are left without results.
  [[nodiscard]] absl::Status Finish(absl::Status program_status);

  [[nodiscard]] FeedReceiverStats stats() const { return core_->stats(); }

 private:
  static absl::Status NoJoin();
  FeedReceiver(std::shared_ptr<ReceiverCore> core, std::shared_ptr<ReceiverLoop> loop)
      : core_(std::move(core)), loop_(std::move(loop)) {}

  const std::shared_ptr<ReceiverCore> core_;
  const std::shared_ptr<ReceiverLoop> loop_;
  Mutex mu_;
  bool finished_ ABSL_GUARDED_BY(mu_) = false;
  Thread thread_;  // last: joined before the loop goes
};

}  // namespace millrace

#endif  // FEED_RECEIVER_RECEIVER_H_
