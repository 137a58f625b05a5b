// One end of //testing/bench:feed and its relatives: a process that sends the same batch again and
// again, or one that receives. Ours (Feeder, FeedReceiver), bare libzmq with the same parts, or a
// bare unix socket with the same bytes.
//
// Over stdin and stdout (json_child.h). As receiver: takes {role, way, transport, shape,
// batch_bytes, batches}, says where it listens; takes [{principal, curve_key}], or anything; says
// {ready}, and {cpu_s, peak_kb} once everything is here; takes anything and ends. As sender: takes
// the same and the receivers' answers in "to", a list, says {principal, curve_key}; takes anything
// and sends `batches` to each receiver, in turn (bare: to the only one); takes anything, if it is
// not ours, when all is received; says {cpu_s, peak_kb}, and ours {seconds} until the receivers
// held everything.

#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>
#include <zmq.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "core/base/deadlock_detector.h"
#include "core/base/json.h"
#include "core/base/log.h"
#include "core/base/random.h"
#include "core/base/thread.h"
#include "core/base/unique_fd.h"
#include "feed/feeder/feeder.h"
#include "feed/feeder/node_directory.h"
#include "feed/ipc/ipc.h"
#include "feed/receiver/receiver.h"
#include "feed/wire/curve.h"
#include "millrace/batch.h"
#include "millrace/data_feed.h"
#include "millrace/status_macros.h"
#include "testing/bench/bench_report.h"
#include "testing/bench/feed_shapes.h"
#include "testing/bench/json_child.h"

namespace millrace::bench {
namespace {

constexpr char kNonce[] = "5b0c9e1f22d3a4b6";
// What may be under way: the node's default budget, for bare libzmq too.
constexpr int64_t kInFlightBytes = int64_t{256} << 20;

struct Task {
  bool send = false;
  std::string way;        // "ours", "zmq", "unix"
  std::string transport;  // "ipc", "shm" (ours alone), "tcp", "curve"
  const FeedShape* shape = nullptr;
  int64_t batch_bytes = 0;
  int64_t batches = 0;
  Json to;

  int64_t rows() const { return shape->RowsFor(batch_bytes); }
};

absl::StatusOr<Task> ParseTask(const Json& json) {
  Task task;
  MILLRACE_ASSIGN_OR_RETURN(const std::string role, GetString(json, "role"));
  task.send = role == "send";
  MILLRACE_ASSIGN_OR_RETURN(task.way, GetString(json, "way"));
  MILLRACE_ASSIGN_OR_RETURN(task.transport, GetString(json, "transport"));
  MILLRACE_ASSIGN_OR_RETURN(const std::string shape, GetString(json, "shape"));
  task.shape = FindFeedShape(shape);
  if (task.shape == nullptr) return absl::InvalidArgumentError(absl::StrCat("no shape ", shape));
  MILLRACE_ASSIGN_OR_RETURN(task.batch_bytes, GetInt(json, "batch_bytes"));
  MILLRACE_ASSIGN_OR_RETURN(task.batches, GetInt(json, "batches"));
  if (json.contains("to")) task.to = json["to"];
  return task;
}

// What this process has used since the measurement began.
class Usage {
 public:
  Json Take() const {
    rusage usage{};
    getrusage(RUSAGE_SELF, &usage);
    return {{"cpu_s", absl::ToDoubleSeconds(SelfCpuTime() - began_)}, {"peak_kb", usage.ru_maxrss}};
  }

 private:
  const absl::Duration began_ = SelfCpuTime();
};

// ---- ours ---------------------------------------------------------------------------------------

absl::Status ReceiveOurs(const Task& task, JsonParent* parent) {
  MILLRACE_ASSIGN_OR_RETURN(auto receiver, FeedReceiver::Start({.node_name = "worker:0",
                                                                .nonce = kNonce,
                                                                .advertise_host = "127.0.0.1"}));
  const FeedEndpoints& endpoints = receiver->endpoints();
  MILLRACE_ASSIGN_OR_RETURN(auto feed, receiver->GetDataFeed());
  JsonParent::Send({{"tcp", endpoints.tcp},
                    {"ipc", endpoints.ipc},
                    {"key", endpoints.key},
                    {"curve", endpoints.curve},
                    {"curve_key", endpoints.curve_key}});
  const std::optional<Json> feeders = parent->Receive();
  if (!feeders.has_value()) return absl::OkStatus();
  for (const Json& one : *feeders) {
    MILLRACE_RETURN_IF_ERROR(receiver->AnnounceFeeder(one["principal"].get<std::string>(),
                                                      one["curve_key"].get<std::string>()));
  }
  JsonParent::Send({{"ready", true}});
  const Usage usage;
  double sum = 0;
  for (int64_t i = 0; i < task.batches; ++i) {
    MILLRACE_ASSIGN_OR_RETURN(const Batch batch, feed->NextBatch(task.rows()));
    if (batch.num_rows() != task.rows()) return absl::InternalError("a short batch");
    sum += task.shape->Touch(batch);
  }
  Json result = usage.Take();
  result["sum"] = sum;
  JsonParent::Send(result);
  static_cast<void>(parent->Receive());  // the sender has heard that all is received
  return receiver->Finish(absl::OkStatus());
}

FeedTarget TargetOf(const Task& task, const Json& where) {
  FeedTarget target{.node = "worker:0",
                    .nonce = kNonce,
                    .curve_endpoint = where["curve"],
                    .key = where["key"],
                    .curve_key = where["curve_key"]};
  if (task.transport == "ipc" || task.transport == "shm") target.ipc_endpoint = where["ipc"];
  if (task.transport == "tcp") {
    target.tcp_endpoint = where["tcp"];
    target.curve_endpoint.clear();
  }
  return target;
}

absl::Status SendOurs(const Task& task, JsonParent* parent) {
  MILLRACE_ASSIGN_OR_RETURN(auto feeder, Feeder::Start({.curve_only = task.transport == "curve",
                                                        .shared_memory = task.transport == "shm",
                                                        .shared_min_bytes = 1}));
  const RecordBatch batch = task.shape->Make(task.rows());
  JsonParent::Send({{"principal", feeder->principal()}, {"curve_key", feeder->curve_key()}});
  if (!parent->Receive().has_value()) return absl::OkStatus();
  const Usage usage;
  const absl::Time start = absl::Now();
  std::vector<std::shared_ptr<FeedSession>> sessions;
  for (const Json& where : task.to) {
    MILLRACE_ASSIGN_OR_RETURN(auto session,
                              feeder->OpenSession(TargetOf(task, where), {.feed_id = "bench"}));
    sessions.push_back(std::move(session));
  }
  for (int64_t i = 0; i < task.batches; ++i) {
    for (const auto& session : sessions) MILLRACE_RETURN_IF_ERROR(session->Send(batch));
  }
  for (const auto& session : sessions) {
    MILLRACE_RETURN_IF_ERROR(session->Finish(task.batches * task.rows()));
  }
  for (const auto& session : sessions) MILLRACE_RETURN_IF_ERROR(session->WaitReceived());
  Json result = usage.Take();
  result["seconds"] = absl::ToDoubleSeconds(absl::Now() - start);
  JsonParent::Send(result);
  static_cast<void>(parent->Receive());  // what the nodes still read is not to be lost with this
  return absl::OkStatus();
}

// ---- bare libzmq --------------------------------------------------------------------------------

// A context and one socket.
class BareZmq {
 public:
  explicit BareZmq(int type) : context_(zmq_ctx_new()), socket_(zmq_socket(context_, type)) {}
  ~BareZmq() {
    zmq_close(socket_);
    zmq_ctx_term(context_);
  }
  BareZmq(const BareZmq&) = delete;
  BareZmq& operator=(const BareZmq&) = delete;

  void Set(int option, int value) {
    MILLRACE_CHECK(zmq_setsockopt(socket_, option, &value, sizeof(value)) == 0);
  }
  void Set(int option, const std::string& value) {
    MILLRACE_CHECK(zmq_setsockopt(socket_, option, value.data(), value.size()) == 0);
  }
  void* context() { return context_; }
  void* socket() { return socket_; }

 private:
  void* const context_;
  void* const socket_;
};

// Admits everybody, as a handler of ZAP does that finds the key right: the reference pays for the
// handshake as ours does. Ends with its context.
Thread ServeZap(void* context) {
  void* const socket = zmq_socket(context, ZMQ_REP);
  MILLRACE_CHECK(zmq_bind(socket, "inproc://zeromq.zap.01") == 0);
  return Thread("zap", [socket] {
    char request_id[256];
    char other[256];
    while (true) {
      int part = 0;
      int id_size = 0;
      int more = 1;
      while (more != 0) {
        const int size = zmq_recv(socket, part == 1 ? request_id : other, sizeof(other), 0);
        if (size < 0) {
          zmq_close(socket);
          return;
        }
        if (part == 1) id_size = size;
        size_t option_size = sizeof(more);
        zmq_getsockopt(socket, ZMQ_RCVMORE, &more, &option_size);
        ++part;
      }
      zmq_send(socket, "1.0", 3, ZMQ_SNDMORE);
      zmq_send(socket, request_id, static_cast<size_t>(id_size), ZMQ_SNDMORE);
      zmq_send(socket, "200", 3, ZMQ_SNDMORE);
      zmq_send(socket, "OK", 2, ZMQ_SNDMORE);
      zmq_send(socket, "feeder/bench", 12, ZMQ_SNDMORE);
      zmq_send(socket, "", 0, 0);
    }
  });
}

int HighWaterMark(const Task& task) {
  return static_cast<int>(std::clamp<int64_t>(kInFlightBytes / task.batch_bytes, 2, 1000));
}

absl::Status ReceiveZmq(const Task& task, JsonParent* parent) {
  Thread zap;  // ends when the context, made after it, goes
  BareZmq zmq(ZMQ_PULL);
  zap = ServeZap(zmq.context());
  zmq.Set(ZMQ_RCVHWM, HighWaterMark(task));
  zmq.Set(ZMQ_ZAP_DOMAIN, std::string("millrace"));
  Json where = Json::object();
  if (task.transport == "curve") {
    MILLRACE_ASSIGN_OR_RETURN(const CurveKeys keys, MakeCurveKeys());
    zmq.Set(ZMQ_CURVE_SERVER, 1);
    zmq.Set(ZMQ_CURVE_SECRETKEY, keys.secret_key);
    where["curve_key"] = keys.public_key;
  } else {
    zmq.Set(ZMQ_PLAIN_SERVER, 1);
  }
  const std::string endpoint = task.transport == "ipc"
                                   ? absl::StrCat("ipc://@millrace-bench-", RandomHex(8))
                                   : "tcp://127.0.0.1:*";
  char bound[256];
  size_t size = sizeof(bound);
  if (zmq_bind(zmq.socket(), endpoint.c_str()) != 0 ||
      zmq_getsockopt(zmq.socket(), ZMQ_LAST_ENDPOINT, bound, &size) != 0) {
    return absl::UnavailableError(absl::StrCat("cannot bind ", endpoint));
  }
  where["endpoint"] = bound;
  JsonParent::Send(where);
  if (!parent->Receive().has_value()) return absl::OkStatus();
  JsonParent::Send({{"ready", true}});
  const Usage usage;
  uint64_t sum = 0;
  for (int64_t i = 0; i < task.batches; ++i) {
    bool more = true;
    while (more) {
      zmq_msg_t part;
      zmq_msg_init(&part);
      if (zmq_msg_recv(&part, zmq.socket(), 0) < 0) return absl::InternalError("cannot receive");
      if (zmq_msg_size(&part) > 0) sum += *static_cast<const uint8_t*>(zmq_msg_data(&part));
      more = zmq_msg_more(&part) != 0;
      zmq_msg_close(&part);
    }
  }
  Json result = usage.Take();
  result["sum"] = sum;
  JsonParent::Send(result);
  static_cast<void>(parent->Receive());
  return absl::OkStatus();
}

void KeepBuffer(void* /*data*/, void* /*hint*/) {}

absl::Status SendZmq(const Task& task, JsonParent* parent) {
  BareZmq zmq(ZMQ_PUSH);
  zmq.Set(ZMQ_SNDHWM, HighWaterMark(task));
  if (task.transport == "curve") {
    MILLRACE_ASSIGN_OR_RETURN(const CurveKeys keys, MakeCurveKeys());
    zmq.Set(ZMQ_CURVE_SERVERKEY, task.to[0]["curve_key"].get<std::string>());
    zmq.Set(ZMQ_CURVE_PUBLICKEY, keys.public_key);
    zmq.Set(ZMQ_CURVE_SECRETKEY, keys.secret_key);
  } else {
    zmq.Set(ZMQ_PLAIN_USERNAME, std::string("feeder/bench"));
    zmq.Set(ZMQ_PLAIN_PASSWORD, RandomHex(16));
  }
  if (zmq_connect(zmq.socket(), task.to[0]["endpoint"].get<std::string>().c_str()) != 0) {
    return absl::UnavailableError("cannot connect");
  }
  const RecordBatch batch = task.shape->Make(task.rows());
  MILLRACE_ASSIGN_OR_RETURN(const EncodedBatch encoded, EncodeBatch(batch));
  // The parts of a BATCH: header, metadata with its prefix, body.
  const std::string header(32, 'h');
  const std::string metadata = std::string(16, 'p') + encoded.metadata;
  JsonParent::Send(Json::object());
  if (!parent->Receive().has_value()) return absl::OkStatus();
  const Usage usage;
  for (int64_t i = 0; i < task.batches; ++i) {
    zmq_send(zmq.socket(), header.data(), header.size(), ZMQ_SNDMORE);
    zmq_send(zmq.socket(), metadata.data(), metadata.size(),
             encoded.parts.empty() ? 0 : ZMQ_SNDMORE);
    for (size_t p = 0; p < encoded.parts.size(); ++p) {
      zmq_msg_t part;
      zmq_msg_init_data(&part, const_cast<uint8_t*>(encoded.parts[p].data), encoded.parts[p].size,
                        &KeepBuffer, nullptr);
      const int flags = p + 1 < encoded.parts.size() ? ZMQ_SNDMORE : 0;
      if (zmq_msg_send(&part, zmq.socket(), flags) < 0) return absl::InternalError("cannot send");
    }
  }
  static_cast<void>(parent->Receive());  // everything is received
  JsonParent::Send(usage.Take());
  return absl::OkStatus();
}

// ---- a bare unix socket -------------------------------------------------------------------------

socklen_t AbstractAddress(const std::string& name, sockaddr_un* address) {
  *address = {.sun_family = AF_UNIX};
  std::memcpy(address->sun_path + 1, name.data(), name.size());
  return static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
}

absl::Status ReceiveUnix(const Task& task, JsonParent* parent) {
  const std::string name = absl::StrCat("millrace-bench-", RandomHex(8));
  sockaddr_un address;
  const socklen_t size = AbstractAddress(name, &address);
  const UniqueFd listener(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (bind(listener.get(), reinterpret_cast<sockaddr*>(&address), size) != 0 ||
      listen(listener.get(), 1) != 0) {
    return absl::ErrnoToStatus(errno, "cannot listen");
  }
  JsonParent::Send({{"endpoint", name}});
  if (!parent->Receive().has_value()) return absl::OkStatus();
  const UniqueFd fd(accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
  JsonParent::Send({{"ready", true}});
  const Usage usage;
  std::vector<char> buffer(static_cast<size_t>(task.batch_bytes));
  int64_t left = task.batches * task.batch_bytes;
  while (left > 0) {
    const ssize_t got = read(fd.get(), buffer.data(), buffer.size());
    if (got <= 0) return absl::ErrnoToStatus(errno, "cannot read");
    left -= got;
  }
  JsonParent::Send(usage.Take());
  static_cast<void>(parent->Receive());
  return absl::OkStatus();
}

absl::Status SendUnix(const Task& task, JsonParent* parent) {
  sockaddr_un address;
  const socklen_t size = AbstractAddress(task.to[0]["endpoint"].get<std::string>(), &address);
  const UniqueFd fd(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (connect(fd.get(), reinterpret_cast<sockaddr*>(&address), size) != 0) {
    return absl::ErrnoToStatus(errno, "cannot connect");
  }
  const std::vector<char> bytes(static_cast<size_t>(task.batch_bytes), 'u');
  JsonParent::Send(Json::object());
  if (!parent->Receive().has_value()) return absl::OkStatus();
  const Usage usage;
  for (int64_t i = 0; i < task.batches; ++i) {
    for (size_t sent = 0; sent < bytes.size();) {
      const ssize_t wrote = write(fd.get(), bytes.data() + sent, bytes.size() - sent);
      if (wrote <= 0) return absl::ErrnoToStatus(errno, "cannot write");
      sent += static_cast<size_t>(wrote);
    }
  }
  static_cast<void>(parent->Receive());
  JsonParent::Send(usage.Take());
  return absl::OkStatus();
}

absl::Status Run() {
  JsonParent parent;
  const std::optional<Json> json = parent.Receive();
  if (!json.has_value()) return absl::OkStatus();
  MILLRACE_ASSIGN_OR_RETURN(const Task task, ParseTask(*json));
  if (task.way == "ours") return task.send ? SendOurs(task, &parent) : ReceiveOurs(task, &parent);
  if (task.way == "zmq") return task.send ? SendZmq(task, &parent) : ReceiveZmq(task, &parent);
  if (task.way == "unix") return task.send ? SendUnix(task, &parent) : ReceiveUnix(task, &parent);
  return absl::InvalidArgumentError(absl::StrCat("no way ", task.way));
}

}  // namespace
}  // namespace millrace::bench

int main() {
  millrace::StopDeadlockDetector();  // as RunNode and the coordinator do
  return millrace::bench::JsonParent::ExitCode(millrace::bench::Run());
}
