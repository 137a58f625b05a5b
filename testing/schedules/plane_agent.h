// File: testing/schedules/plane_agent.h
//
// An agent with its node for the coordinator's real threads: one thread each, without processes and
// sockets, as docs/control_protocol.md has them. Test only.
//
// Defines: AgentInbox, AgentLine, PlaneAgent.

#ifndef TESTING_SCHEDULES_PLANE_AGENT_H_
#define TESTING_SCHEDULES_PLANE_AGENT_H_

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "core/base/mutex.h"
#include "core/coordinator/server/agent_control.h"
#include "core/coordinator/stream/attach_stream.h"
#include "core/process/exit_status.h"
#include "core/proto/coordinator.pb.h"
#include "grpcpp/support/byte_buffer.h"
#include "millrace/cluster_spec.h"

namespace millrace {

// A counter to which nodes add.
inline constexpr char kPlaneCounter[] = "counter";

struct AgentEvent {
  enum class Kind { kMessage, kStreamEnd, kKillNode, kKillAgent };
  Kind kind = Kind::kMessage;
  uint64_t stream = 0;  // of the first two
  v1::CoordinatorMessage message;
  absl::Status status;  // of the stream's end
};

// What an agent hears. Thread safety: thread-safe.
class AgentInbox {
 public:
  void Put(AgentEvent event);
  // Blocks until `until`, steady.
  [[nodiscard]] std::optional<AgentEvent> Take(absl::Duration until);

 private:
  Mutex mu_;
  CondVar arrived_;
  std::deque<AgentEvent> events_ ABSL_GUARDED_BY(mu_);
};

// One Attach stream. As AttachReactor: what is queued waits for Flush(). Thread safety:
// thread-safe.
class AgentLine final : public AttachStream {
 public:
  AgentLine(std::shared_ptr<AgentInbox> inbox, uint64_t number)
      : inbox_(std::move(inbox)), number_(number) {}

  void Enqueue(const grpc::ByteBuffer& message) override;
  void Close(const absl::Status& status) override;
  void Flush() override;

  // The coordinator has it under this id. Returns whether it has ended meanwhile.
  [[nodiscard]] bool SetId(uint64_t id);
  // The connection is lost: both ends hear of it, the coordinator on this thread.
  void Break(AgentControl* agents);

 private:
  const std::shared_ptr<AgentInbox> inbox_;
  const uint64_t number_;
  Mutex mu_;
  uint64_t id_ ABSL_GUARDED_BY(mu_) = 0;
  std::deque<grpc::ByteBuffer> queue_ ABSL_GUARDED_BY(mu_);
  std::optional<absl::Status> close_ ABSL_GUARDED_BY(mu_);
  bool finished_ ABSL_GUARDED_BY(mu_) = false;
};

struct PlaneAgentOptions {
  int executor = 0;
  int64_t pid = 0;
  absl::Duration
      program;  // how long the node runs by itself; InfiniteDuration(): until it is asked
  bool fed = false;
  int64_t output_bytes = 0;  // that each attempt writes
  int nodes = 1;             // of the cluster, which meet at barriers
};

// Thread safety: Run() is for one thread, once; the accessors below it for after that; the others
// are thread-safe.
class PlaneAgent {
 public:
  PlaneAgent(const PlaneAgentOptions& options, AgentControl* agents);

  void KillNode() { inbox_->Put({.kind = AgentEvent::Kind::kKillNode}); }
  void Kill() { inbox_->Put({.kind = AgentEvent::Kind::kKillAgent}); }
  void BreakConnection();

  // Until the process has ended.
  void Run();

  [[nodiscard]] const ExitStatus& exit() const { return *exit_; }
  // Rules of the protocol that the coordinator did not keep.
  [[nodiscard]] const std::vector<std::string>& broken() const { return broken_; }
  [[nodiscard]] int64_t adds_sent() const { return adds_sent_; }
  [[nodiscard]] int64_t adds_answered() const { return adds_answered_; }
  [[nodiscard]] uint64_t epoch() const { return epoch_; }

 private:
  struct Request {
    v1::AgentMessage message;
    absl::Duration due;
  };
  struct Output {
    int64_t written = 0;
    int64_t sent = 0;
    int64_t credited = 0;
    bool over = false;
    bool end_sent = false;
  };
  enum class State { kConnecting, kRegistered, kRunning, kDraining, kRestarting, kEnded };

  [[nodiscard]] absl::Duration NextDue() const;
  void OnTime();
  void Attach();
  void OnStreamEnd(const absl::Status& status);
  void OnMessage(const v1::CoordinatorMessage& message);
  void OnRegistered(const v1::Registered& message);
  void OnSpec(const v1::SpecUpdate& update);
  void OnStop(const v1::Stop& stop);
  void Launch();
  void Act();
  void EndNode(const ExitStatus& exit);
  void Conclude(v1::NodeUpdate update, int code);
  void FinishLink();
  void Fail();
  void Quit(const ExitStatus& exit);
  void Broken(const std::string& rule) { broken_.push_back(rule); }

  [[nodiscard]] v1::NodeUpdate MakeUpdate(v1::NodeState state) const;
  void SendUpdate(v1::NodeUpdate update);
  void SendOutput();
  void Ask(v1::AgentMessage message, uint64_t id, absl::Duration timeout);
  void Send(v1::AgentMessage message);

  const PlaneAgentOptions options_;
  AgentControl* const agents_;
  const std::shared_ptr<AgentInbox> inbox_ = std::make_shared<AgentInbox>();

  Mutex line_mu_;
  std::shared_ptr<AgentLine> line_ ABSL_GUARDED_BY(line_mu_);

  // Of the thread.
  std::shared_ptr<AgentLine> own_line_;
  uint64_t line_number_ = 0;
  uint64_t stream_id_ = 0;
  bool ready_ = false;  // Registered has come over the present stream
  bool finishing_ = false;
  absl::Duration retry_at_ = absl::InfiniteDuration();
  absl::Duration give_up_at_ = absl::InfiniteDuration();
  absl::Duration lease_ = absl::Seconds(10);
  bool registered_ = false;  // ever
  State state_ = State::kConnecting;
  uint32_t attempt_ = 0;
  bool restarts_ = false;
  bool stop_asked_ = false;
  bool restart_asked_ = false;
  uint64_t epoch_ = 0;
  ClusterSpec spec_;
  bool launched_ = false;
  bool alive_ = false;  // its node
  absl::Duration ends_at_ = absl::InfiniteDuration();
  absl::Duration acts_at_ = absl::InfiniteDuration();
  int code_ = 0;  // with which it ends
  std::optional<v1::NodeUpdate> reported_;
  std::map<uint64_t, Request> requests_;
  uint64_t next_request_ = 1;
  bool at_barrier_ = false;
  std::map<uint32_t, Output> outputs_;  // by attempt
  int64_t adds_sent_ = 0;
  int64_t adds_answered_ = 0;
  std::vector<std::string> broken_;
  std::optional<ExitStatus> exit_;
};

}  // namespace millrace

#endif  // TESTING_SCHEDULES_PLANE_AGENT_H_
