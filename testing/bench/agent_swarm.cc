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
// relay (swarm_host.h); of their heartbeats and samples those of half an interval are in one
// message. Then {stops} waits until each was told to stop, and with {die} its first node dies of a
// signal before.
//
// {first, gpus, everything, lines, sample_every} make agents for //testing/bench:dashboard: number
// `first` and on, each the only one of its host, which has so many GPUs; one of each `lines` agents
// writes a line each second, the first kMetricNodes tell their loss, and samples come every
// `sample_every` seconds, whatever the coordinator says, or with 0 as it says. Those that speak at
// the same time share a connection: what is measured there is the way from the coordinator to its
// viewer, not the ten thousand sockets at its other end.

#include <signal.h>
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
#include "core/base/thread.h"
#include "core/coordinator/fake_agent.h"
#include "core/proto/coordinator.pb.h"
#include "core/proto/sample.pb.h"
#include "core/proto/time_proto.h"
#include "grpcpp/channel.h"
#include "grpcpp/client_context.h"
#include "grpcpp/generic/generic_stub.h"
#include "grpcpp/support/byte_buffer.h"
#include "grpcpp/support/client_callback.h"
#include "testing/bench/bench_report.h"
#include "testing/bench/json_child.h"
#include "testing/bench/swarm_host.h"

namespace millrace::bench {
namespace {

constexpr char kMethod[] = "/millrace.v1.Coordinator/Attach";
constexpr size_t kHeartbeatSlices = 100;  // of a second
constexpr size_t kMetricNodes = 64;
constexpr absl::Duration kLate = absl::Milliseconds(200);

grpc::ByteBuffer BytesOf(const v1::AgentMessage& message) {
  const grpc::Slice slice(message.SerializeAsString());
  return grpc::ByteBuffer(&slice, 1);
}

// Dials when it is made. Thread-safe. Never destroyed: the process ends first.
class Agent final : private grpc::ClientBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer> {
 public:
  Agent(const SwarmSetup& setup, int index, std::shared_ptr<grpc::Channel> channel,
        SwarmTally* tally)
      : tally_(tally), stub_(std::make_unique<grpc::GenericStub>(std::move(channel))) {
    context_.AddMetadata("authorization", absl::StrCat("Bearer ", setup.token));
    context_.set_wait_for_ready(true);
    outgoing_ = BytesOf(MakeSwarmHello(setup, index));
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
      tally_->HoldSpec(1, BytesText(first_), BytesText(incoming_));
      first_.Clear();
    }
    incoming_.Clear();
    StartRead(&incoming_);
  }

  void OnDone(const grpc::Status& status) override {
    tally_->Fail(absl::StrCat("a stream ended: ", static_cast<int>(status.error_code()), " ",
                              status.error_message()));
  }

  SwarmTally* const tally_;
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
  Heart(const SwarmSetup& setup, SwarmTally* tally) : setup_(setup) {
    agents_.reserve(setup.agents);
    thread_ = Thread("heart", [this, tally] { Beat(*tally); });
  }

  void Add(std::unique_ptr<Agent> agent) {
    MutexLock lock(&mu_);
    agents_.push_back(std::move(agent));
  }

  void Add(std::unique_ptr<SwarmHost> host) {
    MutexLock lock(&mu_);
    hosts_.push_back(std::move(host));
  }

  void SendToAll(const v1::AgentMessage& message) {
    const grpc::ByteBuffer bytes = BytesOf(message);
    const std::string text = message.SerializeAsString();
    MutexLock lock(&mu_);
    for (const std::unique_ptr<Agent>& agent : agents_) agent->Send(bytes);
    for (const std::unique_ptr<SwarmHost>& host : hosts_) {
      for (int i = 0; i < host->agents(); ++i) host->Send(i, text);
    }
  }

  // The node of the first agent of the first host dies of a signal.
  void KillOne() {
    v1::AgentMessage message;
    message.mutable_node()->set_state(v1::NODE_STATE_EXITED);
    message.mutable_node()->mutable_exit()->set_signal(SIGKILL);
    MutexLock lock(&mu_);
    if (!hosts_.empty()) hosts_.front()->Send(0, message.SerializeAsString());
  }

  // With GPUs, so far.
  [[nodiscard]] uint64_t samples() const { return samples_; }

 private:
  void Beat(SwarmTally& tally) {
    v1::AgentMessage message;
    FillSample(0, message.mutable_sample());
    const grpc::ByteBuffer sample = BytesOf(message);
    const std::string sample_text = message.SerializeAsString();
    const grpc::ByteBuffer heartbeat = BytesOf(v1::AgentMessage());
    absl::Time next = absl::Now();
    size_t now = 0;  // in slices
    for (size_t second = 0;; ++second) {
      for (size_t slice = 0; slice < kHeartbeatSlices; ++slice) {
        next += absl::Seconds(1) / static_cast<int>(kHeartbeatSlices);
        // What could not be sent in time is not sent twice as fast later.
        next = std::max(next, absl::Now() - kLate);
        absl::SleepFor(next - absl::Now());
        const size_t every = tally.sample_every();
        MutexLock lock(&mu_);
        BeatHosts(now++, tally.heartbeat_slices(kHeartbeatSlices), every, sample_text);
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

  // The agents of a host each have another moment of the interval, which is of `slices`; `every`:
  // of how many seconds one has a sample.
  void BeatHosts(size_t now, size_t slices, size_t every, const std::string& sample)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    const size_t beat = now / slices;
    const size_t beats = std::max<size_t>(1, every * kHeartbeatSlices / slices);  // to a sample
    for (; !due_.empty() && due_.front().first <= now; due_.pop_front()) {
      due_.front().second->FlushWaiting();
    }
    for (size_t h = 0; h < hosts_.size(); ++h) {
      SwarmHost* const host = hosts_[h].get();
      const auto agents = static_cast<size_t>(host->agents());
      const size_t moment = (now + slices - h % slices) % slices;
      const size_t k = (moment * agents + slices - 1) / slices;
      if (k >= agents || k * slices / agents != moment) continue;
      const auto agent = static_cast<int>(k);
      const bool sampled = every > 0 && (h + k + beat) % beats == 0;
      if (sampled && beats == 1) {  // as often as heartbeats: at once
        host->Send(agent, sample);
      } else if (sampled ? host->Sample(agent, sample) : host->Beat(agent)) {
        due_.emplace_back(now + slices / 2, host);
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

  const SwarmSetup& setup_;
  Mutex mu_;
  std::vector<std::unique_ptr<Agent>> agents_ ABSL_GUARDED_BY(mu_);
  std::vector<std::unique_ptr<SwarmHost>> hosts_ ABSL_GUARDED_BY(mu_);
  // Hosts with heartbeats to say, and when, in slices.
  std::deque<std::pair<size_t, SwarmHost*>> due_ ABSL_GUARDED_BY(mu_);
  std::atomic<uint64_t> samples_{0};
  Thread thread_;
};

int Main() {
  StopDeadlockDetector();  // as the coordinator does
  RaiseFileLimit();
  JsonParent parent;
  const std::optional<Json> said = parent.Receive();
  if (!said.has_value()) return 1;
  const SwarmSetup setup = {.address = (*said)["address"].get<std::string>(),
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
  SwarmTally tally(setup);
  SwarmTimer timer;
  Heart heart(setup, &tally);
  JsonParent::Send(Json{{"ready", true}});
  if (!parent.Receive().has_value()) ::_exit(0);
  for (int i = 0; setup.slots_per_host > 1 && i < setup.agents; i += setup.slots_per_host) {
    heart.Add(std::make_unique<SwarmHost>(
        setup, setup.first + i, std::min(setup.slots_per_host, setup.agents - i), &tally, &timer));
  }
  std::vector<std::shared_ptr<grpc::Channel>> shared(setup.gpus < 0 ? 0 : kHeartbeatSlices);
  for (int i = 0; setup.slots_per_host == 1 && i < setup.agents; ++i) {
    std::shared_ptr<grpc::Channel> channel;
    if (!shared.empty()) channel = shared[static_cast<size_t>(i) % shared.size()];
    if (channel == nullptr) channel = DialSwarm(setup);
    if (!shared.empty()) shared[static_cast<size_t>(i) % shared.size()] = channel;
    heart.Add(std::make_unique<Agent>(setup, setup.first + i, std::move(channel), &tally));
  }
  JsonParent::Send(tally.WaitForAll());
  v1::AgentMessage running;
  running.mutable_node()->set_state(v1::NODE_STATE_RUNNING);
  running.mutable_node()->set_pid(4242);
  while (const std::optional<Json> next = parent.Receive()) {
    if (next->value("run", false)) heart.SendToAll(running);
    if (next->value("die", false)) heart.KillOne();
    if (next->value("stops", false)) {
      JsonParent::Send(tally.WaitForStops(next->value("die", false) ? 1 : 0));
      continue;
    }
    JsonParent::Send(
        Json{{"cpu_s", absl::ToDoubleSeconds(SelfCpuTime())}, {"samples", heart.samples()}});
  }
  ::_exit(0);  // the connections end with the process
}

}  // namespace
}  // namespace millrace::bench

int main() { return millrace::bench::Main(); }
