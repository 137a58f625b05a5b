// File: resolver/http/loopback_server.h
//
// An HTTP server for tests, on loopback, with TLS or without, that answers as a test says, byte by
// byte: also with half an answer, with nothing, or with what is no HTTP.
//
// Defines: LoopbackServer.
//
//   auto server = *LoopbackServer::Start({}, [](const LoopbackServer::Request& request,
//                                               LoopbackServer::Peer& peer) {
//     peer.Answer(200, "hello");
//   });
//   http->Send({.url = server->url() + "/greeting"}, {});

#ifndef RESOLVER_HTTP_LOOPBACK_SERVER_H_
#define RESOLVER_HTTP_LOOPBACK_SERVER_H_

#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "core/base/mutex.h"
#include "core/base/thread.h"
#include "core/base/unique_fd.h"

struct ssl_ctx_st;  // OpenSSL's SSL_CTX
struct ssl_st;      // OpenSSL's SSL

namespace millrace {

// Thread safety: thread-safe. Threads: "loopback" and one for each connection. Lifetime: the
// destructor ends all connections and waits for the handlers, which must not wait for anything else
// than their peer.
class LoopbackServer {
 public:
  struct Options {
    // PEM; empty: no TLS.
    std::string certificate_pem;
    std::string private_key_pem;
    // PEM: clients must show a certificate of this CA.
    std::string client_ca_pem;
  };

  struct Request {
    std::string method;
    std::string target;                          // "/api/v1/pods?limit=500"
    std::map<std::string, std::string> headers;  // by lower-case name
    std::string body;
    int number = 0;       // of all requests, from 1
    std::string subject;  // common name of the client's certificate
  };

  // One connection, while a request of it is handled.
  class Peer {
   public:
    // A whole answer; the connection stays open. `headers` each with "\r\n".
    void Answer(int status, absl::string_view body, absl::string_view headers = "");
    // The beginning of a 200 whose body comes in chunks.
    void BeginChunks(absl::string_view headers = "");
    void Chunk(absl::string_view data);
    void EndChunks();
    void Write(absl::string_view bytes);
    // Ends the connection, without TLS's good-bye.
    void Close();
    // Ends it by RST.
    void Reset();
    // Returns when the client, or the server's destructor, has ended the connection.
    void WaitForEnd();
    // Whether writing has worked so far and nobody has ended the connection.
    [[nodiscard]] bool open() const { return open_; }

   private:
    friend class LoopbackServer;
    Peer(int fd, ssl_st* ssl) : fd_(fd), ssl_(ssl) {}
    [[nodiscard]] long Read(char* buffer, size_t size);

    const int fd_;
    ssl_st* const ssl_;  // null: no TLS
    bool open_ = true;
  };

  using Handler = std::function<void(const Request&, Peer&)>;

  // `handler` is called for each request, by the thread of its connection.
  [[nodiscard]] static absl::StatusOr<std::unique_ptr<LoopbackServer>> Start(const Options& options,
                                                                             Handler handler);
  ~LoopbackServer();
  LoopbackServer(const LoopbackServer&) = delete;
  LoopbackServer& operator=(const LoopbackServer&) = delete;

  [[nodiscard]] int port() const { return port_; }
  [[nodiscard]] std::string url() const;  // "https://127.0.0.1:PORT"
  [[nodiscard]] int connections() const;
  [[nodiscard]] std::vector<Request> requests() const;

 private:
  LoopbackServer(ssl_ctx_st* tls, UniqueFd listener, int port, Handler handler);
  void Accept();
  void Serve(int fd);

  ssl_ctx_st* const tls_;
  const UniqueFd listener_;
  const int port_;
  const Handler handler_;
  mutable Mutex mu_;
  bool stopping_ ABSL_GUARDED_BY(mu_) = false;
  int connections_ ABSL_GUARDED_BY(mu_) = 0;
  std::set<int> open_fds_ ABSL_GUARDED_BY(mu_);
  std::vector<Request> requests_ ABSL_GUARDED_BY(mu_);
  std::vector<Thread> threads_ ABSL_GUARDED_BY(mu_);
  Thread acceptor_;
};

}  // namespace millrace

#endif  // RESOLVER_HTTP_LOOPBACK_SERVER_H_
