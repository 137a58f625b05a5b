// What //testing/bench:resolver measures, as a process of its own: lists and a watch of the
// Kubernetes resolver, and the same transfers by libcurl alone. Lines of JSON on stdin and stdout;
// the first says where the API server is.
//
//   {"do": "list"}      ClusterSpec of all pods: wall_s, cpu_s, peak_growth_bytes, tasks
//   {"do": "transfer"}  the same pages into nothing: wall_s, cpu_s, bytes
//   {"do": "watch"}     begins a watch; then, for each update, {"at_ns", "epoch"} unless quiet
//   {"do": "bare_watch"} a stream of the same events into nothing; then {"at_ns"} for each
//   {"do": "quiet"}     no more lines for updates
//   {"do": "usage", "job", "index"}  cpu_s, resident_bytes, epoch and that task's address

#include <malloc.h>
#include <unistd.h>

#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "core/base/deadlock_detector.h"
#include "core/base/file.h"
#include "core/base/json.h"
#include "core/base/mutex.h"
#include "core/base/thread.h"
#include "millrace/kubernetes_resolver.h"
#include "millrace/status_macros.h"
#include "resolver/http/http_client.h"
#include "resolver/http/url.h"
#include "resolver/kubernetes/client/http_kubernetes_client.h"
#include "testing/bench/bench_report.h"
#include "testing/bench/json_child.h"
#include "testing/kube_apiserver/curl_session.h"

namespace millrace::bench {
namespace {

constexpr absl::Duration kTimeout = absl::Minutes(5);
// The first bytes of a page tell its continue token and its version.
constexpr size_t kPageHeadBytes = 4096;

// The largest resident memory of this process so far.
double PeakResidentBytes() {
  const auto status = ReadFile("/proc/self/status");
  if (!status.ok()) return 0;
  for (const absl::string_view line : absl::StrSplit(*status, '\n')) {
    int64_t kilobytes = 0;
    if (absl::StartsWith(line, "VmHWM:") &&
        absl::SimpleAtoi(line.substr(6, line.size() - 6 - 2), &kilobytes)) {
      return static_cast<double>(kilobytes) * 1024;
    }
  }
  return 0;
}

// The value of a string member near the beginning of a page.
std::string MemberOf(absl::string_view head, absl::string_view name) {
  const std::string key = absl::StrCat("\"", name, "\":\"");
  const size_t begin = head.find(key);
  if (begin == absl::string_view::npos || begin > head.find("\"items\"")) return "";
  const absl::string_view rest = head.substr(begin + key.size());
  return std::string(rest.substr(0, rest.find('"')));
}

class Client {
 public:
  explicit Client(Json setup) : setup_(std::move(setup)) {}

  absl::StatusOr<Json> Do(const Json& request) {
    const std::string what = request["do"].get<std::string>();
    if (what == "list") return List();
    if (what == "transfer") return Transfer();
    if (what == "watch") return Watch();
    if (what == "bare_watch") return BareWatch();
    if (what == "quiet") {
      MutexLock lock(&mutex_);
      quiet_ = true;
      return Json{{"ok", true}};
    }
    return Usage(request["job"].get<std::string>(), request["index"].get<int>());
  }

 private:
  std::string Text(const char* member) const { return setup_[member].get<std::string>(); }

  absl::StatusOr<std::unique_ptr<KubernetesResolver>> MakeResolver() const {
    HttpKubernetesClient::Options client;
    client.server = Text("url");
    client.tls.ca_file = Text("ca_file");
    client.credentials.token = Text("token");
    client.page_pods = setup_["page_pods"].get<int>();
    MILLRACE_ASSIGN_OR_RETURN(auto http, HttpKubernetesClient::Create(client));
    KubernetesResolverOptions options;
    options.job_to_label_mapping = {{"worker", {Text("selector")}}};
    options.namespace_name = Text("namespace");
    options.timeout = kTimeout;
    options.override_client = std::move(http);
    return KubernetesResolver::Create(std::move(options));
  }

  absl::StatusOr<Json> List() const {
    MILLRACE_ASSIGN_OR_RETURN(const auto resolver, MakeResolver());
    const double resident = SelfResidentBytes();
    const absl::Duration cpu = SelfCpuTime();
    const absl::Time begin = absl::Now();
    MILLRACE_ASSIGN_OR_RETURN(const ClusterSpec spec, resolver->cluster_spec());
    return Json{{"wall_s", absl::ToDoubleSeconds(absl::Now() - begin)},
                {"cpu_s", absl::ToDoubleSeconds(SelfCpuTime() - cpu)},
                {"peak_growth_bytes", PeakResidentBytes() - resident},
                {"tasks", spec.total_tasks()}};
  }

  absl::StatusOr<CurlSession::Options> Session() const {
    MILLRACE_ASSIGN_OR_RETURN(std::string ca, ReadFile(Text("ca_file")));
    return CurlSession::Options{
        .ca_pem = std::move(ca), .token = Text("token"), .timeout = kTimeout};
  }

  std::string PodsUrl() const {
    return absl::StrCat(Text("url"), "/api/v1/namespaces/", Text("namespace"),
                        "/pods?labelSelector=", UrlEncode(Text("selector")));
  }

  absl::StatusOr<Json> Transfer() const {
    MILLRACE_ASSIGN_OR_RETURN(const CurlSession::Options options, Session());
    CurlSession session(options);
    const absl::Duration cpu = SelfCpuTime();
    const absl::Time begin = absl::Now();
    int64_t bytes = 0;
    std::string following;
    do {
      MILLRACE_ASSIGN_OR_RETURN(
          const CurlSession::Response page,
          session.Send({.url = absl::StrCat(PodsUrl(), "&limit=", setup_["page_pods"].get<int>(),
                                            following.empty() ? "" : "&continue=", following),
                        .max_kept_bytes = kPageHeadBytes}));
      if (page.status != 200) return absl::UnknownError(page.body);
      bytes += page.body_bytes;
      following = MemberOf(page.body, "continue");
    } while (!following.empty());
    return Json{{"wall_s", absl::ToDoubleSeconds(absl::Now() - begin)},
                {"cpu_s", absl::ToDoubleSeconds(SelfCpuTime() - cpu)},
                {"bytes", bytes}};
  }

  absl::StatusOr<Json> Watch() {
    ::malloc_trim(0);
    const double resident = SelfResidentBytes();
    const absl::Time begin = absl::Now();
    MILLRACE_ASSIGN_OR_RETURN(resolver_, MakeResolver());
    MILLRACE_ASSIGN_OR_RETURN(
        watch_, resolver_->Watch([this](const MembershipUpdate& update) { OnUpdate(update); }));
    MutexLock lock(&mutex_);
    while (last_.epoch == 0) {
      if (came_.WaitWithDeadline(&mutex_, begin + kTimeout)) {
        return absl::DeadlineExceededError("no first update");
      }
    }
    const double seconds = absl::ToDoubleSeconds(absl::Now() - begin);
    ::malloc_trim(0);  // memory that is free is not held, whatever the allocator keeps
    talks_ = true;
    return Json{{"wall_s", seconds},
                {"growth_bytes", SelfResidentBytes() - resident},
                {"peak_growth_bytes", PeakResidentBytes() - resident},
                {"tasks", last_.spec.total_tasks()}};
  }

  void OnUpdate(const MembershipUpdate& update) {
    const int64_t now = absl::ToUnixNanos(absl::Now());
    MutexLock lock(&mutex_);
    last_ = update;
    came_.SignalAll();
    if (talks_ && !quiet_ && update.status.ok()) {
      JsonParent::Send(Json{{"at_ns", now}, {"epoch", update.epoch}});
    }
  }

  absl::StatusOr<Json> BareWatch() {
    MILLRACE_ASSIGN_OR_RETURN(const CurlSession::Options options, Session());
    CurlSession session(options);
    MILLRACE_ASSIGN_OR_RETURN(
        const CurlSession::Response head,
        session.Send({.url = PodsUrl() + "&limit=1", .max_kept_bytes = kPageHeadBytes}));
    const std::string url = absl::StrCat(
        PodsUrl(), "&watch=1&resourceVersion=", MemberOf(head.body, "resourceVersion"));
    CurlSession::Options stream_options = options;
    stream_options.timeout = absl::Hours(1);
    bare_ = Thread("bare-watch", [this, stream_options, url] {
      CurlSession stream(stream_options);
      const auto ended = stream.Send(
          {.url = url, .max_kept_bytes = 0, .on_piece = [this](absl::string_view piece) {
             return OnPiece(piece);
           }});
      JsonParent::Send(Json{{"error", ended.status().ToString()}});
    });
    return Json{{"ok", true}};
  }

  bool OnPiece(absl::string_view piece) {
    const int64_t now = absl::ToUnixNanos(absl::Now());
    MutexLock lock(&mutex_);
    if (!quiet_ && absl::StrContains(piece, "\n")) JsonParent::Send(Json{{"at_ns", now}});
    return true;
  }

  absl::StatusOr<Json> Usage(const std::string& job, int index) {
    ::malloc_trim(0);
    MutexLock lock(&mutex_);
    return Json{{"cpu_s", absl::ToDoubleSeconds(SelfCpuTime())},
                {"resident_bytes", SelfResidentBytes()},
                {"epoch", last_.epoch},
                {"address", last_.spec.TaskAddress(job, index).value_or("")}};
  }

  const Json setup_;
  Mutex mutex_;
  CondVar came_;
  MembershipUpdate last_ ABSL_GUARDED_BY(mutex_);
  bool talks_ ABSL_GUARDED_BY(mutex_) = false;
  bool quiet_ ABSL_GUARDED_BY(mutex_) = false;
  Thread bare_;
  std::unique_ptr<KubernetesResolver> resolver_;
  std::unique_ptr<MembershipWatch> watch_;  // ends first
};

int Main() {
  StopDeadlockDetector();  // as programs of a cluster do
  JsonParent parent;
  std::optional<Json> said = parent.Receive();
  if (!said.has_value()) return 1;
  // Never destroyed: the process ends at once, with its streams.
  auto* const client = new Client(*std::move(said));
  JsonParent::Send(Json{{"ok", true}});
  while ((said = parent.Receive()).has_value()) {
    const auto answer = client->Do(*said);
    JsonParent::Send(answer.ok() ? *answer : Json{{"error", answer.status().ToString()}});
  }
  ::_exit(0);
}

}  // namespace
}  // namespace millrace::bench

int main() { return millrace::bench::Main(); }
