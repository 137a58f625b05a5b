#include "testing/simulation/connection.h"

#include <algorithm>
#include <utility>

#include "absl/status/statusor.h"
#include "testing/simulation/wire_message.h"

namespace millrace::simulation {
namespace {

constexpr size_t kWindow = 8;  // messages on their way to the agent
// How long a server that has ended a stream may still read what came before.
constexpr absl::Duration kLateReads = absl::Milliseconds(20);
// Of the agent's channel: core/client/client_channel.cc.
constexpr absl::Duration kKeepalive = absl::Seconds(6);
constexpr absl::Duration kKeepaliveTimeout = absl::Seconds(5);

}  // namespace

std::shared_ptr<Connection> Connection::Open(Site* site, Client client) {
  std::shared_ptr<Connection> connection(new Connection(site, std::move(client)));
  site->connections[connection->number_] = connection.get();
  return connection;
}

Connection::Connection(Site* site, Client client)
    : site_(site),
      client_(std::move(client)),
      driver_(site->driver),
      number_(site->next_connection++),
      random_(site->plan.seed,
              {3, static_cast<uint64_t>(client_.executor),
               static_cast<uint64_t>(absl::ToInt64Milliseconds(site->queue.now()))}) {}

Connection::~Connection() { site_->connections.erase(number_); }

// ---- lanes --------------------------------------------------------------------------------------

absl::Duration Connection::Arrival(absl::Duration* last) {
  const absl::Duration latency = random_.Between(absl::Microseconds(50), site_->plan.latency);
  *last = std::max(*last, site_->queue.now() + latency);
  return *last;
}

void Connection::PushUp(Up up) {
  up.at = Arrival(&last_up_);
  up_.push_back(std::move(up));
  PumpUp();
}

void Connection::PumpUp() {
  if (up_due_ || up_.empty() || !client_.host->reachable()) return;
  up_due_ = true;
  site_->queue.After(up_.front().at - site_->queue.now(), driver_,
                     [this, self = shared_from_this()] {
                       up_due_ = false;
                       if (up_.empty() || !client_.host->reachable()) return;
                       Up up = std::move(up_.front());
                       up_.pop_front();
                       PumpUp();
                       ArriveUp(std::move(up));
                     });
}

void Connection::PushDown(Down down) {
  if (broken_) return;
  down.at = Arrival(&last_down_);
  down_.push_back(std::move(down));
  PumpDown();
}

void Connection::PumpDown() {
  if (down_due_ || down_.empty() || !client_.host->reachable()) return;
  down_due_ = true;
  const absl::Duration at = std::max(down_.front().at, reads_again_);
  site_->queue.After(at - site_->queue.now(), client_.process, [this, self = shared_from_this()] {
    down_due_ = false;
    if (down_.empty() || !client_.host->reachable()) return;
    if (site_->queue.now() < reads_again_) {
      PumpDown();
      return;
    }
    Down down = std::move(down_.front());
    down_.pop_front();
    PumpDown();
    ArriveDown(std::move(down));
    Flush();
  });
}

// ---- the agent's end ----------------------------------------------------------------------------

void Connection::Send(v1::AgentMessage message) {
  if (client_ended_) return;
  sent_ = true;
  PushUp({Up::Kind::kMessage, std::move(message), {}});
}

void Connection::SendHeartbeat() {
  if (client_ended_ || std::exchange(sent_, false)) return;
  PushUp({Up::Kind::kHeartbeat, {}, {}});
}

void Connection::HalfClose() {
  if (!client_ended_) PushUp({Up::Kind::kHalfClose, {}, {}});
}

void Connection::Cancel() {
  if (client_ended_) return;
  ClientDied();
  ClientEnds(absl::CancelledError("cancelled"));
}

void Connection::ClientDied() {
  if (random_.OneIn(2)) up_.clear();  // a reset overtakes what was written before
  PushUp({Up::Kind::kReset, {}, {}});
}

void Connection::ReadNothingFor(absl::Duration duration) {
  reads_again_ = std::max(reads_again_, site_->queue.now() + duration);
}

void Connection::ClientEnds(const absl::Status& status) {
  if (std::exchange(client_ended_, true)) return;
  site_->queue.After(absl::ZeroDuration(), client_.process,
                     [self = shared_from_this(), status] { self->client_.on_done(status); });
}

void Connection::ArriveDown(Down down) {
  if (client_ended_) return;
  if (!down.message.has_value()) {
    ClientEnds(down.end);
    return;
  }
  client_.on_message(ParseMessage<v1::CoordinatorMessage>(*down.message));
}

// ---- the network --------------------------------------------------------------------------------

void Connection::Break() {
  broken_ = true;
  up_.clear();
  down_.clear();
  PushUp({Up::Kind::kReset, {}, {}});
  // An end is noticed without a read.
  site_->queue.After(random_.Between(absl::Microseconds(50), site_->plan.latency), client_.process,
                     [self = shared_from_this()] {
                       self->ClientEnds(absl::UnavailableError("the connection broke"));
                     });
}

void Connection::Resume() {
  if (!driver_->alive()) {
    Break();
    return;
  }
  PumpUp();
  PumpDown();
}

void Connection::WatchPath() {
  if (client_ended_) return;
  const absl::Duration after = random_.Between(kKeepaliveTimeout, kKeepalive + kKeepaliveTimeout);
  const int cuts = client_.host->cut_count;
  const int stops = site_->driver_stops;
  site_->queue.After(after, client_.process, [this, self = shared_from_this(), cuts, stops] {
    if (client_ended_ || cuts != client_.host->cut_count || stops != site_->driver_stops) return;
    if (client_.host->reachable() && !driver_->stopped()) return;
    PushUp({Up::Kind::kReset, {}, {}});
    ClientEnds(absl::UnavailableError("keepalive watchdog timeout"));
  });
}

// ---- the server's end ---------------------------------------------------------------------------

void Connection::Enqueue(const grpc::ByteBuffer& message) {
  if (close_.has_value() || !driver_->alive()) return;
  if (queue_.size() >= kMaxWaiting) {
    queue_.clear();
    close_ = absl::ResourceExhaustedError("the agent does not read what it is sent");
    reset_ = true;
    return;
  }
  queue_.push_back(message);
}

void Connection::Close(const absl::Status& status) {
  if (close_.has_value() || !driver_->alive()) return;
  close_ = status;
  if (!status.ok()) queue_.clear();
}

void Connection::Flush() {
  if (finished_ || !driver_->alive()) return;
  if (reset_) down_.clear();
  while (!queue_.empty() && down_.size() < kWindow) {
    PushDown({std::move(queue_.front()), absl::OkStatus(), {}});
    queue_.pop_front();
  }
  if (!queue_.empty() || !close_.has_value()) return;
  finished_ = true;
  finished_at_ = site_->queue.now();
  PushDown({std::nullopt, reset_ ? absl::CancelledError("reset") : *close_, {}});
  // OnDone.
  site_->queue.After(absl::Milliseconds(1), driver_,
                     [self = shared_from_this()] { self->StreamEnded(); });
}

void Connection::StreamEnded() {
  if (stream_id_ == 0 || !Served()) return;
  site_->plane->agents().StreamEnded(stream_id_);
  site_->AfterPlane();
}

void Connection::OnReadFailed(const absl::Status& status) {
  Close(status);
  StreamEnded();
  Flush();
}

void Connection::OnCancel() {
  if (!close_.has_value()) close_ = absl::CancelledError("the call was cancelled");
  queue_.clear();
  StreamEnded();
  Flush();
}

void Connection::ArriveUp(Up up) {
  if (!Served()) return;
  if (up.kind == Up::Kind::kReset) {  // runs beside a read
    site_->Tell("connection ", number_, ": reset");
    OnCancel();
    return;
  }
  if (busy_) {
    inbox_.push_back(std::move(up));
    return;
  }
  busy_ = true;
  React(std::move(up));
  while (!inbox_.empty()) {
    Up next = std::move(inbox_.front());
    inbox_.pop_front();
    React(std::move(next));
  }
  busy_ = false;
}

void Connection::React(Up up) {
  if (!Served()) return;
  if (finished_ && site_->queue.now() - finished_at_ > kLateReads) return;
  if (up.kind == Up::Kind::kHalfClose) {
    OnReadFailed(absl::OkStatus());
    return;
  }
  if (up.kind == Up::Kind::kHeartbeat) site_->trace.Count(number_);
  const absl::Status status = Receive(std::move(up.message));
  if (!status.ok()) {
    site_->Tell("connection ", number_, ": ", status.ToString());
    OnReadFailed(status);
  }
}

absl::Status Connection::Receive(v1::AgentMessage message) {
  AgentControl& agents = site_->plane->agents();
  if (registered_) {
    const Checks::Fence fence =
        site_->checks.BeforeMessage(client_.executor, number_, message, *site_->plane);
    absl::Status status = agents.Handle(stream_id_, std::move(message));
    site_->checks.AfterMessage(fence, *site_->plane);
    site_->AfterPlane();
    return status;
  }
  if (!message.has_register_()) {
    return absl::InvalidArgumentError("the first message of a stream must be Register");
  }
  const v1::Register& hello = message.register_();
  site_->Tell("connection ", number_, ": agent ", hello.pid(), " registers for ",
              hello.executor_id());
  absl::StatusOr<uint64_t> id = agents.Register(shared_from_this(), hello);
  if (id.ok()) {
    registered_ = true;
    stream_id_ = *id;
    site_->checks.OnStream(client_.executor, number_, hello.pid(), *site_->plane);
  }
  site_->AfterPlane();
  if (!id.ok()) return id.status();
  if (close_.has_value()) StreamEnded();
  return absl::OkStatus();
}

}  // namespace millrace::simulation
