// What the Kubernetes resolver costs with ten thousand pods of a real API server, beside bare
// transfers and the Python client. See README.md.

#include <signal.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "core/base/file.h"
#include "core/base/json.h"
#include "core/base/mutex.h"
#include "core/base/thread.h"
#include "millrace/status_macros.h"
#include "testing/bench/bench_report.h"
#include "testing/bench/json_child.h"
#include "testing/child_process.h"
#include "testing/kube_apiserver/kube_api_server.h"

namespace millrace::bench {
namespace {

constexpr char kNamespace[] = "bench";
constexpr char kSelector[] = "app=trainer";
constexpr int kPagePods = 500;
constexpr absl::Duration kPatience = absl::Minutes(10);

struct Flags : BenchFlags {
  int pods = 10'000;
  int changes = 10'000;       // whose memory is measured
  int latency_changes = 300;  // whose time is
  int writers = 8;
};

struct Lists {
  Samples ours_wall_s, ours_cpu_s, ours_mb;
  Samples bare_wall_s, bare_cpu_s;
  Samples python_wall_s, python_cpu_s, python_mb;
  double transferred_mb = 0;
  std::string python_version;
};

struct Watches {
  double first_s = 0;
  double held_mb = 0;    // of the watch, before changes
  double peak_mb = 0;    // while it was filled
  double growth_mb = 0;  // over the changes
  double changes_per_s = 0;
  double cpu_ms_among_many = 0;
  double cpu_ms_alone = 0;   // of a change that no other joins
  Samples ours_ms, bare_ms;  // of one change
};

std::string PodName(int index) { return absl::StrCat("trainer-", index); }

std::string PodIp(int index, int generation) {
  return absl::StrCat("10.", generation % 200, ".", index / 250, ".", index % 250 + 1);
}

double Percentile(const Samples& samples, double part) {
  std::vector<double> values = samples.values();
  if (values.empty()) return std::numeric_limits<double>::quiet_NaN();
  std::sort(values.begin(), values.end());
  const auto rank = static_cast<size_t>(part * static_cast<double>(values.size()));
  return values[std::min(rank, values.size() - 1)];
}

// Calls `work` with 0 .. count-1 from several threads, until one fails.
absl::Status InParallel(int threads, int count, const std::function<absl::Status(int)>& work) {
  std::atomic<int> next = 0;
  Mutex mutex;
  absl::Status failure;
  {
    std::vector<Thread> all;
    for (int i = 0; i < threads; ++i) {
      all.emplace_back("writer", [&] {
        for (int index = next++; index < count; index = next++) {
          const absl::Status status = work(index);
          if (status.ok()) continue;
          MutexLock lock(&mutex);
          failure.Update(status);
          next = count;
        }
      });
    }
  }
  return failure;
}

// A pod as a training operator makes them.
absl::Status CreatePod(const KubeApiServer& server, int index) {
  KubeApiServer::PodOptions pod;
  pod.labels = {{"app", "trainer"},
                {"app.kubernetes.io/managed-by", "training-operator"},
                {"training.kubeflow.org/job-name", "trainer"},
                {"training.kubeflow.org/replica-type", "worker"},
                {"training.kubeflow.org/replica-index", absl::StrCat(index)}};
  pod.annotations = {{"example.com/owner", "machine-learning"}};
  pod.ports = {{"grpc", 8470}};
  pod.limits = {{"nvidia.com/gpu", "8"}, {"cpu", "64"}, {"memory", "512Gi"}};
  MILLRACE_RETURN_IF_ERROR(server.CreatePod(kNamespace, PodName(index), pod));
  return server.SetPodStatus(kNamespace, PodName(index),
                             {.pod_ip = PodIp(index, 0),
                              .host_ip = absl::StrCat("192.168.0.", index % 250),
                              .ready = true});
}

absl::Status MovePod(const KubeApiServer& server, int index, int generation) {
  return server.SetPodStatus(
      kNamespace, PodName(index),
      {.pod_ip = PodIp(index, generation), .host_ip = "192.168.0.1", .ready = true});
}

class Run {
 public:
  Run(const Flags& flags, BenchReport* report) : flags_(flags), report_(report) {}

  absl::Status Do() {
    MILLRACE_ASSIGN_OR_RETURN(server_, KubeApiServer::Start({}));
    MILLRACE_ASSIGN_OR_RETURN(folder_, Folder());
    ca_file_ = JoinPath(folder_->path(), "ca.crt");
    MILLRACE_RETURN_IF_ERROR(WriteFileAtomic(ca_file_, server_->pki().ca_pem()));
    MILLRACE_RETURN_IF_ERROR(server_->CreateNamespace(kNamespace));
    const absl::Time begin = absl::Now();
    MILLRACE_RETURN_IF_ERROR(InParallel(flags_.writers, flags_.pods,
                                        [this](int index) { return CreatePod(*server_, index); }));
    report_->AddNote(absl::StrCat(flags_.pods, " pods made in ",
                                  FormatNumber(absl::ToDoubleSeconds(absl::Now() - begin)), " s"));
    MILLRACE_RETURN_IF_ERROR(MeasureLists());
    MILLRACE_RETURN_IF_ERROR(MeasureWatches());
    Report();
    return absl::OkStatus();
  }

 private:
  static absl::StatusOr<std::unique_ptr<TempDir>> Folder() {
    MILLRACE_ASSIGN_OR_RETURN(TempDir folder, TempDir::Create("bench"));
    return std::make_unique<TempDir>(std::move(folder));
  }

  absl::StatusOr<std::unique_ptr<JsonChild>> StartClient(const std::string& program,
                                                         Json* hello) const {
    MILLRACE_ASSIGN_OR_RETURN(auto child,
                              JsonChild::Start(RunfilePath("testing/bench/" + program)));
    MILLRACE_ASSIGN_OR_RETURN(*hello, child->Ask(Json{{"url", server_->url()},
                                                      {"ca_file", ca_file_},
                                                      {"token", KubeApiServer::kAdminToken},
                                                      {"namespace", kNamespace},
                                                      {"selector", kSelector},
                                                      {"page_pods", kPagePods}},
                                                 kPatience));
    return child;
  }

  // One answer of a fresh process.
  absl::StatusOr<Json> Once(const std::string& program, const char* what, Json* hello) const {
    MILLRACE_ASSIGN_OR_RETURN(const auto child, StartClient(program, hello));
    MILLRACE_ASSIGN_OR_RETURN(Json answer, child->Ask(Json{{"do", what}}, kPatience));
    if (answer.contains("tasks") && answer["tasks"].get<int>() != flags_.pods) {
      return absl::DataLossError(
          absl::StrCat(program, " found ", answer["tasks"].get<int>(), " pods"));
    }
    return answer;
  }

  absl::Status MeasureLists() {
    for (int i = 0; i < flags_.repetitions; ++i) {
      Json hello;
      MILLRACE_ASSIGN_OR_RETURN(const Json ours, Once("resolver_client", "list", &hello));
      lists_.ours_wall_s.Add(ours["wall_s"].get<double>());
      lists_.ours_cpu_s.Add(ours["cpu_s"].get<double>());
      lists_.ours_mb.Add(ours["peak_growth_bytes"].get<double>() / 1e6);
      MILLRACE_ASSIGN_OR_RETURN(const Json bare, Once("resolver_client", "transfer", &hello));
      lists_.bare_wall_s.Add(bare["wall_s"].get<double>());
      lists_.bare_cpu_s.Add(bare["cpu_s"].get<double>());
      lists_.transferred_mb = bare["bytes"].get<double>() / 1e6;
      MILLRACE_ASSIGN_OR_RETURN(const Json python, Once("python_kubernetes", "list", &hello));
      lists_.python_wall_s.Add(python["wall_s"].get<double>());
      lists_.python_cpu_s.Add(python["cpu_s"].get<double>());
      lists_.python_mb.Add(python["peak_growth_bytes"].get<double>() / 1e6);
      lists_.python_version = hello["version"].get<std::string>();
    }
    return absl::OkStatus();
  }

  // The time of the child's next update, in milliseconds after `begin`.
  static absl::StatusOr<double> MillisecondsAfter(absl::Time begin, JsonChild* child) {
    MILLRACE_ASSIGN_OR_RETURN(const Json update, child->Receive(kPatience));
    return absl::ToDoubleMilliseconds(absl::FromUnixNanos(update["at_ns"].get<int64_t>()) - begin);
  }

  absl::Status MeasureWatches() {
    Json hello;
    MILLRACE_ASSIGN_OR_RETURN(const auto ours, StartClient("resolver_client", &hello));
    MILLRACE_ASSIGN_OR_RETURN(const Json first, ours->Ask(Json{{"do", "watch"}}, kPatience));
    watches_.first_s = first["wall_s"].get<double>();
    watches_.held_mb = first["growth_bytes"].get<double>() / 1e6;
    watches_.peak_mb = first["peak_growth_bytes"].get<double>() / 1e6;
    MILLRACE_RETURN_IF_ERROR(MeasureLatency(ours.get()));
    return MeasureGrowth(ours.get());
  }

  absl::Status MeasureLatency(JsonChild* ours) {
    Json hello;
    MILLRACE_ASSIGN_OR_RETURN(const auto bare, StartClient("resolver_client", &hello));
    MILLRACE_RETURN_IF_ERROR(bare->Ask(Json{{"do", "bare_watch"}}, kPatience).status());
    absl::SleepFor(absl::Seconds(1));  // its stream begins
    MILLRACE_ASSIGN_OR_RETURN(const Json before, UsageOf(ours, 0));
    for (int i = 0; i < flags_.latency_changes; ++i) {
      const absl::Time begin = absl::Now();
      MILLRACE_RETURN_IF_ERROR(MovePod(*server_, i * 7919 % flags_.pods, 1 + i / flags_.pods));
      MILLRACE_ASSIGN_OR_RETURN(const double ours_ms, MillisecondsAfter(begin, ours));
      MILLRACE_ASSIGN_OR_RETURN(const double bare_ms, MillisecondsAfter(begin, bare.get()));
      watches_.ours_ms.Add(ours_ms);
      watches_.bare_ms.Add(bare_ms);
      absl::SleepFor(absl::Milliseconds(10));
    }
    MILLRACE_ASSIGN_OR_RETURN(const Json after, UsageOf(ours, 0));
    watches_.cpu_ms_alone = (after["cpu_s"].get<double>() - before["cpu_s"].get<double>()) * 1e3 /
                            flags_.latency_changes;
    return absl::OkStatus();
  }

  absl::StatusOr<Json> UsageOf(JsonChild* child, int index) const {
    return child->Ask(Json{{"do", "usage"}, {"job", "worker"}, {"index", index}}, kPatience);
  }

  absl::Status MeasureGrowth(JsonChild* ours) {
    MILLRACE_RETURN_IF_ERROR(ours->Ask(Json{{"do", "quiet"}}, kPatience).status());
    // First each pod once, so that none is left where the list has put it in memory.
    MILLRACE_RETURN_IF_ERROR(Change(ours, flags_.pods, 49));
    MILLRACE_ASSIGN_OR_RETURN(const Json before, UsageOf(ours, 0));
    const absl::Time begin = absl::Now();
    MILLRACE_RETURN_IF_ERROR(Change(ours, flags_.changes, 51));
    const double seconds = absl::ToDoubleSeconds(absl::Now() - begin);
    MILLRACE_ASSIGN_OR_RETURN(const Json after, UsageOf(ours, 0));
    watches_.changes_per_s = flags_.changes / seconds;
    watches_.growth_mb =
        (after["resident_bytes"].get<double>() - before["resident_bytes"].get<double>()) / 1e6;
    watches_.cpu_ms_among_many =
        (after["cpu_s"].get<double>() - before["cpu_s"].get<double>()) * 1e3 / flags_.changes;
    return absl::OkStatus();
  }

  // So many changes, each of another pod as far as there are; until the last one has been told.
  absl::Status Change(JsonChild* ours, int count, int generation) {
    MILLRACE_RETURN_IF_ERROR(InParallel(flags_.writers, count, [&](int index) {
      return MovePod(*server_, index % flags_.pods, generation + 2 * (index / flags_.pods));
    }));
    const int last = flags_.pods - 1;
    const int last_generation = generation + 100;
    MILLRACE_RETURN_IF_ERROR(MovePod(*server_, last, last_generation));
    const absl::Time deadline = absl::Now() + kPatience;
    while (absl::Now() < deadline) {
      MILLRACE_ASSIGN_OR_RETURN(const Json usage, UsageOf(ours, last));
      if (usage["address"] == PodIp(last, last_generation) + ":8470") return absl::OkStatus();
      absl::SleepFor(absl::Milliseconds(50));
    }
    return absl::DeadlineExceededError("the last change is not told");
  }

  void Report() {
    report_->AddVersion("kubernetes (Python)", lists_.python_version);
    BenchTable lists({"", "median", "min", "max"});
    lists.AddSamples("ours: wall s", lists_.ours_wall_s);
    lists.AddSamples("ours: cpu s", lists_.ours_cpu_s);
    lists.AddSamples("ours: peak memory MB", lists_.ours_mb);
    lists.AddSamples("bare transfer: wall s", lists_.bare_wall_s);
    lists.AddSamples("bare transfer: cpu s", lists_.bare_cpu_s);
    lists.AddSamples("Python client: wall s", lists_.python_wall_s);
    lists.AddSamples("Python client: cpu s", lists_.python_cpu_s);
    lists.AddSamples("Python client: peak memory MB", lists_.python_mb);
    report_->Add(lists, absl::StrCat("A list of ", flags_.pods, " pods, ", kPagePods, " a page, ",
                                     FormatNumber(lists_.transferred_mb),
                                     " MB, to a ClusterSpec; a fresh process each time, in turns"));
    BenchTable changes({"one change of a pod, ms", "p50", "p99", "max"});
    for (const auto& [name, samples] :
         {std::make_pair("ours: request until the callback", &watches_.ours_ms),
          std::make_pair("bare stream: until its bytes", &watches_.bare_ms)}) {
      changes.AddRow({name, FormatNumber(Percentile(*samples, 0.5)),
                      FormatNumber(Percentile(*samples, 0.99)), FormatNumber(samples->Max())});
    }
    report_->Add(changes, absl::StrCat("A watch of ", flags_.pods, " pods, ",
                                       flags_.latency_changes, " changes one after another"));
    BenchTable memory({"watch", ""});
    memory.AddRow({"first update s", FormatNumber(watches_.first_s)});
    memory.AddRow({"memory held MB", FormatNumber(watches_.held_mb)});
    memory.AddRow({"peak while it began MB", FormatNumber(watches_.peak_mb)});
    memory.AddRow({absl::StrCat("growth over ", flags_.changes, " changes MB"),
                   FormatNumber(watches_.growth_mb)});
    memory.AddRow({"changes a second (the server's limit)", FormatNumber(watches_.changes_per_s)});
    memory.AddRow({"cpu ms of ours for a change alone", FormatNumber(watches_.cpu_ms_alone)});
    memory.AddRow(
        {"cpu ms of ours per change among many", FormatNumber(watches_.cpu_ms_among_many)});
    report_->Add(memory, absl::StrCat("A watch of ", flags_.pods, " pods"));
    AddFigures();
  }

  void AddFigures() {
    report_->Add(Figure{.name = "resolver_list_cpu",
                        .unit = "s",
                        .ours = lists_.ours_cpu_s.Median(),
                        .ref = lists_.python_cpu_s.Median(),
                        .ref_is = "the Python client's list of the same pods",
                        .goal = RatioAtMost(0.1)});
    report_->Add(Figure{.name = "resolver_list_wall",
                        .unit = "s",
                        .ours = lists_.ours_wall_s.Median(),
                        .ref = lists_.bare_wall_s.Median(),
                        .ref_is = "libcurl alone, into nothing",
                        .goal = RatioAtMost(2)});
    report_->Add(Figure{.name = "resolver_change_p99",
                        .unit = "ms",
                        .ours = Percentile(watches_.ours_ms, 0.99),
                        .ref = Percentile(watches_.bare_ms, 0.99),
                        .ref_is = "libcurl alone, until the event's bytes are there",
                        .goal = AtMost(50)});
    report_->Add(Figure{.name = "resolver_watch_memory",
                        .unit = "MB",
                        .ours = watches_.peak_mb,
                        .ref = lists_.python_mb.Median(),
                        .ref_is = "peak of the Python client's list",
                        .goal = AtMost(100)});
    report_->Add(Figure{.name = "resolver_watch_growth",
                        .unit = "MB",
                        .ours = watches_.growth_mb,
                        .ref = watches_.held_mb,
                        .ref_is = "what the watch holds",
                        .goal = AtMost(1)});
  }

  const Flags flags_;
  BenchReport* const report_;
  std::unique_ptr<TempDir> folder_;
  std::string ca_file_;
  std::unique_ptr<KubeApiServer> server_;
  Lists lists_;
  Watches watches_;
};

}  // namespace
}  // namespace millrace::bench

int main(int argc, char** argv) {
  millrace::bench::Flags flags;
  flags.repetitions = 5;
  CLI::App app("What the Kubernetes resolver costs with ten thousand pods of a real API server.");
  flags.AddTo(&app);
  app.add_option("--pods", flags.pods, "in the API server")
      ->check(CLI::Range(10, 50'000))
      ->capture_default_str();
  app.add_option("--changes", flags.changes, "over which memory must not grow")
      ->check(CLI::Range(10, 10'000'000))
      ->capture_default_str();
  app.add_option("--latency_changes", flags.latency_changes,
                 "whose time to the callback is measured")
      ->check(CLI::Range(1, 100'000))
      ->capture_default_str();
  app.add_option("--writers", flags.writers, "threads that change pods")
      ->check(CLI::Range(1, 64))
      ->capture_default_str();
  CLI11_PARSE(app, argc, argv);
  if (const auto why = millrace::KubeApiServer::Unavailable()) {
    std::fprintf(stderr, "resolver: %s\n", why->c_str());
    return 1;
  }
  millrace::bench::BenchReport report("resolver: the pods of a real API server", flags);
  report.AddVersion("kube-apiserver", "1.33.13");
  return report.Finish(millrace::bench::Run(flags, &report).Do());
}
