// Many simulated agents in one process, each with its own TLS connection, token and stream: what
// //testing/bench:reservation lets arrive at a coordinator, or at bare_grpc_server, all at once.
// Their streams are raw bytes on both, so that this side costs the same.
//
// Over stdin and stdout (json_child.h): takes {address, ca_pem, identity_pem, token, agents, bare,
// sample_every}, says {ready}; takes anything, arrives, says {first_bytes, second_bytes,
// sample_every} once each agent holds its spec; takes {run}, lets the nodes be running, and says
// {cpu_s, samples}, those that it has sent, as to any line. Heartbeats go out each second from the
// registration on; one of each `sample_every` is a sample, as often as the coordinator says.
//
// {slots_per_host}: so many agents share a stream (AttachHost), as those of one host do by their
// relay; of their heartbeats those of half a second are in one message, and ride on samples.
//
// {first, gpus, everything, lines, sample_every} make agents for //testing/bench:dashboard: number
// `first` and on, each the only one of its host, which has so many GPUs; one of each `lines` agents
// writes a line each second, the first kMetricNodes tell their loss, and samples come every
// `sample_every` seconds, whatever the coordinator says, or with 0 as it says. Those that speak at
// the same time share a connection: what is measured there is the way from the coordinator to its
// viewer, not the ten thousand sockets at its other end.

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>  // grpc::ClientContext takes a time_point
#include <deque>
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
#include "millrace/cluster_spec.h"
#include "testing/bench/bench_report.h"
#include "testing/bench/json_child.h"

namespace millrace::bench {
namespace {

constexpr char kMethod[] = "/millrace.v1.Coordinator/Attach";
constexpr char kHostMethod[] = "/millrace.v1.Coordinator/AttachHost";
// On two cores ten thousand handshakes take longer than the 20 s that a channel gives one by
// default.
constexpr int kConnectTimeoutMs = 300'000;
constexpr size_t kHeartbeatSlices = 100;  // of a second
constexpr size_t kMetricNodes = 64;
constexpr absl::Duration kLate = absl::Milliseconds(200);

struct Setup {
  std::string address;
  std::string ca_pem;
  std::string identity_pem;  // empty: the server asks for no client certificate
  std::string token;
  std::string public_key;
  int agents = 0;
  bool bare = false;
  int sample_every = 1;  // of a bare server's agents
  int slots_per_host = 1;
  // For the dashboard.
  int first = 0;  // number of the first agent
  int gpus = -1;  // of each agent's host; -1: nothing but feed counters
  int lines = 0;
  bool everything = false;  // that a GPU tells
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

  // `first` is the first message of one of `agents`, all of which got `spec` together.
  void HoldSpec(int agents, const std::string& first, const std::string& spec) {
    MutexLock lock(&mu_);
    if (held_ == 0) {
      Check(spec);
      spec_ = spec;
      sample_every_ = SampleEvery(first);
    }
    held_ += agents;
    if (spec != spec_) Fail("agents were given different specs");
    first_bytes_ += first.size() * static_cast<size_t>(agents);
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
    if (setup_.bare || (setup_.gpus >= 0 && setup_.sample_every > 0)) return setup_.sample_every;
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

std::shared_ptr<grpc::Channel> Dial(const Setup& setup) {
  grpc::SslCredentialsOptions tls;
  tls.pem_root_certs = setup.ca_pem;
  tls.pem_private_key = setup.identity_pem;
  tls.pem_cert_chain = setup.identity_pem;
  grpc::ChannelArguments arguments;
  arguments.SetSslTargetNameOverride("millrace");
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  arguments.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, kConnectTimeoutMs);
  return grpc::CreateCustomChannel(setup.address, grpc::SslCredentials(tls), arguments);
}

v1::AgentMessage HelloOf(const Setup& setup, int index) {
  v1::AgentMessage message;
  v1::Register* hello = message.mutable_register_();
  hello->set_protocol(2);
  hello->set_agent_id(RandomHex(16));
  if (setup.gpus >= 0) {
    hello->set_host(absl::StrCat("h", index));
  } else if (setup.slots_per_host > 1) {
    hello->set_host(absl::StrCat("bench-host-", index / setup.slots_per_host));
  } else {
    hello->set_host("bench-host");
  }
  hello->set_pid(getpid());
  hello->set_address(absl::StrCat("10.", index / 65536 % 256, ".", index / 256 % 256, ".",
                                  index % 256, ":", 30000 + index % 30000));
  hello->set_public_key(setup.public_key);
  hello->set_version("bench");
  return message;
}

// Dials when it is made. Thread-safe. Never destroyed: the process ends first.
class Agent final : private grpc::ClientBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer> {
 public:
  Agent(const Setup& setup, int index, std::shared_ptr<grpc::Channel> channel, Tally* tally)
      : tally_(tally), stub_(std::make_unique<grpc::GenericStub>(std::move(channel))) {
    context_.AddMetadata("authorization", absl::StrCat("Bearer ", setup.token));
    context_.set_wait_for_ready(true);
    outgoing_ = BytesOf(HelloOf(setup, index));
    stub_->PrepareBidiStreamingCall(&context_, kMethod, {}, this);
    AddHold();  // for Send() from other threads
    StartRead(&incoming_);
    writing_ = true;
    StartWrite(&outgoing_);
    StartCall();
  }

  // Unless the one before is still on its way, or this agent is not registered. Returns whether it
  // is sent.
  bool Send(const grpc::ByteBuffer& message) {
    if (!registered_ || writing_.exchange(true)) return false;
    outgoing_ = message;
    StartWrite(&outgoing_);
    return true;
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
      tally_->HoldSpec(1, TextOf(first_), TextOf(incoming_));
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
  grpc::ByteBuffer
      first_;  // Registered, until the spec comes; reactions to reads come one at a time
  bool holds_spec_ = false;
};

// The agents of one host on one stream. As Agent.
class Host final : private grpc::ClientBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer> {
 public:
  Host(const Setup& setup, int first, int agents, std::shared_ptr<grpc::Channel> channel,
       Tally* tally)
      : agents_(agents),
        tally_(tally),
        stub_(std::make_unique<grpc::GenericStub>(std::move(channel))) {
    context_.AddMetadata("authorization", absl::StrCat("Bearer ", setup.token));
    context_.set_wait_for_ready(true);
    stub_->PrepareBidiStreamingCall(&context_, kHostMethod, {}, this);
    AddHold();  // for writes from other threads
    StartRead(&incoming_);
    {
      MutexLock lock(&mu_);
      for (int i = 0; i < agents; ++i) {
        AddPart(static_cast<uint32_t>(i + 1), HelloOf(setup, first + i).SerializeAsString());
      }
    }
    Write();
    StartCall();
  }

  [[nodiscard]] int agents() const { return agents_; }

  // Agent number `agent` of this host, from 0, says `message`: now, and what waits with it.
  void Send(int agent, const std::string& message) {
    {
      MutexLock lock(&mu_);
      if (registered_ < agents_) return;
      AddPart(static_cast<uint32_t>(agent + 1), message);
    }
    Write();
  }

  // It lives: to be said with the next message. Returns whether none waited before.
  bool Beat(int agent) {
    MutexLock lock(&mu_);
    if (registered_ < agents_) return false;
    pending_.add_alive(static_cast<uint32_t>(agent + 1));
    return pending_.alive_size() == 1;
  }

  // Says what waits.
  void Write() {
    {
      MutexLock lock(&mu_);
      if (writing_ || (pending_.alive().empty() && pending_.parts().empty())) return;
      const grpc::Slice slice(pending_.SerializeAsString());
      outgoing_ = grpc::ByteBuffer(&slice, 1);
      pending_.Clear();
      urgent_ = false;
      writing_ = true;
    }
    StartWrite(&outgoing_);
  }

 private:
  void AddPart(uint32_t channel, const std::string& message) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    v1::HostPart* part = pending_.add_parts();
    part->add_channels(channel);
    part->set_message(message);
    urgent_ = true;
  }

  void OnWriteDone(bool) override {
    bool more = false;
    {
      MutexLock lock(&mu_);
      writing_ = false;
      more = urgent_;
    }
    if (more) Write();
  }

  void OnReadDone(bool ok) override {
    if (!ok) {
      RemoveHold();
      return;
    }
    v1::HostMessage message;
    MILLRACE_CHECK(message.ParseFromString(TextOf(incoming_)));
    for (v1::HostPart& part : *message.mutable_parts()) {
      MILLRACE_CHECK(!part.has_end()) << part.end().error().message();
      if (IsSpec(part.message())) {
        tally_->HoldSpec(part.channels_size(), first_, part.message());
        continue;
      }
      first_ = part.message();  // Registered, of one agent
      MutexLock lock(&mu_);
      ++registered_;
    }
    incoming_.Clear();
    StartRead(&incoming_);
  }

  static bool IsSpec(const std::string& text) {
    constexpr char kTag = v1::CoordinatorMessage::kSpecFieldNumber << 3 | 2;
    return !text.empty() && text[0] == kTag;
  }

  void OnDone(const grpc::Status& status) override { tally_->Ended(status); }

  const int agents_;
  Tally* const tally_;
  std::unique_ptr<grpc::GenericStub> stub_;
  grpc::ClientContext context_;
  grpc::ByteBuffer incoming_;
  grpc::ByteBuffer outgoing_;  // unchanged while writing_
  std::string first_;          // the last Registered; reactions to reads come one at a time
  Mutex mu_;
  v1::HostMessage pending_ ABSL_GUARDED_BY(mu_);
  int registered_ ABSL_GUARDED_BY(mu_) = 0;
  bool urgent_ ABSL_GUARDED_BY(mu_) = false;  // parts are pending
  bool writing_ ABSL_GUARDED_BY(mu_) = false;
};

// What the agent of a fed node says once in a sample interval, in place of a bare heartbeat,
// `second` seconds after the first.
void FillSample(uint64_t second, v1::NodeSample* sample) {
  *sample->mutable_time() = TimeToProto(absl::Now());
  sample->mutable_process()->set_cpu_us(123'456'789 + second * 2'500'000);
  sample->mutable_process()->set_rss_bytes(uint64_t{3} << 30);
  sample->mutable_process()->set_threads(40);
  sample->mutable_process()->set_open_files(60);
  sample->set_feed_budget_bytes(256 << 20);
  sample->set_feed_held_bytes(100 << 20);
  sample->set_step(static_cast<int64_t>(12'345 + second * 4));
  *sample->mutable_step_time() = TimeToProto(absl::Now());
  v1::QueueSample* queue =
      sample->queues_size() > 0 ? sample->mutable_queues(0) : sample->add_queues();
  queue->set_queue("input");
  queue->set_rows_received(10'000'000 + second * 4'096);
  queue->set_rows_acked(9'990'000 + second * 4'096);
  queue->set_bytes_received((uint64_t{40} << 30) + second * (12 << 20));
  queue->set_batches_received(40'000 + second * 4);
  queue->set_credit_outstanding_bytes(200 << 20);
  queue->set_queued_rows(10'000 + second % 100);
  queue->set_queued_bytes((100 << 20) + second % 100);
  queue->set_open_sessions(4);
  queue->set_partitions_received(250 + second / 10);
  queue->set_wait_us(5'000'000 + second * 300'000);
  queue->set_compute_us(600'000'000 + second * 600'000);
  queue->set_decode_us(20'000'000 + second * 50'000);
  queue->set_full_us(400'000'000 + second * 100'000);
}

// As NVML tells them: who they are, who uses them, six values; or with everything that an H100
// tells.
void FillGpus(int agent, int count, bool everything, uint64_t second, v1::NodeSample* sample) {
  sample->mutable_claimed_gpus()->Clear();
  for (int i = 0; i < count; ++i) {
    v1::GpuSample* gpu = i < sample->gpus_size() ? sample->mutable_gpus(i) : sample->add_gpus();
    const uint64_t noise =
        (static_cast<uint64_t>(agent * 8 + i) * 2'654'435'761u + second * 40'503u) >> 7;
    const auto busy = static_cast<float>(60 + noise % 40);
    gpu->set_index(static_cast<uint32_t>(i));
    gpu->set_uuid(
        absl::StrCat("GPU-8f2a6e10-5d1c-4f0b-", agent + 10'000, "-", i + 100'000'000'000));
    gpu->set_name("NVIDIA H100 80GB HBM3");
    gpu->set_pci_bus_id(absl::StrCat("00000000:", 10 + i, ":00.0"));
    *gpu->mutable_time() = sample->time();
    gpu->set_source("nvml");
    gpu->set_utilization_percent(busy);
    gpu->set_memory_utilization_percent(busy / 2);
    gpu->set_memory_total_bytes(uint64_t{80} << 30);
    gpu->set_memory_used_bytes((uint64_t{50} << 30) + noise % (uint64_t{4} << 30));
    gpu->set_power_watts(75 + 5.6F * busy);
    gpu->set_temperature_celsius(34 + 0.36F * busy);
    gpu->set_sm_clock_mhz(1'900 + static_cast<uint32_t>(noise % 6) * 15);
    v1::GpuProcess* process =
        gpu->processes_size() > 0 ? gpu->mutable_processes(0) : gpu->add_processes();
    process->set_pid(4242);
    process->set_memory_bytes(uint64_t{49} << 30);
    sample->add_claimed_gpus(gpu->uuid());
    if (!everything) continue;
    gpu->set_power_limit_watts(700);
    gpu->set_max_sm_clock_mhz(1'980);
    gpu->set_memory_clock_mhz(2'619);
    gpu->set_throttle_known(true);
    gpu->set_pcie_generation(5);
    gpu->set_pcie_width(16);
    gpu->set_pcie_rx_bytes_per_second(1'500'000 + noise % 100'000);
    gpu->set_pcie_tx_bytes_per_second(900'000 + noise % 100'000);
    gpu->set_ecc_corrected(0);
    gpu->set_ecc_uncorrected(0);
    gpu->set_sm_active_percent(busy * 0.8F);
    gpu->set_tensor_active_percent(busy * 0.4F);
    gpu->set_dram_active_percent(busy * 0.38F);
  }
}

// Each agent once a second, spread over it. `agents` grows while it runs.
class Heart {
 public:
  Heart(const Setup& setup, Tally* tally) : setup_(setup) {
    agents_.reserve(setup.agents);
    thread_ = Thread("heart", [this, tally] { Beat(*tally); });
  }

  void Add(std::unique_ptr<Agent> agent) {
    MutexLock lock(&mu_);
    agents_.push_back(std::move(agent));
  }

  void Add(std::unique_ptr<Host> host) {
    MutexLock lock(&mu_);
    hosts_.push_back(std::move(host));
  }

  void SendToAll(const v1::AgentMessage& message) {
    const grpc::ByteBuffer bytes = BytesOf(message);
    const std::string text = message.SerializeAsString();
    MutexLock lock(&mu_);
    for (const std::unique_ptr<Agent>& agent : agents_) agent->Send(bytes);
    for (const std::unique_ptr<Host>& host : hosts_) {
      for (int i = 0; i < host->agents(); ++i) host->Send(i, text);
    }
  }

  // With GPUs, so far.
  [[nodiscard]] uint64_t samples() const { return samples_; }

 private:
  void Beat(Tally& tally) {
    v1::AgentMessage message;
    FillSample(0, message.mutable_sample());
    const grpc::ByteBuffer sample = BytesOf(message);
    const std::string sample_text = message.SerializeAsString();
    const grpc::ByteBuffer heartbeat = BytesOf(v1::AgentMessage());
    absl::Time next = absl::Now();
    for (size_t second = 0;; ++second) {
      for (size_t slice = 0; slice < kHeartbeatSlices; ++slice) {
        next += absl::Seconds(1) / static_cast<int>(kHeartbeatSlices);
        // What could not be sent in time is not sent twice as fast later.
        next = std::max(next, absl::Now() - kLate);
        absl::SleepFor(next - absl::Now());
        const size_t every = tally.sample_every();
        MutexLock lock(&mu_);
        BeatHosts(second, slice, every, sample_text);
        for (size_t i = slice; i < agents_.size(); i += kHeartbeatSlices) {
          const bool sampled = every > 0 && (i / kHeartbeatSlices + second) % every == 0;
          if (sampled && setup_.gpus >= 0) {
            FillSample(second, message.mutable_sample());
            FillGpus(setup_.first + static_cast<int>(i), setup_.gpus, setup_.everything, second,
                     message.mutable_sample());
            samples_ += agents_[i]->Send(BytesOf(message)) ? 1 : 0;
          } else {
            agents_[i]->Send(sampled ? sample : heartbeat);
          }
        }
        // Half a second away from the same agents' samples.
        if (every > 0) Talk((slice + kHeartbeatSlices / 2) % kHeartbeatSlices, second);
      }
    }
  }

  // The agents of a host each have another moment of the second.
  void BeatHosts(size_t second, size_t slice, size_t every, const std::string& sample)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    const size_t now = second * kHeartbeatSlices + slice;
    for (; !due_.empty() && due_.front().first <= now; due_.pop_front()) {
      due_.front().second->Write();
    }
    for (size_t h = 0; h < hosts_.size(); ++h) {
      Host* const host = hosts_[h].get();
      const auto agents = static_cast<size_t>(host->agents());
      for (size_t k = 0; k < agents; ++k) {
        if ((h + k * kHeartbeatSlices / agents) % kHeartbeatSlices != slice) continue;
        const auto agent = static_cast<int>(k);
        if (every > 0 && (h + k + second) % every == 0) {
          host->Send(agent, sample);
        } else if (host->Beat(agent)) {
          due_.emplace_back(now + kHeartbeatSlices / 2, host);
        }
      }
    }
  }

  // The lines and metrics of a slice's agents.
  void Talk(size_t slice, size_t second) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    if (setup_.lines == 0) return;
    for (size_t i = slice; i < agents_.size(); i += kHeartbeatSlices) {
      const size_t number = static_cast<size_t>(setup_.first) + i;
      v1::AgentMessage message;
      if (number < kMetricNodes) {
        v1::MetricReport* metric = message.mutable_metric();
        metric->set_name("loss");
        metric->set_step(static_cast<int64_t>(second * 4));
        *metric->mutable_time() = TimeToProto(absl::Now());
        metric->set_value(2.3 / (1.0 + static_cast<double>(second) / 100) +
                          static_cast<double>(i % 7) / 100);
      } else if ((number + second) % static_cast<size_t>(setup_.lines) == 0) {
        message.mutable_log()->set_source(v1::LogLines::SOURCE_STDOUT);
        message.mutable_log()->add_lines(absl::StrCat("I0102 10:41:07.123 step ", second * 4,
                                                      " loss 0.4321 in 231 ms, 4,096 rows"));
      } else {
        continue;
      }
      agents_[i]->Send(BytesOf(message));
    }
  }

  const Setup& setup_;
  Mutex mu_;
  std::vector<std::unique_ptr<Agent>> agents_ ABSL_GUARDED_BY(mu_);
  std::vector<std::unique_ptr<Host>> hosts_ ABSL_GUARDED_BY(mu_);
  // Hosts with heartbeats to say, and when, in slices.
  std::deque<std::pair<size_t, Host*>> due_ ABSL_GUARDED_BY(mu_);
  std::atomic<uint64_t> samples_{0};
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
                       .identity_pem = said->value("identity_pem", ""),
                       .token = (*said)["token"].get<std::string>(),
                       .public_key = MakePublicKey(),
                       .agents = (*said)["agents"].get<int>(),
                       .bare = (*said)["bare"].get<bool>(),
                       .sample_every = (*said)["sample_every"].get<int>(),
                       .slots_per_host = said->value("slots_per_host", 1),
                       .first = said->value("first", 0),
                       .gpus = said->value("gpus", -1),
                       .lines = said->value("lines", 0),
                       .everything = said->value("everything", false)};
  Tally tally(setup);
  Heart heart(setup, &tally);
  JsonParent::Send(Json{{"ready", true}});
  if (!parent.Receive().has_value()) ::_exit(0);
  for (int i = 0; setup.slots_per_host > 1 && i < setup.agents; i += setup.slots_per_host) {
    heart.Add(std::make_unique<Host>(setup, setup.first + i,
                                     std::min(setup.slots_per_host, setup.agents - i), Dial(setup),
                                     &tally));
  }
  std::vector<std::shared_ptr<grpc::Channel>> shared(setup.gpus < 0 ? 0 : kHeartbeatSlices);
  for (int i = 0; setup.slots_per_host == 1 && i < setup.agents; ++i) {
    std::shared_ptr<grpc::Channel> channel;
    if (!shared.empty()) channel = shared[static_cast<size_t>(i) % shared.size()];
    if (channel == nullptr) channel = Dial(setup);
    if (!shared.empty()) shared[static_cast<size_t>(i) % shared.size()] = channel;
    heart.Add(std::make_unique<Agent>(setup, setup.first + i, std::move(channel), &tally));
  }
  JsonParent::Send(tally.WaitForAll());
  v1::AgentMessage running;
  running.mutable_node()->set_state(v1::NODE_STATE_RUNNING);
  running.mutable_node()->set_pid(4242);
  while (const std::optional<Json> next = parent.Receive()) {
    if (next->value("run", false)) heart.SendToAll(running);
    JsonParent::Send(
        Json{{"cpu_s", absl::ToDoubleSeconds(SelfCpuTime())}, {"samples", heart.samples()}});
  }
  ::_exit(0);  // the connections end with the process
}

}  // namespace
}  // namespace millrace::bench

int main() { return millrace::bench::Main(); }
