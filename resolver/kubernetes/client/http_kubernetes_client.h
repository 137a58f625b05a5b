// File: resolver/kubernetes/client/http_kubernetes_client.h
//
// Asks a Kubernetes API server for pods over HTTPS.
//
//   MILLRACE_ASSIGN_OR_RETURN(KubeConfig config, LoadKubeConfig({}));
//   MILLRACE_ASSIGN_OR_RETURN(auto client, HttpKubernetesClient::Create(
//       {.server = config.server, .tls = config.tls, .credentials = config.credentials}));

#ifndef RESOLVER_KUBERNETES_CLIENT_HTTP_KUBERNETES_CLIENT_H_
#define RESOLVER_KUBERNETES_CLIENT_HTTP_KUBERNETES_CLIENT_H_

#include <cstddef>
#include <functional>
#include <memory>
#include <stop_token>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "millrace/kubernetes_client.h"
#include "resolver/http/http_client.h"
#include "resolver/kubernetes/client/credentials.h"

namespace millrace {

// Beyond KubernetesClient: a list over max_pods or with a page over max_page_bytes is
// RESOURCE_EXHAUSTED, naming the limit, and so is an event over max_event_bytes.
//
// 429 and 5xx are asked again after Retry-After or a growing, jittered pause, as are connections
// that fail, up to max_attempts times for one page and within the timeout. After 401 the
// credentials are read again, and if they have changed the call is repeated once.
class HttpKubernetesClient : public KubernetesClient {
 public:
  struct Options {
    std::string server;       // "https://10.0.0.1:6443", perhaps with a path; http only without TLS
    std::string description;  // "context prod", for Describe()
    TlsOptions tls;
    HttpClient::Proxy proxy = HttpClient::Proxy::kNone;
    std::string proxy_url;
    CredentialOptions credentials;

    absl::Duration connect_timeout = HttpClient::Options().connect_timeout;
    int max_attempts = 5;
    absl::Duration first_pause = absl::Milliseconds(100);  // doubled each time, up to 5 s
    bool gzip = false;                                     // see HttpRequest

    int page_pods = 500;
    int max_pods = 200'000;
    size_t max_page_bytes = size_t{64} << 20;

    // A watch is asked to end after so long, with up to as much again at random, so that the
    // watches of many programs do not all begin again together.
    absl::Duration watch_duration = absl::Minutes(5);
    // The API server sends a bookmark each minute: a watch that is silent for so long is dead.
    absl::Duration watch_silence = absl::Minutes(3);
    // How long a watch may take to begin.
    absl::Duration watch_begin_timeout = absl::Seconds(30);
    size_t max_event_bytes = size_t{8} << 20;
  };

  // Returns INVALID_ARGUMENT for options that make no sense; connects to nothing.
  [[nodiscard]] static absl::StatusOr<std::unique_ptr<HttpKubernetesClient>> Create(
      Options options);
  ~HttpKubernetesClient() override;

  [[nodiscard]] absl::StatusOr<PodList> ListPods(const PodSelection& selection,
                                                 absl::Duration timeout,
                                                 std::stop_token stop) override;
  [[nodiscard]] absl::Status WatchPods(const PodSelection& selection,
                                       const std::string& resource_version,
                                       const std::function<absl::Status(PodEvent)>& on_event,
                                       std::stop_token stop) override;
  [[nodiscard]] std::string Describe() const override;

 private:
  struct Call;

  HttpKubernetesClient(Options options, std::unique_ptr<HttpClient> http,
                       std::unique_ptr<CredentialSource> credentials);

  // One GET with credentials and retries. Every answer but 200 is an error.
  absl::StatusOr<HttpResponse> Get(const Call& call, std::stop_token stop,
                                   const HttpClient::BodyCallback& on_body);
  // OUT_OF_RANGE: the list expired between two pages.
  absl::StatusOr<PodList> ListOnce(Call& call, const std::stop_token& stop);
  // The error that an answer other than 200 is.
  [[nodiscard]] absl::Status ResponseError(const Call& call, const HttpResponse& response) const;
  [[nodiscard]] absl::Status InContext(const Call& call, const absl::Status& status) const;

  const Options options_;
  const std::unique_ptr<HttpClient> http_;
  const std::unique_ptr<CredentialSource> credentials_;
};

}  // namespace millrace

#endif  // RESOLVER_KUBERNETES_CLIENT_HTTP_KUBERNETES_CLIENT_H_
