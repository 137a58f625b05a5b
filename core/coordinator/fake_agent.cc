#include "core/coordinator/fake_agent.h"

#include <unistd.h>

#include <chrono>  // grpc::ClientContext takes a time_point
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "core/base/log.h"
#include "core/base/random.h"
#include "core/net/certificate.h"
#include "core/net/openssl.h"
#include "core/proto/spec_proto.h"
#include "grpcpp/create_channel.h"
#include "grpcpp/security/credentials.h"
#include "grpcpp/support/channel_arguments.h"

namespace millrace {

std::string MakePublicKey() {
  const absl::StatusOr<UniqueKey> key = MakeP256Key();
  MILLRACE_CHECK(key.ok()) << key.status();
  absl::StatusOr<std::string> point = PublicKeyPoint(key->get());
  MILLRACE_CHECK(point.ok()) << point.status();
  return *std::move(point);
}

FakeAgentOptions FakeAgentOptions::For(const Coordinator& coordinator) {
  FakeAgentOptions options;
  options.address = coordinator.address();
  options.ca_pem = coordinator.ca_pem();
  options.identity_pem = coordinator.agent_identity_pem();
  options.token = coordinator.tokens().agent;
  return options;
}

std::shared_ptr<grpc::Channel> MakeAgentChannel(const std::string& address,
                                                const std::string& ca_pem,
                                                const std::string& identity_pem) {
  grpc::SslCredentialsOptions tls;
  tls.pem_root_certs = ca_pem;
  tls.pem_private_key = identity_pem;
  tls.pem_cert_chain = identity_pem;
  grpc::ChannelArguments arguments;
  arguments.SetSslTargetNameOverride("millrace");
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  return grpc::CreateCustomChannel(address, grpc::SslCredentials(tls), arguments);
}

FakeAgent::FakeAgent(FakeAgentOptions options)
    : options_(std::move(options)),
      channel_(MakeAgentChannel(options_.address, options_.ca_pem, options_.identity_pem)),
      stub_(v1::Coordinator::NewStub(channel_)) {
  context_.AddMetadata("authorization", absl::StrCat("Bearer ", options_.token));
  context_.set_wait_for_ready(true);
  context_.set_deadline(std::chrono::system_clock::now() + std::chrono::minutes(10));
  stub_->async()->Attach(&context_, this);
  AddHold();  // for Send() from the test's threads, until HalfClose or the end
  v1::AgentMessage message;
  v1::Register* hello = message.mutable_register_();
  hello->set_protocol(options_.protocol);
  hello->set_agent_id(options_.agent_id.empty() ? RandomHex(16) : options_.agent_id);
  if (options_.executor_id.has_value()) hello->set_executor_id(*options_.executor_id);
  hello->set_host("fake-host");
  hello->set_pid(getpid());
  hello->set_address(options_.node_address);
  hello->set_public_key(options_.public_key.empty() ? MakePublicKey() : options_.public_key);
  hello->set_version("fake");
  StartRead(&incoming_);
  StartCall();
  Send(message);
}

FakeAgent::~FakeAgent() {
  Cancel();
  MutexLock lock(&mu_);
  while (!ended()) changed_.WaitWithTimeout(&mu_, absl::Seconds(60));
}

void FakeAgent::Send(const v1::AgentMessage& message) {
  {
    MutexLock lock(&mu_);
    if (ended() || half_close_) return;
    queue_.push_back(message);
  }
  WriteNext();
}

void FakeAgent::WriteNext() {
  bool done = false;
  const v1::AgentMessage* message = nullptr;
  {
    MutexLock lock(&mu_);
    if (writing_ || half_closed_) return;
    if (queue_.empty()) {
      if (!half_close_) return;
      half_closed_ = done = true;
    } else {
      outgoing_ = std::make_unique<v1::AgentMessage>(std::move(queue_.front()));
      message = outgoing_.get();
      queue_.pop_front();
      writing_ = true;
    }
  }
  if (done) {
    StartWritesDone();
    RemoveHold();
  } else {
    StartWrite(message);
  }
}

void FakeAgent::SendHeartbeat() {
  v1::AgentMessage message;
  Send(message);
}

void FakeAgent::SendNode(v1::NodeState state, uint32_t attempt) {
  v1::AgentMessage message;
  message.mutable_node()->set_state(state);
  message.mutable_node()->set_attempt(attempt);
  message.mutable_node()->set_pid(4242);
  Send(message);
}

void FakeAgent::SendExit(const ExitStatus& exit, const std::vector<std::string>& stderr_tail,
                         bool as_asked) {
  v1::AgentMessage message;
  v1::NodeUpdate* node = message.mutable_node();
  node->set_state(v1::NODE_STATE_EXITED);
  if (const std::optional<v1::Registered> mine = registered(); mine.has_value()) {
    node->set_attempt(mine->attempt());
  }
  if (exit.kind == ExitStatus::Kind::kSignaled) {
    node->mutable_exit()->set_signal(exit.signal);
  } else {
    node->mutable_exit()->set_code(exit.code);
  }
  for (const std::string& line : stderr_tail) node->add_stderr_tail(line);
  node->set_stopped_as_asked(as_asked);
  Send(message);
}

void FakeAgent::HalfClose() {
  {
    MutexLock lock(&mu_);
    half_close_ = true;
  }
  WriteNext();
}

void FakeAgent::Cancel() {
  context_.TryCancel();
  HalfClose();
}

bool FakeAgent::WaitUntil(absl::FunctionRef<bool(const FakeAgent&)> condition,
                          absl::Duration timeout) {
  const absl::Time deadline = absl::Now() + timeout;
  MutexLock lock(&mu_);
  while (!condition(*this)) {
    if (changed_.WaitWithDeadline(&mu_, deadline)) return condition(*this);
  }
  return true;
}

bool FakeAgent::WaitRegistered(absl::Duration timeout) {
  return WaitUntil([](const FakeAgent& agent) { return agent.registered().has_value(); }, timeout);
}

absl::Status FakeAgent::WaitStatus(absl::Duration timeout) {
  if (!WaitUntil([](const FakeAgent& agent) { return agent.ended(); }, timeout)) {
    return absl::DeadlineExceededError("the stream has not ended");
  }
  MutexLock lock(&state_mu_);
  return *status_;
}

bool FakeAgent::ended() const {
  MutexLock lock(&state_mu_);
  return status_.has_value();
}

std::optional<v1::Registered> FakeAgent::registered() const {
  MutexLock lock(&state_mu_);
  return registered_;
}

uint64_t FakeAgent::epoch() const {
  MutexLock lock(&state_mu_);
  return epoch_;
}

ClusterSpec FakeAgent::spec() const {
  MutexLock lock(&state_mu_);
  return spec_;
}

std::vector<v1::CoordinatorMessage> FakeAgent::received() const {
  MutexLock lock(&state_mu_);
  return received_;
}

// ---- reactions ----------------------------------------------------------------------------------

void FakeAgent::Take(const v1::CoordinatorMessage& message) {
  MutexLock lock(&state_mu_);
  if (message.has_spec()) {
    const absl::Status applied = ApplySpecUpdate(message.spec(), &epoch_, &spec_);
    MILLRACE_CHECK(applied.ok()) << applied;
    return;
  }
  if (message.has_registered()) registered_ = message.registered();
  received_.push_back(message);
}

void FakeAgent::PlayAlong(const v1::CoordinatorMessage& message) {
  const std::optional<v1::Registered> mine = registered();
  if (!options_.plays_along || !mine.has_value()) return;
  auto send_node = [&](v1::NodeState state) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) -> v1::NodeUpdate* {
    v1::AgentMessage update;
    update.mutable_node()->set_state(state);
    update.mutable_node()->set_attempt(mine->attempt());
    update.mutable_node()->set_pid(4242);
    queue_.push_back(std::move(update));
    return queue_.back().mutable_node();
  };
  if (message.has_spec() && IsWholeSpec(message.spec())) {
    send_node(v1::NODE_STATE_READY);
    send_node(v1::NODE_STATE_RUNNING);
    if (mine->node().input_mode() == v1::INPUT_MODE_FEED && IsFedRole(mine->job_name())) {
      v1::AgentMessage endpoints;
      endpoints.mutable_endpoints()->set_attempt(mine->attempt());
      endpoints.mutable_endpoints()->mutable_feed()->set_tcp("tcp://127.0.0.1:9");
      endpoints.mutable_endpoints()->mutable_feed()->set_key("secret");
      queue_.push_back(std::move(endpoints));
    }
  }
  if (message.has_stop()) {
    v1::NodeUpdate* update = send_node(v1::NODE_STATE_EXITED);
    update->mutable_exit()->set_signal(15);
    update->set_stopped_as_asked(true);
    half_close_ = true;
  }
}

void FakeAgent::OnReadDone(bool ok) {
  if (!ok) {  // the coordinator ended the stream
    HalfClose();
    return;
  }
  {
    MutexLock lock(&mu_);
    Take(incoming_);
    PlayAlong(incoming_);
    changed_.SignalAll();
  }
  if (options_.reads || !registered().has_value()) StartRead(&incoming_);
  WriteNext();
}

void FakeAgent::OnWriteDone(bool ok) {
  {
    MutexLock lock(&mu_);
    writing_ = false;
    outgoing_.reset();
    if (!ok) {
      queue_.clear();
      half_close_ = true;
    }
  }
  WriteNext();
}

void FakeAgent::OnDone(const grpc::Status& status) {
  MutexLock lock(&mu_);
  {
    MutexLock state(&state_mu_);
    status_ =
        absl::Status(static_cast<absl::StatusCode>(status.error_code()), status.error_message());
  }
  // Under the lock: the destructor may run as soon as it is released.
  changed_.SignalAll();
}

// ---- many ---------------------------------------------------------------------------------------

FakeAgentGroup::FakeAgentGroup(const FakeAgentOptions& options, int count,
                               absl::Duration heartbeat_interval) {
  FakeAgentOptions each = options;
  if (each.public_key.empty()) each.public_key = MakePublicKey();
  for (int i = 0; i < count; ++i) {
    each.node_address = absl::StrCat("127.0.0.1:", 1 + i % 65535);
    agents_.push_back(std::make_unique<FakeAgent>(each));
  }
  heart_ = Thread("fake-heart", [this, heartbeat_interval] {
    while (!stop_.WaitForNotificationWithTimeout(heartbeat_interval)) {
      for (const std::unique_ptr<FakeAgent>& agent : agents_) {
        if (agent->registered().has_value()) agent->SendHeartbeat();
      }
    }
  });
}

FakeAgentGroup::~FakeAgentGroup() {
  stop_.Notify();
  heart_.Join();
  for (const std::unique_ptr<FakeAgent>& agent : agents_) agent->Cancel();  // all at once
}

}  // namespace millrace
