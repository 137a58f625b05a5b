// File: testing/kube_apiserver/curl_session.h
//
// Plain requests over libcurl, for what a test does to an API server and for what a benchmark
// compares with: nothing of the code under test.
//
// Defines: CurlSession.

#ifndef TESTING_KUBE_APISERVER_CURL_SESSION_H_
#define TESTING_KUBE_APISERVER_CURL_SESSION_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace millrace {

// Keeps its connection. Thread safety: not thread-safe. Blocking: Send, until the answer or the
// timeout.
class CurlSession {
 public:
  struct Options {
    std::string ca_pem;  // empty: whom the system trusts
    std::string token;   // Bearer; empty: none
    absl::Duration timeout = absl::Seconds(60);
  };
  struct Request {
    std::string method = "GET";
    std::string url;
    std::string content_type;
    std::string body;
    // So much of the answer's body is kept; all of it is counted.
    size_t max_kept_bytes = SIZE_MAX;
    // Called with each piece of the answer's body; false ends the request.
    std::function<bool(absl::string_view piece)> on_piece;
  };
  struct Response {
    int status = 0;
    std::string body;
    int64_t body_bytes = 0;
  };

  explicit CurlSession(Options options);
  ~CurlSession();
  CurlSession(const CurlSession&) = delete;
  CurlSession& operator=(const CurlSession&) = delete;

  // An answer of any status. UNAVAILABLE, with curl's words, if there is none.
  [[nodiscard]] absl::StatusOr<Response> Send(const Request& request);

 private:
  struct Handle;

  const Options options_;
  const std::unique_ptr<Handle> handle_;
};

}  // namespace millrace

#endif  // TESTING_KUBE_APISERVER_CURL_SESSION_H_
