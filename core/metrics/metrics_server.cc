#include "core/metrics/metrics_server.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <openssl/crypto.h>
#include <openssl/ssl.h>
#include <sys/socket.h>

#include <cstddef>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "core/base/file.h"
#include "core/base/log.h"
#include "core/base/thread.h"
#include "core/net/loopback.h"
#include "core/net/openssl.h"
#include "core/net/socket_address.h"
#include "httplib.h"
#include "millrace/status_macros.h"

namespace millrace {
namespace {

constexpr int kThreads = 4;
constexpr size_t kMaxWaiting = 64;  // connections that no thread has taken yet
constexpr int kTimeoutS = 5;
constexpr size_t kMaxTokenBytes = 4096;
constexpr char kPath[] = "/metrics";

bool IsAddress(const std::string& text) {
  in6_addr unused;
  return inet_pton(AF_INET, text.c_str(), &unused) == 1 ||
         inet_pton(AF_INET6, text.c_str(), &unused) == 1;
}

absl::StatusOr<std::string> ReadToken(const std::string& file) {
  MILLRACE_ASSIGN_OR_RETURN(const std::string content, ReadFile(file, kMaxTokenBytes));
  const std::string token(absl::StripAsciiWhitespace(content.substr(0, content.find('\n'))));
  if (token.empty()) return absl::InvalidArgumentError(absl::StrCat(file, ": there is no token"));
  return token;
}

absl::Status Check(const MetricsServerOptions& options) {
  if (!IsAddress(options.address)) {
    return absl::InvalidArgumentError(
        absl::StrCat("\"", options.address, "\" is no address in numbers, such as 127.0.0.1"));
  }
  if (options.certificate_file.empty() != options.key_file.empty()) {
    return absl::InvalidArgumentError("a certificate and its key go together");
  }
  if (options.certificate_file.empty() && !options.client_ca_file.empty()) {
    return absl::InvalidArgumentError(
        "callers' certificates are for TLS, which needs a certificate and its key");
  }
  if (!options.token_file.empty()) MILLRACE_RETURN_IF_ERROR(ReadToken(options.token_file).status());
  return absl::OkStatus();
}

absl::Status BadFile(absl::string_view what, absl::string_view file) {
  return absl::InvalidArgumentError(absl::StrCat(what, " ", file, ": ", TakeOpenSslError()));
}

absl::Status SetUpTls(const MetricsServerOptions& options, SSL_CTX* tls) {
  SSL_CTX_set_min_proto_version(tls, TLS1_2_VERSION);
  if (SSL_CTX_use_certificate_chain_file(tls, options.certificate_file.c_str()) != 1) {
    return BadFile("the certificate", options.certificate_file);
  }
  if (SSL_CTX_use_PrivateKey_file(tls, options.key_file.c_str(), SSL_FILETYPE_PEM) != 1) {
    return BadFile("the key", options.key_file);
  }
  if (options.client_ca_file.empty()) return absl::OkStatus();
  if (SSL_CTX_load_verify_locations(tls, options.client_ca_file.c_str(), nullptr) != 1) {
    return BadFile("the callers' CA", options.client_ca_file);
  }
  SSL_CTX_set_verify(tls, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, nullptr);
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<httplib::Server>> MakeServer(const MetricsServerOptions& options) {
  if (options.certificate_file.empty()) return std::make_unique<httplib::Server>();
  absl::Status status = absl::InternalError("OpenSSL has no context");
  auto server = std::make_unique<httplib::SSLServer>([&](SSL_CTX& tls) {
    status = SetUpTls(options, &tls);
    return status.ok();
  });
  MILLRACE_RETURN_IF_ERROR(status);
  return server;
}

bool SameSecret(absl::string_view a, absl::string_view b) {
  return a.size() == b.size() && CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0;
}

class MetricsServerImpl : public MetricsServer {
 public:
  MetricsServerImpl(MetricsServerOptions options, Answer answer,
                    std::unique_ptr<httplib::Server> server)
      : options_(std::move(options)), answer_(std::move(answer)), server_(std::move(server)) {}

  ~MetricsServerImpl() override {
    server_->stop();
    thread_.Join();
  }

  absl::Status Listen() {
    server_->new_task_queue = [] { return new httplib::ThreadPool(kThreads, kMaxWaiting); };
    server_->set_read_timeout(kTimeoutS);
    server_->set_write_timeout(kTimeoutS);
    server_->set_keep_alive_timeout(kTimeoutS);
    // The library's own would let another process listen on the same port.
    server_->set_socket_options([](socket_t fd) {
      const int on = 1;
      setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
    });
    // Before anything is read that a request may bring besides its headers.
    server_->set_pre_routing_handler(
        [this](const httplib::Request& request, httplib::Response& response) {
          Handle(request, &response);
          return httplib::Server::HandlerResponse::Handled;
        });
    port_ = options_.port;
    bool bound = false;
    if (port_ == 0) {
      port_ = server_->bind_to_any_port(options_.address, AI_NUMERICHOST);
      bound = port_ > 0;
    } else {
      bound = server_->bind_to_port(options_.address, port_, AI_NUMERICHOST);
    }
    if (!bound) {
      return absl::UnavailableError(absl::StrCat("cannot listen on ", options_.address, " port ",
                                                 options_.port,
                                                 ": somebody else does, or it is no address of "
                                                 "this host, or the port is not this user's"));
    }
    thread_ = Thread("metrics", [this] { server_->listen_after_bind(); });
    server_->wait_until_ready();
    return absl::OkStatus();
  }

  int port() const override { return port_; }

 private:
  static void Refuse(int status, absl::string_view why, httplib::Response* response) {
    response->status = status;
    response->set_header("Connection", "close");
    response->set_content(absl::StrCat(why, "\n"), "text/plain; charset=utf-8");
  }

  void Handle(const httplib::Request& request, httplib::Response* response) {
    if (request.method != "GET" && request.method != "HEAD") {
      response->set_header("Allow", "GET, HEAD");
      return Refuse(405, "there is nothing but GET here", response);
    }
    if (!options_.token_file.empty()) {
      const absl::StatusOr<std::string> token = ReadToken(options_.token_file);
      if (!token.ok()) {
        MILLRACE_LOG(WARNING) << "nobody can be let in: " << token.status();
        return Refuse(503, "the token cannot be read here", response);
      }
      const std::string given = request.get_header_value("Authorization");
      if (!absl::StartsWithIgnoreCase(given, "Bearer ") ||
          !SameSecret(absl::StripAsciiWhitespace(given.substr(7)), *token)) {
        response->set_header("WWW-Authenticate", "Bearer");
        return Refuse(401, "the token is not the one of this server", response);
      }
    }
    if (request.path != kPath)
      return Refuse(404, "there is /metrics here, and nothing else", response);
    const std::string nodes = request.get_param_value("nodes");
    const MetricsRequest asked = {.format = AcceptedFormat(request.get_header_value("Accept")),
                                  .nodes = !nodes.empty() && nodes != "0"};
    const absl::StatusOr<std::string> text = answer_(asked);
    if (!text.ok()) return Refuse(503, text.status().message(), response);
    response->status = 200;
    response->set_content(*text, std::string(ContentType(asked.format)));
  }

  const MetricsServerOptions options_;
  const Answer answer_;
  const std::unique_ptr<httplib::Server> server_;
  int port_ = 0;
  Thread thread_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<MetricsServer>> MetricsServer::Start(
    const MetricsServerOptions& options, Answer answer) {
  MILLRACE_RETURN_IF_ERROR(Check(options));
  MILLRACE_ASSIGN_OR_RETURN(std::unique_ptr<httplib::Server> http, MakeServer(options));
  auto server = std::make_unique<MetricsServerImpl>(options, std::move(answer), std::move(http));
  MILLRACE_RETURN_IF_ERROR(server->Listen());
  return server;
}

absl::Status CheckServed(const MetricsServerOptions& options, absl::string_view prefix) {
  if (IsLoopbackHost(options.address)) return absl::OkStatus();
  if (options.certificate_file.empty()) {
    return absl::InvalidArgumentError(absl::StrCat("other machines reach ", options.address,
                                                   ": give ", prefix, "certificate FILE and ",
                                                   prefix, "key FILE, so that nobody reads along"));
  }
  if (options.token_file.empty() && options.client_ca_file.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("other machines reach ", options.address, ": give ", prefix,
                     "scrape-token FILE or ", prefix, "client-ca FILE, which say who may ask"));
  }
  return absl::OkStatus();
}

std::string MetricsUrl(const MetricsServerOptions& options, int port) {
  return absl::StrCat(options.certificate_file.empty() ? "http" : "https", "://",
                      FormatHostPort(options.address, port), "/metrics");
}

}  // namespace millrace
