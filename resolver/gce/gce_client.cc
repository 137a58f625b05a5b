#include "resolver/gce/gce_client.h"

#include <algorithm>
#include <cstddef>
#include <stop_token>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "core/base/file.h"
#include "core/base/status.h"
#include "core/base/text.h"
#include "core/process/process.h"
#include "millrace/status_macros.h"
#include "resolver/http/url.h"

namespace millrace {
namespace {

constexpr size_t kMaxTokenBytes = size_t{64} << 10;
constexpr size_t kMaxPages = 1000;  // of 500 instances
constexpr char kAccountsToken[] = "instance/service-accounts/default/token";

std::string Quote(absl::string_view text) { return Ellipsize(EscapeControls(text), 200); }

absl::Status CheckUrl(absl::string_view what, const std::string& url) {
  const absl::Status status = ParseUrl(url).status();
  return status.ok() ? status : Annotate(status, what);
}

// "zones/z" of ".../zones/z": the last part.
std::string LastPart(const std::string& path) { return path.substr(path.rfind('/') + 1); }

// The API's own words for an error, if it has any.
std::string SaidIn(const HttpResponse& response) {
  const absl::StatusOr<Json> body = ParseJson(response.body);
  if (body.ok() && body->is_object()) {
    const auto error = body->find("error");
    if (error != body->end() && error->is_object()) {
      const auto message = error->find("message");
      if (message != error->end() && message->is_string()) {
        return Quote(message->get_ref<const std::string&>());
      }
    }
  }
  return Quote(FirstLine(response.body));
}

absl::Status ErrorOf(const HttpResponse& response, const std::string& about) {
  const std::string what =
      absl::StrCat(about, ": status ", response.status, ": ", SaidIn(response));
  switch (response.status) {
    case 400:
      return absl::InvalidArgumentError(what);
    case 401:
      return absl::UnauthenticatedError(
          absl::StrCat(what, "; the access token is not valid (any more)"));
    case 403:
      return absl::PermissionDeniedError(
          absl::StrCat(what,
                       "; the account needs compute.instanceGroups.list and compute.instances.get "
                       "(roles/compute.viewer), and an instance the scope compute-ro"));
    case 404:
      return absl::NotFoundError(what);
    default:
      break;
  }
  if (response.status == 429 || response.status >= 500) return absl::UnavailableError(what);
  return absl::DataLossError(what);
}

absl::Status NoSuchApi(const std::string& about, absl::string_view why) {
  return absl::DataLossError(
      absl::StrCat(about, ": the answer is not the Compute Engine API's: ", why));
}

absl::StatusOr<GceGroupPage> PageOf(const Json& answer, const std::string& about) {
  GceGroupPage page;
  const auto items = answer.find("items");
  if (items == answer.end()) return page;
  page.has_items = true;
  if (!items->is_array()) return NoSuchApi(about, "\"items\" is no list");
  for (const Json& item : *items) {
    const absl::StatusOr<std::string> instance = GetString(item, "instance");
    if (!instance.ok()) return NoSuchApi(about, instance.status().message());
    const absl::StatusOr<std::string> status = GetStringOr(item, "status", "");
    if (!status.ok()) return NoSuchApi(about, status.status().message());
    page.entries.push_back({.name = LastPart(*instance), .status = *status});
  }
  return page;
}

}  // namespace

absl::StatusOr<std::unique_ptr<GceClient>> GceClient::Create(const GceResolverOptions& given) {
  GceResolverOptions options = given;
  if (options.timeout <= absl::ZeroDuration()) {
    return absl::InvalidArgumentError("timeout must be above 0");
  }
  if (options.metadata_url.empty()) {
    options.metadata_url =
        absl::StrCat("http://", EnvOr("GCE_METADATA_HOST", "metadata.google.internal"));
  }
  for (std::string* url : {&options.api_url, &options.metadata_url}) {
    while (absl::EndsWith(*url, "/")) url->pop_back();
  }
  MILLRACE_RETURN_IF_ERROR(CheckUrl("api_url", options.api_url));
  MILLRACE_RETURN_IF_ERROR(CheckUrl("metadata_url", options.metadata_url));
  HttpClient::Options http;
  http.connect_timeout = std::min(http.connect_timeout, options.timeout);
  MILLRACE_ASSIGN_OR_RETURN(std::unique_ptr<HttpClient> metadata, HttpClient::Create(http));
  http.tls = options.tls;
  http.proxy = HttpClient::Proxy::kEnvironment;
  MILLRACE_ASSIGN_OR_RETURN(std::unique_ptr<HttpClient> api, HttpClient::Create(std::move(http)));
  return std::unique_ptr<GceClient>(
      new GceClient(std::move(options), std::move(api), std::move(metadata)));
}

absl::StatusOr<std::string> GceClient::Metadata(const std::string& path) {
  const std::string url = absl::StrCat(options_.metadata_url, "/computeMetadata/v1/", path);
  const absl::StatusOr<HttpResponse> response = metadata_->Send(
      {.url = url, .headers = {{"Metadata-Flavor", "Google"}}, .timeout = options_.timeout},
      std::stop_token());
  if (HttpFailureOf(response.status()) == HttpFailure::kResolve ||
      HttpFailureOf(response.status()) == HttpFailure::kConnect) {
    return absl::FailedPreconditionError(absl::StrCat(
        response.status().message(),
        "; only an instance of Compute Engine has a metadata server: elsewhere give project, zone "
        "and token_file"));
  }
  if (!response.ok()) return response.status();
  if (response->status != 200) return ErrorOf(*response, url);
  return response->body;
}

absl::StatusOr<std::string> GceClient::Token() {
  if (!options_.token_file.empty()) {
    MILLRACE_ASSIGN_OR_RETURN(const std::string text,
                              ReadFile(options_.token_file, kMaxTokenBytes));
    std::string token(absl::StripAsciiWhitespace(text));
    if (!token.empty() && !HasLineEnd(token)) return token;
    return absl::InvalidArgumentError(
        absl::StrCat(options_.token_file,
                     ": it must hold one access token, as gcloud auth print-access-token prints"));
  }
  MILLRACE_ASSIGN_OR_RETURN(const std::string text, Metadata(kAccountsToken));
  const std::string about = absl::StrCat(options_.metadata_url, ": the token");
  const absl::StatusOr<Json> answer = ParseJson(text);
  if (!answer.ok()) return NoSuchApi(about, answer.status().message());
  const absl::StatusOr<std::string> token = GetString(*answer, "access_token");
  if (!token.ok() || HasLineEnd(*token)) return NoSuchApi(about, "it has no access_token");
  return *token;
}

absl::StatusOr<GceGroupName> GceClient::Complete(GceGroupName group) {
  if (group.project.empty()) {
    MILLRACE_ASSIGN_OR_RETURN(group.project, Metadata("project/project-id"));
  }
  if (group.zone.empty()) {
    // "projects/123456789/zones/us-central1-a"
    MILLRACE_ASSIGN_OR_RETURN(const std::string zone, Metadata("instance/zone"));
    group.zone = LastPart(zone);
  }
  return group;
}

absl::StatusOr<std::string> GceClient::OwnName() { return Metadata("instance/name"); }

absl::StatusOr<Json> GceClient::Ask(HttpRequest request, const std::string& about) {
  MILLRACE_ASSIGN_OR_RETURN(const std::string token, Token());
  request.headers.emplace_back("Authorization", absl::StrCat("Bearer ", token));
  request.timeout = options_.timeout;
  const absl::StatusOr<HttpResponse> response = api_->Send(request, std::stop_token());
  if (!response.ok()) return response.status();
  const std::string where = absl::StrCat(about, " at ", options_.api_url);
  if (response->status != 200) return ErrorOf(*response, where);
  absl::StatusOr<Json> answer = ParseJson(response->body);
  if (!answer.ok()) return NoSuchApi(where, answer.status().message());
  if (!answer->is_object()) return NoSuchApi(where, "it is no object");
  return answer;
}

absl::StatusOr<std::vector<GceGroupPage>> GceClient::ListGroup(const GceGroupName& group,
                                                               absl::string_view state) {
  const std::string about =
      absl::StrCat("instance group ", Quote(group.instance_group), " of project ",
                   Quote(group.project), " in ", Quote(group.zone));
  const std::string url = absl::StrCat(
      options_.api_url, "/projects/", UrlEncode(group.project), "/zones/", UrlEncode(group.zone),
      "/instanceGroups/", UrlEncode(group.instance_group), "/listInstances?orderBy=name");
  std::vector<GceGroupPage> pages;
  std::string next;
  do {
    if (pages.size() == kMaxPages) {
      return NoSuchApi(about, absl::StrCat("it has more than ", kMaxPages, " pages"));
    }
    HttpRequest request = {
        .method = "POST",
        .url = next.empty() ? url : absl::StrCat(url, "&pageToken=", UrlEncode(next)),
        .headers = {{"Content-Type", "application/json"}},
        .body = absl::StrCat("{\"instanceState\":\"", state, "\"}")};
    MILLRACE_ASSIGN_OR_RETURN(const Json answer, Ask(std::move(request), about));
    MILLRACE_ASSIGN_OR_RETURN(GceGroupPage page, PageOf(answer, about));
    pages.push_back(std::move(page));
    const absl::StatusOr<std::string> token = GetStringOr(answer, "nextPageToken", "");
    if (!token.ok()) return NoSuchApi(about, token.status().message());
    next = *token;
  } while (!next.empty());
  return pages;
}

absl::StatusOr<Json> GceClient::Instance(const GceGroupName& group, const std::string& name) {
  return Ask(
      {.url = absl::StrCat(options_.api_url, "/projects/", UrlEncode(group.project), "/zones/",
                           UrlEncode(group.zone), "/instances/", UrlEncode(name))},
      absl::StrCat("instance ", Quote(name)));
}

}  // namespace millrace
