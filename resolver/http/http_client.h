// File: resolver/http/http_client.h
//
// HTTP requests with a deadline, over libcurl: whole answers, or bodies that are handed on as they
// arrive.
//
// Defines: HttpClient, HttpRequest, HttpResponse, HttpFailure, HttpFailureOf().
//
//   MILLRACE_ASSIGN_OR_RETURN(auto http, HttpClient::Create({.tls = {.ca_file = path}}));
//   MILLRACE_ASSIGN_OR_RETURN(HttpResponse response,
//                             http->Send({.url = url, .timeout = absl::Seconds(5)}, stop));
//   if (response.status != 200) ...   // any answer of the server is OK here
//
// HTTP/1.1 only: one request per connection at a time, so that a cut body is always seen as such.
// Redirects are not followed, nothing is stored, and no proxy is used unless the options say so.

#ifndef RESOLVER_HTTP_HTTP_CLIENT_H_
#define RESOLVER_HTTP_HTTP_CLIENT_H_

#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "core/base/mutex.h"
#include "millrace/tls_options.h"

namespace millrace {

struct HttpRequest {
  std::string method = "GET";
  std::string url;  // http or https
  // Sent as they are, so they must hold no line end (INVALID_ARGUMENT). Never part of an error
  // text.
  std::vector<std::pair<std::string, std::string>> headers;
  std::string body;
  // A certificate of ours and its key, PEM; both or neither.
  std::string client_certificate_pem;
  std::string client_key_pem;
  // Of the whole request, with connecting and the body. May be infinite.
  absl::Duration timeout = absl::Seconds(30);
  // From when it is sent to the first byte of the answer.
  absl::Duration answer_timeout = absl::InfiniteDuration();
  // The longest time in which nothing comes once it is sent.
  absl::Duration silence_timeout = absl::InfiniteDuration();
  // The largest body, unpacked. A streamed body of a 200 has no limit.
  size_t max_body_bytes = size_t{64} << 20;
  // Asks for a packed body. It pays on links below some 100 Mbit/s and costs CPU on others.
  bool gzip = false;
};

struct HttpResponse {
  int status = 0;                              // 100 to 599
  std::map<std::string, std::string> headers;  // by lower-case name; of equal ones the last
  std::string body;
};

// Why a request had no (whole) answer; what Send() returns carries it, see HttpFailureOf().
enum class HttpFailure {
  kNone,      // not such an error
  kResolve,   // UNAVAILABLE: the host's name is not known
  kConnect,   // UNAVAILABLE: refused, unreachable, connect_timeout, a proxy that does not let
              // through
  kTls,       // UNAVAILABLE: says which: unknown authority, wrong name, expired, our certificate
  kTimeout,   // DEADLINE_EXCEEDED: timeout or answer_timeout; says in which step
  kSilent,    // UNAVAILABLE: connected, but nothing came for silence_timeout
  kCut,       // UNAVAILABLE: the connection ended within the answer; says what had come
  kTooLarge,  // RESOURCE_EXHAUSTED: names the limit
  kProtocol,  // DATA_LOSS: what came is no HTTP
};
[[nodiscard]] HttpFailure HttpFailureOf(const absl::Status& status);

// Keeps idle connections for the next requests.
// Thread safety: thread-safe. Blocking: Send() until the answer is whole.
class HttpClient {
 public:
  enum class Proxy {
    kNone,
    // HTTPS_PROXY, http_proxy, ALL_PROXY, NO_PROXY; never for this host itself. NO_PROXY is held
    // against TlsOptions::server_name where that is set.
    kEnvironment,
  };

  struct Options {
    TlsOptions tls;
    Proxy proxy = Proxy::kNone;
    // Used instead, if not empty: "http://host:port", "https://..." or "socks5://...".
    std::string proxy_url;
    // Of name, TCP and TLS together.
    absl::Duration connect_timeout = absl::Seconds(10);
    // Requests at the same time need one connection each; so many are kept afterwards.
    int max_idle_connections = 4;
  };

  // Called with each piece of the body as it arrives, in the thread of Send(); first with an empty
  // piece, as soon as the server has said 200. An error ends the request and is what Send()
  // returns.
  using BodyCallback = std::function<absl::Status(absl::string_view piece)>;

  // Returns INVALID_ARGUMENT for options that contradict each other.
  [[nodiscard]] static absl::StatusOr<std::unique_ptr<HttpClient>> Create(Options options);
  // No Send() may be running.
  ~HttpClient();
  HttpClient(const HttpClient&) = delete;
  HttpClient& operator=(const HttpClient&) = delete;

  // The server's answer, whatever its status. With `on_body` the body of a 200 goes there and not
  // into the response. A request whose idle connection had ended meanwhile is sent on a new one.
  // Errors name the method and the URL without its query: see HttpFailure; CANCELLED as soon as
  // `stop` is requested; INVALID_ARGUMENT for what cannot be sent.
  [[nodiscard]] absl::StatusOr<HttpResponse> Send(const HttpRequest& request, std::stop_token stop,
                                                  const BodyCallback& on_body = nullptr);

 private:
  struct Connection;
  class Transfer;

  explicit HttpClient(Options options);

  [[nodiscard]] std::unique_ptr<Connection> TakeConnection();
  void KeepConnection(std::unique_ptr<Connection> connection);

  const Options options_;
  Mutex mu_;
  std::vector<std::unique_ptr<Connection>> idle_ ABSL_GUARDED_BY(mu_);
};

}  // namespace millrace

#endif  // RESOLVER_HTTP_HTTP_CLIENT_H_
