// File: testing/kube_apiserver/fault_proxy.h
//
// Stands between a client and a KubeApiServer and breaks what a test wants broken: answers that are
// not the server's, delays, and answers that end or stop after some bytes.
//
// Defines: FaultProxy, ProxyFault.
//
//   MILLRACE_ASSIGN_OR_RETURN(const auto proxy, FaultProxy::Start(*server));
//   proxy->SetRule([](const std::string& request) {   // "GET /api/v1/...?watch=1 HTTP/1.1"
//     return absl::StrContains(request, "watch=") ? ProxyFault{.end_after_bytes = 100}
//                                                 : ProxyFault{};
//   });

#ifndef TESTING_KUBE_APISERVER_FAULT_PROXY_H_
#define TESTING_KUBE_APISERVER_FAULT_PROXY_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "core/base/mutex.h"
#include "core/base/thread.h"
#include "core/base/unique_fd.h"
#include "testing/kube_apiserver/kube_api_server.h"

struct ssl_st;  // OpenSSL's SSL

namespace millrace {

// What happens to one request. As it is: passed on and answered by the server.
struct ProxyFault {
  int status = 0;       // the proxy answers this instead of the server; 0: it does not
  std::string headers;  // of that answer, each with its "\r\n"
  std::string body;
  absl::Duration delay = absl::ZeroDuration();  // before anything else

  // So many bytes of the server's answer after its head, chunk sizes included, come through.
  std::optional<int64_t> end_after_bytes;
  enum class End {
    kClose,  // the connection is closed, without TLS's good-bye
    kReset,  // by RST
    kStall,  // stays open, and nothing comes any more
  };
  End end = End::kClose;
};

// One connection per request, HTTP/1.1, TLS with a certificate of the server's CA. Client
// certificates do not pass: use tokens. Thread safety: thread-safe. Threads: "proxy" and one for
// each connection. Lifetime: the server outlives it.
class FaultProxy {
 public:
  [[nodiscard]] static absl::StatusOr<std::unique_ptr<FaultProxy>> Start(
      const KubeApiServer& server);
  ~FaultProxy();
  FaultProxy(const FaultProxy&) = delete;
  FaultProxy& operator=(const FaultProxy&) = delete;

  [[nodiscard]] std::string url() const;  // "https://127.0.0.1:PORT"

  // Called with the first line of each request, by several threads, and perhaps still while
  // another rule takes its place: a rule owns what it reads. Null: nothing is broken.
  using Rule = std::function<ProxyFault(const std::string& request_line)>;
  void SetRule(Rule rule);

  // The first lines of all requests so far.
  [[nodiscard]] std::vector<std::string> requests() const;

 private:
  struct Tls;

  FaultProxy(int server_port, std::unique_ptr<Tls> tls, UniqueFd listener, int port);
  void Accept();
  void Serve(int client_fd);
  // Passes `request` on and the answer back, broken as `fault` says.
  void Forward(ssl_st* client, int server_fd, const std::string& request, const ProxyFault& fault);
  absl::StatusOr<UniqueFd> ConnectToServer() const;

  const int server_port_;
  const std::unique_ptr<Tls> tls_;
  const UniqueFd listener_;
  const int port_;
  Notification stop_;
  mutable Mutex mutex_;
  Rule rule_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::string> requests_ ABSL_GUARDED_BY(mutex_);
  std::set<int> open_fds_ ABSL_GUARDED_BY(mutex_);  // to be shut down at the end
  std::vector<Thread> connections_ ABSL_GUARDED_BY(mutex_);
  Thread thread_;
};

}  // namespace millrace

#endif  // TESTING_KUBE_APISERVER_FAULT_PROXY_H_
