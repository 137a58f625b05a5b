#include "resolver/http/http_client.h"

#include <curl/curl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <openssl/x509_vfy.h>
#include <sys/socket.h>

#include <algorithm>
#include <cstdint>
#include <optional>

#include "absl/strings/ascii.h"
#include "absl/strings/cord.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "core/base/clock.h"
#include "core/base/text.h"
#include "core/net/loopback.h"
#include "millrace/status_macros.h"
#include "resolver/http/url.h"

namespace millrace {
namespace {

constexpr absl::string_view kFailureUrl = "millrace/http_failure";
constexpr size_t kMaxHeaderBytes = size_t{256} << 10;
// A peer that is gone without a word is noticed after a minute, whatever else is waited for.
constexpr int kKeepAliveSeconds = 15;
constexpr int kKeepAliveProbes = 4;

absl::StatusCode CodeOf(HttpFailure failure) {
  switch (failure) {
    case HttpFailure::kTimeout:
      return absl::StatusCode::kDeadlineExceeded;
    case HttpFailure::kTooLarge:
      return absl::StatusCode::kResourceExhausted;
    case HttpFailure::kProtocol:
      return absl::StatusCode::kDataLoss;
    default:
      return absl::StatusCode::kUnavailable;
  }
}

absl::Status MakeFailure(HttpFailure failure, absl::string_view message) {
  absl::Status status(CodeOf(failure), message);
  status.SetPayload(kFailureUrl, absl::Cord(absl::StrCat(static_cast<int>(failure))));
  return status;
}

// Rounded up, at most an hour: infinite waits are begun again.
int Milliseconds(absl::Duration duration) {
  constexpr absl::Duration kMillisecond = absl::Milliseconds(1);
  return static_cast<int>(absl::ToInt64Milliseconds(
      absl::Ceil(std::clamp(duration, absl::ZeroDuration(), absl::Hours(1)), kMillisecond)));
}

curl_socket_t OpenSocket(void* last_fd, curlsocktype, curl_sockaddr* address) {
  const int fd = socket(address->family, address->socktype | SOCK_CLOEXEC, address->protocol);
  if (fd < 0) return CURL_SOCKET_BAD;
  // Best effort: silence_timeout and the request's timeout notice a dead peer too.
  const int on = 1;
  const unsigned user_timeout_ms = kKeepAliveSeconds * kKeepAliveProbes * 1000;
  setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on));
  setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &kKeepAliveSeconds, sizeof(kKeepAliveSeconds));
  setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &kKeepAliveSeconds, sizeof(kKeepAliveSeconds));
  setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &kKeepAliveProbes, sizeof(kKeepAliveProbes));
  setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &user_timeout_ms, sizeof(user_timeout_ms));
  *static_cast<int*>(last_fd) = fd;
  return fd;
}

absl::Status CheckRequest(const HttpRequest& request) {
  if (request.method.empty() || !std::all_of(request.method.begin(), request.method.end(),
                                             [](char c) { return absl::ascii_isupper(c); })) {
    return absl::InvalidArgumentError(
        absl::StrCat("\"", EscapeControls(request.method), "\" is no HTTP method"));
  }
  for (const auto& [name, value] : request.headers) {
    if (name.empty() || name.find(':') != std::string::npos || HasLineEnd(name) ||
        HasLineEnd(value)) {
      return absl::InvalidArgumentError(absl::StrCat(
          "header \"", EscapeControls(name),
          "\" cannot be sent: its name or its value holds a line end, a NUL or a colon"));
    }
  }
  if (request.client_certificate_pem.empty() != request.client_key_pem.empty()) {
    return absl::InvalidArgumentError(
        "a client certificate needs its key, and a key its certificate");
  }
  return absl::OkStatus();
}

curl_blob Blob(const std::string& text) {
  curl_blob blob;
  blob.data = const_cast<char*>(text.data());
  blob.len = text.size();
  blob.flags = CURL_BLOB_COPY;
  return blob;
}

}  // namespace

HttpFailure HttpFailureOf(const absl::Status& status) {
  const absl::optional<absl::Cord> payload = status.GetPayload(kFailureUrl);
  int failure = 0;
  if (!payload.has_value() || !absl::SimpleAtoi(std::string(*payload), &failure)) {
    return HttpFailure::kNone;
  }
  return static_cast<HttpFailure>(failure);
}

// Holds at most one open connection between requests.
struct HttpClient::Connection {
  Connection() : easy(curl_easy_init()), multi(curl_multi_init()) {}
  ~Connection() {
    curl_easy_cleanup(easy);
    curl_multi_cleanup(multi);
  }
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  CURL* const easy;
  CURLM* const multi;
};

// One request on its way.
class HttpClient::Transfer {
 public:
  Transfer(const Options& options, const HttpRequest& request, ParsedUrl url,
           Connection* connection, const BodyCallback& on_body)
      : options_(options),
        request_(request),
        url_(std::move(url)),
        easy_(connection->easy),
        multi_(connection->multi),
        on_body_(on_body) {}
  ~Transfer() {
    curl_slist_free_all(headers_);
    curl_slist_free_all(connect_to_);
  }
  Transfer(const Transfer&) = delete;
  Transfer& operator=(const Transfer&) = delete;

  absl::StatusOr<HttpResponse> Run(const std::stop_token& stop) {
    began_ = last_heard_ = RealClock()->SteadyNow();
    SetOptions();
    // A callback that runs after the transfer is removed wakes nobody, which is harmless.
    const std::stop_callback wake(stop, [this] { curl_multi_wakeup(multi_); });
    if (curl_multi_add_handle(multi_, easy_) != CURLM_OK) {
      return absl::ResourceExhaustedError(absl::StrCat(Where(), ": libcurl takes no request"));
    }
    const absl::Status status = Perform(stop);
    curl_multi_remove_handle(multi_, easy_);
    curl_easy_reset(easy_);  // it points to members
    if (!status.ok()) return status;
    return std::move(response_);
  }

 private:
  std::string Where() const { return absl::StrCat(request_.method, " ", url_.text); }

  absl::Status Fail(HttpFailure failure, absl::string_view what) const {
    return MakeFailure(failure, absl::StrCat(Where(), ": ", what));
  }

  void SetOptions();
  void SetTls();
  absl::Status Perform(const std::stop_token& stop);
  // What curl's result means.
  absl::Status Finish(CURLcode result) const;
  absl::Status TlsFailure(CURLcode result) const;
  absl::Status TimeoutFailure(HttpFailure failure, absl::Duration limit) const;
  std::string Received() const;

  [[nodiscard]] curl_off_t Microseconds(CURLINFO what) const {
    curl_off_t value = 0;
    curl_easy_getinfo(easy_, what, &value);
    return value;
  }
  [[nodiscard]] bool sent() const { return Microseconds(CURLINFO_PRETRANSFER_TIME_T) > 0; }

  static size_t OnHeader(char* data, size_t, size_t count, void* self) {
    return static_cast<Transfer*>(self)->TakeHeader({data, count}) ? count : CURL_WRITEFUNC_ERROR;
  }
  static size_t OnBody(char* data, size_t, size_t count, void* self) {
    return static_cast<Transfer*>(self)->TakeBody({data, count}) ? count : CURL_WRITEFUNC_ERROR;
  }
  bool TakeHeader(absl::string_view line);
  bool TakeBody(absl::string_view piece);
  [[nodiscard]] bool streams() const { return on_body_ != nullptr && response_.status == 200; }

  const Options& options_;
  const HttpRequest& request_;
  const ParsedUrl url_;
  CURL* const easy_;
  CURLM* const multi_;
  const BodyCallback& on_body_;
  curl_slist* headers_ = nullptr;
  curl_slist* connect_to_ = nullptr;
  char error_[CURL_ERROR_SIZE] = {};

  absl::Duration began_;       // steady
  absl::Duration last_heard_;  // steady; when the request was sent, before anything came
  bool was_sent_ = false;
  int fd_ = -1;             // opened last; curl's
  bool connected_ = false;  // by TCP; curl itself tells only when TLS is done too
  size_t header_bytes_ = 0;
  size_t body_bytes_ = 0;
  absl::Status callback_error_;  // why a callback ended the transfer
  HttpResponse response_;
};

void HttpClient::Transfer::SetOptions() {
  const auto add_header = [this](absl::string_view name, absl::string_view value) {
    // "Name;" is curl's way to send a header without a value.
    const std::string line =
        value.empty() ? absl::StrCat(name, ";") : absl::StrCat(name, ": ", value);
    headers_ = curl_slist_append(headers_, line.c_str());
  };
  // curl's own additions, taken out.
  headers_ = curl_slist_append(headers_, "Expect:");
  headers_ = curl_slist_append(headers_, "Content-Type:");
  for (const auto& [name, value] : request_.headers) {
    if (absl::EqualsIgnoreCase(name, "Content-Type")) {
      curl_slist_free_all(headers_);
      headers_ = curl_slist_append(nullptr, "Expect:");
    }
  }
  for (const auto& [name, value] : request_.headers) add_header(name, value);

  std::string url = request_.url;
  const std::string& server_name = options_.tls.server_name;
  if (url_.scheme == "https" && !server_name.empty()) {
    // curl checks and sends the URL's host: put the name there, and connect to the real one.
    url = WithHost(url, server_name);
    connect_to_ = curl_slist_append(nullptr, absl::StrCat("::", url_.host, ":", url_.port).c_str());
    curl_easy_setopt(easy_, CURLOPT_CONNECT_TO, connect_to_);
    add_header("Host", absl::StrCat(url_.host, ":", url_.port));
  }

  curl_easy_setopt(easy_, CURLOPT_ERRORBUFFER, error_);
  curl_easy_setopt(easy_, CURLOPT_URL, url.c_str());
  curl_easy_setopt(easy_, CURLOPT_PROTOCOLS_STR, "http,https");
  curl_easy_setopt(easy_, CURLOPT_HTTP_VERSION, long{CURL_HTTP_VERSION_1_1});
  curl_easy_setopt(easy_, CURLOPT_HTTPHEADER, headers_);
  curl_easy_setopt(easy_, CURLOPT_USERAGENT, "millrace");
  curl_easy_setopt(easy_, CURLOPT_NOSIGNAL, 1L);
  // Else a request that is given up would wait for the name server first.
  curl_easy_setopt(easy_, CURLOPT_QUICK_EXIT, 1L);
  curl_easy_setopt(easy_, CURLOPT_BUFFERSIZE, 128L << 10);
  curl_easy_setopt(easy_, CURLOPT_OPENSOCKETFUNCTION, &OpenSocket);
  curl_easy_setopt(easy_, CURLOPT_OPENSOCKETDATA, &fd_);
  curl_easy_setopt(easy_, CURLOPT_SUPPRESS_CONNECT_HEADERS, 1L);
  curl_easy_setopt(easy_, CURLOPT_HEADERFUNCTION, &OnHeader);
  curl_easy_setopt(easy_, CURLOPT_HEADERDATA, this);
  curl_easy_setopt(easy_, CURLOPT_WRITEFUNCTION, &OnBody);
  curl_easy_setopt(easy_, CURLOPT_WRITEDATA, this);
  curl_easy_setopt(easy_, CURLOPT_CONNECTTIMEOUT_MS, long{Milliseconds(options_.connect_timeout)});
  if (request_.gzip) curl_easy_setopt(easy_, CURLOPT_ACCEPT_ENCODING, "gzip");

  if (!options_.proxy_url.empty()) {
    curl_easy_setopt(easy_, CURLOPT_PROXY, options_.proxy_url.c_str());
    curl_easy_setopt(easy_, CURLOPT_NOPROXY, "");
  } else if (options_.proxy == Proxy::kNone || IsLoopbackHost(url_.host)) {
    curl_easy_setopt(easy_, CURLOPT_PROXY, "");
  }

  if (request_.method == "HEAD") {
    curl_easy_setopt(easy_, CURLOPT_NOBODY, 1L);
  } else if (request_.method != "GET" || !request_.body.empty()) {
    if (!request_.body.empty() || request_.method != "DELETE") {
      curl_easy_setopt(easy_, CURLOPT_POSTFIELDS, request_.body.data());
      curl_easy_setopt(easy_, CURLOPT_POSTFIELDSIZE_LARGE,
                       static_cast<curl_off_t>(request_.body.size()));
    }
    curl_easy_setopt(easy_, CURLOPT_CUSTOMREQUEST, request_.method.c_str());
  }
  SetTls();
}

void HttpClient::Transfer::SetTls() {
  const TlsOptions& tls = options_.tls;
  if (!tls.ca_file.empty() || !tls.ca_pem.empty()) {
    // Without this the system's authorities would be believed besides.
    curl_easy_setopt(easy_, CURLOPT_CAPATH, nullptr);
    curl_easy_setopt(easy_, CURLOPT_CA_CACHE_TIMEOUT, 0L);
  }
  if (!tls.ca_file.empty()) curl_easy_setopt(easy_, CURLOPT_CAINFO, tls.ca_file.c_str());
  if (!tls.ca_pem.empty()) {
    const curl_blob blob = Blob(tls.ca_pem);
    curl_easy_setopt(easy_, CURLOPT_CAINFO_BLOB, &blob);
  }
  if (tls.insecure_skip_verify) {
    curl_easy_setopt(easy_, CURLOPT_SSL_VERIFYPEER, 0L);
    curl_easy_setopt(easy_, CURLOPT_SSL_VERIFYHOST, 0L);
  }
  curl_easy_setopt(easy_, CURLOPT_SSLVERSION, long{CURL_SSLVERSION_TLSv1_2});
  if (!request_.client_certificate_pem.empty()) {
    const curl_blob certificate = Blob(request_.client_certificate_pem);
    const curl_blob key = Blob(request_.client_key_pem);
    curl_easy_setopt(easy_, CURLOPT_SSLCERTTYPE, "PEM");
    curl_easy_setopt(easy_, CURLOPT_SSLCERT_BLOB, &certificate);
    curl_easy_setopt(easy_, CURLOPT_SSLKEYTYPE, "PEM");
    curl_easy_setopt(easy_, CURLOPT_SSLKEY_BLOB, &key);
  }
}

absl::Status HttpClient::Transfer::Perform(const std::stop_token& stop) {
  for (;;) {
    if (stop.stop_requested()) return absl::CancelledError(absl::StrCat(Where(), ": stopped"));
    int running = 0;
    if (curl_multi_perform(multi_, &running) != CURLM_OK) {
      return absl::InternalError(absl::StrCat(Where(), ": libcurl failed"));
    }
    int left = 0;
    while (const CURLMsg* message = curl_multi_info_read(multi_, &left)) {
      if (message->msg == CURLMSG_DONE) return Finish(message->data.result);
    }
    const absl::Duration now = RealClock()->SteadyNow();
    if (now - began_ >= request_.timeout) {
      return TimeoutFailure(HttpFailure::kTimeout, request_.timeout);
    }
    absl::Duration wait = began_ + request_.timeout - now;
    if (!was_sent_ && !connected_ && fd_ >= 0) {
      sockaddr_storage peer;
      socklen_t size = sizeof(peer);
      connected_ = getpeername(fd_, reinterpret_cast<sockaddr*>(&peer), &size) == 0;
    }
    if (!was_sent_ && sent()) {
      was_sent_ = true;
      last_heard_ = now;
    }
    if (was_sent_) {
      if (response_.status == 0) {
        if (now - last_heard_ >= request_.answer_timeout) {
          return TimeoutFailure(HttpFailure::kTimeout, request_.answer_timeout);
        }
        wait = std::min(wait, last_heard_ + request_.answer_timeout - now);
      }
      if (now - last_heard_ >= request_.silence_timeout) {
        return Fail(
            HttpFailure::kSilent,
            absl::StrCat("nothing came for ", absl::FormatDuration(request_.silence_timeout),
                         ": the server or the way to it is gone"));
      }
      wait = std::min(wait, last_heard_ + request_.silence_timeout - now);
    }
    curl_multi_poll(multi_, nullptr, 0, Milliseconds(wait), nullptr);
  }
}

bool HttpClient::Transfer::TakeHeader(absl::string_view line) {
  last_heard_ = RealClock()->SteadyNow();
  header_bytes_ += line.size();
  if (header_bytes_ > kMaxHeaderBytes) {
    callback_error_ = Fail(HttpFailure::kTooLarge,
                           absl::StrCat("headers over the limit of ", kMaxHeaderBytes, " bytes"));
    return false;
  }
  if (absl::StartsWith(line, "HTTP/")) {  // of a 1xx, or of the answer
    const size_t space = line.find(' ');
    if (space == absl::string_view::npos ||
        !absl::SimpleAtoi(line.substr(space + 1, 3), &response_.status)) {
      callback_error_ = Fail(HttpFailure::kProtocol,
                             absl::StrCat("what answers there speaks no HTTP: ",
                                          Ellipsize(EscapeControls(FirstLine(line)), 100)));
    }
    response_.headers.clear();
    return callback_error_.ok();
  }
  line = absl::StripTrailingAsciiWhitespace(line);
  if (line.empty()) {
    if (streams()) callback_error_ = on_body_("");
    return callback_error_.ok();
  }
  const size_t colon = line.find(':');
  if (colon != absl::string_view::npos) {
    response_.headers[absl::AsciiStrToLower(line.substr(0, colon))] =
        std::string(absl::StripAsciiWhitespace(line.substr(colon + 1)));
  }
  return true;
}

bool HttpClient::Transfer::TakeBody(absl::string_view piece) {
  last_heard_ = RealClock()->SteadyNow();
  body_bytes_ += piece.size();
  if (streams()) {
    callback_error_ = on_body_(piece);
    // Time that the callback took is not the server's silence.
    last_heard_ = RealClock()->SteadyNow();
    return callback_error_.ok();
  }
  if (body_bytes_ > request_.max_body_bytes) {
    callback_error_ = Fail(HttpFailure::kTooLarge, absl::StrCat("the answer is over the limit of ",
                                                                request_.max_body_bytes, " bytes"));
    return false;
  }
  response_.body.append(piece.data(), piece.size());
  return true;
}

std::string HttpClient::Transfer::Received() const {
  if (response_.status == 0) return "before an answer came";
  return absl::StrCat("after ", body_bytes_, " bytes of the answer (HTTP ", response_.status, ")");
}

absl::Status HttpClient::Transfer::TimeoutFailure(HttpFailure failure, absl::Duration limit) const {
  const std::string after = absl::FormatDuration(limit);
  if (sent()) {
    return Fail(failure, response_.status == 0
                             ? absl::StrCat("the server has not answered within ", after)
                             : absl::StrCat("not finished within ", after, ", ", Received()));
  }
  if (connected_) {
    return Fail(failure, absl::StrCat("connected, but the TLS handshake has not ended within ",
                                      after, "; does a TLS server listen there?"));
  }
  if (Microseconds(CURLINFO_NAMELOOKUP_TIME_T) > 0) {
    return Fail(failure,
                absl::StrCat("no connection within ", after,
                             "; the address is wrong, the host is down, or a firewall drops it"));
  }
  return Fail(failure, absl::StrCat("the host's name has not been resolved within ", after,
                                    "; check this machine's DNS"));
}

absl::Status HttpClient::Transfer::TlsFailure(CURLcode result) const {
  const TlsOptions& tls = options_.tls;
  const std::string name = tls.server_name.empty() ? url_.host : tls.server_name;
  const std::string authority = !tls.ca_file.empty()  ? absl::StrCat("the CA in ", tls.ca_file)
                                : !tls.ca_pem.empty() ? std::string("the given CA")
                                                      : std::string("a CA of this system");
  const std::string said = Ellipsize(EscapeControls(error_), 200);
  if (result == CURLE_SSL_CACERT_BADFILE) {
    return Fail(HttpFailure::kTls, absl::StrCat("TLS: ", authority, " cannot be read: ", said));
  }
  if (result == CURLE_SSL_CERTPROBLEM) {
    return Fail(HttpFailure::kTls,
                absl::StrCat("TLS: our client certificate or its key cannot be used: ", said));
  }
  if (result != CURLE_PEER_FAILED_VERIFICATION) {
    const absl::string_view hint =
        absl::StrContains(said, "alert") ? " (the server refused our certificate or TLS version)"
        : absl::StrContains(said, "wrong version number") ? " (what listens there speaks no TLS)"
                                                          : "";
    return Fail(HttpFailure::kTls, absl::StrCat("TLS handshake failed: ", said, hint));
  }
  long verified = X509_V_OK;
  curl_easy_getinfo(easy_, CURLINFO_SSL_VERIFYRESULT, &verified);
  if (absl::StrContains(said, "subject name")) verified = X509_V_ERR_HOSTNAME_MISMATCH;
  switch (verified) {
    case X509_V_ERR_HOSTNAME_MISMATCH:
    case X509_V_ERR_IP_ADDRESS_MISMATCH:
      return Fail(HttpFailure::kTls,
                  absl::StrCat("TLS: the server's certificate is not for the name ", name,
                               "; give the name that it holds (tls-server-name): ", said));
    case X509_V_ERR_CERT_HAS_EXPIRED:
      return Fail(HttpFailure::kTls,
                  "TLS: the server's certificate, or that of its CA, has expired; renew it, or set "
                  "this machine's clock");
    case X509_V_ERR_CERT_NOT_YET_VALID:
      return Fail(HttpFailure::kTls,
                  "TLS: the server's certificate, or that of its CA, is not valid yet; set this "
                  "machine's clock");
    default:
      return Fail(HttpFailure::kTls,
                  absl::StrCat("TLS: the server's certificate is not signed by ", authority,
                               "; another server answers there, or this is the wrong CA: ", said));
  }
}

absl::Status HttpClient::Transfer::Finish(CURLcode result) const {
  if (!callback_error_.ok()) return callback_error_;
  const std::string said =
      Ellipsize(EscapeControls(error_[0] != '\0' ? error_ : curl_easy_strerror(result)), 200);
  switch (result) {
    case CURLE_OK:
      return absl::OkStatus();
    case CURLE_COULDNT_RESOLVE_HOST:
    case CURLE_COULDNT_RESOLVE_PROXY:
      return Fail(
          HttpFailure::kResolve,
          absl::StrCat("the host's name is not known; check it and this machine's DNS: ", said));
    case CURLE_OPERATION_TIMEDOUT:  // only connecting has a limit of curl's
      return TimeoutFailure(HttpFailure::kConnect, options_.connect_timeout);
    case CURLE_COULDNT_CONNECT:
      return Fail(
          HttpFailure::kConnect,
          absl::StrCat("no connection; check the address and that the server runs: ", said));
    case CURLE_PROXY:
      return Fail(HttpFailure::kConnect, absl::StrCat("the proxy does not let through: ", said));
    case CURLE_SSL_CONNECT_ERROR:
    case CURLE_PEER_FAILED_VERIFICATION:
    case CURLE_SSL_CACERT_BADFILE:
    case CURLE_SSL_CERTPROBLEM:
    case CURLE_SSL_CIPHER:
    case CURLE_SSL_ISSUER_ERROR:
      return TlsFailure(result);
    case CURLE_GOT_NOTHING:
    case CURLE_PARTIAL_FILE:
    case CURLE_SEND_ERROR:
    case CURLE_RECV_ERROR:
      // A server says only after TLS 1.3's handshake that it does not like our certificate.
      if (response_.status == 0 && absl::StrContains(said, "alert")) return TlsFailure(result);
      if (!sent()) {
        return Fail(HttpFailure::kConnect, absl::StrCat("the connection ended at once: ", said));
      }
      return Fail(HttpFailure::kCut, absl::StrCat("the connection ended ", Received(), ": ", said));
    case CURLE_OUT_OF_MEMORY:
      return absl::ResourceExhaustedError(absl::StrCat(Where(), ": ", said));
    default:
      return Fail(HttpFailure::kProtocol,
                  absl::StrCat("what answers there speaks no HTTP: ", said));
  }
}

HttpClient::HttpClient(Options options) : options_(std::move(options)) {}

HttpClient::~HttpClient() = default;

absl::StatusOr<std::unique_ptr<HttpClient>> HttpClient::Create(Options options) {
  if (!options.tls.ca_file.empty() && !options.tls.ca_pem.empty()) {
    return absl::InvalidArgumentError("give the CA as a file or as text, not both");
  }
  if (options.tls.insecure_skip_verify &&
      (!options.tls.ca_file.empty() || !options.tls.ca_pem.empty())) {
    return absl::InvalidArgumentError(
        "insecure_skip_verify with a CA makes no sense: the CA would not be asked");
  }
  if (HasLineEnd(options.tls.server_name) || HasLineEnd(options.proxy_url)) {
    return absl::InvalidArgumentError("the TLS server name or the proxy's URL holds a line end");
  }
  if (options.connect_timeout <= absl::ZeroDuration()) {
    return absl::InvalidArgumentError("connect_timeout must be positive");
  }
  static const CURLcode initialised = curl_global_init(CURL_GLOBAL_DEFAULT);
  if (initialised != CURLE_OK) {
    return absl::InternalError(absl::StrCat("libcurl: ", curl_easy_strerror(initialised)));
  }
  return std::unique_ptr<HttpClient>(new HttpClient(std::move(options)));
}

std::unique_ptr<HttpClient::Connection> HttpClient::TakeConnection() {
  {
    MutexLock lock(&mu_);
    if (!idle_.empty()) {
      std::unique_ptr<Connection> connection = std::move(idle_.back());
      idle_.pop_back();
      return connection;
    }
  }
  return std::make_unique<Connection>();
}

void HttpClient::KeepConnection(std::unique_ptr<Connection> connection) {
  MutexLock lock(&mu_);
  if (static_cast<int>(idle_.size()) < options_.max_idle_connections) {
    idle_.push_back(std::move(connection));
  }
}

absl::StatusOr<HttpResponse> HttpClient::Send(const HttpRequest& request, std::stop_token stop,
                                              const BodyCallback& on_body) {
  MILLRACE_RETURN_IF_ERROR(CheckRequest(request));
  MILLRACE_ASSIGN_OR_RETURN(ParsedUrl url, ParseUrl(request.url));
  std::unique_ptr<Connection> connection = TakeConnection();
  if (connection->easy == nullptr || connection->multi == nullptr) {
    return absl::ResourceExhaustedError("no memory or file descriptors for an HTTP connection");
  }
  absl::StatusOr<HttpResponse> response =
      Transfer(options_, request, std::move(url), connection.get(), on_body).Run(stop);
  // A transfer that was given up leaves a connection that is of no use.
  if (response.ok()) KeepConnection(std::move(connection));
  return response;
}

}  // namespace millrace
