#include "testing/kube_apiserver/kube_api_server.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

extern "C" {
#include <sys/pidfd.h>  // glibc 2.36 declares these for C only
}

#include <algorithm>
#include <cerrno>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/time/clock.h"
#include "core/base/random.h"
#include "core/base/status.h"
#include "millrace/status_macros.h"
#include "testing/kube_apiserver/programs.h"

namespace millrace {
namespace {

constexpr absl::Duration kStartTimeout = absl::Seconds(120);  // 4 s on a quiet machine
constexpr absl::Duration kStopPatience = absl::Seconds(3);
constexpr char kMergePatch[] = "application/merge-patch+json";

// Between fork and exec: async-signal-safe calls only. Every descriptor of ours is close-on-exec.
[[noreturn]] void RunChild(pid_t parent, int log, int null, char* const* argv) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(127);
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  if (dup2(null, 0) < 0 || dup2(log, 1) < 0 || dup2(log, 2) < 0) _exit(127);
  execv(argv[0], argv);
  _exit(127);
}

// Whether the process has ended within `timeout`.
bool WaitForEnd(int pid_fd, absl::Duration timeout) {
  pollfd poll_fd{pid_fd, POLLIN, 0};
  return ::poll(&poll_fd, 1, static_cast<int>(absl::ToInt64Milliseconds(timeout))) > 0;
}

absl::Status StatusOfAnswer(const std::string& what, const CurlSession::Response& response) {
  if (response.status >= 200 && response.status < 300) return absl::OkStatus();
  std::string message = response.body.substr(0, 1000);
  if (const auto json = ParseJson(response.body); json.ok()) {
    if (auto said = GetString(*json, "message"); said.ok()) message = *std::move(said);
  }
  absl::StatusCode code = absl::StatusCode::kUnknown;
  if (response.status == 400 || response.status == 422) code = absl::StatusCode::kInvalidArgument;
  if (response.status == 403) code = absl::StatusCode::kPermissionDenied;
  if (response.status == 404) code = absl::StatusCode::kNotFound;
  if (response.status == 409) code = absl::StatusCode::kAlreadyExists;
  return absl::Status(code, absl::StrCat(what, ": HTTP ", response.status, ": ", message));
}

std::string PodsPath(const std::string& namespace_name) {
  return absl::StrCat("/api/v1/namespaces/", namespace_name, "/pods");
}

std::string PodPath(const std::string& namespace_name, const std::string& name) {
  return absl::StrCat(PodsPath(namespace_name), "/", name);
}

Json Subject(const std::string& user) {
  constexpr absl::string_view kServiceAccount = "system:serviceaccount:";
  if (!absl::StartsWith(user, kServiceAccount)) {
    return {{"kind", "User"}, {"name", user}, {"apiGroup", "rbac.authorization.k8s.io"}};
  }
  const std::vector<std::string> parts = absl::StrSplit(user.substr(kServiceAccount.size()), ':');
  return {{"kind", "ServiceAccount"}, {"namespace", parts.front()}, {"name", parts.back()}};
}

std::string TailOf(const std::string& path) {
  const auto text = ReadFile(path);
  if (!text.ok()) return "";
  std::vector<absl::string_view> lines = absl::StrSplit(*text, '\n', absl::SkipEmpty());
  if (lines.size() > 6) lines.erase(lines.begin(), lines.end() - 6);
  return absl::StrJoin(lines, "\n");
}

}  // namespace

std::optional<std::string> KubeApiServer::Unavailable() {
  return KubeProgramUnavailable("kube-apiserver");
}

KubeApiServer::KubeApiServer(Options options, TempDir folder, std::unique_ptr<TestPki> pki)
    : options_(std::move(options)), folder_(std::move(folder)), pki_(std::move(pki)) {}

absl::StatusOr<std::unique_ptr<KubeApiServer>> KubeApiServer::Start(const Options& options) {
  if (const auto why = Unavailable()) return absl::FailedPreconditionError(*why);
  MILLRACE_ASSIGN_OR_RETURN(TempDir folder, TempDir::Create("kube"));
  MILLRACE_ASSIGN_OR_RETURN(std::unique_ptr<TestPki> pki, TestPki::Create("kube-test-ca"));
  std::unique_ptr<KubeApiServer> server(
      new KubeApiServer(options, std::move(folder), std::move(pki)));
  MILLRACE_RETURN_IF_ERROR(server->Prepare());
  MILLRACE_RETURN_IF_ERROR(server->StartEtcd());
  MILLRACE_RETURN_IF_ERROR(server->StartApiServer());
  return server;
}

KubeApiServer::~KubeApiServer() {
  End(&api_server_, SIGKILL, absl::ZeroDuration());
  End(&etcd_, SIGKILL, absl::ZeroDuration());
}

std::string KubeApiServer::url() const { return absl::StrCat("https://127.0.0.1:", port_); }

std::string KubeApiServer::File(const std::string& name) const {
  return JoinPath(folder_.path(), name);
}

absl::Status KubeApiServer::Prepare() {
  MILLRACE_ASSIGN_OR_RETURN(port_, FreeLoopbackPort());
  MILLRACE_ASSIGN_OR_RETURN(etcd_port_, FreeLoopbackPort());
  MILLRACE_ASSIGN_OR_RETURN(etcd_peer_port_, FreeLoopbackPort());
  MILLRACE_ASSIGN_OR_RETURN(
      const TestPki::Identity server,
      pki_->Issue({.common_name = "kube-apiserver",
                   .names = {"127.0.0.1", "localhost", "kubernetes.default.svc"}}));
  MILLRACE_ASSIGN_OR_RETURN(
      admin_, pki_->Issue({.common_name = "admin", .organization = "system:masters"}));
  MILLRACE_ASSIGN_OR_RETURN(const TestPki::KeyPair accounts, TestPki::MakeKeyPair());
  const std::string tokens = absl::StrCat(kAdminToken, ",admin,1,\"system:masters\"\n",  //
                                          kReaderToken, ",reader,2\n",                   //
                                          kNobodyToken, ",nobody,3\n");
  MILLRACE_RETURN_IF_ERROR(WriteFileAtomic(File("ca.crt"), pki_->ca_pem()));
  MILLRACE_RETURN_IF_ERROR(WriteFileAtomic(File("server.crt"), server.certificate_pem));
  MILLRACE_RETURN_IF_ERROR(WriteFileAtomic(File("server.key"), server.private_key_pem));
  MILLRACE_RETURN_IF_ERROR(WriteFileAtomic(File("accounts.key"), accounts.private_key_pem));
  MILLRACE_RETURN_IF_ERROR(WriteFileAtomic(File("accounts.pub"), accounts.public_key_pem));
  return WriteFileAtomic(File("tokens.csv"), tokens);
}

absl::Status KubeApiServer::StartEtcd() {
  const std::string clients = absl::StrCat("http://127.0.0.1:", etcd_port_);
  const std::string peers = absl::StrCat("http://127.0.0.1:", etcd_peer_port_);
  MILLRACE_ASSIGN_OR_RETURN(
      etcd_, Launch({KubeProgramPath("etcd"), "--data-dir", File("etcd"), "--unsafe-no-fsync",
                     "--listen-client-urls", clients, "--advertise-client-urls", clients,
                     "--listen-peer-urls", peers, "--initial-advertise-peer-urls", peers,
                     "--initial-cluster", absl::StrCat("default=", peers),
                     "--experimental-watch-progress-notify-interval=5s"},
                    "etcd.log"));
  return WaitUntilReady(etcd_, absl::StrCat(clients, "/health"));
}

absl::Status KubeApiServer::StartApiServer() {
  std::vector<std::string> argv = {
      KubeProgramPath("kube-apiserver"),
      absl::StrCat("--etcd-servers=http://127.0.0.1:", etcd_port_),
      "--bind-address=127.0.0.1",
      "--advertise-address=127.0.0.1",
      absl::StrCat("--secure-port=", port_),
      "--endpoint-reconciler-type=none",
      "--tls-cert-file=" + File("server.crt"),
      "--tls-private-key-file=" + File("server.key"),
      "--client-ca-file=" + File("ca.crt"),
      "--service-account-issuer=https://kubernetes.default.svc",
      "--service-account-key-file=" + File("accounts.pub"),
      "--service-account-signing-key-file=" + File("accounts.key"),
      "--service-cluster-ip-range=10.0.0.0/24",
      "--token-auth-file=" + File("tokens.csv"),
      "--authorization-mode=RBAC",
      "--anonymous-auth=false",
  };
  if (!options_.service_accounts) argv.push_back("--disable-admission-plugins=ServiceAccount");
  argv.insert(argv.end(), options_.flags.begin(), options_.flags.end());
  MILLRACE_ASSIGN_OR_RETURN(api_server_, Launch(argv, "kube-apiserver.log"));
  return WaitUntilReady(api_server_, url() + "/readyz");
}

absl::StatusOr<KubeApiServer::Process> KubeApiServer::Launch(const std::vector<std::string>& argv,
                                                             const std::string& log) const {
  const UniqueFd log_fd(::open(File(log).c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600));
  const UniqueFd null(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  if (!log_fd.valid() || !null.valid()) return absl::ErrnoToStatus(errno, File(log));
  std::vector<char*> pointers;
  for (const std::string& arg : argv) pointers.push_back(const_cast<char*>(arg.c_str()));
  pointers.push_back(nullptr);
  const pid_t parent = getpid();
  Process process;
  process.pid = ::fork();
  if (process.pid < 0) return absl::ErrnoToStatus(errno, "fork");
  if (process.pid == 0) RunChild(parent, log_fd.get(), null.get(), pointers.data());
  process.pid_fd = UniqueFd(::pidfd_open(process.pid, 0));
  if (process.pid_fd.valid()) return process;
  const int error = errno;
  End(&process, SIGKILL, absl::ZeroDuration());
  return absl::ErrnoToStatus(error, "opening a process descriptor");
}

absl::Status KubeApiServer::WaitUntilReady(const Process& process, const std::string& url) const {
  CurlSession session(
      {.ca_pem = pki_->ca_pem(), .token = kAdminToken, .timeout = absl::Seconds(5)});
  const absl::Time deadline = absl::Now() + kStartTimeout;
  while (absl::Now() < deadline) {
    const auto answer = session.Send({.url = url});
    if (answer.ok() && answer->status == 200) return absl::OkStatus();
    if (WaitForEnd(process.pid_fd.get(), absl::Milliseconds(50))) {
      return absl::UnavailableError(absl::StrCat("a server ended at its start:\n", LogTail()));
    }
  }
  return absl::UnavailableError(absl::StrCat(
      url, " is not ready after ", absl::FormatDuration(kStartTimeout), ":\n", LogTail()));
}

void KubeApiServer::End(Process* process, int signal, absl::Duration patience) {
  if (process->pid <= 0) return;
  ::kill(process->pid, SIGCONT);
  ::kill(process->pid, signal);
  if (!process->pid_fd.valid() || !WaitForEnd(process->pid_fd.get(), patience)) {
    ::kill(process->pid, SIGKILL);
  }
  while (::waitpid(process->pid, nullptr, 0) < 0 && errno == EINTR) {
  }
  *process = Process();
}

std::string KubeApiServer::LogTail() const {
  return absl::StrCat(TailOf(File("etcd.log")), "\n", TailOf(File("kube-apiserver.log")));
}

absl::StatusOr<Json> KubeApiServer::Call(const std::string& method, const std::string& path,
                                         const Json& body, const std::string& content_type) const {
  std::unique_ptr<CurlSession> session;
  {
    MutexLock lock(&mutex_);
    if (!sessions_.empty()) {
      session = std::move(sessions_.back());
      sessions_.pop_back();
    }
  }
  if (session == nullptr) {
    session = std::make_unique<CurlSession>(
        CurlSession::Options{.ca_pem = pki_->ca_pem(), .token = kAdminToken});
  }
  CurlSession::Request request = {.method = method, .url = url() + path};
  if (!body.is_null()) {
    request.content_type = content_type.empty() ? "application/json" : content_type;
    request.body = DumpJson(body);
  }
  MILLRACE_ASSIGN_OR_RETURN(const CurlSession::Response response, session->Send(request));
  {
    MutexLock lock(&mutex_);
    sessions_.push_back(std::move(session));
  }
  MILLRACE_RETURN_IF_ERROR(StatusOfAnswer(absl::StrCat(method, " ", path), response));
  return ParseJson(response.body);
}

absl::Status KubeApiServer::CreateNamespace(const std::string& name) const {
  return Call("POST", "/api/v1/namespaces", {{"metadata", {{"name", name}}}}).status();
}

absl::Status KubeApiServer::CreatePod(const std::string& namespace_name, const std::string& name,
                                      const PodOptions& options) const {
  Json container = {{"name", "main"}, {"image", "none"}};
  for (const auto& [port_name, port] : options.ports) {
    container["ports"].push_back({{"name", port_name}, {"containerPort", port}});
  }
  for (const auto& [resource, quantity] : options.limits) {
    container["resources"]["limits"][resource] = quantity;
  }
  Json pod = {{"metadata", {{"name", name}}}, {"spec", {{"containers", Json::array({container})}}}};
  if (!options.labels.empty()) pod["metadata"]["labels"] = options.labels;
  if (!options.annotations.empty()) pod["metadata"]["annotations"] = options.annotations;
  if (!options.node_name.empty()) pod["spec"]["nodeName"] = options.node_name;
  return Call("POST", PodsPath(namespace_name), pod).status();
}

absl::Status KubeApiServer::SetPodStatus(const std::string& namespace_name, const std::string& name,
                                         const PodStatus& status) const {
  Json json = {{"phase", status.phase}};
  if (!status.pod_ip.empty()) {
    json["podIP"] = status.pod_ip;
    json["podIPs"] = Json::array({{{"ip", status.pod_ip}}});
  }
  if (!status.host_ip.empty()) {
    json["hostIP"] = status.host_ip;
    json["hostIPs"] = Json::array({{{"ip", status.host_ip}}});
  }
  if (status.ready.has_value()) {
    json["conditions"] =
        Json::array({{{"type", "Ready"}, {"status", *status.ready ? "True" : "False"}}});
  }
  return Call("PATCH", PodPath(namespace_name, name) + "/status", {{"status", json}}, kMergePatch)
      .status();
}

absl::Status KubeApiServer::CreateRunningPod(const std::string& namespace_name,
                                             const std::string& name, const Labels& labels,
                                             const std::string& pod_ip) const {
  MILLRACE_RETURN_IF_ERROR(CreatePod(namespace_name, name, {.labels = labels}));
  return SetPodStatus(namespace_name, name, {.pod_ip = pod_ip, .host_ip = "192.168.0.1"});
}

absl::Status KubeApiServer::LabelPod(const std::string& namespace_name, const std::string& name,
                                     const std::string& label,
                                     const std::optional<std::string>& value) const {
  const Json json = value.has_value() ? Json(*value) : Json(nullptr);
  return Call("PATCH", PodPath(namespace_name, name), {{"metadata", {{"labels", {{label, json}}}}}},
              kMergePatch)
      .status();
}

absl::Status KubeApiServer::DeletePod(const std::string& namespace_name, const std::string& name,
                                      absl::Duration grace) const {
  return Call("DELETE", absl::StrCat(PodPath(namespace_name, name),
                                     "?gracePeriodSeconds=", absl::ToInt64Seconds(grace)))
      .status();
}

absl::Status KubeApiServer::Allow(const std::string& user, const std::string& namespace_name,
                                  const std::vector<std::string>& verbs) const {
  const std::string base =
      absl::StrCat("/apis/rbac.authorization.k8s.io/v1/namespaces/", namespace_name);
  const std::string name = absl::StrCat("pods-", absl::StrJoin(verbs, "-"), "-", RandomHex(4));
  const Json rule = {{"apiGroups", {""}}, {"resources", {"pods"}}, {"verbs", verbs}};
  MILLRACE_RETURN_IF_ERROR(Call("POST", base + "/roles",
                                {{"metadata", {{"name", name}}}, {"rules", Json::array({rule})}})
                               .status());
  MILLRACE_RETURN_IF_ERROR(
      Call("POST", base + "/rolebindings",
           {{"metadata", {{"name", name}}},
            {"subjects", Json::array({Subject(user)})},
            {"roleRef",
             {{"kind", "Role"}, {"name", name}, {"apiGroup", "rbac.authorization.k8s.io"}}}})
          .status());
  const absl::Time deadline = absl::Now() + kStartTimeout;
  for (const std::string& verb : verbs) {
    while (true) {
      MILLRACE_ASSIGN_OR_RETURN(const bool allowed, IsAllowed(user, namespace_name, verb));
      if (allowed) break;
      if (absl::Now() > deadline) return absl::UnavailableError("a role has no effect");
      absl::SleepFor(absl::Milliseconds(10));
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<bool> KubeApiServer::IsAllowed(const std::string& user,
                                              const std::string& namespace_name,
                                              const std::string& verb) const {
  MILLRACE_ASSIGN_OR_RETURN(
      const Json answer,
      Call("POST", "/apis/authorization.k8s.io/v1/subjectaccessreviews",
           {{"spec",
             {{"user", user},
              {"resourceAttributes",
               {{"namespace", namespace_name}, {"verb", verb}, {"resource", "pods"}}}}}}));
  MILLRACE_ASSIGN_OR_RETURN(const Json* status, GetObject(answer, "status"));
  return GetBool(*status, "allowed", "status");
}

std::string KubeApiServer::KubeConfig(const std::string& token,
                                      const std::string& namespace_name) const {
  // JSON is YAML.
  return DumpJson(Json{
      {"apiVersion", "v1"},
      {"kind", "Config"},
      {"current-context", "test"},
      {"clusters",
       Json::array(
           {{{"name", "test"},
             {"cluster", {{"server", url()}, {"certificate-authority", File("ca.crt")}}}}})},
      {"contexts",
       Json::array({{{"name", "test"},
                     {"context",
                      {{"cluster", "test"}, {"user", "test"}, {"namespace", namespace_name}}}}})},
      {"users", Json::array({{{"name", "test"}, {"user", {{"token", token}}}}})}});
}

absl::Status KubeApiServer::CreateServiceAccount(const std::string& namespace_name,
                                                 const std::string& name) const {
  return Call("POST", absl::StrCat("/api/v1/namespaces/", namespace_name, "/serviceaccounts"),
              {{"metadata", {{"name", name}}}})
      .status();
}

absl::Status KubeApiServer::DeleteServiceAccount(const std::string& namespace_name,
                                                 const std::string& name) const {
  return Call("DELETE",
              absl::StrCat("/api/v1/namespaces/", namespace_name, "/serviceaccounts/", name))
      .status();
}

absl::StatusOr<std::string> KubeApiServer::ServiceAccountToken(const std::string& namespace_name,
                                                               const std::string& name) const {
  MILLRACE_ASSIGN_OR_RETURN(
      const Json answer,
      Call("POST",
           absl::StrCat("/api/v1/namespaces/", namespace_name, "/serviceaccounts/", name, "/token"),
           {{"apiVersion", "authentication.k8s.io/v1"},
            {"kind", "TokenRequest"},
            {"spec", Json::object()}}));
  MILLRACE_ASSIGN_OR_RETURN(const Json* status, GetObject(answer, "status"));
  return GetString(*status, "token", "status");
}

absl::StatusOr<int64_t> KubeApiServer::Compact() const {
  CurlSession session({.ca_pem = "", .token = "", .timeout = absl::Seconds(30)});
  const std::string etcd = absl::StrCat("http://127.0.0.1:", etcd_port_, "/v3/kv/");
  MILLRACE_ASSIGN_OR_RETURN(
      const CurlSession::Response range,
      session.Send({.method = "POST", .url = etcd + "range", .body = R"({"key":"AA=="})"}));
  MILLRACE_RETURN_IF_ERROR(StatusOfAnswer("etcd", range));
  MILLRACE_ASSIGN_OR_RETURN(const Json answer, ParseJson(range.body));
  MILLRACE_ASSIGN_OR_RETURN(const Json* header, GetObject(answer, "header"));
  MILLRACE_ASSIGN_OR_RETURN(const std::string text, GetString(*header, "revision", "header"));
  int64_t revision = 0;
  if (!absl::SimpleAtoi(text, &revision)) return absl::DataLossError("etcd: revision " + text);
  MILLRACE_ASSIGN_OR_RETURN(
      const CurlSession::Response compacted,
      session.Send({.method = "POST",
                    .url = etcd + "compaction",
                    .body = absl::StrCat("{\"revision\":\"", revision, "\",\"physical\":true}")}));
  MILLRACE_RETURN_IF_ERROR(StatusOfAnswer("etcd", compacted));
  return revision;
}

absl::Status KubeApiServer::Restart(int signal) {
  Stop(signal);
  return StartAgain();
}

void KubeApiServer::Stop(int signal) { End(&api_server_, signal, kStopPatience); }

absl::Status KubeApiServer::StartAgain() { return StartApiServer(); }

void KubeApiServer::Pause() const {
  ::kill(api_server_.pid, SIGSTOP);
  // Its threads run on until the signal has reached each of them.
  siginfo_t info;
  while (::waitid(P_PID, static_cast<id_t>(api_server_.pid), &info, WSTOPPED | WEXITED | WNOWAIT) !=
             0 &&
         errno == EINTR) {
  }
}

void KubeApiServer::Resume() const { ::kill(api_server_.pid, SIGCONT); }

}  // namespace millrace
