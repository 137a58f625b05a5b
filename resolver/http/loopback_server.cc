#include "resolver/http/loopback_server.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <openssl/bio.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>
#include <sys/socket.h>

#include <cerrno>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"

namespace millrace {
namespace {

X509* ReadCertificate(const std::string& pem) {
  BIO* const bio = BIO_new_mem_buf(pem.data(), static_cast<int>(pem.size()));
  X509* const certificate = PEM_read_bio_X509(bio, nullptr, nullptr, nullptr);
  BIO_free(bio);
  return certificate;
}

absl::StatusOr<SSL_CTX*> MakeTls(const LoopbackServer::Options& options) {
  if (options.certificate_pem.empty()) return nullptr;
  SSL_CTX* const tls = SSL_CTX_new(TLS_server_method());
  X509* const certificate = ReadCertificate(options.certificate_pem);
  BIO* const bio = BIO_new_mem_buf(options.private_key_pem.data(),
                                   static_cast<int>(options.private_key_pem.size()));
  EVP_PKEY* const key = PEM_read_bio_PrivateKey(bio, nullptr, nullptr, nullptr);
  BIO_free(bio);
  bool good =
      SSL_CTX_use_certificate(tls, certificate) == 1 && SSL_CTX_use_PrivateKey(tls, key) == 1;
  X509_free(certificate);
  EVP_PKEY_free(key);
  if (good && !options.client_ca_pem.empty()) {
    X509* const ca = ReadCertificate(options.client_ca_pem);
    good = X509_STORE_add_cert(SSL_CTX_get_cert_store(tls), ca) == 1;
    X509_free(ca);
    SSL_CTX_set_verify(tls, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, nullptr);
  }
  if (good) return tls;
  SSL_CTX_free(tls);
  return absl::InvalidArgumentError("the server's certificate, key or client CA is no PEM");
}

std::string CommonName(SSL* ssl) {
  X509* const certificate = SSL_get1_peer_certificate(ssl);
  if (certificate == nullptr) return "";
  char name[256] = {};
  X509_NAME_get_text_by_NID(X509_get_subject_name(certificate), NID_commonName, name, sizeof(name));
  X509_free(certificate);
  return name;
}

}  // namespace

void LoopbackServer::Peer::Write(absl::string_view bytes) {
  while (open_ && !bytes.empty()) {
    const long written =
        ssl_ != nullptr ? SSL_write(ssl_, bytes.data(), static_cast<int>(bytes.size()))
                        : static_cast<long>(send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL));
    if (written <= 0) {
      open_ = false;
      return;
    }
    bytes.remove_prefix(static_cast<size_t>(written));
  }
}

long LoopbackServer::Peer::Read(char* buffer, size_t size) {
  if (!open_) return 0;
  const long count = ssl_ != nullptr ? SSL_read(ssl_, buffer, static_cast<int>(size))
                                     : static_cast<long>(recv(fd_, buffer, size, 0));
  if (count <= 0) open_ = false;
  return count;
}

void LoopbackServer::Peer::Answer(int status, absl::string_view body, absl::string_view headers) {
  Write(absl::StrCat("HTTP/1.1 ", status, " Said\r\nContent-Length: ", body.size(), "\r\n", headers,
                     "\r\n", body));
}

void LoopbackServer::Peer::BeginChunks(absl::string_view headers) {
  Write(absl::StrCat("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n", headers, "\r\n"));
}

void LoopbackServer::Peer::Chunk(absl::string_view data) {
  Write(absl::StrCat(absl::StrFormat("%x", data.size()), "\r\n", data, "\r\n"));
}

void LoopbackServer::Peer::EndChunks() { Write("0\r\n\r\n"); }

void LoopbackServer::Peer::Close() {
  shutdown(fd_, SHUT_RDWR);
  open_ = false;
}

void LoopbackServer::Peer::Reset() {
  const linger at_once = {.l_onoff = 1, .l_linger = 0};
  setsockopt(fd_, SOL_SOCKET, SO_LINGER, &at_once, sizeof(at_once));
  open_ = false;  // the thread closes
}

void LoopbackServer::Peer::WaitForEnd() {
  char byte;
  while (Read(&byte, 1) > 0) {
  }
}

absl::StatusOr<std::unique_ptr<LoopbackServer>> LoopbackServer::Start(const Options& options,
                                                                      Handler handler) {
  UniqueFd listener(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(address);
  auto* const generic = reinterpret_cast<sockaddr*>(&address);
  if (!listener.valid() || bind(listener.get(), generic, size) != 0 ||
      listen(listener.get(), 64) != 0 || getsockname(listener.get(), generic, &size) != 0) {
    return absl::ErrnoToStatus(errno, "a listening socket");
  }
  absl::StatusOr<SSL_CTX*> tls = MakeTls(options);
  if (!tls.ok()) return tls.status();
  return std::unique_ptr<LoopbackServer>(
      new LoopbackServer(*tls, std::move(listener), ntohs(address.sin_port), std::move(handler)));
}

LoopbackServer::LoopbackServer(ssl_ctx_st* tls, UniqueFd listener, int port, Handler handler)
    : tls_(tls),
      listener_(std::move(listener)),
      port_(port),
      handler_(std::move(handler)),
      acceptor_("loopback", [this] { Accept(); }) {}

LoopbackServer::~LoopbackServer() {
  {
    MutexLock lock(&mu_);
    stopping_ = true;
    for (const int fd : open_fds_) shutdown(fd, SHUT_RDWR);
  }
  shutdown(listener_.get(), SHUT_RDWR);
  acceptor_.Join();
  std::vector<Thread> threads;
  {
    MutexLock lock(&mu_);
    threads = std::move(threads_);
  }
  threads.clear();  // joins
  SSL_CTX_free(tls_);
}

std::string LoopbackServer::url() const {
  return absl::StrCat(tls_ != nullptr ? "https" : "http", "://127.0.0.1:", port_);
}

int LoopbackServer::connections() const {
  MutexLock lock(&mu_);
  return connections_;
}

std::vector<LoopbackServer::Request> LoopbackServer::requests() const {
  MutexLock lock(&mu_);
  return requests_;
}

void LoopbackServer::Accept() {
  for (;;) {
    const int fd = accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC);
    if (fd < 0 && errno == EINTR) continue;
    if (fd < 0) return;
    MutexLock lock(&mu_);
    if (stopping_) {
      close(fd);
      return;
    }
    ++connections_;
    open_fds_.insert(fd);
    threads_.emplace_back("loopback-peer", [this, fd] { Serve(fd); });
  }
}

void LoopbackServer::Serve(int fd) {
  SSL* ssl = nullptr;
  const auto end = absl::MakeCleanup([&] {
    SSL_free(ssl);
    MutexLock lock(&mu_);
    open_fds_.erase(fd);
    close(fd);
  });
  std::string subject;
  if (tls_ != nullptr) {
    ssl = SSL_new(tls_);
    SSL_set_fd(ssl, fd);
    if (SSL_accept(ssl) != 1) {
      // What the client has sent already is read, or closing would be an RST, which overtakes the
      // alert that says why.
      shutdown(fd, SHUT_WR);
      Peer(fd, nullptr).WaitForEnd();
      return;
    }
    subject = CommonName(ssl);
  }
  Peer peer(fd, ssl);
  std::string read;
  char buffer[16 << 10];
  while (peer.open()) {
    const size_t end_of_head = read.find("\r\n\r\n");
    if (end_of_head == std::string::npos) {
      const long count = peer.Read(buffer, sizeof(buffer));
      if (count > 0) read.append(buffer, static_cast<size_t>(count));
      continue;
    }
    Request request;
    request.subject = subject;
    const std::vector<std::string> lines = absl::StrSplit(read.substr(0, end_of_head), "\r\n");
    const std::vector<std::string> words = absl::StrSplit(lines[0], ' ');
    request.method = words[0];
    request.target = words.size() > 1 ? words[1] : "";
    for (size_t i = 1; i < lines.size(); ++i) {
      const std::pair<std::string, std::string> header =
          absl::StrSplit(lines[i], absl::MaxSplits(": ", 1));
      request.headers[absl::AsciiStrToLower(header.first)] = header.second;
    }
    size_t length = 0;
    (void)absl::SimpleAtoi(request.headers["content-length"], &length);
    read.erase(0, end_of_head + 4);
    while (read.size() < length && peer.open()) {
      const long count = peer.Read(buffer, sizeof(buffer));
      if (count > 0) read.append(buffer, static_cast<size_t>(count));
    }
    request.body = read.substr(0, length);
    read.erase(0, request.body.size());
    {
      MutexLock lock(&mu_);
      request.number = static_cast<int>(requests_.size()) + 1;
      requests_.push_back(request);
    }
    handler_(request, peer);
  }
}

}  // namespace millrace
