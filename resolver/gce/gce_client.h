// File: resolver/gce/gce_client.h
//
// Asks the Compute Engine API for the instances of a group, and the metadata server for what an
// instance knows of itself.
//
// Defines: GceGroupPage, GceClient.
//
//   MILLRACE_ASSIGN_OR_RETURN(auto gce, GceClient::Create(options));
//   MILLRACE_ASSIGN_OR_RETURN(const auto pages, gce->ListGroup({"p", "z", "g"}, "ALL"));
//   MILLRACE_ASSIGN_OR_RETURN(const Json instance, gce->Instance({"p", "z", "g"}, "train-0"));

#ifndef RESOLVER_GCE_GCE_CLIENT_H_
#define RESOLVER_GCE_GCE_CLIENT_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "core/base/json.h"
#include "millrace/gce_resolver.h"
#include "resolver/http/http_client.h"

namespace millrace {

struct GceGroupName {
  std::string project;
  std::string zone;
  std::string instance_group;
};

// One answer to a listing.
struct GceGroupPage {
  struct Entry {
    std::string name;
    std::string status;  // "RUNNING"; empty if the answer does not say
  };
  bool has_items = false;  // an empty group's answer has none
  std::vector<Entry> entries;
};

// Thread safety: thread-safe. Blocking: all but Create(). Errors as GceResolver::cluster_spec().
class GceClient {
 public:
  // Returns INVALID_ARGUMENT for URLs that are none, and for a timeout that is not positive.
  [[nodiscard]] static absl::StatusOr<std::unique_ptr<GceClient>> Create(
      const GceResolverOptions& options);

  // What is empty of it, as the metadata server says.
  [[nodiscard]] absl::StatusOr<GceGroupName> Complete(GceGroupName group);
  // The name of the instance on which this process runs.
  [[nodiscard]] absl::StatusOr<std::string> OwnName();

  // All pages of the instances in this state, "ALL" or "RUNNING", by name.
  [[nodiscard]] absl::StatusOr<std::vector<GceGroupPage>> ListGroup(const GceGroupName& group,
                                                                    absl::string_view state);
  // An instance as the API describes it: an object.
  [[nodiscard]] absl::StatusOr<Json> Instance(const GceGroupName& group, const std::string& name);

 private:
  GceClient(GceResolverOptions options, std::unique_ptr<HttpClient> api,
            std::unique_ptr<HttpClient> metadata)
      : options_(std::move(options)), api_(std::move(api)), metadata_(std::move(metadata)) {}

  absl::StatusOr<std::string> Metadata(const std::string& path);
  absl::StatusOr<std::string> Token();
  // `about` is for errors: "instance group g".
  absl::StatusOr<Json> Ask(HttpRequest request, const std::string& about);

  const GceResolverOptions options_;  // URLs without slashes at their ends
  const std::unique_ptr<HttpClient> api_;
  const std::unique_ptr<HttpClient> metadata_;
};

}  // namespace millrace

#endif  // RESOLVER_GCE_GCE_CLIENT_H_
