#include "core/client/raw_cluster_client.h"

#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "core/base/deadline.h"
#include "core/base/text.h"
#include "core/client/client_channel.h"
#include "core/client/cluster_file.h"
#include "core/client/cluster_watch.h"
#include "core/proto/operator.grpc.pb.h"
#include "core/proto/time_proto.h"
#include "core/proto/watch.grpc.pb.h"
#include "millrace/status_macros.h"

namespace millrace {
namespace {

constexpr absl::Duration kLeastInterval = absl::Milliseconds(20);
constexpr int kMaxLogLines = 1000;
constexpr int kMaxKeys = 10'000;
constexpr absl::Duration kOwnerEnds = absl::Seconds(2);
constexpr absl::Duration kOwnerPoll = absl::Milliseconds(20);

absl::Status CheckLines(absl::string_view name, int lines) {
  if (lines >= 0 && lines <= kMaxLogLines) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(name, " is ", lines, ": must be 0 to ", kMaxLogLines));
}

class GrpcClusterClient final : public RawClusterClient {
 public:
  explicit GrpcClusterClient(ClusterClientOptions options)
      : options_(std::move(options)),
        channel_(MakeClientChannel(options_.address, options_.ca_pem, options_.identity_pem)),
        view_(v1::ClusterView::NewStub(channel_)),
        control_(v1::ClusterControl::NewStub(channel_)) {}

  absl::StatusOr<std::unique_ptr<ClusterWatch>> Watch(const RawWatchOptions& options,
                                                      RawWatchCallbacks callbacks) override {
    if (options.interval < kLeastInterval || options.interval > absl::Hours(1)) {
      return absl::InvalidArgumentError(absl::StrCat(
          "interval is ", absl::FormatDuration(options.interval), ": must be 20 ms to 1 h"));
    }
    MILLRACE_RETURN_IF_ERROR(CheckLines("log_lines", options.log_lines));
    return StartClusterWatch(options_, options, std::move(callbacks));
  }

  absl::StatusOr<ClusterView> Snapshot(const RawSnapshotOptions& options) override {
    grpc::ClientContext context;
    PrepareCall(ViewToken(), options_.timeout, &context);
    const LiveContexts::Entry entry(&contexts_, &context);
    MILLRACE_RETURN_IF_ERROR(entry.status());
    v1::WatchRequest request;
    request.set_level(options.level);
    const auto reader = view_->Watch(&context, request);
    v1::WatchUpdate update;
    ClusterView view;
    if (reader->Read(&update)) {
      context.TryCancel();
      for (v1::WatchUpdate rest; reader->Read(&rest);) {
      }
      (void)reader->Finish();  // CANCELLED, as asked
      MILLRACE_RETURN_IF_ERROR(view.Apply(update));
      return view;
    }
    MILLRACE_RETURN_IF_ERROR(Explain(reader->Finish()));
    return absl::UnavailableError("the cluster has ended");
  }

  absl::Status ReadLogs(const ReadLogsOptions& options,
                        absl::FunctionRef<bool(const v1::LogBatch&)> consume) override {
    MILLRACE_RETURN_IF_ERROR(CheckLines("lines", options.lines));
    grpc::ClientContext context;
    PrepareCall(ViewToken(), absl::InfiniteDuration(), &context);
    const LiveContexts::Entry entry(&contexts_, &context);
    MILLRACE_RETURN_IF_ERROR(entry.status());
    v1::ReadLogsRequest request;
    for (const int id : options.executor_ids) request.add_executor_ids(id);
    request.set_lines(static_cast<uint32_t>(options.lines));
    request.set_follow(options.follow);
    const auto reader = view_->ReadLogs(&context, request);
    bool enough = false;
    bool heard = false;
    for (v1::LogBatch batch; reader->Read(&batch);) {
      heard = true;
      const bool heartbeat = batch.lines().empty() && batch.dropped() == 0;
      if (enough || heartbeat || consume(batch)) continue;
      enough = true;
      context.TryCancel();
    }
    const grpc::Status status = reader->Finish();
    if (enough) return absl::OkStatus();
    absl::Status explained = Explain(status);
    // A driver that ended without a word has ended too, as a watch sees it.
    if (heard && options.follow && absl::IsUnavailable(explained) && OwnerEnds()) {
      return absl::OkStatus();
    }
    return explained;
  }

  absl::Status StopCluster(absl::string_view reason, bool now) override {
    v1::StopClusterRequest request;
    request.set_reason(std::string(reason));
    request.set_now(now);
    v1::StopClusterReply reply;
    return Control(&v1::ClusterControl::Stub::StopCluster, request, &reply, options_.timeout);
  }

  absl::StatusOr<uint32_t> RestartNode(int executor_id, absl::string_view reason) override {
    v1::RestartNodeRequest request;
    request.set_executor_id(executor_id);
    request.set_reason(std::string(reason));
    v1::RestartNodeReply reply;
    MILLRACE_RETURN_IF_ERROR(
        Control(&v1::ClusterControl::Stub::RestartNode, request, &reply, options_.timeout));
    return reply.attempt();
  }

  absl::StatusOr<std::string> KvGet(absl::string_view key, absl::Duration wait) override {
    v1::KvRequest request;
    request.set_key(std::string(key));
    *request.mutable_get() = DurationToProto(wait);
    return Kv(request, wait + options_.timeout);
  }
  absl::Status KvSet(absl::string_view key, absl::string_view value) override {
    v1::KvRequest request;
    request.set_key(std::string(key));
    request.set_set(std::string(value));
    return Kv(request, options_.timeout).status();
  }
  absl::StatusOr<int64_t> KvAdd(absl::string_view key, int64_t delta) override {
    v1::KvRequest request;
    request.set_key(std::string(key));
    request.set_add(delta);
    MILLRACE_ASSIGN_OR_RETURN(const std::string sum, Kv(request, options_.timeout));
    int64_t value = 0;
    if (absl::SimpleAtoi(sum, &value)) return value;
    return absl::InternalError(absl::StrCat("the coordinator answered an addition with \"",
                                            Ellipsize(EscapeControls(sum), 100),
                                            "\", which is no number"));
  }
  absl::StatusOr<std::string> KvDelete(absl::string_view key) override {
    v1::KvRequest request;
    request.set_key(std::string(key));
    request.set_delete_(true);
    return Kv(request, options_.timeout);
  }

  absl::StatusOr<std::vector<KeyEntry>> ListKeys(absl::string_view prefix, int limit,
                                                 bool* more) override {
    if (limit < 1 || limit > kMaxKeys) {
      return absl::InvalidArgumentError(
          absl::StrCat("limit is ", limit, ": must be 1 to ", kMaxKeys));
    }
    v1::ListKeysRequest request;
    request.set_prefix(std::string(prefix));
    request.set_limit(static_cast<uint32_t>(limit));
    v1::ListKeysReply reply;
    MILLRACE_RETURN_IF_ERROR(
        Control(&v1::ClusterControl::Stub::ListKeys, request, &reply, options_.timeout));
    std::vector<KeyEntry> entries;
    for (const v1::ListKeysReply::Entry& entry : reply.entries()) {
      entries.push_back({entry.key(), entry.value_bytes()});
    }
    if (more != nullptr) *more = reply.more();
    return entries;
  }

  void Cancel() override { contexts_.CancelAll(); }

 private:
  const std::string& ViewToken() const {
    return options_.viewer_token.empty() ? options_.operator_token : options_.viewer_token;
  }

  // Whether the driver, whose connection broke, is gone or about to be: a process closes its
  // sockets before it is no more.
  bool OwnerEnds() const {
    if (options_.owner_gone == nullptr) return false;
    const Deadline deadline(kOwnerEnds);
    while (!options_.owner_gone()) {
      if (deadline.Passed() || contexts_.cancelled()) return false;
      absl::SleepFor(kOwnerPoll);
    }
    return true;
  }

  absl::Status Explain(const grpc::Status& status) const {
    absl::Status explained = FromCallStatus(status, options_.address);
    if (absl::IsCancelled(explained) && contexts_.cancelled()) {
      return absl::CancelledError("the client was cancelled");
    }
    if (absl::IsUnavailable(explained) && options_.owner_gone != nullptr && options_.owner_gone()) {
      return absl::UnavailableError("the cluster is gone: its driver has ended");
    }
    return explained;
  }

  template <typename Request, typename Reply>
  absl::Status Control(grpc::Status (v1::ClusterControl::Stub::*method)(grpc::ClientContext*,
                                                                        const Request&, Reply*),
                       const Request& request, Reply* reply, absl::Duration timeout) {
    if (options_.operator_token.empty()) {
      return absl::PermissionDeniedError(
          "this needs the cluster's operator token: the file <id>.operator beside the cluster "
          "file, which only the driver's user has");
    }
    grpc::ClientContext context;
    PrepareCall(options_.operator_token, timeout, &context);
    const LiveContexts::Entry entry(&contexts_, &context);
    MILLRACE_RETURN_IF_ERROR(entry.status());
    return Explain((control_.get()->*method)(&context, request, reply));
  }

  absl::StatusOr<std::string> Kv(const v1::KvRequest& request, absl::Duration timeout) {
    v1::KvReply reply;
    MILLRACE_RETURN_IF_ERROR(Control(&v1::ClusterControl::Stub::Kv, request, &reply, timeout));
    return reply.value();
  }

  const ClusterClientOptions options_;
  const std::shared_ptr<grpc::Channel> channel_;
  const std::unique_ptr<v1::ClusterView::Stub> view_;
  const std::unique_ptr<v1::ClusterControl::Stub> control_;
  LiveContexts contexts_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<RawClusterClient>> RawClusterClient::Connect(
    ClusterClientOptions options) {
  MILLRACE_RETURN_IF_ERROR(CheckEndpoint(options.address, options.ca_pem, options.identity_pem));
  if (options.viewer_token.empty() && options.operator_token.empty()) {
    return absl::InvalidArgumentError("there is neither a viewer's nor an operator's token");
  }
  if (options.timeout <= absl::ZeroDuration()) {
    return absl::InvalidArgumentError("timeout must be greater than zero");
  }
  return std::make_unique<GrpcClusterClient>(std::move(options));
}

ClusterClientOptions ClusterClientOptionsFrom(const ClusterFile& cluster) {
  ClusterClientOptions options;
  options.address = cluster.address;
  options.ca_pem = cluster.ca_pem;
  options.identity_pem = cluster.identity_pem;
  options.viewer_token = cluster.viewer_token;
  options.operator_token = cluster.operator_token;
  options.owner_gone = [cluster] { return ClusterOwnerGone(cluster); };
  return options;
}

}  // namespace millrace
