#include "resolver/kubernetes/client/http_kubernetes_client.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "core/base/clock.h"
#include "core/base/json.h"
#include "core/base/line_reader.h"
#include "core/base/mutex.h"
#include "core/base/random.h"
#include "core/base/status.h"
#include "core/base/text.h"
#include "millrace/status_macros.h"
#include "resolver/http/url.h"
#include "resolver/kubernetes/client/pod.h"
#include "resolver/kubernetes/client/pruned_json.h"
#include "resolver/kubernetes/client/rbac_hint.h"

namespace millrace {
namespace {

constexpr absl::Duration kMaxPause = absl::Seconds(5);
// A list that expires before its last page, so often in a row, never ends.
constexpr int kMaxListBegins = 4;
constexpr size_t kMaxErrorBytes = size_t{1} << 20;

// What PodFromJson() reads of a pod. The rest, managedFields above all, is most of its bytes.
std::vector<JsonKeep> PodMembers() {
  return {
      {"metadata",
       {{"name", {}},
        {"namespace", {}},
        {"uid", {}},
        {"resourceVersion", {}},
        {"deletionTimestamp", {}},
        {"labels", {}},
        {"annotations", {}}}},
      {"spec",
       {{"hostname", {}},
        {"subdomain", {}},
        {"containers",
         {{"ports", {{"name", {}}, {"containerPort", {}}}}, {"resources", {{"limits", {}}}}}}}},
      {"status",
       {{"phase", {}},
        {"hostIP", {}},
        {"podIP", {}},
        {"podIPs", {{"ip", {}}}},
        {"conditions", {{"type", {}}, {"status", {}}}}}},
  };
}

const JsonKeep& ListMembers() {
  static const JsonKeep* const members =
      new JsonKeep{"",
                   {{"kind", {}},
                    {"metadata", {{"resourceVersion", {}}, {"continue", {}}}},
                    {"items", PodMembers()}}};
  return *members;
}

const JsonKeep& EventMembers() {
  static const JsonKeep* const members = [] {
    std::vector<JsonKeep> object = PodMembers();
    for (const absl::string_view name : {"kind", "code", "reason", "message"}) {
      object.push_back({name, {}});
    }
    // Of a Status, `status` is a text: it is kept as what it is.
    return new JsonKeep{"", {{"type", {}}, {"object", std::move(object)}}};
  }();
  return *members;
}

double RandomUnit() { return static_cast<double>(RandomU64() >> 11) * 0x1.0p-53; }

// False if `stop` was requested meanwhile.
bool Sleep(absl::Duration duration, const std::stop_token& stop) {
  Notification stopped;
  const std::stop_callback on_stop(stop, [&stopped] { stopped.Notify(); });
  return !stopped.WaitForNotificationWithTimeout(duration);
}

std::optional<absl::Duration> RetryAfter(const HttpResponse& response) {
  const auto found = response.headers.find("retry-after");
  if (found == response.headers.end()) return std::nullopt;
  int32_t seconds = 0;
  if (absl::SimpleAtoi(found->second, &seconds) && seconds >= 0) return absl::Seconds(seconds);
  absl::Time when;
  if (absl::ParseTime("%a, %d %b %Y %H:%M:%S GMT", found->second, &when, nullptr)) {
    return std::max(absl::ZeroDuration(), when - RealClock()->Now());
  }
  return std::nullopt;
}

// What a Status object, or whatever else came with an error, says.
std::string ErrorMessage(const HttpResponse& response) {
  const absl::StatusOr<Json> object = ParseJson(response.body);
  if (object.ok()) {
    const absl::StatusOr<std::string> message = GetString(*object, "message");
    if (message.ok()) return Ellipsize(EscapeControls(*message), 500);
  }
  return Ellipsize(EscapeControls(FirstLine(response.body)), 200);
}

bool IsNamespace(absl::string_view name) {
  return name.size() <= 63 && std::all_of(name.begin(), name.end(), [](char c) {
           return absl::ascii_islower(c) || absl::ascii_isdigit(c) || c == '-';
         });
}

bool WorthAnotherTry(const absl::Status& status) {
  switch (HttpFailureOf(status)) {
    case HttpFailure::kResolve:
    case HttpFailure::kConnect:
    case HttpFailure::kCut:
      return true;
    default:
      return false;
  }
}

absl::Status FromCode(int64_t code, absl::string_view message) {
  if (code == 400) return absl::InvalidArgumentError(message);
  if (code == 401) return absl::UnauthenticatedError(message);
  if (code == 403) return absl::PermissionDeniedError(message);
  if (code == 410) return absl::OutOfRangeError(message);
  if (code == 429 || code >= 500) return absl::UnavailableError(message);
  return absl::DataLossError(message);
}

absl::StatusOr<PodEvent> ParseEvent(absl::string_view line) {
  const absl::StatusOr<Json> parsed =
      ParsePrunedJson(line, EventMembers(), {.max_bytes = line.size()});
  if (!parsed.ok()) {
    return absl::DataLossError(
        absl::StrCat("an event of the watch is broken: ", parsed.status().message()));
  }
  const auto broken = [](const absl::Status& status) {
    return absl::DataLossError(absl::StrCat("an event of the watch makes no sense: ",
                                            Ellipsize(EscapeControls(status.message()), 300)));
  };
  const absl::StatusOr<std::string> type = GetString(*parsed, "type");
  if (!type.ok()) return broken(type.status());
  const absl::StatusOr<const Json*> object = GetObject(*parsed, "object");
  if (!object.ok()) return broken(object.status());

  if (*type == "ERROR") {
    int64_t code = GetIntOr(**object, "code", 500).value_or(500);
    const std::string reason = GetStringOr(**object, "reason", "").value_or("");
    if (reason == "Expired" || reason == "Gone") code = 410;
    const std::string message = GetStringOr(**object, "message", "").value_or("");
    return FromCode(code, absl::StrCat("the watch ended with an error (", code, " ",
                                       EscapeControls(Ellipsize(reason, 100)),
                                       "): ", EscapeControls(Ellipsize(message, 500))));
  }
  PodEvent event;
  if (*type == "BOOKMARK") {
    event.type = PodEvent::Type::kBookmark;
    const absl::StatusOr<const Json*> metadata = GetObject(**object, "metadata");
    if (!metadata.ok()) return broken(metadata.status());
    absl::StatusOr<std::string> version = GetString(**metadata, "resourceVersion", "metadata");
    if (!version.ok()) return broken(version.status());
    event.resource_version = *std::move(version);
    return event;
  }
  if (*type == "ADDED") {
    event.type = PodEvent::Type::kAdded;
  } else if (*type == "MODIFIED") {
    event.type = PodEvent::Type::kModified;
  } else if (*type == "DELETED") {
    event.type = PodEvent::Type::kDeleted;
  } else {
    return broken(absl::InvalidArgumentError(absl::StrCat("type \"", *type, "\"")));
  }
  absl::StatusOr<Pod> pod = PodFromJson(**object);
  if (!pod.ok()) return broken(pod.status());
  event.pod = *std::move(pod);
  event.resource_version = event.pod.resource_version;
  return event;
}

}  // namespace

// One GET of pods: what is asked, for the request and for error texts.
struct HttpKubernetesClient::Call {
  absl::string_view verb;  // of RBAC: "list" or "watch"
  const PodSelection& selection;
  std::string query;
  absl::Duration deadline = absl::InfiniteDuration();  // steady
  absl::Duration answer_timeout = absl::InfiniteDuration();
  absl::Duration silence_timeout = absl::InfiniteDuration();

  // "list the pods of namespace tf with labels job=a"
  [[nodiscard]] std::string Describe() const {
    return absl::StrCat(verb,
                        selection.namespace_name.empty() ? " the pods of all namespaces"
                                                         : " the pods of namespace ",
                        selection.namespace_name,
                        selection.label_selector.empty() ? "" : " with labels ",
                        EscapeControls(Ellipsize(selection.label_selector, 200)));
  }
};

HttpKubernetesClient::HttpKubernetesClient(Options options, std::unique_ptr<HttpClient> http,
                                           std::unique_ptr<CredentialSource> credentials)
    : options_(std::move(options)), http_(std::move(http)), credentials_(std::move(credentials)) {}

HttpKubernetesClient::~HttpKubernetesClient() = default;

absl::StatusOr<std::unique_ptr<HttpKubernetesClient>> HttpKubernetesClient::Create(
    Options options) {
  while (absl::EndsWith(options.server, "/")) options.server.pop_back();
  const bool tls = absl::StartsWith(options.server, "https://");
  if (!tls && !absl::StartsWith(options.server, "http://")) {
    return absl::InvalidArgumentError(
        absl::StrCat("the API server must be a URL such as https://10.0.0.1:6443, found \"",
                     EscapeControls(Ellipsize(options.server, 200)), "\""));
  }
  const CredentialOptions& credentials = options.credentials;
  if (!tls && (!credentials.token.empty() || !credentials.token_file.empty() ||
               credentials.exec.has_value())) {
    return absl::InvalidArgumentError(absl::StrCat("a token would go to ", options.server,
                                                   " in the clear: use https, or no credentials"));
  }
  if (options.max_attempts < 1 || options.page_pods < 1 || options.max_pods < 1 ||
      options.watch_duration < absl::Seconds(1) || options.watch_silence <= absl::ZeroDuration() ||
      options.watch_begin_timeout <= absl::ZeroDuration()) {
    return absl::InvalidArgumentError(
        "max_attempts, page_pods, max_pods and the limits of a watch must be positive");
  }
  HttpClient::Options http_options;
  http_options.tls = options.tls;
  http_options.proxy = options.proxy;
  http_options.proxy_url = options.proxy_url;
  http_options.connect_timeout = options.connect_timeout;
  MILLRACE_ASSIGN_OR_RETURN(std::unique_ptr<HttpClient> http,
                            HttpClient::Create(std::move(http_options)));
  MILLRACE_ASSIGN_OR_RETURN(std::unique_ptr<CredentialSource> source,
                            CredentialSource::Create(options.credentials));
  return std::unique_ptr<HttpKubernetesClient>(
      new HttpKubernetesClient(std::move(options), std::move(http), std::move(source)));
}

std::string HttpKubernetesClient::Describe() const {
  return options_.description.empty()
             ? options_.server
             : absl::StrCat(options_.server, " (", options_.description, ")");
}

absl::Status HttpKubernetesClient::ResponseError(const Call& call,
                                                 const HttpResponse& response) const {
  const std::string message = ErrorMessage(response);
  const std::string said =
      absl::StrCat("HTTP ", response.status, message.empty() ? "" : ": ", message);
  switch (response.status) {
    case 401:
      return absl::UnauthenticatedError(absl::StrCat("the server does not accept the credentials (",
                                                     credentials_->Describe(), "): renew them; ",
                                                     said));
    case 403: {
      const std::string user = ForbiddenUser(message);
      const std::string& where = call.selection.namespace_name;
      return absl::PermissionDeniedError(absl::StrCat(
          user.empty() ? credentials_->Describe() : absl::StrCat("user \"", user, "\""),
          " lacks the verb ", call.verb, " on pods in ",
          where.empty() ? "all namespaces" : absl::StrCat("namespace ", where), " (", said,
          "); an administrator grants it with kubectl apply -f - and this text:\n",
          RbacManifest(user, where)));
    }
    case 404:
      return absl::DataLossError(absl::StrCat(
          "what answers there is no Kubernetes API server, or its URL lacks a path; ", said));
    default:
      if (response.status < 400) {
        const auto location = response.headers.find("location");
        return absl::DataLossError(absl::StrCat(
            "what answers there is no Kubernetes API server; ", said,
            location == response.headers.end() ? "" : " to ",
            location == response.headers.end() ? ""
                                               : EscapeControls(Ellipsize(location->second, 200))));
      }
      return FromCode(response.status, said);
  }
}

absl::StatusOr<HttpResponse> HttpKubernetesClient::Get(const Call& call, std::stop_token stop,
                                                       const HttpClient::BodyCallback& on_body) {
  const Clock& clock = *RealClock();
  HttpRequest request;
  request.url = absl::StrCat(options_.server, "/api/v1/");
  if (!call.selection.namespace_name.empty()) {
    absl::StrAppend(&request.url, "namespaces/", call.selection.namespace_name, "/");
  }
  absl::StrAppend(&request.url, "pods?", call.query);
  if (!call.selection.label_selector.empty()) {
    absl::StrAppend(&request.url, "&labelSelector=", UrlEncode(call.selection.label_selector));
  }
  request.answer_timeout = call.answer_timeout;
  request.silence_timeout = call.silence_timeout;
  request.max_body_bytes = on_body == nullptr ? options_.max_page_bytes : kMaxErrorBytes;
  request.gzip = options_.gzip;

  bool began = false;
  HttpClient::BodyCallback counted;
  if (on_body != nullptr) {
    counted = [&](absl::string_view piece) {
      began = true;
      return on_body(piece);
    };
  }
  absl::Duration pause = options_.first_pause;
  std::optional<Credentials> refused;
  for (int attempt = 1;; ++attempt) {
    const absl::Duration left = call.deadline - clock.SteadyNow();
    if (left <= absl::ZeroDuration()) return absl::DeadlineExceededError("no time is left");
    MILLRACE_ASSIGN_OR_RETURN(Credentials credentials,
                              credentials_->Get(std::min(left, call.answer_timeout), stop));
    if (refused.has_value() && credentials == *refused) {
      return absl::UnauthenticatedError(
          absl::StrCat("the server does not accept the credentials (", credentials_->Describe(),
                       "), and they have not changed since: renew them"));
    }
    request.headers = credentials.headers;
    request.headers.emplace_back("Accept", "application/json");
    if (!credentials.token.empty()) {
      request.headers.emplace_back("Authorization", absl::StrCat("Bearer ", credentials.token));
    }
    request.client_certificate_pem = credentials.client_certificate_pem;
    request.client_key_pem = credentials.client_key_pem;
    request.timeout = call.deadline - clock.SteadyNow();

    absl::StatusOr<HttpResponse> response = http_->Send(request, stop, counted);
    absl::Status error;
    std::optional<absl::Duration> retry_after;
    if (!response.ok()) {
      error = response.status();
      if (began || !WorthAnotherTry(error)) return error;
    } else {
      if (response->status == 200) return response;
      error = ResponseError(call, *response);
      if (response->status == 401 && !refused.has_value() && !credentials.empty()) {
        credentials_->Refuse(credentials);
        refused = std::move(credentials);
        continue;
      }
      if (response->status != 429 && response->status < 500) return error;
      retry_after = RetryAfter(*response);
    }
    if (attempt >= options_.max_attempts) {
      return absl::Status(error.code(), absl::StrCat(error.message(), " (", attempt, " attempts)"));
    }
    absl::Duration wait = pause * (0.5 + RandomUnit());
    if (retry_after.has_value()) wait = std::max(wait, *retry_after);
    pause = std::min(pause * 2, kMaxPause);
    if (clock.SteadyNow() + wait >= call.deadline ||
        (call.deadline == absl::InfiniteDuration() && wait > call.answer_timeout)) {
      return absl::Status(
          error.code(), absl::StrCat(error.message(), " (", attempt, " attempts; the next in ",
                                     absl::FormatDuration(absl::Trunc(wait, absl::Milliseconds(1))),
                                     " would be too late)"));
    }
    if (!Sleep(wait, stop)) return absl::CancelledError("stopped");
  }
}

absl::Status HttpKubernetesClient::InContext(const Call& call, const absl::Status& status) const {
  return Annotate(status,
                  absl::StrCat("Kubernetes API server ", Describe(), ": ", call.Describe()));
}

absl::StatusOr<PodList> HttpKubernetesClient::ListOnce(Call& call, const std::stop_token& stop) {
  PodList list;
  std::string next;
  do {
    call.query = absl::StrCat("limit=", options_.page_pods);
    if (!next.empty()) absl::StrAppend(&call.query, "&continue=", UrlEncode(next));
    MILLRACE_ASSIGN_OR_RETURN(const HttpResponse response, Get(call, stop, nullptr));
    const absl::StatusOr<Json> page =
        ParsePrunedJson(response.body, ListMembers(), {.max_bytes = options_.max_page_bytes});
    if (!page.ok()) {
      return absl::DataLossError(
          absl::StrCat("what came is no list of pods: ", page.status().message()));
    }
    const std::string kind = GetStringOr(*page, "kind", "").value_or("");
    const absl::StatusOr<const Json*> metadata = GetObject(*page, "metadata");
    if (kind != "PodList" || !metadata.ok()) {
      return absl::DataLossError(absl::StrCat("what came is no list of pods, but of kind \"",
                                              EscapeControls(Ellipsize(kind, 100)), "\""));
    }
    list.resource_version = GetStringOr(**metadata, "resourceVersion", "").value_or("");
    next = GetStringOr(**metadata, "continue", "").value_or("");
    const auto items = page->find("items");
    if (items == page->end() || items->is_null()) continue;
    if (!items->is_array())
      return absl::DataLossError("what came is no list of pods: items is no array");
    if (list.pods.size() + items->size() > static_cast<size_t>(options_.max_pods)) {
      return absl::ResourceExhaustedError(
          absl::StrCat("more than max_pods = ", options_.max_pods,
                       " pods match; narrow the label selector or raise the limit"));
    }
    list.pods.reserve(list.pods.size() + items->size());
    for (const Json& item : *items) {
      absl::StatusOr<Pod> pod = PodFromJson(item);
      if (!pod.ok()) {
        return absl::DataLossError(
            absl::StrCat("what came is no list of pods: ",
                         Ellipsize(EscapeControls(pod.status().message()), 300)));
      }
      list.pods.push_back(*std::move(pod));
    }
  } while (!next.empty());
  return list;
}

absl::StatusOr<PodList> HttpKubernetesClient::ListPods(const PodSelection& selection,
                                                       absl::Duration timeout,
                                                       std::stop_token stop) {
  if (!IsNamespace(selection.namespace_name)) {
    return absl::InvalidArgumentError(
        absl::StrCat("\"", EscapeControls(Ellipsize(selection.namespace_name, 100)),
                     "\" is no name of a namespace"));
  }
  Call call{.verb = "list", .selection = selection, .query = ""};
  call.deadline = RealClock()->SteadyNow() + timeout;
  for (int begin = 1;; ++begin) {
    absl::StatusOr<PodList> list = ListOnce(call, stop);
    if (list.ok()) return list;
    if (!absl::IsOutOfRange(list.status())) return InContext(call, list.status());
    if (begin == kMaxListBegins) {
      return InContext(call, absl::UnavailableError(absl::StrCat(
                                 "the list expired before its last page, ", begin,
                                 " times in a row; the server forgets versions too soon (etcd "
                                 "compaction): ",
                                 list.status().message())));
    }
  }
}

absl::Status HttpKubernetesClient::WatchPods(const PodSelection& selection,
                                             const std::string& resource_version,
                                             const std::function<absl::Status(PodEvent)>& on_event,
                                             std::stop_token stop) {
  if (!IsNamespace(selection.namespace_name)) {
    return absl::InvalidArgumentError(
        absl::StrCat("\"", EscapeControls(Ellipsize(selection.namespace_name, 100)),
                     "\" is no name of a namespace"));
  }
  Call call{.verb = "watch", .selection = selection, .query = ""};
  const absl::Duration duration = options_.watch_duration * (1 + RandomUnit());
  call.query = absl::StrCat(
      "watch=1&allowWatchBookmarks=true&timeoutSeconds=", absl::ToInt64Seconds(duration),
      "&resourceVersion=", UrlEncode(resource_version));
  call.answer_timeout = options_.watch_begin_timeout;
  call.silence_timeout = options_.watch_silence;

  LineReader lines(options_.max_event_bytes);
  bool accepted = false;
  absl::Status told;  // what `on_event` returned: the caller's own, so not in our words
  const absl::StatusOr<HttpResponse> response = Get(call, stop, [&](absl::string_view piece) {
    if (!accepted) {
      accepted = true;
      told = on_event(
          {.type = PodEvent::Type::kBookmark, .pod = {}, .resource_version = resource_version});
      if (!told.ok()) return told;
    }
    lines.Append(piece);
    for (;;) {
      const absl::StatusOr<std::optional<absl::string_view>> line = lines.Next();
      if (!line.ok()) {
        return absl::ResourceExhaustedError(absl::StrCat(
            "an event is over the limit of max_event_bytes = ", options_.max_event_bytes));
      }
      if (!line->has_value()) return absl::OkStatus();
      if ((*line)->empty()) continue;
      MILLRACE_ASSIGN_OR_RETURN(PodEvent event, ParseEvent(**line));
      told = on_event(std::move(event));
      if (!told.ok()) return told;
    }
  });
  if (!told.ok()) return told;
  if (!response.ok()) return InContext(call, response.status());
  if (lines.partial_bytes() > 0) {
    return InContext(call, absl::UnavailableError("the watch was cut within an event"));
  }
  return absl::OkStatus();
}

}  // namespace millrace
