#include "core/coordinator/coordinator.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <set>
#include <system_error>
#include <utility>

#include "absl/memory/memory.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/clock.h"
#include "core/base/deadlock_detector.h"
#include "core/base/log.h"
#include "core/base/random.h"
#include "core/base/status.h"
#include "core/base/text.h"
#include "core/client/cluster_file.h"
#include "core/client/ended_cluster.h"
#include "core/coordinator/journal/state_journal.h"
#include "core/coordinator/server/certificate_authority.h"
#include "core/coordinator/server/control_plane.h"
#include "core/coordinator/server/coordinator_server.h"
#include "core/coordinator/server/program_source.h"
#include "core/coordinator/server/saved_state.h"
#include "core/coordinator/state/sidecar.h"
#include "core/coordinator/view/cluster_recorder.h"
#include "core/coordinator/view/event_log.h"
#include "core/coordinator/view/view_store.h"
#include "core/coordinator/view/watch_hub.h"
#include "core/coordinator/view/wire_conversion.h"
#include "core/net/grpc_log.h"
#include "core/net/local_interfaces.h"
#include "core/net/port_range.h"
#include "core/net/socket_address.h"
#include "core/process/descriptor_limit.h"
#include "core/proto/state.pb.h"
#include "millrace/status_macros.h"

namespace millrace {
namespace {

constexpr size_t kClusterIdBytes = 8;
constexpr size_t kMaxClusterIdChars = 128;
constexpr size_t kMaxJobNameChars = 40;
// The next driver listens at the same port: one that the system gives to no connection meanwhile.
constexpr PortRange kPortsThatStayFree = {20000, 32767};
// Two messages of an agent.
constexpr int64_t kMinOutputWindow = int64_t{64} << 10;

bool HasJob(const std::vector<NodeRole>& roles, absl::string_view job) {
  return std::any_of(roles.begin(), roles.end(),
                     [job](const NodeRole& role) { return role.job_name == job; });
}

bool IsClusterId(absl::string_view id) {
  return !id.empty() && id.size() <= kMaxClusterIdChars &&
         std::all_of(id.begin(), id.end(), [](unsigned char c) {
           return absl::ascii_isalnum(c) || c == '.' || c == '_' || c == '-';
         });
}

// It becomes part of a DNS name.
bool IsJobName(absl::string_view name) {
  return !name.empty() && name.size() <= kMaxJobNameChars && name.front() != '-' &&
         std::all_of(name.begin(), name.end(), [](unsigned char c) {
           return absl::ascii_islower(c) || absl::ascii_isdigit(c) || c == '-';
         });
}

absl::Status CheckPositive(absl::string_view name, absl::Duration value) {
  if (value > absl::ZeroDuration()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(name, " is ", absl::FormatDuration(value), ": it must be positive"));
}

absl::Status CheckRoles(const std::vector<NodeRole>& roles) {
  if (roles.empty()) return absl::InvalidArgumentError("roles is empty; see DealRoles()");
  std::set<std::pair<std::string, int>> seen;
  for (const NodeRole& role : roles) {
    if (!IsJobName(role.job_name) || role.task_index < 0) {
      return absl::InvalidArgumentError(
          absl::StrCat("roles: \"", role.ToString(), "\" is no job of a-z 0-9 - with an index"));
    }
    if (!seen.emplace(role.job_name, role.task_index).second) {
      return absl::InvalidArgumentError(absl::StrCat("roles: ", role.ToString(), " comes twice"));
    }
  }
  return absl::OkStatus();
}

absl::Status CheckProgram(const ProgramOptions& program) {
  if (program.path.empty()) return absl::InvalidArgumentError("program.path is empty");
  for (const auto& [name, value] : program.env) {
    if (name.empty() || name.find('=') != std::string::npos ||
        name.find('\0') != std::string::npos || value.find('\0') != std::string::npos) {
      return absl::InvalidArgumentError(
          absl::StrCat("program.env: \"", name, "\" cannot be in an environment"));
    }
  }
  for (const std::string& arg : program.args) {
    if (arg.find('\0') != std::string::npos) {
      return absl::InvalidArgumentError("program.args: an argument holds a zero byte");
    }
  }
  return absl::OkStatus();
}

absl::Status CheckName(absl::string_view name) {
  if (name.size() <= kMaxClusterNameBytes && EscapeControls(name) == name) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "name: \"", EscapeControls(Ellipsize(name, kMaxClusterNameBytes)), "\" must have at most ",
      kMaxClusterNameBytes, " bytes of UTF-8, none of them a control character"));
}

absl::Status CheckFeed(const FeedOptions& feed) {
  if (feed.budget_bytes <= 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("feed.budget_bytes is ", feed.budget_bytes, ": it must be positive"));
  }
  if (feed.port_range.empty()) return absl::OkStatus();
  const absl::Status range = ParsePortRange(feed.port_range).status();
  return range.ok() ? range : Annotate(range, "feed.port_range");
}

absl::Status CheckFailure(const FailureOptions& failure, const std::vector<NodeRole>& roles) {
  MILLRACE_RETURN_IF_ERROR(CheckRestartPolicy("failure.restart", failure.restart));
  for (const auto& [job, policy] : failure.restart_by_job) {
    if (!HasJob(roles, job)) {
      return absl::InvalidArgumentError(
          absl::StrCat("failure.restart_by_job: the cluster has no job \"", job, "\""));
    }
    MILLRACE_RETURN_IF_ERROR(
        CheckRestartPolicy(absl::StrCat("failure.restart_by_job[", job, "]"), policy));
  }
  MILLRACE_RETURN_IF_ERROR(CheckQuarantinePolicy("failure.quarantine", failure.quarantine));
  if (failure.stop_grace < absl::ZeroDuration()) {
    return absl::InvalidArgumentError("failure.stop_grace is negative");
  }
  return CheckPositive("failure.stop_timeout", failure.stop_timeout);
}

// A host with more has yet to be built; it is the typing error that is caught.
constexpr int kMaxGpusPerNode = 1024;

absl::Status CheckGpus(const CoordinatorOptions& options) {
  const auto check = [](const std::string& name, int count) -> absl::Status {
    if (count >= 0 && count <= kMaxGpusPerNode) return absl::OkStatus();
    return absl::InvalidArgumentError(
        absl::StrCat(name, " is ", count, ": it must be from 0 to ", kMaxGpusPerNode));
  };
  MILLRACE_RETURN_IF_ERROR(check("node.gpus_per_node", options.node.gpus_per_node));
  for (const auto& [job, count] : options.node.gpus_by_job) {
    if (!HasJob(options.roles, job)) {
      return absl::InvalidArgumentError(
          absl::StrCat("node.gpus_by_job: the cluster has no job \"", job, "\""));
    }
    MILLRACE_RETURN_IF_ERROR(check(absl::StrCat("node.gpus_by_job[", job, "]"), count));
  }
  return absl::OkStatus();
}

absl::Status CheckOptions(const CoordinatorOptions& options) {
  if (!options.cluster_id.empty() && !IsClusterId(options.cluster_id)) {
    return absl::InvalidArgumentError(
        absl::StrCat("cluster_id must have 1 to ", kMaxClusterIdChars, " of A-Z a-z 0-9 . _ -"));
  }
  if (options.bind_address.empty()) return absl::InvalidArgumentError("bind_address is empty");
  if (options.port < 0 || options.port > 65535) {
    return absl::InvalidArgumentError(absl::StrCat("port is ", options.port));
  }
  if (options.clock == nullptr) return absl::InvalidArgumentError("clock is null");
  MILLRACE_RETURN_IF_ERROR(CheckRoles(options.roles));
  MILLRACE_RETURN_IF_ERROR(CheckName(options.name));
  MILLRACE_RETURN_IF_ERROR(CheckProgram(options.program));
  MILLRACE_RETURN_IF_ERROR(CheckFeed(options.feed));
  MILLRACE_RETURN_IF_ERROR(CheckFailure(options.failure, options.roles));
  if (options.node.log_bytes_per_second < 1) {
    return absl::InvalidArgumentError("node.log_bytes_per_second must be at least 1");
  }
  if (options.output_window_bytes != 0 && options.output_window_bytes < kMinOutputWindow) {
    return absl::InvalidArgumentError(absl::StrCat("output_window_bytes must be 0 or at least ",
                                                   kMinOutputWindow, ", found ",
                                                   options.output_window_bytes));
  }
  MILLRACE_RETURN_IF_ERROR(CheckGpus(options));
  MILLRACE_RETURN_IF_ERROR(CheckPositive("reservation_timeout", options.reservation_timeout));
  MILLRACE_RETURN_IF_ERROR(CheckPositive("heartbeat_interval", options.heartbeat_interval));
  MILLRACE_RETURN_IF_ERROR(CheckPositive("lease", options.lease));
  if (options.lost_after < 2 * options.heartbeat_interval) {
    return absl::InvalidArgumentError("lost_after must be at least two heartbeat intervals");
  }
  return absl::OkStatus();
}

// Of what an identity holds, the certificates.
std::string CertificatesOf(absl::string_view identity_pem) {
  return std::string(identity_pem.substr(identity_pem.find("-----BEGIN CERTIFICATE-----")));
}

// What two drivers of one cluster agree about; the program's SHA-256 stays unset.
v1::StateHead HeadOf(const CoordinatorOptions& options) {
  v1::StateHead head;
  for (const NodeRole& role : options.roles) head.add_roles(role.ToString());
  head.set_input_mode(options.input_mode == InputMode::kFeed ? v1::INPUT_MODE_FEED
                                                             : v1::INPUT_MODE_DIRECT);
  for (const std::string& queue : options.feed.queues) head.add_queues(queue);
  head.set_program(options.program.path);
  return head;
}

absl::Status CheckSameCluster(const v1::StateHead& before, const v1::StateHead& now) {
  const auto differs = [&](absl::string_view what, const std::string& was, const std::string& is) {
    return absl::FailedPreconditionError(absl::StrCat(
        "the cluster ", before.cluster_id(), " cannot be resumed with another ", what, ": it has ",
        EscapeControls(was), ", and this driver says ", EscapeControls(is)));
  };
  const std::string roles = absl::StrJoin(before.roles(), ", ");
  if (roles != absl::StrJoin(now.roles(), ", ")) {
    return differs("shape", roles, absl::StrJoin(now.roles(), ", "));
  }
  if (before.input_mode() != now.input_mode()) {
    return differs("input mode", v1::InputMode_Name(before.input_mode()),
                   v1::InputMode_Name(now.input_mode()));
  }
  const std::string queues = absl::StrJoin(before.queues(), ", ");
  if (queues != absl::StrJoin(now.queues(), ", ")) {
    return differs("set of queues", queues, absl::StrJoin(now.queues(), ", "));
  }
  if (before.program() != now.program()) {
    return differs("program", before.program(), now.program());
  }
  return absl::OkStatus();
}

std::string AdvertisedHost(const CoordinatorOptions& options) {
  if (!options.advertise_host.empty()) return options.advertise_host;
  const bool wildcard = options.bind_address == "0.0.0.0" || options.bind_address == "::";
  return wildcard ? LocalHostname() : options.bind_address;
}

}  // namespace

Coordinator::Coordinator() : tokens_(AccessTokens::Random()) {}

Coordinator::~Coordinator() { Shutdown(); }

absl::StatusOr<std::unique_ptr<Coordinator>> Coordinator::Start(CoordinatorOptions options) {
  StopDeadlockDetector();
  RaiseDescriptorLimit();
  LogGrpcHere();
  MILLRACE_RETURN_IF_ERROR(CheckOptions(options));
  if (!options.advertise_host.empty()) {
    MILLRACE_ASSIGN_OR_RETURN(options.advertise_host,
                              ResolveAdvertisedHost(options.advertise_host));
  }
  auto coordinator = absl::WrapUnique(new Coordinator());
  MILLRACE_RETURN_IF_ERROR(coordinator->Open(std::move(options)));
  return coordinator;
}

absl::Status Coordinator::MakeIdentity(const CoordinatorOptions& options) {
  cluster_id_ = options.cluster_id.empty() ? RandomHex(kClusterIdBytes) : options.cluster_id;
  MILLRACE_ASSIGN_OR_RETURN(
      ca_, CertificateAuthority::Create({.cluster_id = cluster_id_, .clock = options.clock}));
  MILLRACE_ASSIGN_OR_RETURN(const CertificateAuthority::Identity agent, ca_->MakeClient("agent"));
  MILLRACE_ASSIGN_OR_RETURN(const CertificateAuthority::Identity viewer, ca_->MakeClient("viewer"));
  agent_identity_pem_ = agent.ToPem();
  viewer_identity_pem_ = viewer.ToPem();
  return absl::OkStatus();
}

absl::Status Coordinator::ResumeIdentity(const CoordinatorOptions& options) {
  MILLRACE_ASSIGN_OR_RETURN(journal_, StateJournal::Resume(options.state_folder));
  const v1::StateHead& head = journal_->head();
  MILLRACE_RETURN_IF_ERROR(CheckSameCluster(head, HeadOf(options)));
  cluster_id_ = head.cluster_id();
  tokens_ = AccessTokens({.operator_token = head.operator_token(),
                          .viewer = head.viewer_token(),
                          .agent = head.agent_token()});
  agent_identity_pem_ = head.agent_identity_pem();
  viewer_identity_pem_ = head.viewer_identity_pem();
  MILLRACE_ASSIGN_OR_RETURN(
      ca_, CertificateAuthority::Restore({.cluster_id = cluster_id_, .clock = options.clock},
                                         head.ca_pem(), head.ca_key_pem()));
  return absl::OkStatus();
}

absl::StatusOr<v1::StateHead> Coordinator::MakeHead(const CoordinatorOptions& options) const {
  v1::StateHead head = HeadOf(options);
  head.set_cluster_id(cluster_id_);
  head.set_operator_token(tokens().operator_token);
  head.set_viewer_token(tokens().viewer);
  head.set_agent_token(tokens().agent);
  head.set_ca_pem(ca_->ca_pem());
  MILLRACE_ASSIGN_OR_RETURN(*head.mutable_ca_key_pem(), ca_->key_pem());
  head.set_agent_identity_pem(agent_identity_pem_);
  head.set_viewer_identity_pem(viewer_identity_pem_);
  head.set_host(AdvertisedHost(options));
  head.set_port(options.port);
  return head;
}

absl::Status Coordinator::Open(CoordinatorOptions options) {
  MILLRACE_RETURN_IF_ERROR(options.resume ? ResumeIdentity(options) : MakeIdentity(options));
  options.cluster_id = cluster_id_;
  options.heartbeat_interval = PacedHeartbeatInterval(options);
  if (options.resume) {
    options.port = journal_->head().port();
  } else if (options.port == 0 && options.port_range.first != 0) {
    MILLRACE_ASSIGN_OR_RETURN(options.port, FindFreePort(options.bind_address, options.port_range));
  } else if (options.port == 0 && !options.state_folder.empty()) {
    MILLRACE_ASSIGN_OR_RETURN(options.port, FindFreePort(options.bind_address, kPortsThatStayFree));
  }
  std::string sha256;
  int64_t program_size = 0;
  if (options.program.shipped) {
    MILLRACE_ASSIGN_OR_RETURN(program_, ProgramSource::Open(options.program.path));
    sha256 = program_->sha256();
    program_size = program_->size();
  }
  if (options.resume && journal_->head().program_sha256() != sha256) {
    return absl::FailedPreconditionError(
        absl::StrCat("the cluster ", cluster_id_, " cannot be resumed with another program: ",
                     options.program.path, " has changed since it was started"));
  }
  if (!options.state_folder.empty() && !options.resume) {
    MILLRACE_ASSIGN_OR_RETURN(v1::StateHead head, MakeHead(options));
    head.set_program_sha256(sha256);
    MILLRACE_ASSIGN_OR_RETURN(journal_, StateJournal::Create(options.state_folder, head));
  }
  const auto num_workers =
      std::count_if(options.roles.begin(), options.roles.end(),
                    [](const NodeRole& role) { return IsFedRole(role.job_name); });
  v1::NodeSpec spec = ToNodeSpec(options, static_cast<int>(num_workers), sha256, program_size);
  MILLRACE_RETURN_IF_ERROR(AddSidecars(options.node.sidecars, options.roles, &spec));
  if (!options.event_log_dir.empty()) {
    absl::StatusOr<std::unique_ptr<EventLog>> events =
        EventLog::Open({.folder = options.event_log_dir, .cluster_id = cluster_id_});
    if (events.ok()) {
      events_ = *std::move(events);
    } else {  // a cluster runs without, too
      MILLRACE_LOG(WARNING) << "there is no event log: " << events.status();
    }
  }
  view_ = std::make_unique<ViewStore>(
      ViewStore::Options{.num_slots = static_cast<int>(options.roles.size()),
                         .incarnation = RandomHex(kClusterIdBytes),
                         .limits = {},
                         .clock = options.clock});
  recorder_ = std::make_unique<ClusterRecorder>(options, view_.get(), events_.get());
  hub_ = std::make_unique<WatchHub>(view_.get(), options.clock);
  plane_ = std::make_unique<ControlPlane>(
      options, std::move(spec),
      [ca = ca_.get()](absl::string_view public_key, absl::string_view name) {
        return ca->SignNodeKey(public_key, name);
      },
      view_.get(), recorder_.get(), journal_.get());
  absl::StatusOr<std::unique_ptr<CoordinatorServer>> server =
      CoordinatorServer::Start({.bind_address = options.bind_address,
                                .port = options.port,
                                .limits = {},
                                .ca = ca_.get(),
                                .client_certificates_pem = CertificatesOf(agent_identity_pem_) +
                                                           CertificatesOf(viewer_identity_pem_),
                                .tokens = &tokens_,
                                .plane = plane_.get(),
                                .view = view_.get(),
                                .hub = hub_.get(),
                                .recorder = recorder_.get(),
                                .program = program_.get()});
  if (!server.ok() && options.resume) {
    return absl::Status(
        server.status().code(),
        absl::StrCat("the agents of cluster ", cluster_id_, " come back to port ", options.port,
                     ", which this driver needs: ", server.status().message()));
  }
  if (!server.ok()) return server.status();
  server_ = *std::move(server);
  address_ = FormatHostPort(AdvertisedHost(options), server_->port());
  program_path_ = options.program.path;
  command_ = CommandOf(options.program);
  name_ = options.name;
  log_dir_ = options.log_dir;
  plane_->Start();  // last: whom its observer tells of an earlier failure may wait for all of this
  return absl::OkStatus();
}

void Coordinator::Shutdown() {
  WithdrawClusterFile();                      // while calls are still answered
  if (plane_ != nullptr) plane_->Shutdown();  // streams hear why
  if (hub_ != nullptr) hub_->Stop();          // readers hear the last of it
  if (events_ != nullptr) events_->Stop();
  if (server_ != nullptr) server_->Shutdown();
}

absl::StatusOr<bool> Coordinator::HoldsCluster(const std::string& state_folder) {
  return StateJournal::HoldsCluster(state_folder);
}

AgentTicket::Standing Coordinator::StandingOf(int executor_id) const {
  if (journal_ == nullptr) return AgentTicket::Standing::kNew;
  return millrace::StandingOf(journal_->restored(), executor_id);
}

std::string Coordinator::PlaceOf(int executor_id) const {
  return journal_ == nullptr ? "" : RecordOf(journal_->restored(), executor_id).place();
}

std::string Coordinator::AgentIdOf(int executor_id) const {
  return journal_ == nullptr ? "" : RecordOf(journal_->restored(), executor_id).agent_id();
}

void Coordinator::GiveUpState() {
  if (journal_ != nullptr) journal_->Remove();
}

absl::Status Coordinator::fenced() const { return plane_->driver().fenced(); }
void Coordinator::Leave(const absl::Status& why) { plane_->driver().Leave(why); }
uint64_t Coordinator::driver_epoch() const { return journal_ == nullptr ? 0 : journal_->epoch(); }

int Coordinator::port() const { return server_->port(); }
const std::string& Coordinator::ca_pem() const { return ca_->ca_pem(); }

// ---- waits --------------------------------------------------------------------------------------

absl::Status Coordinator::WaitRunning(absl::Duration timeout) {
  const absl::Status status = plane_->driver().WaitRunning(timeout);
  const absl::Status shortage = server_->Shortage();
  if (!absl::IsDeadlineExceeded(status) || shortage.ok()) return status;
  // Agents that were turned away look like hosts that cannot reach this one.
  return absl::Status(status.code(), absl::StrCat(shortage.message(), "; ", status.message()));
}

absl::Status Coordinator::WaitFedEndpoints(absl::Duration timeout,
                                           const std::atomic<bool>* given_up) {
  return plane_->driver().WaitFedEndpoints(timeout, given_up);
}

void Coordinator::Wake() { plane_->driver().Wake(); }

absl::Status Coordinator::WaitEnded(NodeFilter filter, absl::Duration timeout) {
  return plane_->driver().WaitEnded(filter, timeout);
}

absl::Status Coordinator::WaitOutput(absl::Duration timeout) {
  return plane_->driver().WaitOutput(timeout);
}

absl::Status Coordinator::WaitFailure(absl::Duration timeout) {
  return plane_->driver().WaitFailure(timeout);
}

void Coordinator::Cancel(absl::string_view reason) { plane_->driver().Cancel(reason); }

// ---- what there is ------------------------------------------------------------------------------

absl::Status Coordinator::stop_request() const { return plane_->driver().stop_request(); }
ClusterStatus Coordinator::Snapshot() const { return plane_->Snapshot(); }
ClusterSpec Coordinator::spec() const { return plane_->driver().spec(); }
absl::Status Coordinator::first_cause() const { return plane_->driver().first_cause(); }
absl::Status Coordinator::Cause(int executor_id) const {
  return plane_->driver().Cause(executor_id);
}

absl::StatusOr<std::map<std::string, std::string>> Coordinator::PublishedEndpoints(
    int executor_id) const {
  return plane_->driver().PublishedEndpoints(executor_id);
}

// ---- the feed -----------------------------------------------------------------------------------

std::vector<int> Coordinator::fed_nodes() const { return plane_->feeds().fed_nodes(); }

absl::StatusOr<FeedTarget> Coordinator::LookupFeed(int executor_id) const {
  return plane_->feeds().Lookup(executor_id);
}

absl::Status Coordinator::AnnounceFeeder(absl::string_view principal, absl::string_view curve_key) {
  return plane_->feeds().Announce(principal, curve_key);
}

void Coordinator::FeedEnd(absl::string_view feed_id, bool aborted) {
  plane_->feeds().FeedEnd(feed_id, aborted);
}

void Coordinator::EndFeed(absl::string_view queue) { plane_->feeds().EndFeed(queue); }

absl::StatusOr<SavedTrain> Coordinator::BeginTrain(const TrainCall& call) {
  return plane_->feeds().BeginTrain(call);
}

void Coordinator::EndTrain(absl::string_view feed_id, const TrainOutcome& outcome) {
  plane_->feeds().EndTrain(feed_id, outcome);
}

absl::Status Coordinator::OpenFeed(absl::string_view feed_id, absl::string_view queue,
                                   int64_t num_partitions) {
  return plane_->feeds().OpenFeed(feed_id, queue, num_partitions);
}

absl::Status Coordinator::ReportPartition(absl::string_view feed_id,
                                          const PartitionReport& report) {
  return plane_->feeds().ReportPartition(feed_id, report);
}

void Coordinator::CloseFeed(absl::string_view feed_id) { plane_->feeds().CloseFeed(feed_id); }

absl::StatusOr<FeedSummary> Coordinator::FeedSummaryOf(absl::string_view feed_id) const {
  absl::StatusOr<FeedSummary> summary;
  plane_->feeds().WithLedger([&](const FeedLedger& ledger) { summary = ledger.Summary(feed_id); });
  return summary;
}

std::vector<FeedSummary> Coordinator::FeedSummaries() const {
  std::vector<FeedSummary> summaries;
  plane_->feeds().WithLedger([&](const FeedLedger& ledger) { summaries = ledger.Summaries(); });
  return summaries;
}

absl::StatusOr<FeedSummary> Coordinator::WaitFeed(absl::string_view feed_id, int64_t done,
                                                  int64_t failed, absl::Duration timeout) {
  return plane_->feeds().WaitFeed(feed_id, done, failed, timeout);
}

std::vector<int64_t> Coordinator::UnfinishedPartitions(absl::string_view feed_id, int executor_id,
                                                       uint32_t node_attempt) const {
  std::vector<int64_t> partitions;
  plane_->feeds().WithLedger([&](const FeedLedger& ledger) {
    partitions = ledger.UnfinishedOn(feed_id, executor_id, node_attempt);
  });
  return partitions;
}

bool Coordinator::IsEqual(absl::string_view queue) const { return plane_->feeds().IsEqual(queue); }

std::map<int, int64_t> Coordinator::EqualRows(absl::string_view feed_id) const {
  return plane_->feeds().EqualRows(feed_id);
}

std::vector<EqualCounts> Coordinator::WaitEqualCounts(absl::string_view feed_id,
                                                      absl::Duration timeout, bool* settled) const {
  return plane_->feeds().WaitEqualCounts(feed_id, timeout, settled);
}

// ---- agents and nodes ---------------------------------------------------------------------------

void Coordinator::ReportAgentStarted(int executor_id, int64_t pid) {
  plane_->agents().AgentStarted(executor_id, pid);
}

void Coordinator::ReportAgentFound(int executor_id, absl::string_view place) {
  plane_->agents().AgentFound(executor_id, place);
}

void Coordinator::ReportAgentExit(const AgentExit& exit) { plane_->agents().AgentExited(exit); }

void Coordinator::ReportAgentAwaited(int executor_id, absl::string_view why) {
  plane_->agents().AgentAwaited(executor_id, why);
}

void Coordinator::Stop(NodeFilter filter, absl::string_view reason, bool now) {
  plane_->driver().Stop(filter, reason, now);
}

// ---- the cluster file ---------------------------------------------------------------------------

void Coordinator::PublishClusterFile() {
  ClusterFile file;
  file.cluster_id = cluster_id_;
  file.address = address_;
  file.ca_pem = ca_->ca_pem();
  file.identity_pem = viewer_identity_pem_;
  file.viewer_token = tokens().viewer;
  file.operator_token = tokens().operator_token;
  file.started = published_ = absl::Now();
  file.name = name_;
  file.program = program_path_;
  file.command = command_;
  file.log_dir = log_dir_;
  absl::StatusOr<std::string> path = WriteClusterFile(file);
  if (path.ok()) {
    cluster_file_ = *std::move(path);
  } else {  // the cluster runs, though it cannot be found by its file
    MILLRACE_LOG(WARNING) << "there is no cluster file for dashboard and CLI: " << path.status()
                          << "; the option cluster_file = false does without";
  }
}

// A record of what became of the cluster takes the file's place.
void Coordinator::WithdrawClusterFile() {
  const std::string path = std::exchange(cluster_file_, "");
  if (path.empty() || !fenced().ok()) return;  // another driver has written it again
  EndedCluster ended = {.cluster_id = cluster_id_,
                        .name = name_,
                        .program = program_path_,
                        .command = command_,
                        .log_dir = log_dir_,
                        .started = published_,
                        .ended = absl::Now(),
                        .outcome = "ended",
                        .cause = ""};
  std::error_code error;
  if (!log_dir_.empty() && !absl::StrContains(log_dir_, "://")) {
    ended.log_dir = std::filesystem::absolute(log_dir_, error).string();
  }
  const absl::Status cause = first_cause();
  const absl::Status stopped = stop_request();
  if (!cause.ok() || !stopped.ok()) {
    ended.outcome = cause.ok() ? "stopped" : "failed";
    ended.cause = FirstLine((cause.ok() ? stopped : cause).message());
  }
  const absl::Status recorded = RecordEndedCluster(path.substr(0, path.rfind('/')), ended);
  if (!recorded.ok()) MILLRACE_LOG(WARNING) << "no record of the cluster's end: " << recorded;
  RemoveClusterFile(path);
}

}  // namespace millrace
