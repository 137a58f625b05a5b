// File: resolver/kubernetes/client/http_kubernetes_client_fixture.h
//
// What the tests of HttpKubernetesClient have in common: what an API server says, and a server on
// loopback that says it. Test only.
//
// Defines: PodJson(), ListJson(), StatusJson(), EventJson(), Names(), HttpKubernetesClientTest.

#ifndef RESOLVER_KUBERNETES_CLIENT_HTTP_KUBERNETES_CLIENT_FIXTURE_H_
#define RESOLVER_KUBERNETES_CLIENT_HTTP_KUBERNETES_CLIENT_FIXTURE_H_

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/time.h"
#include "core/base/json.h"
#include "core/base/status_matchers.h"
#include "gtest/gtest.h"
#include "resolver/http/loopback_server.h"
#include "resolver/kubernetes/client/http_kubernetes_client.h"

namespace millrace {

inline std::string PodJson(const std::string& name, const std::string& version = "1") {
  return absl::StrCat(
      R"({"metadata":{"name":")", name, R"(","namespace":"tf","uid":"u-)", name,
      R"(","resourceVersion":")", version,
      R"(","labels":{"job":"a"},"managedFields":[{"manager":"x","fieldsV1":{"f:metadata":{}}}]},)",
      R"("spec":{"containers":[{"name":"c","env":[{"name":"X","value":"y"}],)",
      R"("ports":[{"name":"grpc","containerPort":8470}],"resources":{"limits":{"nvidia.com/gpu":"2"}}}]},)",
      R"("status":{"phase":"Running","podIP":"10.0.0.1","podIPs":[{"ip":"10.0.0.1"}],"hostIP":"10.9.0.1",)",
      R"("conditions":[{"type":"Ready","status":"True"}]}})");
}

inline std::string ListJson(const std::vector<std::string>& names, const std::string& next = "",
                            const std::string& version = "77") {
  std::vector<std::string> items;
  for (const std::string& name : names) items.push_back(PodJson(name));
  return absl::StrCat(R"({"kind":"PodList","apiVersion":"v1","metadata":{"resourceVersion":")",
                      version, R"(","continue":")", next, R"("},"items":[)",
                      absl::StrJoin(items, ","), "]}");
}

inline std::string StatusJson(int code, const std::string& reason, const std::string& message) {
  return absl::StrCat(
      R"({"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":)",
      DumpJson(Json(message)), R"(,"reason":")", reason, R"(","code":)", code, "}");
}

inline std::string EventJson(const std::string& type, const std::string& object) {
  return absl::StrCat(R"({"type":")", type, R"(","object":)", object, "}\n");
}

inline std::vector<std::string> Names(const std::vector<Pod>& pods) {
  std::vector<std::string> names;
  for (const Pod& pod : pods) names.push_back(pod.name);
  return names;
}

class HttpKubernetesClientTest : public testing::Test {
 protected:
  void Serve(LoopbackServer::Handler handler) {
    server_ = *LoopbackServer::Start({}, std::move(handler));
    options_.server = server_->url();
    options_.first_pause = absl::Milliseconds(1);
  }

  std::unique_ptr<HttpKubernetesClient> Client() const {
    auto client = HttpKubernetesClient::Create(options_);
    EXPECT_THAT(client, IsOk());
    return *std::move(client);
  }

  // Long enough never to be seen, on whatever machine.
  static constexpr absl::Duration kLong = absl::Minutes(2);

  absl::StatusOr<PodList> List(const PodSelection& selection = {.namespace_name = "tf"}) const {
    return Client()->ListPods(selection, kLong, {});
  }

  // Watches, and writes events down as "ADDED name version".
  absl::Status Watch(std::vector<std::string>* events,
                     const PodSelection& selection = {.namespace_name = "tf"}) const {
    return Client()->WatchPods(
        selection, "5",
        [events](PodEvent event) {
          constexpr const char* kTypes[] = {"ADDED", "MODIFIED", "DELETED", "BOOKMARK"};
          events->push_back(absl::StrCat(kTypes[static_cast<int>(event.type)], " ", event.pod.name,
                                         " ", event.resource_version));
          return absl::OkStatus();
        },
        {});
  }

  HttpKubernetesClient::Options options_;
  std::unique_ptr<LoopbackServer> server_;
};

}  // namespace millrace

#endif  // RESOLVER_KUBERNETES_CLIENT_HTTP_KUBERNETES_CLIENT_FIXTURE_H_
