#include "core/agent/fake_coordinator.h"

#include <grpcpp/security/server_credentials.h>
#include <grpcpp/server_builder.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "core/net/sha256.h"
#include "core/proto/grpc_status.h"
#include "core/proto/spec_proto.h"
#include "core/proto/time_proto.h"

namespace millrace {
namespace {

constexpr char kToken[] = "the-agent-token";
constexpr absl::Duration kWait = absl::Seconds(40);

std::string TakeText(BIO* bio) {
  char* data = nullptr;
  const long size = BIO_get_mem_data(bio, &data);
  std::string text(data, static_cast<size_t>(size));
  BIO_free(bio);
  return text;
}

// A certificate for "millrace" that is its own CA.
void MakeCertificate(std::string* certificate, std::string* key) {
  EVP_PKEY* pkey = EVP_EC_gen("P-256");
  X509* x509 = X509_new();
  X509_set_version(x509, 2);
  ASN1_INTEGER_set(X509_get_serialNumber(x509), 1);
  X509_gmtime_adj(X509_getm_notBefore(x509), -3600);
  X509_gmtime_adj(X509_getm_notAfter(x509), 3600);
  X509_set_pubkey(x509, pkey);
  X509_NAME* name = X509_get_subject_name(x509);
  X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_ASC,
                             reinterpret_cast<const unsigned char*>("millrace"), -1, -1, 0);
  X509_set_issuer_name(x509, name);
  X509_EXTENSION* extension =
      X509V3_EXT_conf_nid(nullptr, nullptr, NID_subject_alt_name, "DNS:millrace");
  X509_add_ext(x509, extension, -1);
  X509_EXTENSION_free(extension);
  X509_sign(x509, pkey, EVP_sha256());
  BIO* bio = BIO_new(BIO_s_mem());
  PEM_write_bio_X509(bio, x509);
  *certificate = TakeText(bio);
  bio = BIO_new(BIO_s_mem());
  PEM_write_bio_PrivateKey(bio, pkey, nullptr, nullptr, 0, nullptr, nullptr);
  *key = TakeText(bio);
  X509_free(x509);
  EVP_PKEY_free(pkey);
}

bool Authorized(const grpc::ServerContext& context) {
  const auto found = context.client_metadata().find("authorization");
  return found != context.client_metadata().end() &&
         std::string(found->second.data(), found->second.size()) == absl::StrCat("Bearer ", kToken);
}

}  // namespace

FakeCoordinator::FakeCoordinator(Options options) : options_(std::move(options)) {
  refuse_ = options_.refuse;
  if (options_.same_cluster != nullptr) {
    certificate_ = options_.same_cluster->certificate_;
    key_ = options_.same_cluster->key_;
  } else {
    MakeCertificate(&certificate_, &key_);
  }
  grpc::SslServerCredentialsOptions tls;
  tls.pem_key_cert_pairs.push_back({key_, certificate_});
  grpc::ServerBuilder builder;
  builder.AddListeningPort("127.0.0.1:0", grpc::SslServerCredentials(tls), &port_);
  builder.RegisterService(this);
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS, 5000);
  server_ = builder.BuildAndStart();
}

FakeCoordinator::~FakeCoordinator() { Shutdown(); }

void FakeCoordinator::Shutdown() {
  if (server_ == nullptr) return;
  {
    MutexLock lock(&mu_);
    if (context_ != nullptr) context_->TryCancel();
  }
  server_->Shutdown(std::chrono::system_clock::now());
  server_->Wait();
  server_.reset();
}

std::string FakeCoordinator::address() const { return absl::StrCat("127.0.0.1:", port_); }

Json FakeCoordinator::StartParams() const {
  // It asks for no client certificate: any will do.
  return {{"address", address()},
          {"ca_pem", certificate_},
          {"identity_pem", key_ + certificate_},
          {"token", kToken}};
}

v1::Registered FakeCoordinator::MakeRegistered() const {
  v1::Registered registered = options_.registered;
  if (registered.cluster_id().empty()) registered.set_cluster_id("test");
  if (registered.job_name().empty()) registered.set_job_name("worker");
  registered.set_nonce("0123456789abcdef");
  registered.set_certificate_pem("LEAF CERTIFICATE");
  v1::NodeSpec* node = registered.mutable_node();
  node->set_program(options_.program);
  if (!options_.program_bytes.empty()) {
    node->set_sha256(Sha256Hex(options_.program_bytes));
    node->set_program_size(static_cast<int64_t>(options_.program_bytes.size()));
  }
  for (const std::string& arg : options_.args) node->add_args(arg);
  node->set_num_workers(options_.num_workers);
  node->set_default_fs("file://");
  if (!node->has_stop_grace()) *node->mutable_stop_grace() = DurationToProto(absl::Seconds(10));
  if (!node->has_stop_timeout()) {
    *node->mutable_stop_timeout() = DurationToProto(absl::Seconds(10));
  }
  if (!registered.has_heartbeat_interval()) {
    *registered.mutable_heartbeat_interval() = DurationToProto(absl::Milliseconds(100));
  }
  if (!registered.has_lease()) *registered.mutable_lease() = DurationToProto(absl::Seconds(10));
  return registered;
}

grpc::Status FakeCoordinator::Attach(grpc::ServerContext* context, Stream* stream) {
  if (!Authorized(*context)) return {grpc::StatusCode::UNAUTHENTICATED, "unknown token"};
  {
    MutexLock lock(&mu_);
    if (!refuse_.ok()) return ToGrpcStatus(refuse_);
  }
  v1::AgentMessage message;
  if (!stream->Read(&message) || !message.has_register_()) {
    return {grpc::StatusCode::INVALID_ARGUMENT, "the first message must be Register"};
  }
  v1::CoordinatorMessage out;
  *out.mutable_registered() = MakeRegistered();
  const std::string job = out.registered().job_name();
  stream->Write(out);
  ClusterSpec spec;
  (void)spec.SetTask(job, out.registered().task_index(), message.register_().address());
  for (int i = 1; i < options_.num_workers; ++i) {
    (void)spec.SetTask("worker", i, absl::StrCat("other-host:", 1000 + i));
  }
  if (options_.send_spec) {
    *out.mutable_spec() = MakeSpecUpdate(spec, 1);
    stream->Write(out);
  }
  {
    MutexLock lock(&mu_);
    stream_ = stream;
    context_ = context;
    end_ = absl::OkStatus();
    ++registrations_;
    messages_.push_back(message);
    changed_.SignalAll();
  }
  while (stream->Read(&message)) {
    MutexLock lock(&mu_);
    if (message.has_kv()) AnswerKv(message.kv());
    messages_.push_back(message);
    changed_.SignalAll();
    if (!end_.ok()) break;  // seen with the next heartbeat
  }
  MutexLock lock(&mu_);
  stream_ = nullptr;
  context_ = nullptr;
  changed_.SignalAll();
  return ToGrpcStatus(end_);
}

void FakeCoordinator::AnswerKv(const v1::KvRequest& request) {
  v1::CoordinatorMessage out;
  v1::KvReply* reply = out.mutable_kv();
  reply->set_request_id(request.request_id());
  std::string& value = kv_[request.key()];
  if (request.has_set()) value = request.set();
  if (request.has_add()) {
    int64_t counter = 0;
    (void)absl::SimpleAtoi(value, &counter);
    value = absl::StrCat(counter + request.add());
  }
  if (request.has_get() && value.empty()) {
    reply->mutable_error()->set_code(5);
    reply->mutable_error()->set_message("no such key");
  } else {
    reply->set_value(value);
  }
  stream_->Write(out);
}

grpc::Status FakeCoordinator::FetchProgram(grpc::ServerContext* context,
                                           const v1::FetchProgramRequest* request,
                                           grpc::ServerWriter<v1::ProgramChunk>* writer) {
  if (!Authorized(*context)) return {grpc::StatusCode::UNAUTHENTICATED, "unknown token"};
  if (request->sha256() != Sha256Hex(options_.program_bytes)) {
    return {grpc::StatusCode::NOT_FOUND, "no such program"};
  }
  const std::string& bytes =
      options_.served_bytes.empty() ? options_.program_bytes : options_.served_bytes;
  constexpr size_t kChunk = size_t{256} << 10;
  for (size_t start = 0; start < bytes.size(); start += kChunk) {
    v1::ProgramChunk chunk;
    chunk.set_data(bytes.substr(start, kChunk));
    writer->Write(chunk);
  }
  return grpc::Status::OK;
}

void FakeCoordinator::Send(const v1::CoordinatorMessage& message) {
  MutexLock lock(&mu_);
  if (stream_ != nullptr) stream_->Write(message);
}

void FakeCoordinator::EndStream(const absl::Status& status) {
  MutexLock lock(&mu_);
  end_ = status;
}

void FakeCoordinator::Refuse(const absl::Status& status) {
  MutexLock lock(&mu_);
  refuse_ = status;
}

std::vector<v1::AgentMessage> FakeCoordinator::messages() const {
  MutexLock lock(&mu_);
  return messages_;
}

int FakeCoordinator::registrations() const {
  MutexLock lock(&mu_);
  return registrations_;
}

bool FakeCoordinator::WaitFor(
    const std::function<bool(const std::vector<v1::AgentMessage>&)>& done) const {
  const absl::Time deadline = absl::Now() + kWait;
  MutexLock lock(&mu_);
  while (!done(messages_)) {
    if (changed_.WaitWithDeadline(&mu_, deadline)) return done(messages_);
  }
  return true;
}

bool FakeCoordinator::WaitForState(v1::NodeState state) const {
  return WaitFor([state](const std::vector<v1::AgentMessage>& messages) {
    return std::any_of(messages.begin(), messages.end(), [state](const v1::AgentMessage& message) {
      return message.node().state() == state;
    });
  });
}

bool FakeCoordinator::WaitForRegistrations(int count) const {
  return WaitFor([count](const std::vector<v1::AgentMessage>& messages) {
    return std::count_if(messages.begin(), messages.end(), [](const v1::AgentMessage& message) {
             return message.has_register_();
           }) >= count;
  });
}

v1::NodeUpdate FakeCoordinator::LastUpdate() const {
  v1::NodeUpdate last;
  for (const v1::AgentMessage& message : messages()) {
    if (message.has_node()) last = message.node();
  }
  return last;
}

std::vector<std::string> FakeCoordinator::LogLines(uint64_t* dropped) const {
  std::vector<std::string> lines;
  for (const v1::AgentMessage& message : messages()) {
    lines.insert(lines.end(), message.log().lines().begin(), message.log().lines().end());
    if (dropped != nullptr) *dropped += message.log().dropped();
  }
  return lines;
}

}  // namespace millrace
