#include "testing/kube_apiserver/curl_session.h"

#include <curl/curl.h>

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

namespace millrace {
namespace {

struct Sink {
  const CurlSession::Request* request;
  CurlSession::Response* response;
};

size_t TakeBody(char* data, size_t size, size_t count, void* user) {
  const size_t bytes = size * count;
  const auto* sink = static_cast<Sink*>(user);
  std::string& body = sink->response->body;
  sink->response->body_bytes += static_cast<int64_t>(bytes);
  body.append(data, std::min(bytes, sink->request->max_kept_bytes - body.size()));
  const auto& on_piece = sink->request->on_piece;
  return on_piece == nullptr || on_piece(absl::string_view(data, bytes)) ? bytes : 0;
}

}  // namespace

struct CurlSession::Handle {
  CURL* curl = curl_easy_init();
  ~Handle() { curl_easy_cleanup(curl); }
};

CurlSession::CurlSession(Options options)
    : options_(std::move(options)), handle_(std::make_unique<Handle>()) {}

CurlSession::~CurlSession() = default;

absl::StatusOr<CurlSession::Response> CurlSession::Send(const Request& request) {
  CURL* const curl = handle_->curl;
  Response response;
  Sink sink{&request, &response};
  char error[CURL_ERROR_SIZE] = "";
  curl_slist* headers = curl_slist_append(nullptr, "Expect:");
  if (!options_.token.empty()) {
    headers =
        curl_slist_append(headers, absl::StrCat("Authorization: Bearer ", options_.token).c_str());
  }
  if (!request.content_type.empty()) {
    headers =
        curl_slist_append(headers, absl::StrCat("Content-Type: ", request.content_type).c_str());
  }
  curl_easy_reset(curl);  // the connection stays
  curl_easy_setopt(curl, CURLOPT_URL, request.url.c_str());
  curl_easy_setopt(curl, CURLOPT_CUSTOMREQUEST, request.method.c_str());
  curl_easy_setopt(curl, CURLOPT_HTTPHEADER, headers);
  curl_easy_setopt(curl, CURLOPT_HTTP_VERSION, long{CURL_HTTP_VERSION_1_1});
  curl_easy_setopt(curl, CURLOPT_PROXY, "");
  curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
  curl_easy_setopt(curl, CURLOPT_BUFFERSIZE, 262144L);
  curl_easy_setopt(curl, CURLOPT_TIMEOUT_MS,
                   static_cast<long>(absl::ToInt64Milliseconds(options_.timeout)));
  curl_easy_setopt(curl, CURLOPT_ERRORBUFFER, error);
  curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, &TakeBody);
  curl_easy_setopt(curl, CURLOPT_WRITEDATA, &sink);
  if (!request.body.empty()) {
    curl_easy_setopt(curl, CURLOPT_POSTFIELDSIZE_LARGE,
                     static_cast<curl_off_t>(request.body.size()));
    curl_easy_setopt(curl, CURLOPT_POSTFIELDS, request.body.c_str());
  }
  if (!options_.ca_pem.empty()) {
    curl_blob ca = {const_cast<char*>(options_.ca_pem.data()), options_.ca_pem.size(),
                    CURL_BLOB_COPY};
    curl_easy_setopt(curl, CURLOPT_CAINFO_BLOB, &ca);
  }
  const CURLcode code = curl_easy_perform(curl);
  curl_slist_free_all(headers);
  if (code != CURLE_OK) {
    return absl::UnavailableError(
        absl::StrCat(request.method, " ", request.url, ": ",
                     error[0] != '\0' ? error : curl_easy_strerror(code)));
  }
  long status = 0;
  curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &status);
  response.status = static_cast<int>(status);
  return response;
}

}  // namespace millrace
