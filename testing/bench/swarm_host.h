// File: testing/bench/swarm_host.h
//
// The simulated agents of one host on one stream (AttachHost), as their relay has them, and what
// the agents of a process have in common: for agent_swarm.
//
// Defines: SwarmSetup, SwarmTally, SwarmTimer, SwarmHost, MakeSwarmHello(), DialSwarm(),
// BytesText().
//
//   SwarmTally tally(setup);
//   SwarmTimer timer;
//   SwarmHost host(setup, /*first=*/0, /*agents=*/10, &tally, &timer);   // dials
//   Json arrived = tally.WaitForAll();
//
// A host whose stream breaks, or is turned away for now, dials again as an agent does: after 100
// ms, 160 ms, and so on to 2 s, each a fifth more or less; its agents keep their ids, and so their
// slots.

#ifndef TESTING_BENCH_SWARM_HOST_H_
#define TESTING_BENCH_SWARM_HOST_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/time/time.h"
#include "core/base/json.h"
#include "core/base/mutex.h"
#include "core/base/thread.h"
#include "core/proto/coordinator.pb.h"
#include "grpcpp/channel.h"
#include "grpcpp/support/byte_buffer.h"
#include "grpcpp/support/status.h"

namespace millrace::bench {

struct SwarmSetup {
  std::string address;
  std::string ca_pem;
  std::string identity_pem;  // empty: the server asks for no client certificate
  std::string token;
  std::string public_key;
  int agents = 0;  // of this process
  bool bare = false;
  int sample_every = 1;  // of a bare server's agents
  int slots_per_host = 1;
  // For the dashboard.
  int first = 0;  // number of the first agent
  int gpus = -1;  // of each agent's host; -1: nothing but feed counters
  int lines = 0;
  bool everything = false;  // that a GPU tells
};

// What agent number `index` says first.
[[nodiscard]] v1::AgentMessage MakeSwarmHello(const SwarmSetup& setup, int index);
[[nodiscard]] std::shared_ptr<grpc::Channel> DialSwarm(const SwarmSetup& setup);
[[nodiscard]] std::string BytesText(const grpc::ByteBuffer& bytes);

// How many agents hold the spec, which bytes it is, and who was told to stop. Thread-safe.
// Blocking: the Wait functions.
class SwarmTally {
 public:
  explicit SwarmTally(const SwarmSetup& setup) : setup_(setup) {}

  // `first` is the first message of one of `agents`, all of which got `spec` together.
  void HoldSpec(int agents, const std::string& first, const std::string& spec);
  // So many more agents were told to stop.
  void Told(int agents);
  // A host dials again.
  void Redials();
  // So many bytes of messages came.
  void Received(size_t bytes);
  // An agent cannot go on.
  void Fail(const std::string& error);

  // What arrived once all hold the spec, or the first error.
  [[nodiscard]] Json WaitForAll();
  // Until all but `dead` agents were told to stop, or there is an error.
  [[nodiscard]] Json WaitForStops(int dead);

  // An agent was registered by `message`.
  void Registered(const std::string& message);

  // 0: none yet, for no node runs.
  [[nodiscard]] size_t sample_every();
  // Of a heartbeat interval, as the coordinator says, or of a second; 1 at least.
  [[nodiscard]] size_t heartbeat_slices(size_t slices_per_second);
  [[nodiscard]] int redials();

 private:
  void FailLocked(const std::string& error) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // In seconds, which is in heartbeats.
  int SampleEvery(const std::string& registered) const;
  // A real agent unpacks the spec on its own host; here one of each process does.
  void Check(const std::string& text) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  const SwarmSetup& setup_;
  Mutex mu_;
  CondVar changed_;
  int held_ ABSL_GUARDED_BY(mu_) = 0;
  int told_ ABSL_GUARDED_BY(mu_) = 0;
  int redials_ ABSL_GUARDED_BY(mu_) = 0;
  size_t first_bytes_ ABSL_GUARDED_BY(mu_) = 0;
  size_t received_bytes_ ABSL_GUARDED_BY(mu_) = 0;
  int sample_every_ ABSL_GUARDED_BY(mu_) = 0;
  absl::Duration heartbeat_interval_ ABSL_GUARDED_BY(mu_);  // 0: not known
  std::string spec_ ABSL_GUARDED_BY(mu_);
  std::string error_ ABSL_GUARDED_BY(mu_);
};

// Calls functions later, on a thread of its own. Thread-safe. Blocking: Stop() joins.
class SwarmTimer {
 public:
  SwarmTimer();
  ~SwarmTimer() { Stop(); }

  void After(absl::Duration delay, std::function<void()> function);
  // Nothing is called afterwards. Idempotent.
  void Stop();

 private:
  void Run();

  Mutex mu_;
  CondVar changed_;
  std::multimap<absl::Time, std::function<void()>> due_ ABSL_GUARDED_BY(mu_);
  bool stopped_ ABSL_GUARDED_BY(mu_) = false;
  Thread thread_;  // last
};

// Dials when it is made. Pointers are not owned. Thread-safe. Blocking: the destructor, which ends
// the stream; `timer` has to be stopped before.
class SwarmHost {
 public:
  SwarmHost(const SwarmSetup& setup, int first, int agents, SwarmTally* tally, SwarmTimer* timer);
  ~SwarmHost();

  [[nodiscard]] int agents() const { return static_cast<int>(agents_.size()); }

  // Agent number `agent` of this host, from 0, says `message`: now, and what waits with it. Nothing
  // if it is not registered.
  void Send(int agent, const std::string& message);
  // It lives, or says `sample`: with the next message. Return whether FlushWaiting() is to come
  // later: it was called since the last time that it was to.
  bool Beat(int agent);
  bool Sample(int agent, const std::string& sample);
  // Says what waits, unless another message has.
  void FlushWaiting();

 private:
  class Call;
  struct Agent {
    std::string hello;
    uint32_t channel = 0;  // 0: none, until it says hello again
    bool registered = false;
    bool holds_spec = false;  // ever
    bool told_to_stop = false;
  };

  void Dial();
  void Write();
  void SayHello(int agent) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void AddPart(uint32_t channel, const std::string& message) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  [[nodiscard]] absl::Duration NextBackoff() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // For the call.
  void OnMessage(const grpc::ByteBuffer& bytes);
  void OnPart(const v1::HostPart& part);
  void OnPartEnd(const v1::HostPart& part);
  void OnWritten();
  void OnNoMore();
  void OnEnded(const grpc::Status& status);

  const SwarmSetup& setup_;
  SwarmTally* const tally_;
  SwarmTimer* const timer_;
  Mutex mu_;
  CondVar changed_;
  std::vector<Agent> agents_;  // elements guarded by mu_; never resized
  std::map<uint32_t, int> by_channel_ ABSL_GUARDED_BY(mu_);  // of the present call
  uint32_t last_channel_ ABSL_GUARDED_BY(mu_) = 0;
  Call* call_ ABSL_GUARDED_BY(mu_) = nullptr;  // null between calls; it deletes itself
  bool open_ ABSL_GUARDED_BY(mu_) = false;     // the call may be written to
  bool stopping_ ABSL_GUARDED_BY(mu_) = false;
  v1::HostMessage pending_ ABSL_GUARDED_BY(mu_);
  bool urgent_ ABSL_GUARDED_BY(mu_) = false;  // parts are pending that do not wait
  bool writing_ ABSL_GUARDED_BY(mu_) = false;
  bool flush_due_ ABSL_GUARDED_BY(mu_) = false;  // FlushWaiting() is to come
  absl::Duration backoff_ ABSL_GUARDED_BY(mu_);
  std::string first_;  // the last Registered; reactions to reads come one at a time
};

}  // namespace millrace::bench

#endif  // TESTING_BENCH_SWARM_HOST_H_
