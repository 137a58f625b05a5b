// File: testing/simulation/connection.h
//
// One Attach stream without sockets: messages of each direction arrive in order, after a while,
// unless the connection breaks. Its server's end does what AttachReactor does.
//
// Defines: Connection.

#ifndef TESTING_SIMULATION_CONNECTION_H_
#define TESTING_SIMULATION_CONNECTION_H_

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "core/coordinator/stream/attach_stream.h"
#include "core/proto/coordinator.pb.h"
#include "grpcpp/support/byte_buffer.h"
#include "testing/simulation/event_queue.h"
#include "testing/simulation/random.h"
#include "testing/simulation/site.h"

namespace millrace::simulation {

class Connection final : public AttachStream, public std::enable_shared_from_this<Connection> {
 public:
  // Messages that wait for an agent that does not read; beyond, its stream is dropped.
  static constexpr size_t kMaxWaiting = 256;

  struct Client {
    Process* process = nullptr;
    Host* host = nullptr;
    int executor = 0;
    std::function<void(const v1::CoordinatorMessage&)> on_message;
    std::function<void(const absl::Status&)> on_done;  // once, last
  };
  static std::shared_ptr<Connection> Open(Site* site, Client client);
  ~Connection() override;

  // ---- the agent's end ----
  void Send(v1::AgentMessage message);
  void SendHeartbeat();  // unless something else was sent since the last one
  void HalfClose();
  void Cancel();
  void ClientDied();  // its kernel says so
  void ReadNothingFor(absl::Duration duration);

  // ---- the network ----
  void Break();
  void Resume();  // the host is back
  // The host is cut off, or the driver stopped: the agent's keepalive is not answered.
  void WatchPath();
  [[nodiscard]] const Client& client() const { return client_; }

  // ---- AttachStream ----
  void Enqueue(const grpc::ByteBuffer& message) override;
  void Close(const absl::Status& status) override;
  void Flush() override;

 private:
  struct Up {
    enum class Kind { kMessage, kHeartbeat, kHalfClose, kReset };
    Kind kind = Kind::kMessage;
    v1::AgentMessage message;
    absl::Duration at;
  };
  struct Down {
    std::optional<grpc::ByteBuffer> message;
    absl::Status end;
    absl::Duration at;
  };

  Connection(Site* site, Client client);
  // By the driver that it was opened to, which is there.
  [[nodiscard]] bool Served() const { return site_->plane != nullptr && site_->driver == driver_; }
  absl::Duration Arrival(absl::Duration* last);
  void PushUp(Up up);
  void PushDown(Down down);
  void PumpUp();
  void PumpDown();
  void ArriveUp(Up up);
  void ArriveDown(Down down);
  void ClientEnds(const absl::Status& status);

  // As AttachReactor.
  void React(Up up);
  absl::Status Receive(v1::AgentMessage message);
  void OnReadFailed(const absl::Status& status);
  void OnCancel();
  void StreamEnded();

  Site* const site_;
  const Client client_;
  Process* const driver_;
  const uint64_t number_;
  Random random_;
  std::deque<Up> up_;
  std::deque<Down> down_;
  absl::Duration last_up_;
  absl::Duration last_down_;
  bool up_due_ = false;
  bool down_due_ = false;
  bool broken_ = false;  // nothing passes any more
  bool client_ended_ = false;
  bool sent_ = false;
  absl::Duration reads_again_;

  // The server's end.
  uint64_t stream_id_ = 0;
  bool registered_ = false;
  bool busy_ = false;
  std::deque<Up> inbox_;  // what came while it was busy
  std::deque<grpc::ByteBuffer> queue_;
  std::optional<absl::Status> close_;
  bool finished_ = false;
  bool reset_ = false;
  absl::Duration finished_at_;
};

}  // namespace millrace::simulation

#endif  // TESTING_SIMULATION_CONNECTION_H_
