// File: testing/kube_apiserver/kube_api_server.h
//
// A real kube-apiserver with its etcd on loopback, and what a test does to it: pods, rights,
// tokens, compaction, restarts. Nothing runs but these two: pods change when the test says so.
//
// Defines: KubeApiServer.
//
//   if (const auto why = KubeApiServer::Unavailable()) GTEST_SKIP() << *why;
//   MILLRACE_ASSIGN_OR_RETURN(const auto server, KubeApiServer::Start({}));
//   MILLRACE_RETURN_IF_ERROR(server->CreateNamespace("n1"));
//   MILLRACE_RETURN_IF_ERROR(server->CreateRunningPod("n1", "worker-0", {{"job", "w"}},
//   "10.1.0.1"));

#ifndef TESTING_KUBE_APISERVER_KUBE_API_SERVER_H_
#define TESTING_KUBE_APISERVER_KUBE_API_SERVER_H_

#include <sys/types.h>

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "core/base/file.h"
#include "core/base/json.h"
#include "core/base/mutex.h"
#include "core/base/unique_fd.h"
#include "testing/kube_apiserver/curl_session.h"
#include "testing/kube_apiserver/test_pki.h"

namespace millrace {

// A start takes some 4 s: let the tests of a program share one, each with a namespace of its own.
//
// Errors of all methods: the system's, UNAVAILABLE (a server is gone or not ready in time, with the
// end of its log), FAILED_PRECONDITION (no programs, with the reason), and from the API its own
// message under PERMISSION_DENIED, NOT_FOUND, ALREADY_EXISTS, INVALID_ARGUMENT or UNKNOWN. Thread
// safety: thread-safe but for Stop, StartAgain and Restart. Blocking: all, each a minute at most.
// Lifetime: construct it in the main thread, for both servers end with the thread that started
// them, even when the test is killed.
class KubeApiServer {
 public:
  struct Options {
    std::vector<std::string> flags;  // more, for kube-apiserver
    // Gives pods the token of their account, which must exist: no controller makes a namespace's
    // account "default".
    bool service_accounts = false;
  };

  // Why it cannot be started on this machine; nullopt if it can.
  [[nodiscard]] static std::optional<std::string> Unavailable();
  [[nodiscard]] static absl::StatusOr<std::unique_ptr<KubeApiServer>> Start(const Options& options);
  // Kills both and removes their files.
  ~KubeApiServer();
  KubeApiServer(const KubeApiServer&) = delete;
  KubeApiServer& operator=(const KubeApiServer&) = delete;

  // ---- how to reach it ----
  [[nodiscard]] int port() const { return port_; }
  [[nodiscard]] std::string url() const;  // "https://127.0.0.1:PORT"
  [[nodiscard]] const TestPki& pki() const { return *pki_; }

  // Bearer tokens: of the group system:masters, and of the users "reader" and "nobody", which may
  // do nothing until Allow() lets them.
  static constexpr char kAdminToken[] = "admin-token";
  static constexpr char kReaderToken[] = "reader-token";
  static constexpr char kNobodyToken[] = "nobody-token";
  // A client certificate of a group system:masters.
  [[nodiscard]] const TestPki::Identity& admin() const { return admin_; }

  // ---- requests, as the superuser ----
  // `path` begins with a slash. An empty `content_type` stands for JSON.
  [[nodiscard]] absl::StatusOr<Json> Call(const std::string& method, const std::string& path,
                                          const Json& body = nullptr,
                                          const std::string& content_type = "") const;

  [[nodiscard]] absl::Status CreateNamespace(const std::string& name) const;

  using Labels = std::map<std::string, std::string>;
  struct PodOptions {
    Labels labels;
    Labels annotations;
    std::map<std::string, int> ports;           // name to containerPort
    std::map<std::string, std::string> limits;  // resource to quantity
    std::string node_name;                      // empty: none, and a deletion takes effect at once
  };
  // Pending and without an address.
  [[nodiscard]] absl::Status CreatePod(const std::string& namespace_name, const std::string& name,
                                       const PodOptions& options) const;
  struct PodStatus {
    std::string phase = "Running";
    std::string pod_ip;  // empty: not told
    std::string host_ip;
    std::optional<bool> ready;  // condition Ready
  };
  [[nodiscard]] absl::Status SetPodStatus(const std::string& namespace_name,
                                          const std::string& name, const PodStatus& status) const;
  // Both of them.
  [[nodiscard]] absl::Status CreateRunningPod(const std::string& namespace_name,
                                              const std::string& name, const Labels& labels,
                                              const std::string& pod_ip) const;
  // nullopt removes the label.
  [[nodiscard]] absl::Status LabelPod(const std::string& namespace_name, const std::string& name,
                                      const std::string& label,
                                      const std::optional<std::string>& value) const;
  // Zero `grace` removes it at once; otherwise a pod with a node stays, terminating.
  [[nodiscard]] absl::Status DeletePod(const std::string& namespace_name, const std::string& name,
                                       absl::Duration grace = absl::ZeroDuration()) const;

  // A kubeconfig of one context: this server, that token, this namespace.
  [[nodiscard]] std::string KubeConfig(const std::string& token,
                                       const std::string& namespace_name) const;

  // Lets `user` use exactly these verbs on pods of the namespace: {"list", "watch"}. A service
  // account is the user "system:serviceaccount:NAMESPACE:NAME". Returns when the server knows.
  [[nodiscard]] absl::Status Allow(const std::string& user, const std::string& namespace_name,
                                   const std::vector<std::string>& verbs) const;
  [[nodiscard]] absl::Status CreateServiceAccount(const std::string& namespace_name,
                                                  const std::string& name) const;
  // Its tokens are refused some 10 s later.
  [[nodiscard]] absl::Status DeleteServiceAccount(const std::string& namespace_name,
                                                  const std::string& name) const;
  [[nodiscard]] absl::StatusOr<std::string> ServiceAccountToken(const std::string& namespace_name,
                                                                const std::string& name) const;

  // ---- what goes wrong ----
  // Makes etcd forget everything before its latest version, which is returned. A watch from before
  // fails with 410 only after a restart, for the API server has a cache.
  [[nodiscard]] absl::StatusOr<int64_t> Compact() const;

  // Ends kube-apiserver with `signal` and starts another on the same port, or only one of both.
  // etcd stays. SIGTERM waits 3 s for open watches, then kills.
  [[nodiscard]] absl::Status Restart(int signal);
  void Stop(int signal);
  [[nodiscard]] absl::Status StartAgain();
  // SIGSTOP and SIGCONT: it accepts connections and answers nothing.
  void Pause() const;
  void Resume() const;

  [[nodiscard]] pid_t pid() const { return api_server_.pid; }
  // The last lines of both logs.
  [[nodiscard]] std::string LogTail() const;

 private:
  struct Process {
    pid_t pid = 0;  // 0: none
    UniqueFd pid_fd;
  };

  KubeApiServer(Options options, TempDir folder, std::unique_ptr<TestPki> pki);

  // Whether the authorizer, which learns of roles a little later, lets `user` do it.
  absl::StatusOr<bool> IsAllowed(const std::string& user, const std::string& namespace_name,
                                 const std::string& verb) const;
  absl::Status Prepare();
  absl::Status StartEtcd();
  absl::Status StartApiServer();
  // Until `ready` answers 200.
  absl::Status WaitUntilReady(const Process& process, const std::string& url) const;
  absl::StatusOr<Process> Launch(const std::vector<std::string>& argv,
                                 const std::string& log) const;
  // Waits for its end for `patience`, then kills.
  static void End(Process* process, int signal, absl::Duration patience);
  [[nodiscard]] std::string File(const std::string& name) const;

  const Options options_;
  const TempDir folder_;
  const std::unique_ptr<TestPki> pki_;
  TestPki::Identity admin_;
  int port_ = 0;
  int etcd_port_ = 0;
  int etcd_peer_port_ = 0;
  Process etcd_;
  Process api_server_;

  // Connections that are free, for Call.
  mutable Mutex mutex_;
  mutable std::vector<std::unique_ptr<CurlSession>> sessions_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace millrace

#endif  // TESTING_KUBE_APISERVER_KUBE_API_SERVER_H_
