#include "resolver/kubernetes/api_server_test_base.h"

#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/clock.h"
#include "core/base/status_matchers.h"

namespace millrace {
namespace {

absl::StatusOr<std::unique_ptr<KubeApiServer>>* shared_server = nullptr;

class EndSharedServer : public testing::Environment {
  void TearDown() override {
    delete shared_server;
    shared_server = nullptr;
  }
};

testing::Environment* const kEndSharedServer =
    testing::AddGlobalTestEnvironment(new EndSharedServer);

std::string Describe(const MembershipUpdate& update) {
  return absl::StrCat("epoch ", update.epoch, " ", update.spec.AsText(), " ",
                      update.status.ToString());
}

}  // namespace

MembershipCallback UpdateLog::callback() {
  return [this](const MembershipUpdate& update) {
    MutexLock lock(&mutex_);
    updates_.push_back(update);
    came_.SignalAll();
  };
}

MembershipUpdate UpdateLog::WaitFor(const std::string& what, const Predicate& predicate) {
  const absl::Time deadline = absl::Now() + kPatience;
  MutexLock lock(&mutex_);
  while (true) {
    while (next_ < updates_.size()) {
      const MembershipUpdate& update = updates_[next_++];
      if (predicate(update)) return update;
    }
    if (came_.WaitWithDeadline(&mutex_, deadline) && next_ == updates_.size()) break;
  }
  ADD_FAILURE() << "no update in which " << what << ", but:\n"
                << absl::StrJoin(updates_, "\n",
                                 [](std::string* out, const MembershipUpdate& update) {
                                   absl::StrAppend(out, Describe(update));
                                 });
  return updates_.empty() ? MembershipUpdate() : updates_.back();
}

MembershipUpdate UpdateLog::WaitForSpec(const std::string& text) {
  return WaitFor("the spec is " + text, [&](const MembershipUpdate& update) {
    return update.status.ok() && update.spec.AsText() == text;
  });
}

std::vector<MembershipUpdate> UpdateLog::all() const {
  MutexLock lock(&mutex_);
  return updates_;
}

void ApiServerTest::SetUp() {
  static_cast<void>(kEndSharedServer);
  if (const auto why = KubeApiServer::Unavailable()) GTEST_SKIP() << *why;
  if (shared_server == nullptr) {
    shared_server = new absl::StatusOr<std::unique_ptr<KubeApiServer>>(KubeApiServer::Start({}));
  }
  ASSERT_THAT(*shared_server, IsOk());
  static int count = 0;
  namespace_ = absl::StrCat("t", ++count);
  ASSERT_THAT(server().CreateNamespace(namespace_), IsOk());
}

KubeApiServer& ApiServerTest::server() { return ***shared_server; }

void ApiServerTest::AddPod(const std::string& job, const std::string& name,
                           const std::string& ip) const {
  ASSERT_THAT(server().CreateRunningPod(ns(), name, {{"job", job}}, ip), IsOk());
}

HttpKubernetesClient::Options ApiServerTest::ClientOptions(const std::string& token,
                                                           const std::string& url) {
  HttpKubernetesClient::Options options;
  options.server = url.empty() ? server().url() : url;
  options.tls.ca_pem = server().pki().ca_pem();
  options.credentials.token = token;
  return options;
}

std::shared_ptr<KubernetesClient> ApiServerTest::Client(
    const HttpKubernetesClient::Options& options) {
  auto client = HttpKubernetesClient::Create(options);
  EXPECT_THAT(client, IsOk());
  return client.ok() ? std::shared_ptr<KubernetesClient>(*std::move(client)) : nullptr;
}

KubernetesResolverOptions ApiServerTest::Workers(std::shared_ptr<KubernetesClient> client) const {
  KubernetesResolverOptions options;
  options.job_to_label_mapping = {{"worker", {"job=w"}}};
  options.namespace_name = ns();
  options.override_client = client == nullptr ? Client() : std::move(client);
  options.max_backoff = absl::Seconds(1);
  return options;
}

}  // namespace millrace
