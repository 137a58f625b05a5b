#include "resolver/etcd/etcd_client.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "core/base/file.h"
#include "core/base/status.h"
#include "core/base/text.h"
#include "millrace/status_macros.h"
#include "resolver/http/url.h"

namespace millrace {
namespace {

constexpr size_t kMaxFileBytes = size_t{1} << 20;
constexpr size_t kMaxLineBytes = size_t{64} << 20;  // of a watch

std::string Quote(absl::string_view text) { return Ellipsize(EscapeControls(text), 200); }

// Where the keys that begin with `prefix` end.
std::string EndOf(std::string prefix) {
  while (!prefix.empty() && prefix.back() == '\xff') prefix.pop_back();
  if (prefix.empty()) return std::string(1, '\0');  // all that follow
  ++prefix.back();
  return prefix;
}

Json KeysFrom(const std::string& prefix) {
  return {{"key", absl::Base64Escape(prefix)}, {"range_end", absl::Base64Escape(EndOf(prefix))}};
}

absl::Status NoEtcd(const std::string& about, absl::string_view why) {
  return absl::DataLossError(absl::StrCat(about, ": the answer is not etcd's: ", why));
}

// What the gateway says of an error: the code of gRPC, and its text.
absl::Status ErrorOf(const HttpResponse& response, const std::string& about) {
  const absl::StatusOr<Json> body = ParseJson(response.body);
  const auto code = body.ok() ? GetInt(*body, "code") : absl::StatusOr<int64_t>(body.status());
  if (!code.ok() || *code < 1 || *code > 16) {
    return NoEtcd(about,
                  absl::StrCat("status ", response.status, ": ", Quote(FirstLine(response.body))));
  }
  const absl::StatusOr<std::string> said = GetStringOr(*body, "message", "");
  std::string what = absl::StrCat(about, ": ", said.ok() ? Quote(*said) : "no message");
  auto status = static_cast<absl::StatusCode>(*code);
  if (absl::StrContains(what, "user name is empty")) {
    status = absl::StatusCode::kUnauthenticated;
    absl::StrAppend(&what, "; this etcd wants a user: give user and password_file");
  }
  // The latter: a token that is older than a change of users or roles.
  if (absl::StrContains(what, "authentication failed") ||
      absl::StrContains(what, "revision of auth store is old")) {
    status = absl::StatusCode::kUnauthenticated;
  }
  if (status == absl::StatusCode::kPermissionDenied) {
    absl::StrAppend(&what,
                    "; the user needs the right to read what begins with the prefix (etcdctl role "
                    "grant-permission --prefix=true ROLE read PREFIX/)");
  }
  return absl::Status(status, what);
}

// The member, a text of base 64.
absl::StatusOr<std::string> Bytes(const Json& object, absl::string_view key) {
  MILLRACE_ASSIGN_OR_RETURN(const std::string text, GetStringOr(object, key, ""));
  std::string bytes;
  if (absl::Base64Unescape(text, &bytes)) return bytes;
  return absl::InvalidArgumentError(absl::StrCat("\"", key, "\" is not in base 64"));
}

absl::StatusOr<int64_t> RevisionOf(const Json& answer) {
  MILLRACE_ASSIGN_OR_RETURN(const Json* header, GetObject(answer, "header"));
  MILLRACE_ASSIGN_OR_RETURN(const std::string text, GetString(*header, "revision"));
  int64_t revision = 0;
  if (absl::SimpleAtoi(text, &revision)) return revision;
  return absl::InvalidArgumentError("\"header.revision\" is no number");
}

absl::StatusOr<EtcdKeys> KeysOf(const Json& answer) {
  EtcdKeys keys;
  MILLRACE_ASSIGN_OR_RETURN(keys.revision, RevisionOf(answer));
  if (!answer.contains("kvs")) return keys;
  MILLRACE_ASSIGN_OR_RETURN(const Json* kvs, GetArray(answer, "kvs"));
  for (const Json& kv : *kvs) {
    MILLRACE_ASSIGN_OR_RETURN(std::string key, Bytes(kv, "key"));
    MILLRACE_ASSIGN_OR_RETURN(keys.values[std::move(key)], Bytes(kv, "value"));
  }
  return keys;
}

// One line of a watch: its events.
absl::StatusOr<std::vector<EtcdEvent>> EventsOf(absl::string_view line, const std::string& about) {
  const absl::StatusOr<Json> message = ParseJson(line);
  if (!message.ok()) return NoEtcd(about, message.status().message());
  const absl::StatusOr<const Json*> result = GetObject(*message, "result");
  if (!result.ok()) return NoEtcd(about, Quote(line));
  const Json& told = **result;
  if (const auto canceled = GetBoolOr(told, "canceled", false); !canceled.ok() || *canceled) {
    const absl::StatusOr<std::string> reason = GetStringOr(told, "cancel_reason", "");
    const std::string what =
        absl::StrCat(about, ": etcd has ended the watch: ", reason.ok() ? Quote(*reason) : "");
    if (told.contains("compact_revision")) return absl::OutOfRangeError(what);
    if (absl::StrContains(what, "permission")) return absl::PermissionDeniedError(what);
    return absl::UnavailableError(what);
  }
  std::vector<EtcdEvent> events;
  if (!told.contains("events")) return events;
  const absl::StatusOr<const Json*> list = GetArray(told, "events");
  if (!list.ok()) return NoEtcd(about, list.status().message());
  for (const Json& event : **list) {
    const absl::StatusOr<const Json*> kv = GetObject(event, "kv");
    if (!kv.ok()) return NoEtcd(about, kv.status().message());
    const absl::StatusOr<std::string> key = Bytes(**kv, "key");
    const absl::StatusOr<std::string> value = Bytes(**kv, "value");
    const absl::StatusOr<std::string> type = GetStringOr(event, "type", "PUT");
    if (!key.ok() || !value.ok() || !type.ok()) return NoEtcd(about, Quote(line));
    events.push_back({.key = *key});
    if (*type != "DELETE") events.back().value = *value;
  }
  return events;
}

}  // namespace

absl::StatusOr<std::unique_ptr<EtcdClient>> EtcdClient::Create(const EtcdResolverOptions& given) {
  EtcdResolverOptions options = given;
  if (options.endpoints.empty()) {
    return absl::InvalidArgumentError(
        "endpoints must name an etcd server at least, such as https://etcd:2379");
  }
  for (std::string& url : options.endpoints) {
    while (absl::EndsWith(url, "/")) url.pop_back();
    const absl::Status parsed = ParseUrl(url).status();
    if (!parsed.ok()) return Annotate(parsed, "endpoints");
  }
  if (options.timeout <= absl::ZeroDuration()) {
    return absl::InvalidArgumentError("timeout must be above 0");
  }
  if (options.user.empty() != options.password_file.empty()) {
    return absl::InvalidArgumentError("user and password_file go together: give both or neither");
  }
  if (options.certificate_file.empty() != options.key_file.empty()) {
    return absl::InvalidArgumentError(
        "certificate_file and key_file go together: give both or neither");
  }
  HttpRequest request = {.method = "POST", .headers = {{"Content-Type", "application/json"}}};
  if (!options.certificate_file.empty()) {
    MILLRACE_ASSIGN_OR_RETURN(request.client_certificate_pem,
                              ReadFile(options.certificate_file, kMaxFileBytes));
    MILLRACE_ASSIGN_OR_RETURN(request.client_key_pem, ReadFile(options.key_file, kMaxFileBytes));
  }
  HttpClient::Options http;
  http.tls = options.tls;
  http.connect_timeout = std::min(http.connect_timeout, options.timeout);
  MILLRACE_ASSIGN_OR_RETURN(std::unique_ptr<HttpClient> client,
                            HttpClient::Create(std::move(http)));
  return std::unique_ptr<EtcdClient>(
      new EtcdClient(std::move(options), std::move(client), std::move(request)));
}

absl::StatusOr<HttpResponse> EtcdClient::SendTo(const std::string& url, const Json& body,
                                                const std::string& token, absl::Duration timeout,
                                                const std::stop_token& stop,
                                                const HttpClient::BodyCallback& on_body) {
  HttpRequest request = request_;
  request.url = url;
  request.body = DumpJson(body);
  request.timeout = timeout;
  request.answer_timeout = options_.timeout;
  if (!token.empty()) request.headers.emplace_back("Authorization", token);
  MILLRACE_ASSIGN_OR_RETURN(HttpResponse response, http_->Send(request, stop, on_body));
  if (response.status != 200) return ErrorOf(response, url);
  return response;
}

absl::StatusOr<std::string> EtcdClient::Token(const std::string& endpoint, const std::string& stale,
                                              const std::stop_token& stop) {
  if (options_.user.empty()) return std::string();
  {
    MutexLock lock(&mu_);
    if (token_ != stale) return token_;
  }
  MILLRACE_ASSIGN_OR_RETURN(const std::string text,
                            ReadFile(options_.password_file, kMaxFileBytes));
  const std::string url = absl::StrCat(endpoint, "/v3/auth/authenticate");
  MILLRACE_ASSIGN_OR_RETURN(
      const HttpResponse response,
      SendTo(url, {{"name", options_.user}, {"password", absl::StripTrailingAsciiWhitespace(text)}},
             "", options_.timeout, stop, nullptr));
  const absl::StatusOr<Json> answer = ParseJson(response.body);
  const auto token = answer.ok() ? GetString(*answer, "token") : answer.status();
  if (!token.ok() || token->empty() || HasLineEnd(*token)) return NoEtcd(url, "it has no token");
  MutexLock lock(&mu_);
  token_ = *token;
  return token_;
}

absl::StatusOr<HttpResponse> EtcdClient::Send(const std::string& path, const Json& body,
                                              absl::Duration timeout, const std::stop_token& stop,
                                              const HttpClient::BodyCallback& on_body) {
  std::vector<std::string> failed;
  absl::Status last;
  for (const std::string& endpoint : options_.endpoints) {
    std::string token;
    absl::StatusOr<HttpResponse> response = absl::UnauthenticatedError("not asked yet");
    for (int attempt = 0; attempt < 2 && absl::IsUnauthenticated(response.status()); ++attempt) {
      const absl::StatusOr<std::string> fresh = Token(endpoint, token, stop);
      if (!fresh.ok()) {
        response = fresh.status();
        break;
      }
      token = *fresh;
      response = SendTo(absl::StrCat(endpoint, path), body, token, timeout, stop, on_body);
      if (token.empty()) break;
    }
    last = response.status();
    if (last.ok() || !(absl::IsUnavailable(last) || absl::IsDeadlineExceeded(last))) {
      return response;
    }
    failed.emplace_back(last.message());
  }
  return absl::Status(last.code(), absl::StrJoin(failed, "; "));
}

absl::StatusOr<EtcdKeys> EtcdClient::Range(const std::string& prefix, const std::stop_token& stop) {
  MILLRACE_ASSIGN_OR_RETURN(const HttpResponse response,
                            Send("/v3/kv/range", KeysFrom(prefix), options_.timeout, stop));
  const absl::StatusOr<Json> answer = ParseJson(response.body);
  const auto keys = answer.ok() ? KeysOf(*answer) : answer.status();
  if (keys.ok()) return keys;
  return NoEtcd(absl::StrJoin(options_.endpoints, ", "), keys.status().message());
}

absl::Status EtcdClient::Watch(const std::string& prefix, int64_t revision, absl::Duration lifetime,
                               const std::function<void(std::vector<EtcdEvent>)>& on_events,
                               const std::stop_token& stop) {
  Json request = KeysFrom(prefix);
  request["start_revision"] = absl::StrCat(revision);
  const std::string about = absl::StrCat("a watch of ", Quote(prefix));
  std::string buffer;
  bool begun = false;
  const auto on_body = [&](absl::string_view piece) -> absl::Status {
    absl::StrAppend(&buffer, piece);
    for (size_t end = buffer.find('\n'); end != std::string::npos; end = buffer.find('\n')) {
      MILLRACE_ASSIGN_OR_RETURN(std::vector<EtcdEvent> events,
                                EventsOf(absl::string_view(buffer).substr(0, end), about));
      buffer.erase(0, end + 1);
      begun = true;
      on_events(std::move(events));
    }
    if (buffer.size() <= kMaxLineBytes) return absl::OkStatus();
    return NoEtcd(about, absl::StrCat("a line of more than ", kMaxLineBytes, " bytes"));
  };
  const absl::StatusOr<HttpResponse> response =
      Send("/v3/watch", {{"create_request", std::move(request)}}, lifetime, stop, on_body);
  if (response.ok()) return absl::UnavailableError(absl::StrCat(about, ": etcd has ended it"));
  // Its time is over.
  if (begun && absl::IsDeadlineExceeded(response.status())) return absl::OkStatus();
  return response.status();
}

}  // namespace millrace
