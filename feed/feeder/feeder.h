// File: feed/feeder/feeder.h
//
// The feeder side of the feed protocol (docs/feed_protocol.md): one per process, shared by
// everything in it that feeds nodes.
//
// Defines: FeederOptions, FeederStats, Feeder.
//
//   MILLRACE_ASSIGN_OR_RETURN(std::unique_ptr<Feeder> feeder, Feeder::Start({}));
//   MILLRACE_ASSIGN_OR_RETURN(FeedTarget target, directory->Lookup("worker:1"));
//   MILLRACE_ASSIGN_OR_RETURN(std::shared_ptr<FeedSession> session,
//                             feeder->OpenSession(target, {.feed_id = feed_id, .partition = 3}));
//
// feed/feeder/train_job.h and feed/feeder/inference_job.h feed whole sources with it.

#ifndef FEED_FEEDER_FEEDER_H_
#define FEED_FEEDER_FEEDER_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "core/base/mutex.h"
#include "core/base/thread.h"
#include "core/net/port_range.h"
#include "feed/feeder/feeder_outbox.h"
#include "feed/feeder/feeder_session.h"
#include "feed/feeder/node_directory.h"

namespace millrace {

class FeederLoop;

struct FeederOptions {
  // How long a node may take to answer OPEN with CREDIT, WAIT or ERROR.
  absl::Duration open_timeout = absl::Seconds(5);
  // After a connection is lost: how long replies that were under way are waited for.
  absl::Duration drain_timeout = absl::Milliseconds(500);
  // Speak CURVE with nodes of this host too; for tests and measurements.
  bool curve_only = false;
  // Write rows for nodes of this host into memory of theirs (docs/feed_protocol.md, section 10),
  // where a batch's body has at least shared_min_bytes. Nodes that cannot do it, and other users',
  // get them through the socket.
  bool shared_memory = false;
  int64_t shared_min_bytes = int64_t{32} << 10;
  // Where replies of nodes on other hosts come in, on the address that leads to the node; {0, 0}:
  // any port.
  PortRange reply_ports;
};

// Since Start().
struct FeederStats {
  int64_t sessions_opened = 0;
  int64_t refused_handshakes = 0;  // in which a node refused this feeder's key
  int64_t batches_sent = 0;
  int64_t bytes_sent = 0;        // of batches
  int64_t batches_placed = 0;    // of them, through shared memory
  int64_t results_received = 0;  // RESULT frames
  int64_t results_placed = 0;    // of them, through shared memory
  int64_t bad_frames = 0;        // each of which poisoned its sender
  int64_t dropped_frames = 0;    // from poisoned senders
};

// Owns one thread ("feeder"), which owns every socket: one PUSH per node endpoint, a reply PULL for
// this host and one for others, ZAP and the monitors. Thread safety: thread-safe. Blocking: Start()
// and Stop() only, for milliseconds. Lifetime: sessions may outlive it; they end as kAborted when
// it stops.
class Feeder final : public SessionOpener {
 public:
  // Binds the reply endpoints and starts the thread. Returns RESOURCE_EXHAUSTED if descriptors or
  // threads are short.
  [[nodiscard]] static absl::StatusOr<std::unique_ptr<Feeder>> Start(const FeederOptions& options);

  ~Feeder() override;
  Feeder(const Feeder&) = delete;
  Feeder& operator=(const Feeder&) = delete;

  // Ends every session with CANCELLED and joins the thread. Idempotent.
  void Stop();

  // Returns INVALID_ARGUMENT if `target` has no endpoint (for curve_only: no CURVE endpoint) or
  // `options` no feed_id, FAILED_PRECONDITION if target.state is not kRunning, CANCELLED after
  // Stop().
  absl::StatusOr<std::shared_ptr<FeedSession>> OpenSession(const FeedTarget& target,
                                                           const SessionOptions& options) override;

  // "feeder/<hex>".
  [[nodiscard]] const std::string& principal() const { return principal_; }

  // Z85; public. Nodes on other hosts admit this feeder once the coordinator has announced this key
  // of principal() to them. Sessions with them wait for that, half of open_timeout at most.
  [[nodiscard]] const std::string& curve_key() const { return curve_key_; }

  [[nodiscard]] FeederStats stats() const;

 private:
  Feeder(const FeederOptions& options, std::shared_ptr<FeederOutbox> outbox,
         std::shared_ptr<FeederLoop> loop);

  const FeederOptions options_;
  const std::shared_ptr<FeederOutbox> outbox_;
  const std::shared_ptr<FeederLoop> loop_;
  std::string principal_;
  std::string curve_key_;
  Mutex stop_mu_;
  Thread thread_ ABSL_GUARDED_BY(stop_mu_);
};

}  // namespace millrace

#endif  // FEED_FEEDER_FEEDER_H_
