// File: testing/kube_apiserver/etcd_server.h
//
// A real etcd on loopback, alone.
//
// Defines: EtcdServer.
//
//   if (const auto why = EtcdServer::Unavailable()) GTEST_SKIP() << *why;
//   MILLRACE_ASSIGN_OR_RETURN(const auto etcd, EtcdServer::Start());
//   MILLRACE_RETURN_IF_ERROR(etcd->Put("/c/worker/0", "h0:1"));

#ifndef TESTING_KUBE_APISERVER_ETCD_SERVER_H_
#define TESTING_KUBE_APISERVER_ETCD_SERVER_H_

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/base/file.h"
#include "core/base/json.h"
#include "testing/child_process.h"
#include "testing/kube_apiserver/test_pki.h"

namespace millrace {

// Thread safety: single-threaded. Blocking: all, a minute at most.
class EtcdServer {
 public:
  struct Options {
    const TestPki* pki = nullptr;  // given: TLS, and clients must show a certificate of it
  };

  // Why it cannot be started on this machine; nullopt if it can.
  [[nodiscard]] static std::optional<std::string> Unavailable();
  [[nodiscard]] static absl::StatusOr<std::unique_ptr<EtcdServer>> Start(const Options& options);
  [[nodiscard]] static absl::StatusOr<std::unique_ptr<EtcdServer>> Start() { return Start({}); }
  ~EtcdServer() = default;

  [[nodiscard]] const std::string& url() const { return url_; }
  // "client.crt", "client.key", "ca.crt" of a server with TLS.
  [[nodiscard]] std::string File(const std::string& name) const;

  // A request to its JSON gateway; `token` for one with users.
  [[nodiscard]] absl::StatusOr<Json> Call(const std::string& path, const Json& body,
                                          const std::string& token = "") const;
  [[nodiscard]] absl::Status Put(const std::string& key, const std::string& value) const;
  [[nodiscard]] absl::Status Delete(const std::string& key) const;

  // Kills it; what it holds stays.
  void Stop();
  // At the same port, with what it held.
  [[nodiscard]] absl::Status StartAgain();

 private:
  EtcdServer(TempDir folder, std::string url, std::vector<std::string> argv)
      : folder_(std::move(folder)), url_(std::move(url)), argv_(std::move(argv)) {}

  const TempDir folder_;
  const std::string url_;
  std::vector<std::string> argv_;
  std::unique_ptr<ChildProcess> process_;
};

}  // namespace millrace

#endif  // TESTING_KUBE_APISERVER_ETCD_SERVER_H_
