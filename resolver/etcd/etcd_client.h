// File: resolver/etcd/etcd_client.h
//
// The keys below a prefix of etcd, by its JSON gateway: all of them, and every change.
//
// Defines: EtcdKeys, EtcdEvent, EtcdClient.
//
//   MILLRACE_ASSIGN_OR_RETURN(auto etcd, EtcdClient::Create(options));
//   MILLRACE_ASSIGN_OR_RETURN(const EtcdKeys keys, etcd->Range("/c/", stop));
//   etcd->Watch("/c/", keys.revision + 1, on_events, stop);

#ifndef RESOLVER_ETCD_ETCD_CLIENT_H_
#define RESOLVER_ETCD_ETCD_CLIENT_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "core/base/json.h"
#include "core/base/mutex.h"
#include "millrace/etcd_resolver.h"
#include "resolver/http/http_client.h"

namespace millrace {

struct EtcdKeys {
  int64_t revision = 0;
  std::map<std::string, std::string> values;
};

struct EtcdEvent {
  std::string key;
  std::optional<std::string> value;  // nullopt: deleted
};

// Thread safety: thread-safe. Blocking: Range() and Watch(). Errors as
// EtcdResolver::cluster_spec(), and CANCELLED once `stop` is requested.
class EtcdClient {
 public:
  // Returns INVALID_ARGUMENT for options that make no sense, and what reading the files returns.
  [[nodiscard]] static absl::StatusOr<std::unique_ptr<EtcdClient>> Create(
      const EtcdResolverOptions& options);

  // All keys that begin with `prefix`, which is not empty, at one revision.
  [[nodiscard]] absl::StatusOr<EtcdKeys> Range(const std::string& prefix,
                                               const std::stop_token& stop);

  // Calls `on_events` with the changes from `revision` on, those of one revision at once, and with
  // none when the stream is there. OK after `lifetime`; OUT_OF_RANGE if etcd has forgotten the
  // revision.
  absl::Status Watch(const std::string& prefix, int64_t revision, absl::Duration lifetime,
                     const std::function<void(std::vector<EtcdEvent>)>& on_events,
                     const std::stop_token& stop);

 private:
  EtcdClient(EtcdResolverOptions options, std::unique_ptr<HttpClient> http, HttpRequest request)
      : options_(std::move(options)), http_(std::move(http)), request_(std::move(request)) {}

  // Sends to the first endpoint that answers. A token that is not valid any more is renewed once.
  absl::StatusOr<HttpResponse> Send(const std::string& path, const Json& body,
                                    absl::Duration timeout, const std::stop_token& stop,
                                    const HttpClient::BodyCallback& on_body = nullptr);
  absl::StatusOr<HttpResponse> SendTo(const std::string& url, const Json& body,
                                      const std::string& token, absl::Duration timeout,
                                      const std::stop_token& stop,
                                      const HttpClient::BodyCallback& on_body);
  // Of the user; "" if there is none. `stale` is not taken any more.
  absl::StatusOr<std::string> Token(const std::string& endpoint, const std::string& stale,
                                    const std::stop_token& stop);

  const EtcdResolverOptions options_;  // URLs without slashes at their ends
  const std::unique_ptr<HttpClient> http_;
  const HttpRequest request_;  // what all have in common
  Mutex mu_;
  std::string token_ ABSL_GUARDED_BY(mu_);  // empty: not logged in
};

}  // namespace millrace

#endif  // RESOLVER_ETCD_ETCD_CLIENT_H_
