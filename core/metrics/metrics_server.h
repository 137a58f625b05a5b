// File: core/metrics/metrics_server.h
//
// GET /metrics over HTTP, or HTTPS, for Prometheus.
//
// Defines: MetricsRequest, MetricsServerOptions, CheckServed(), MetricsUrl(),
// MetricsServer.
//
//   MILLRACE_ASSIGN_OR_RETURN(auto server, MetricsServer::Start({.port = 9464}, answer));
#ifndef CORE_METRICS_METRICS_SERVER_H_
#define CORE_METRICS_METRICS_SERVER_H_

#include <functional>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "core/metrics/metrics_text.h"

namespace millrace {

struct MetricsRequest {
  MetricsFormat format = MetricsFormat::kText;
  bool nodes = false;  // "/metrics?nodes=1"; for whom there is such a thing
};

struct MetricsServerOptions {
  std::string address = "127.0.0.1";  // an address of this host, in numbers
  int port = 0;                       // 0: any that is free
  // A file whose first line every request must bring as "Authorization: Bearer ...". It is read for
  // each request, so that it may be replaced. Empty: nothing is asked for.
  std::string token_file;
  // PEM files: the certificate with what leads to its CA, and its key. Empty: no TLS.
  std::string certificate_file;
  std::string key_file;
  // PEM: callers must have a certificate of one of these. Empty: none is asked for.
  std::string client_ca_file;
};

// Whether this may be served: INVALID_ARGUMENT for an address that other machines reach, without
// TLS, or without a token or certificates of callers. `prefix`: how the options that it names
// begin.
[[nodiscard]] absl::Status CheckServed(const MetricsServerOptions& options,
                                       absl::string_view prefix = "--");

// Of a server with these options that has `port`.
[[nodiscard]] std::string MetricsUrl(const MetricsServerOptions& options, int port);

// Whoever may connect may take all of its four threads for some seconds each; nothing else waits
// for them. A request is at most some hundred headers of 8 KiB, and has no body.
//
// Threads: "metrics", and the library's four. Thread safety: thread-safe. Blocking: the
// destructor, until answers under way are written or five seconds have passed.
class MetricsServer {
 public:
  using Answer = std::function<absl::StatusOr<std::string>(const MetricsRequest&)>;

  // Returns INVALID_ARGUMENT for an address that is none, or options that do not go together; the
  // error of a file; UNAVAILABLE, naming it, if the port cannot be listened on. `answer` is called
  // from several threads; its error is the text of a 503.
  [[nodiscard]] static absl::StatusOr<std::unique_ptr<MetricsServer>> Start(
      const MetricsServerOptions& options, Answer answer);
  virtual ~MetricsServer() = default;

  [[nodiscard]] virtual int port() const = 0;
};

}  // namespace millrace

#endif  // CORE_METRICS_METRICS_SERVER_H_
