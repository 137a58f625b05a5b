#include "testing/bench/swarm_host.h"

#include <unistd.h>

#include <algorithm>
#include <random>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "core/agent/link/coordinator_link.h"
#include "core/base/log.h"
#include "core/base/random.h"
#include "core/proto/spec_proto.h"
#include "core/proto/time_proto.h"
#include "grpcpp/client_context.h"
#include "grpcpp/create_channel.h"
#include "grpcpp/generic/generic_stub.h"
#include "grpcpp/security/credentials.h"
#include "grpcpp/support/channel_arguments.h"
#include "grpcpp/support/client_callback.h"
#include "grpcpp/support/proto_buffer_reader.h"
#include "grpcpp/support/slice.h"
#include "millrace/cluster_spec.h"

namespace millrace::bench {
namespace {

constexpr char kHostMethod[] = "/millrace.v1.Coordinator/AttachHost";
// On two cores ten thousand handshakes take longer than the 20 s that a channel gives one by
// default.
constexpr int kConnectTimeoutMs = 300'000;
// As core/agent/link/coordinator_link.cc has them.
constexpr absl::Duration kFirstBackoff = absl::Milliseconds(100);
constexpr absl::Duration kMaxBackoff = absl::Seconds(2);

// Whether `text` is a CoordinatorMessage with this field.
bool IsOf(const std::string& text, int field) {
  return !text.empty() && static_cast<unsigned char>(text[0]) == (field << 3 | 2);
}

}  // namespace

v1::AgentMessage MakeSwarmHello(const SwarmSetup& setup, int index) {
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
  // The agents of a host have its address, and ports as a system gives them: nothing of those
  // compresses.
  const int host = index / setup.slots_per_host;
  const uint64_t port = 32'768 + std::mt19937_64(static_cast<uint64_t>(index))() % 28'232;
  hello->set_address(
      absl::StrCat("10.", host / 65536 % 256, ".", host / 256 % 256, ".", host % 256, ":", port));
  hello->set_public_key(setup.public_key);
  hello->set_takes_columns(true);
  hello->set_version("bench");
  return message;
}

std::shared_ptr<grpc::Channel> DialSwarm(const SwarmSetup& setup) {
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

std::string BytesText(const grpc::ByteBuffer& bytes) {
  std::vector<grpc::Slice> slices;
  MILLRACE_CHECK(bytes.Dump(&slices).ok());
  std::string text;
  text.reserve(bytes.Length());
  for (const grpc::Slice& slice : slices) {
    text.append(reinterpret_cast<const char*>(slice.begin()), slice.size());
  }
  return text;
}

// ---- SwarmTally ---------------------------------------------------------------------------------

void SwarmTally::HoldSpec(int agents, const std::string& first, const std::string& spec) {
  MutexLock lock(&mu_);
  if (held_ == 0) {
    Check(spec);
    spec_ = spec;
    sample_every_ = SampleEvery(first);
  }
  held_ += agents;
  if (spec != spec_) FailLocked("agents were given different specs");
  first_bytes_ += first.size() * static_cast<size_t>(agents);
  changed_.SignalAll();
}

void SwarmTally::Told(int agents) {
  MutexLock lock(&mu_);
  told_ += agents;
  changed_.SignalAll();
}

void SwarmTally::Redials() {
  MutexLock lock(&mu_);
  ++redials_;
  changed_.SignalAll();
}

void SwarmTally::Received(size_t bytes) {
  MutexLock lock(&mu_);
  received_bytes_ += bytes;
}

void SwarmTally::Fail(const std::string& error) {
  MutexLock lock(&mu_);
  FailLocked(error);
}

Json SwarmTally::WaitForAll() {
  MutexLock lock(&mu_);
  while (held_ < setup_.agents && error_.empty()) changed_.Wait(&mu_);
  if (!error_.empty()) return Json{{"error", error_}};
  return Json{{"first_bytes", first_bytes_ / setup_.agents},
              {"second_bytes", spec_.size()},
              {"received_bytes", received_bytes_},
              {"redials", redials_},
              {"sample_every", sample_every_}};
}

Json SwarmTally::WaitForStops(int dead) {
  MutexLock lock(&mu_);
  while (told_ < setup_.agents - dead && error_.empty()) changed_.Wait(&mu_);
  if (!error_.empty()) return Json{{"error", error_}};
  return Json{{"told", told_}};
}

void SwarmTally::Registered(const std::string& text) {
  MutexLock lock(&mu_);
  if (heartbeat_interval_ > absl::ZeroDuration()) return;
  v1::CoordinatorMessage message;
  if (!message.ParseFromString(text)) return;
  heartbeat_interval_ = DurationFromProto(message.registered().heartbeat_interval());
}

size_t SwarmTally::heartbeat_slices(size_t slices_per_second) {
  MutexLock lock(&mu_);
  if (heartbeat_interval_ <= absl::ZeroDuration()) return slices_per_second;
  return std::max<size_t>(1, static_cast<size_t>(absl::ToDoubleSeconds(heartbeat_interval_) *
                                                 static_cast<double>(slices_per_second)));
}

size_t SwarmTally::sample_every() {
  MutexLock lock(&mu_);
  return sample_every_;
}

int SwarmTally::redials() {
  MutexLock lock(&mu_);
  return redials_;
}

void SwarmTally::FailLocked(const std::string& error) {
  if (error_.empty()) error_ = error;
  changed_.SignalAll();
}

int SwarmTally::SampleEvery(const std::string& registered) const {
  if (setup_.bare || (setup_.gpus >= 0 && setup_.sample_every > 0)) return setup_.sample_every;
  v1::CoordinatorMessage message;
  if (!message.ParseFromString(registered)) return 1;
  return static_cast<int>(message.registered().sample_interval().seconds());
}

void SwarmTally::Check(const std::string& text) {
  if (setup_.bare) return;
  v1::CoordinatorMessage message;
  uint64_t epoch = 0;
  ClusterSpec spec;
  if (!message.ParseFromString(text) || !ApplySpecUpdate(message.spec(), &epoch, &spec).ok() ||
      spec.total_tasks() < static_cast<size_t>(setup_.agents)) {
    FailLocked("what was pushed is not the spec of the whole cluster");
  }
}

// ---- SwarmTimer ---------------------------------------------------------------------------------

SwarmTimer::SwarmTimer() : thread_("swarm-timer", [this] { Run(); }) {}

void SwarmTimer::After(absl::Duration delay, std::function<void()> function) {
  MutexLock lock(&mu_);
  due_.emplace(absl::Now() + delay, std::move(function));
  changed_.SignalAll();
}

void SwarmTimer::Stop() {
  {
    MutexLock lock(&mu_);
    stopped_ = true;
    changed_.SignalAll();
  }
  thread_.Join();
}

void SwarmTimer::Run() {
  while (true) {
    std::function<void()> function;
    {
      MutexLock lock(&mu_);
      while (!stopped_ && (due_.empty() || due_.begin()->first > absl::Now())) {
        changed_.WaitWithTimeout(
            &mu_, due_.empty() ? absl::Seconds(60) : due_.begin()->first - absl::Now());
      }
      if (stopped_) return;
      function = std::move(due_.begin()->second);
      due_.erase(due_.begin());
    }
    function();
  }
}

// ---- SwarmHost ----------------------------------------------------------------------------------

// One stream. Deletes itself when gRPC is through with it.
class SwarmHost::Call final : public grpc::ClientBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer> {
 public:
  Call(SwarmHost* host, const SwarmSetup& setup)
      : host_(host), stub_(std::make_unique<grpc::GenericStub>(DialSwarm(setup))) {
    context_.AddMetadata("authorization", absl::StrCat("Bearer ", setup.token));
    context_.set_wait_for_ready(true);
    stub_->PrepareBidiStreamingCall(&context_, kHostMethod, {}, this);
    AddHold();  // for writes from other threads, until OnNoMore()
    StartRead(&incoming_);
  }

  // `message` is to be written; a hold has been added for this.
  void WriteHeld(const v1::HostMessage& message) {
    const grpc::Slice slice(message.SerializeAsString());
    outgoing_ = grpc::ByteBuffer(&slice, 1);
    StartWrite(&outgoing_);
    RemoveHold();
  }
  void Cancel() { context_.TryCancel(); }

 private:
  void OnReadDone(bool ok) override {
    if (!ok) {
      host_->OnNoMore();
      RemoveHold();
      return;
    }
    host_->OnMessage(incoming_);
    incoming_.Clear();
    StartRead(&incoming_);
  }
  void OnWriteDone(bool ok) override {
    if (ok) host_->OnWritten();  // otherwise the end is near
  }
  void OnDone(const grpc::Status& status) override {
    SwarmHost* const host = host_;
    delete this;
    host->OnEnded(status);
  }

  SwarmHost* const host_;
  std::unique_ptr<grpc::GenericStub> stub_;
  grpc::ClientContext context_;
  grpc::ByteBuffer incoming_;
  grpc::ByteBuffer outgoing_;  // unchanged while the host's writing_
};

SwarmHost::SwarmHost(const SwarmSetup& setup, int first, int agents, SwarmTally* tally,
                     SwarmTimer* timer)
    : setup_(setup),
      tally_(tally),
      timer_(timer),
      agents_(static_cast<size_t>(agents)),
      backoff_(kFirstBackoff) {
  for (int i = 0; i < agents; ++i) {
    agents_[static_cast<size_t>(i)].hello = MakeSwarmHello(setup, first + i).SerializeAsString();
  }
  Dial();
}

SwarmHost::~SwarmHost() {
  MutexLock lock(&mu_);
  stopping_ = true;
  if (call_ != nullptr) call_->Cancel();  // calls nothing back on this thread
  while (call_ != nullptr) changed_.WaitWithTimeout(&mu_, absl::Seconds(60));
}

void SwarmHost::Dial() {
  Call* call = nullptr;
  {
    MutexLock lock(&mu_);
    if (stopping_) return;
    by_channel_.clear();
    last_channel_ = 0;
    pending_.Clear();
    writing_ = false;
    for (int i = 0; i < agents(); ++i) SayHello(i);
    call_ = call = new Call(this, setup_);
    open_ = true;
  }
  Write();
  call->StartCall();  // it cannot have ended before
}

void SwarmHost::SayHello(int agent) {
  Agent& of = agents_[static_cast<size_t>(agent)];
  of.channel = ++last_channel_;
  of.registered = false;
  by_channel_[of.channel] = agent;
  AddPart(of.channel, of.hello);
  urgent_ = true;
}

void SwarmHost::AddPart(uint32_t channel, const std::string& message) {
  v1::HostPart* part = pending_.add_parts();
  part->add_channels(channel);
  part->set_message(message);
}

absl::Duration SwarmHost::NextBackoff() {
  const double jitter = 0.8 + 0.4 * static_cast<double>(RandomU64() % 1000) / 1000.0;
  const absl::Duration backoff = backoff_ * jitter;
  backoff_ = std::min(backoff_ * 1.6, kMaxBackoff);
  return backoff;
}

void SwarmHost::Send(int agent, const std::string& message) {
  {
    MutexLock lock(&mu_);
    const Agent& of = agents_[static_cast<size_t>(agent)];
    if (!of.registered) return;
    AddPart(of.channel, message);
    urgent_ = true;
  }
  Write();
}

bool SwarmHost::Beat(int agent) {
  MutexLock lock(&mu_);
  const Agent& of = agents_[static_cast<size_t>(agent)];
  if (!of.registered) return false;
  pending_.add_alive(of.channel);
  return !std::exchange(flush_due_, true);
}

bool SwarmHost::Sample(int agent, const std::string& sample) {
  MutexLock lock(&mu_);
  const Agent& of = agents_[static_cast<size_t>(agent)];
  if (!of.registered) return false;
  AddPart(of.channel, sample);
  return !std::exchange(flush_due_, true);
}

void SwarmHost::FlushWaiting() {
  {
    MutexLock lock(&mu_);
    flush_due_ = false;
  }
  Write();
}

void SwarmHost::Write() {
  Call* call = nullptr;
  v1::HostMessage message;
  {
    MutexLock lock(&mu_);
    if (!open_ || writing_ || (pending_.alive().empty() && pending_.parts().empty())) return;
    message.Swap(&pending_);
    urgent_ = false;
    writing_ = true;
    call = call_;
    call->AddHold();  // so it lives, whatever it hears meanwhile
  }
  call->WriteHeld(message);
}

void SwarmHost::OnWritten() {
  bool more = false;
  {
    MutexLock lock(&mu_);
    writing_ = false;
    more = urgent_;
  }
  if (more) Write();
}

void SwarmHost::OnMessage(const grpc::ByteBuffer& bytes) {
  tally_->Received(bytes.Length());
  grpc::ByteBuffer shared(bytes);  // the reader wants it mutable
  v1::HostMessage message;
  {
    grpc::ProtoBufferReader reader(&shared);
    MILLRACE_CHECK(reader.status().ok() && message.ParseFromZeroCopyStream(&reader));
  }
  for (const v1::HostPart& part : message.parts()) {
    if (part.has_end()) {
      OnPartEnd(part);
    } else {
      OnPart(part);
    }
  }
}

void SwarmHost::OnPart(const v1::HostPart& part) {
  const bool registers = IsOf(part.message(), v1::CoordinatorMessage::kRegisteredFieldNumber);
  const bool spec = IsOf(part.message(), v1::CoordinatorMessage::kSpecFieldNumber);
  const bool stop = IsOf(part.message(), v1::CoordinatorMessage::kStopFieldNumber);
  int hold = 0;
  int told = 0;
  {
    MutexLock lock(&mu_);
    for (const uint32_t channel : part.channels()) {
      const auto found = by_channel_.find(channel);
      if (found == by_channel_.end()) continue;
      Agent& agent = agents_[static_cast<size_t>(found->second)];
      if (registers) {
        agent.registered = true;
        backoff_ = kFirstBackoff;
      }
      if (spec && !std::exchange(agent.holds_spec, true)) ++hold;
      if (stop && !std::exchange(agent.told_to_stop, true)) ++told;
    }
  }
  if (registers) {
    first_ = part.message();
    tally_->Registered(first_);
  }
  if (hold > 0) tally_->HoldSpec(hold, first_, part.message());
  if (told > 0) tally_->Told(told);
}

void SwarmHost::OnPartEnd(const v1::HostPart& part) {
  if (IsFinalAttachError(static_cast<absl::StatusCode>(part.end().error().code()))) {
    tally_->Fail(absl::StrCat("an agent's stream ended: ", part.end().error().code(), " ",
                              part.end().error().message()));
    return;
  }
  MutexLock lock(&mu_);
  for (const uint32_t channel : part.channels()) {
    const auto found = by_channel_.find(channel);
    if (found == by_channel_.end()) continue;
    const int number = found->second;
    by_channel_.erase(found);
    Agent& agent = agents_[static_cast<size_t>(number)];
    if (agent.channel != channel) continue;
    agent.channel = 0;
    agent.registered = false;
    tally_->Redials();
    timer_->After(NextBackoff(), [this, number] {
      {
        MutexLock again(&mu_);
        // Unless the whole host has dialled again meanwhile.
        if (!open_ || agents_[static_cast<size_t>(number)].channel != 0) return;
        SayHello(number);
      }
      Write();
    });
  }
}

void SwarmHost::OnNoMore() {
  MutexLock lock(&mu_);
  open_ = false;
  for (Agent& agent : agents_) agent.registered = false;
}

void SwarmHost::OnEnded(const grpc::Status& status) {
  const bool passing = !IsFinalAttachError(static_cast<absl::StatusCode>(status.error_code()));
  MutexLock lock(&mu_);
  call_ = nullptr;
  open_ = false;
  changed_.SignalAll();
  if (stopping_) return;
  if (!passing) {
    tally_->Fail(absl::StrCat("a stream ended: ", static_cast<int>(status.error_code()), " ",
                              status.error_message()));
    return;
  }
  tally_->Redials();
  timer_->After(NextBackoff(), [this] { Dial(); });
}

}  // namespace millrace::bench
