#include "resolver/spark/spark_rest_client.h"

#include <algorithm>
#include <stop_token>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "core/base/clock.h"
#include "core/base/status.h"
#include "core/base/text.h"
#include "millrace/status_macros.h"
#include "resolver/http/url.h"

namespace millrace {
namespace {

constexpr size_t kMaxApplicationsNamed = 5;

std::string Quote(absl::string_view text, size_t max_bytes = 100) {
  return Ellipsize(EscapeControls(text), max_bytes);
}

// "app-1/2" keeps its slash: the attempt is a segment of its own.
std::string EncodeApplicationId(absl::string_view id) {
  const size_t slash = id.find('/');
  if (slash == absl::string_view::npos) return UrlEncode(id);
  return absl::StrCat(UrlEncode(id.substr(0, slash)), "/", UrlEncode(id.substr(slash + 1)));
}

bool LooksLikeAPage(const HttpResponse& response) {
  const absl::string_view body = absl::StripLeadingAsciiWhitespace(response.body);
  return absl::StartsWith(body, "<");
}

}  // namespace

SparkRestClient::SparkRestClient(Options options, std::unique_ptr<HttpClient> http)
    : options_(std::move(options)), http_(std::move(http)) {}

absl::StatusOr<std::unique_ptr<SparkRestClient>> SparkRestClient::Create(Options options) {
  while (absl::EndsWith(options.url, "/")) options.url.pop_back();
  if (absl::EndsWith(options.url, "/api/v1")) {
    options.url = std::string(absl::StripSuffix(options.url, "/api/v1"));
  }
  const absl::string_view url = options.url;
  const bool http = absl::StartsWith(url, "http://") && url.size() > 7;
  const bool https = absl::StartsWith(url, "https://") && url.size() > 8;
  if (!http && !https) {
    return absl::InvalidArgumentError(
        absl::StrCat("url must be that of the driver's UI, such as http://driver:4040, found \"",
                     Quote(options.url), "\""));
  }
  if (options.timeout <= absl::ZeroDuration()) {
    return absl::InvalidArgumentError("timeout must be above 0");
  }
  HttpClient::Options http_options;
  http_options.tls = options.tls;
  http_options.connect_timeout = std::min(http_options.connect_timeout, options.timeout);
  MILLRACE_ASSIGN_OR_RETURN(std::unique_ptr<HttpClient> client,
                            HttpClient::Create(std::move(http_options)));
  return std::unique_ptr<SparkRestClient>(
      new SparkRestClient(std::move(options), std::move(client)));
}

absl::StatusOr<Json> SparkRestClient::Get(const std::string& path, absl::Duration deadline) {
  HttpRequest request;
  request.url = absl::StrCat(options_.url, "/api/v1", path);
  request.headers = {{"Accept", "application/json"}};
  // Two requests share the time of one call.
  request.timeout = std::max(deadline - RealClock()->SteadyNow(), absl::Milliseconds(1));
  const absl::StatusOr<HttpResponse> answer = http_->Send(request, std::stop_token());
  const std::string about = absl::StrCat("Spark at ", options_.url);
  if (!answer.ok()) {
    if (HttpFailureOf(answer.status()) == HttpFailure::kConnect) {
      return absl::UnavailableError(
          absl::StrCat(answer.status().message(),
                       "; does the application run, with spark.ui.enabled? A second "
                       "one on its host has port 4041, and so on"));
    }
    return Annotate(answer.status(), about);
  }
  const HttpResponse& response = *answer;
  if (response.status == 200) {
    if (LooksLikeAPage(response)) {
      return absl::DataLossError(absl::StrCat(
          about,
          " answers with a web page in place of the monitoring REST API: give the UI of the "
          "driver (http://driver:4040) or of a History Server, not of a master or a worker"));
    }
    absl::StatusOr<Json> value = ParseJson(response.body);
    if (value.ok()) return value;
    const std::string line = Quote(FirstLine(response.body), 200);
    if (absl::StrContains(line, "starting up")) {
      return absl::UnavailableError(absl::StrCat(about, " is just starting: ", line));
    }
    return absl::DataLossError(absl::StrCat(about, " answers ", path, " with no JSON (",
                                            value.status().message(), "): ", line));
  }
  const std::string said = LooksLikeAPage(response) ? "" : Quote(FirstLine(response.body), 200);
  const std::string what = absl::StrCat(about, " answers ", path, " with status ", response.status,
                                        said.empty() ? "" : ": ", said);
  if (response.status == 404) return absl::NotFoundError(what);
  if (response.status == 401 || response.status == 403) {
    return absl::PermissionDeniedError(
        absl::StrCat(what, "; the UI has ACLs (spark.ui.view.acls): run as somebody who may look"));
  }
  if (response.status >= 300 && response.status < 400) {
    const auto location = response.headers.find("location");
    return absl::DataLossError(
        absl::StrCat(what,
                     location == response.headers.end()
                         ? std::string()
                         : absl::StrCat(": it sends to ", Quote(location->second, 200)),
                     "; redirections are not followed, give the address it sends to"));
  }
  return absl::UnavailableError(what);
}

absl::StatusOr<SparkApplication> SparkRestClient::Find(absl::Duration deadline) {
  const std::string& id = options_.application_id;
  if (!id.empty()) {
    const std::string base = id.substr(0, id.find('/'));
    absl::StatusOr<Json> value = Get(absl::StrCat("/applications/", UrlEncode(base)), deadline);
    if (absl::IsNotFound(value.status())) {
      return absl::NotFoundError(absl::StrCat("Spark at ", options_.url, " has no application ",
                                              Quote(base), " (", options_.url,
                                              "/api/v1/applications lists them)"));
    }
    if (!value.ok()) return value.status();
    absl::StatusOr<SparkApplication> application = SparkApplicationFromJson(*value);
    if (!application.ok()) return Annotate(application.status(), options_.url);
    if (base != id) application->attempt = id.substr(base.size() + 1);
    return application;
  }
  absl::StatusOr<Json> value = Get("/applications?status=running", deadline);
  if (absl::IsNotFound(value.status())) {
    return absl::DataLossError(absl::StrCat(
        "Spark at ", options_.url,
        " has no monitoring REST API (status 404 for "
        "/api/v1/applications): give the UI of the driver (http://driver:4040) or of a History "
        "Server, not of a master or a worker"));
  }
  if (!value.ok()) return value.status();
  if (!value->is_array()) {
    return absl::DataLossError(absl::StrCat(options_.url, ": a list of applications was expected, ",
                                            "found ", JsonTypeName(*value)));
  }
  std::vector<SparkApplication> running;
  for (const Json& entry : *value) {
    absl::StatusOr<SparkApplication> application = SparkApplicationFromJson(entry);
    if (!application.ok()) return Annotate(application.status(), options_.url);
    if (!application->completed) running.push_back(*std::move(application));
  }
  if (running.empty()) {
    return absl::NotFoundError(absl::StrCat("no application runs at ", options_.url));
  }
  if (running.size() > 1) {
    std::vector<std::string> names;
    for (const SparkApplication& application : running) {
      if (names.size() == kMaxApplicationsNamed) {
        names.push_back("...");
        break;
      }
      names.push_back(absl::StrCat(Quote(application.id), " (", Quote(application.name), ")"));
    }
    return absl::InvalidArgumentError(
        absl::StrCat(running.size(), " applications run at ", options_.url,
                     ", give the id of one: ", absl::StrJoin(names, ", ")));
  }
  return std::move(running.front());
}

absl::StatusOr<SparkApplication> SparkRestClient::Application() {
  const absl::Duration deadline = RealClock()->SteadyNow() + options_.timeout;
  MILLRACE_ASSIGN_OR_RETURN(SparkApplication application, Find(deadline));
  const std::string name = absl::StrCat("application ", Quote(application.id));
  if (application.completed) {
    return absl::NotFoundError(
        absl::StrCat(name, " (", Quote(application.name), ") at ", options_.url, " has ended"));
  }
  const std::string id = application.attempt.empty()
                             ? application.id
                             : absl::StrCat(application.id, "/", application.attempt);
  MILLRACE_ASSIGN_OR_RETURN(
      const Json value,
      Get(absl::StrCat("/applications/", EncodeApplicationId(id), "/executors"), deadline));
  absl::StatusOr<std::vector<SparkExecutor>> executors = SparkExecutorsFromJson(value);
  if (!executors.ok()) {
    return Annotate(executors.status(), absl::StrCat(name, " at ", options_.url));
  }
  application.executors = *std::move(executors);
  return application;
}

}  // namespace millrace
