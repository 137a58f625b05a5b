// Many simulated agents in one process, each with its own TLS connection, token and stream: what
// //testing/bench:reservation lets arrive at a coordinator, or at bare_grpc_server, all at once. Their
// streams are raw bytes on both, so that this side costs the same.
//
// Over stdin and stdout (json_child.h): takes {address, ca_pem, token, agents, bare, sample_every}, says
// {ready}; takes anything, arrives, says {first_bytes, second_bytes, sample_every} once each agent holds
// its spec; takes anything, lets the nodes be running. Heartbeats go out each second from the
// registration on; one of each `sample_every` is a sample, as often as the coordinator says.

#include <unistd.h>

#include <atomic>
#include <chrono>  // grpc::ClientContext takes a time_point
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "core/base/deadlock_detector.h"
#include "core/base/log.h"
#include "core/base/mutex.h"
#include "core/base/random.h"
#include "core/base/thread.h"
#include "core/cluster_spec/cluster_spec.h"
#include "core/coordinator/fake_agent.h"
#include "core/proto/coordinator.pb.h"
#include "core/proto/sample.pb.h"
#include "core/proto/spec_proto.h"
#include "core/proto/time_proto.h"
#include "grpcpp/channel.h"
#include "grpcpp/client_context.h"
#include "grpcpp/create_channel.h"
#include "grpcpp/generic/generic_stub.h"
#include "grpcpp/security/credentials.h"
#include "grpcpp/support/byte_buffer.h"
#include "grpcpp/support/channel_arguments.h"
#include "grpcpp/support/client_callback.h"
#include "testing/bench/bench_report.h"
#include "testing/bench/json_child.h"

namespace millrace::bench {
namespace {

constexpr char kMethod[] = "/millrace.v1.Coordinator/Attach";
// On two cores ten thousand handshakes take longer than the 20 s that a channel gives one by default.
constexpr int kConnectTimeoutMs = 300'000;
constexpr size_t kHeartbeatSlices = 100;  // of a second

struct Setup {
  std::string address;
  std::string ca_pem;
  std::string token;
  std::string csr_pem;
  int agents = 0;
  bool bare = false;
  int sample_every = 1;  // of a bare server's agents
};

grpc::ByteBuffer BytesOf(const v1::AgentMessage& message) {
  const grpc::Slice slice(message.SerializeAsString());
  return grpc::ByteBuffer(&slice, 1);
}

std::string TextOf(const grpc::ByteBuffer& bytes) {
  std::vector<grpc::Slice> slices;
  MILLRACE_CHECK(bytes.Dump(&slices).ok());
  std::string text;
  text.reserve(bytes.Length());
  for (const grpc::Slice& slice : slices) {
    text.append(reinterpret_cast<const char*>(slice.begin()), slice.size());
  }
  return text;
}

// What the agents of this process have in common: how many hold the spec, and which bytes it is.
class Tally {
 public:
  explicit Tally(const Setup& setup) : setup_(setup) {}

  void HoldsSpec(const grpc::ByteBuffer& first, const grpc::ByteBuffer& spec) {
    const std::string text = TextOf(spec);
    MutexLock lock(&mu_);
    if (held_++ == 0) {
      Check(text);
      spec_ = text;
      sample_every_ = SampleEvery(TextOf(first));
    }
    if (text != spec_) Fail("agents were given different specs");
    first_bytes_ += first.Length();
    changed_.SignalAll();
  }

  void Ended(const grpc::Status& status) {
    MutexLock lock(&mu_);
    Fail(absl::StrCat("a stream ended: ", status.error_code(), " ", status.error_message()));
    changed_.SignalAll();
  }

  // What arrived once all hold the spec, or the first error.
  Json WaitForAll() {
    MutexLock lock(&mu_);
    while (held_ < setup_.agents && error_.empty()) changed_.Wait(&mu_);
    if (!error_.empty()) return Json{{"error", error_}};
    return Json{{"first_bytes", first_bytes_ / setup_.agents},
                {"second_bytes", spec_.size()},
                {"sample_every", sample_every_}};
  }

  // 0: none yet, for no node runs.
  size_t sample_every() {
    MutexLock lock(&mu_);
    return sample_every_;
  }

 private:
  void Fail(const std::string& error) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    if (error_.empty()) error_ = error;
  }

  // In seconds, which is in heartbeats.
  int SampleEvery(const std::string& registered) const {
    if (setup_.bare) return setup_.sample_every;
    v1::CoordinatorMessage message;
    if (!message.ParseFromString(registered)) return 1;
    return static_cast<int>(message.registered().sample_interval().seconds());
  }

  // A real agent unpacks the spec on its own host; here one of each process does.
  void Check(const std::string& text) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    if (setup_.bare) return;
    v1::CoordinatorMessage message;
    uint64_t epoch = 0;
    ClusterSpec spec;
    if (!message.ParseFromString(text) || !ApplySpecUpdate(message.spec(), &epoch, &spec).ok() ||
        spec.total_tasks() < static_cast<size_t>(setup_.agents)) {
      Fail("what was pushed is not the spec of the whole cluster");
    }
  }

  const Setup& setup_;
  Mutex mu_;
  CondVar changed_;
  int held_ ABSL_GUARDED_BY(mu_) = 0;
  size_t first_bytes_ ABSL_GUARDED_BY(mu_) = 0;
  int sample_every_ ABSL_GUARDED_BY(mu_) = 0;
  std::string spec_ ABSL_GUARDED_BY(mu_);
  std::string error_ ABSL_GUARDED_BY(mu_);
};

// Dials when it is made. Thread-safe. Never destroyed: the process ends first.
class Agent final : private grpc::ClientBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer> {
 public:
  Agent(const Setup& setup, int index, Tally* tally) : tally_(tally) {
    grpc::SslCredentialsOptions tls;
    tls.pem_root_certs = setup.ca_pem;
    grpc::ChannelArguments arguments;
    arguments.SetSslTargetNameOverride("millrace");
    arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
    arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
    arguments.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, kConnectTimeoutMs);
    stub_ = std::make_unique<grpc::GenericStub>(
        grpc::CreateCustomChannel(setup.address, grpc::SslCredentials(tls), arguments));
    context_.AddMetadata("authorization", absl::StrCat("Bearer ", setup.token));
    context_.set_wait_for_ready(true);
    v1::AgentMessage message;
    v1::Register* hello = message.mutable_register_();
    hello->set_protocol(1);
    hello->set_agent_id(RandomHex(16));
    hello->set_host("bench-host");
    hello->set_pid(getpid());
    hello->set_address(absl::StrCat("10.", index / 65536 % 256, ".", index / 256 % 256, ".", index % 256,
                                    ":", 30000 + index % 30000));
    hello->set_csr_pem(setup.csr_pem);
    hello->set_version("bench");
    outgoing_ = BytesOf(message);
    stub_->PrepareBidiStreamingCall(&context_, kMethod, {}, this);
    AddHold();  // for Send() from other threads
    StartRead(&incoming_);
    writing_ = true;
    StartWrite(&outgoing_);
    StartCall();
  }

  // Unless the one before is still on its way, or this agent is not registered.
  void Send(const grpc::ByteBuffer& message) {
    if (!registered_ || writing_.exchange(true)) return;
    outgoing_ = message;
    StartWrite(&outgoing_);
  }

 private:
  void OnWriteDone(bool) override { writing_ = false; }

  void OnReadDone(bool ok) override {
    if (!ok) {
      RemoveHold();
      return;
    }
    if (!registered_) {
      first_ = incoming_;
      registered_ = true;
    } else if (!std::exchange(holds_spec_, true)) {
      tally_->HoldsSpec(first_, incoming_);
      first_.Clear();
    }
    incoming_.Clear();
    StartRead(&incoming_);
  }

  void OnDone(const grpc::Status& status) override { tally_->Ended(status); }

  Tally* const tally_;
  std::unique_ptr<grpc::GenericStub> stub_;
  grpc::ClientContext context_;
  grpc::ByteBuffer incoming_;
  grpc::ByteBuffer outgoing_;  // unchanged while writing_
  std::atomic<bool> writing_{false};
  std::atomic<bool> registered_{false};
  grpc::ByteBuffer first_;   // Registered, until the spec comes; reactions to reads come one at a time
  bool holds_spec_ = false;
};

// What the agent of a fed node says once in a sample interval, in place of a bare heartbeat.
v1::AgentMessage Sample() {
  v1::AgentMessage message;
  v1::NodeSample* sample = message.mutable_sample();
  *sample->mutable_time() = TimeToProto(absl::Now());
  sample->mutable_process()->set_cpu_us(123'456'789);
  sample->mutable_process()->set_rss_bytes(uint64_t{3} << 30);
  sample->mutable_process()->set_threads(40);
  sample->mutable_process()->set_open_files(60);
  sample->set_feed_budget_bytes(256 << 20);
  sample->set_feed_held_bytes(100 << 20);
  sample->set_step(12'345);
  *sample->mutable_step_time() = TimeToProto(absl::Now());
  v1::QueueSample* queue = sample->add_queues();
  queue->set_queue("input");
  queue->set_rows_received(10'000'000);
  queue->set_rows_acked(9'990'000);
  queue->set_bytes_received(uint64_t{40} << 30);
  queue->set_batches_received(40'000);
  queue->set_credit_outstanding_bytes(200 << 20);
  queue->set_queued_rows(10'000);
  queue->set_queued_bytes(100 << 20);
  queue->set_open_sessions(4);
  queue->set_partitions_received(250);
  queue->set_wait_us(5'000'000);
  queue->set_compute_us(600'000'000);
  queue->set_decode_us(20'000'000);
  queue->set_full_us(400'000'000);
  return message;
}

// Each agent once a second, spread over it. `agents` grows while it runs.
class Heart {
 public:
  Heart(const Setup& setup, Tally* tally) {
    agents_.reserve(setup.agents);
    thread_ = Thread("heart", [this, tally] { Beat(*tally); });
  }

  void Add(std::unique_ptr<Agent> agent) {
    MutexLock lock(&mu_);
    agents_.push_back(std::move(agent));
  }

  void SendToAll(const grpc::ByteBuffer& bytes) {
    MutexLock lock(&mu_);
    for (const std::unique_ptr<Agent>& agent : agents_) agent->Send(bytes);
  }

 private:
  void Beat(Tally& tally) {
    const grpc::ByteBuffer sample = BytesOf(Sample());
    const grpc::ByteBuffer heartbeat = BytesOf(v1::AgentMessage());
    absl::Time next = absl::Now();
    for (size_t second = 0;; ++second) {
      for (size_t slice = 0; slice < kHeartbeatSlices; ++slice) {
        next += absl::Seconds(1) / static_cast<int>(kHeartbeatSlices);
        absl::SleepFor(next - absl::Now());
        const size_t every = tally.sample_every();
        MutexLock lock(&mu_);
        for (size_t i = slice; i < agents_.size(); i += kHeartbeatSlices) {
          const bool sampled = every > 0 && (i / kHeartbeatSlices + second) % every == 0;
          agents_[i]->Send(sampled ? sample : heartbeat);
        }
      }
    }
  }

  Mutex mu_;
  std::vector<std::unique_ptr<Agent>> agents_ ABSL_GUARDED_BY(mu_);
  Thread thread_;
};

int Main() {
  StopDeadlockDetector();  // as the coordinator does
  RaiseFileLimit();
  JsonParent parent;
  const std::optional<Json> said = parent.Receive();
  if (!said.has_value()) return 1;
  const Setup setup = {.address = (*said)["address"].get<std::string>(),
                       .ca_pem = (*said)["ca_pem"].get<std::string>(),
                       .token = (*said)["token"].get<std::string>(),
                       .csr_pem = MakeCertificateRequest(),
                       .agents = (*said)["agents"].get<int>(),
                       .bare = (*said)["bare"].get<bool>(),
                       .sample_every = (*said)["sample_every"].get<int>()};
  Tally tally(setup);
  Heart heart(setup, &tally);
  JsonParent::Send(Json{{"ready", true}});
  if (!parent.Receive().has_value()) ::_exit(0);
  for (int i = 0; i < setup.agents; ++i) heart.Add(std::make_unique<Agent>(setup, i, &tally));
  JsonParent::Send(tally.WaitForAll());
  v1::AgentMessage running;
  running.mutable_node()->set_state(v1::NODE_STATE_RUNNING);
  running.mutable_node()->set_pid(4242);
  while (parent.Receive().has_value()) {
    heart.SendToAll(BytesOf(running));
    JsonParent::Send(Json{{"cpu_s", absl::ToDoubleSeconds(SelfCpuTime())}});
  }
  ::_exit(0);  // the connections end with the process
}

}  // namespace
}  // namespace millrace::bench

int main() { return millrace::bench::Main(); }
