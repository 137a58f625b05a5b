#include "testing/kube_apiserver/fault_proxy.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/net/openssl.h"
#include "millrace/status_macros.h"

namespace millrace {
namespace {

using UniqueContext = UniqueOpenSsl<SSL_CTX, SSL_CTX_free>;
using UniqueSsl = UniqueOpenSsl<SSL, SSL_free>;

constexpr size_t kMaxHeadBytes = size_t{64} << 10;
constexpr char kHeadEnd[] = "\r\n\r\n";

sockaddr_in Loopback(int port) {
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return address;
}

bool WriteAll(SSL* ssl, absl::string_view data) {
  return data.empty() || SSL_write(ssl, data.data(), static_cast<int>(data.size())) > 0;
}

// The bytes up to the first empty line, and no more than came with it. Empty: the peer went away.
std::string ReadHead(SSL* ssl) {
  std::string head;
  char buffer[4096];
  while (head.size() < kMaxHeadBytes && head.find(kHeadEnd) == std::string::npos) {
    const int count = SSL_read(ssl, buffer, sizeof(buffer));
    if (count <= 0) return "";
    head.append(buffer, static_cast<size_t>(count));
  }
  return head;
}

void Reset(int fd) {
  const linger at_once = {1, 0};
  ::setsockopt(fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof(at_once));
}

// Until the peer of `fd` goes away, or it is shut down.
void WaitForEnd(int fd) {
  char buffer[4096];
  while (true) {
    const ssize_t count = ::recv(fd, buffer, sizeof(buffer), 0);
    if (count == 0 || (count < 0 && errno != EINTR)) return;
  }
}

// Whether `server` has something to read; false if `client` has gone first.
bool WaitForServer(SSL* server, SSL* client) {
  if (SSL_pending(server) > 0) return true;
  pollfd fds[] = {{SSL_get_fd(server), POLLIN, 0}, {SSL_get_fd(client), POLLIN, 0}};
  while (::poll(fds, 2, -1) < 0) {
    if (errno != EINTR) return false;
  }
  return fds[0].revents != 0;
}

}  // namespace

struct FaultProxy::Tls {
  UniqueContext server{SSL_CTX_new(TLS_server_method())};
  UniqueContext client{SSL_CTX_new(TLS_client_method())};

  absl::Status Load(const TestPki::Identity& identity) {
    const UniqueBio certificate_bio(BIO_new_mem_buf(identity.certificate_pem.data(), -1));
    const UniqueBio key_bio(BIO_new_mem_buf(identity.private_key_pem.data(), -1));
    const UniqueCertificate certificate(
        PEM_read_bio_X509(certificate_bio.get(), nullptr, nullptr, nullptr));
    const UniqueKey key(PEM_read_bio_PrivateKey(key_bio.get(), nullptr, nullptr, nullptr));
    if (SSL_CTX_use_certificate(server.get(), certificate.get()) != 1 ||
        SSL_CTX_use_PrivateKey(server.get(), key.get()) != 1) {
      return absl::InternalError("OpenSSL does not take the proxy's certificate");
    }
    return absl::OkStatus();
  }
};

absl::StatusOr<std::unique_ptr<FaultProxy>> FaultProxy::Start(const KubeApiServer& server) {
  auto tls = std::make_unique<Tls>();
  MILLRACE_ASSIGN_OR_RETURN(const TestPki::Identity identity,
                            server.pki().Issue({.common_name = "proxy", .names = {"127.0.0.1"}}));
  MILLRACE_RETURN_IF_ERROR(tls->Load(identity));
  UniqueFd listener(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address = Loopback(0);
  socklen_t size = sizeof(address);
  if (::bind(listener.get(), reinterpret_cast<sockaddr*>(&address), size) != 0 ||
      ::listen(listener.get(), 64) != 0 ||
      ::getsockname(listener.get(), reinterpret_cast<sockaddr*>(&address), &size) != 0) {
    return absl::ErrnoToStatus(errno, "listening on 127.0.0.1");
  }
  return std::unique_ptr<FaultProxy>(
      new FaultProxy(server.port(), std::move(tls), std::move(listener), ntohs(address.sin_port)));
}

FaultProxy::FaultProxy(int server_port, std::unique_ptr<Tls> tls, UniqueFd listener, int port)
    : server_port_(server_port),
      tls_(std::move(tls)),
      listener_(std::move(listener)),
      port_(port),
      thread_("proxy", [this] { Accept(); }) {}

FaultProxy::~FaultProxy() {
  stop_.Notify();
  ::shutdown(listener_.get(), SHUT_RDWR);
  thread_.Join();
  std::vector<Thread> connections;
  {
    MutexLock lock(&mutex_);
    for (const int fd : open_fds_) ::shutdown(fd, SHUT_RDWR);
    connections.swap(connections_);
  }
}

std::string FaultProxy::url() const { return absl::StrCat("https://127.0.0.1:", port_); }

void FaultProxy::SetRule(Rule rule) {
  MutexLock lock(&mutex_);
  rule_ = std::move(rule);
}

std::vector<std::string> FaultProxy::requests() const {
  MutexLock lock(&mutex_);
  return requests_;
}

void FaultProxy::Accept() {
  while (!stop_.HasBeenNotified()) {
    const int fd = ::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC);
    if (fd < 0) continue;
    MutexLock lock(&mutex_);
    open_fds_.insert(fd);
    connections_.emplace_back("proxy-client", [this, fd] {
      Serve(fd);
      MutexLock lock(&mutex_);
      open_fds_.erase(fd);
      ::close(fd);
    });
  }
}

absl::StatusOr<UniqueFd> FaultProxy::ConnectToServer() const {
  UniqueFd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const sockaddr_in address = Loopback(server_port_);
  if (::connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0) {
    return absl::ErrnoToStatus(errno, "connecting to the API server");
  }
  return fd;
}

void FaultProxy::Serve(int client_fd) {
  const UniqueSsl client(SSL_new(tls_->server.get()));
  SSL_set_fd(client.get(), client_fd);
  if (SSL_accept(client.get()) != 1) return;
  const std::string head = ReadHead(client.get());
  if (head.empty()) return;
  const size_t line_end = head.find("\r\n");
  const std::string request_line = head.substr(0, line_end);
  ProxyFault fault;
  Rule rule;
  {
    MutexLock lock(&mutex_);
    requests_.push_back(request_line);
    rule = rule_;
  }
  if (rule != nullptr) fault = rule(request_line);
  if (stop_.WaitForNotificationWithTimeout(fault.delay)) return;
  if (fault.status != 0) {
    WriteAll(client.get(),
             absl::StrCat("HTTP/1.1 ", fault.status, " Fault\r\nContent-Length: ",
                          fault.body.size(), "\r\nContent-Type: application/json\r\n",
                          "Connection: close\r\n", fault.headers, "\r\n", fault.body));
    SSL_shutdown(client.get());
    return;
  }
  const auto server_fd = ConnectToServer();
  if (!server_fd.ok()) return;
  {
    MutexLock lock(&mutex_);
    open_fds_.insert(server_fd->get());
  }
  Forward(client.get(), server_fd->get(),
          absl::StrCat(request_line, "\r\nConnection: close", head.substr(line_end)), fault);
  MutexLock lock(&mutex_);
  open_fds_.erase(server_fd->get());
}

void FaultProxy::Forward(ssl_st* client, int server_fd, const std::string& request,
                         const ProxyFault& fault) {
  const UniqueSsl server(SSL_new(tls_->client.get()));
  SSL_set_fd(server.get(), server_fd);
  if (SSL_connect(server.get()) != 1 || !WriteAll(server.get(), request)) return;
  const std::string answer = ReadHead(server.get());
  const size_t head_size = answer.find(kHeadEnd) + 4;
  if (answer.empty() || !WriteAll(client, absl::string_view(answer).substr(0, head_size))) return;
  int64_t left = fault.end_after_bytes.value_or(INT64_MAX);
  std::string piece = answer.substr(head_size);
  char buffer[16384];
  while (true) {
    const auto size =
        static_cast<size_t>(std::min<int64_t>(left, static_cast<int64_t>(piece.size())));
    if (!WriteAll(client, absl::string_view(piece).substr(0, size))) return;
    left -= static_cast<int64_t>(size);
    if (left == 0) break;
    if (!WaitForServer(server.get(), client)) return;
    const int count = SSL_read(server.get(), buffer, sizeof(buffer));
    if (count <= 0) {
      SSL_shutdown(client);
      return;
    }
    piece.assign(buffer, static_cast<size_t>(count));
  }
  if (fault.end == ProxyFault::End::kReset) Reset(SSL_get_fd(client));
  if (fault.end == ProxyFault::End::kStall) WaitForEnd(SSL_get_fd(client));
}

}  // namespace millrace
