// File: resolver/spark/spark_rest_client.h
//
// Asks Spark's monitoring REST API for one application and its executors.
//
// Defines: SparkRestClient.
//
//   MILLRACE_ASSIGN_OR_RETURN(auto spark, SparkRestClient::Create({.url = "http://driver:4040",
//                                                                  .timeout = absl::Seconds(10)}));
//   MILLRACE_ASSIGN_OR_RETURN(const SparkApplication application, spark->Application());

#ifndef RESOLVER_SPARK_SPARK_REST_CLIENT_H_
#define RESOLVER_SPARK_SPARK_REST_CLIENT_H_

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "core/base/json.h"
#include "resolver/http/http_client.h"
#include "resolver/spark/spark_application.h"

namespace millrace {

// Thread safety: thread-safe. Blocking: Application().
class SparkRestClient {
 public:
  struct Options {
    // The driver's UI ("http://driver:4040", 4041 for the second on a host, ...), a History Server
    // ("https://history:18480"), or a proxy of one of them, with its path.
    std::string url;
    // "app-...", with "/1" for its first attempt; the newest otherwise. Empty: the only one that
    // runs there.
    std::string application_id;
    TlsOptions tls;
    absl::Duration timeout;  // of one Application(); positive
  };

  // Does not reach out. Returns INVALID_ARGUMENT if the URL is none, and errors of HttpClient.
  [[nodiscard]] static absl::StatusOr<std::unique_ptr<SparkRestClient>> Create(Options options);

  // The application as it is now. Errors name the URL:
  //   UNAVAILABLE        nobody answers there (spark.ui.enabled may be off), it is just starting,
  //   or
  //                      it is a proxy whose server does not answer
  //   DEADLINE_EXCEEDED  no answer within `timeout`
  //   NOT_FOUND          there is no such application, it has ended, or none runs
  //   INVALID_ARGUMENT   several run there: names them
  //   PERMISSION_DENIED  401 and 403: the UI has ACLs
  //   DATA_LOSS          what answers is no such API: a web page, a redirection, another JSON
  [[nodiscard]] absl::StatusOr<SparkApplication> Application();

  // "http://driver:4040".
  [[nodiscard]] const std::string& url() const { return options_.url; }

 private:
  SparkRestClient(Options options, std::unique_ptr<HttpClient> http);

  // The JSON at `path` below /api/v1, until `deadline` on the steady clock.
  absl::StatusOr<Json> Get(const std::string& path, absl::Duration deadline);
  absl::StatusOr<SparkApplication> Find(absl::Duration deadline);

  const Options options_;  // the URL without slashes at its end
  const std::unique_ptr<HttpClient> http_;
};

}  // namespace millrace

#endif  // RESOLVER_SPARK_SPARK_REST_CLIENT_H_
