// What the dashboard costs: its frames at ten thousand nodes with every panel open, its coordinator
// for each viewer, the time until it shows a cluster, an hour of history, and a window in which
// nothing happens. See README.md.

#include <linux/tcp.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "core/base/file.h"
#include "core/base/json.h"
#include "dashboard/source/demo_source.h"
#include "dashboard/source/lines_source.h"
#include "dashboard/source/live_source.h"
#include "grpcpp/grpcpp.h"
#include "imgui.h"
#include "millrace/status_macros.h"
#include "testing/bench/bench_report.h"
#include "testing/bench/dashboard_hour.h"
#include "testing/bench/dashboard_viewer.h"
#include "testing/bench/json_child.h"
#include "testing/child_process.h"

namespace millrace::bench {
namespace {

using dashboard::DashboardModel;
using dashboard::DemoOptions;
using dashboard::LinesSource;
using dashboard::LiveOptions;
using dashboard::MakeDemoSource;
using dashboard::MakeLiveSource;
using dashboard::UpdateSource;

constexpr int kGpusPerNode = 8;
constexpr int kMaxAgents = 18'000;
constexpr double kMegabyte = 1e6;
constexpr int kFirstFrames = 60;
constexpr absl::Duration kFrame = absl::Microseconds(16'667);
constexpr absl::Duration kStartTimeout = absl::Minutes(2);
constexpr absl::Duration kArrivalTimeout = absl::Minutes(10);
constexpr absl::Duration kSettle = absl::Seconds(3);
// Of one viewer's part of the coordinator's CPU time, and of the idle window's.
constexpr absl::Duration kSpan = absl::Seconds(15);

struct Flags : BenchFlags {
  std::vector<std::string> parts = {"frames", "logs", "live", "paced", "connect", "idle", "hour"};
  int nodes = 10'000;
  int gpus = kGpusPerNode;  // of each node of frames and hour
  int sample_every = 1;     // seconds, of frames and hour
  int connect_nodes = 1'000;
  int frames = 1'200;
  int hour_seconds = 3'600;
  int processes = 4;  // with agents
};

double Percentile(std::vector<double> values, double p) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  return values[static_cast<size_t>(p * static_cast<double>(values.size() - 1))];
}

// ---- frames -------------------------------------------------------------------------------------

struct Frames {
  std::vector<double> poll_ms, build_ms, all_ms;
  double seconds = 0;  // of real time
  Traffic traffic;     // within these
  int vertices = 0;

  void Add(const FrameCost& cost) {
    poll_ms.push_back(absl::ToDoubleMilliseconds(cost.poll));
    build_ms.push_back(absl::ToDoubleMilliseconds(cost.build));
    all_ms.push_back(poll_ms.back() + build_ms.back());
  }
};

// At 60 Hz, or as fast as they go.
void Draw(DashboardViewer* viewer, int count, Frames* frames) {
  const Traffic before = viewer->traffic();
  const absl::Time begin = absl::Now();
  absl::Time next = begin;
  for (int i = 0; i < count; ++i) {
    frames->Add(viewer->Frame(absl::Now()));
    next = std::max(next + kFrame, absl::Now());
    absl::SleepFor(next - absl::Now());
  }
  const Traffic& after = viewer->traffic();
  frames->seconds += absl::ToDoubleSeconds(absl::Now() - begin);
  frames->traffic.samples += after.samples - before.samples;
  frames->traffic.gpus += after.gpus - before.gpus;
  frames->traffic.lines += after.lines - before.lines;
  frames->traffic.metrics += after.metrics - before.metrics;
  frames->traffic.bytes += after.bytes - before.bytes;
  frames->vertices = viewer->vertices();
}

void DrawFor(DashboardViewer* viewer, absl::Duration span) {
  const absl::Time until = absl::Now() + span;
  while (absl::Now() < until) {
    viewer->Frame(absl::Now());
    absl::SleepFor(kFrame);
  }
}

// A row with the median, the 99th percentile and the maximum.
void AddPercentiles(const std::string& name, const std::vector<double>& ms, BenchTable* table) {
  table->AddRow({name, FormatNumber(Percentile(ms, 0.5)), FormatNumber(Percentile(ms, 0.99)),
                 FormatNumber(Percentile(ms, 1))});
}

void ReportFrames(const std::string& name, const std::string& what, const Frames& frames,
                  BenchReport* report) {
  BenchTable table({"CPU of the window's thread, ms a frame", "p50", "p99", "max"});
  AddPercentiles("updates taken, the model's time passing", frames.poll_ms, &table);
  AddPercentiles("all ten panels built", frames.build_ms, &table);
  AddPercentiles("both", frames.all_ms, &table);
  report->Add(table, absl::StrCat(frames.all_ms.size(), " frames, ", frames.vertices,
                                  " vertices in the last, of ", what));
  const double rate = 1 / frames.seconds;
  const auto per_second = [&](uint64_t count) {
    return FormatNumber(static_cast<double>(count) * rate);
  };
  report->AddNote(absl::StrCat(
      what, ": ", FormatNumber(static_cast<double>(frames.all_ms.size()) * rate), " frames/s; ",
      per_second(frames.traffic.samples), " samples of nodes, ",
      per_second(frames.traffic.gpus * 6), " values of GPUs, ", per_second(frames.traffic.lines),
      " log lines and ", per_second(frames.traffic.metrics), " metrics applied per second"));
  report->Add(Figure{.name = absl::StrCat(name, "_frame_p99"),
                     .unit = "ms",
                     .ours = Percentile(frames.all_ms, 0.99),
                     .ref = absl::ToDoubleMilliseconds(kFrame),
                     .ref_is = "a frame at 60 Hz",
                     .goal = AtMost(8)});
}

std::string Pace(const Flags& flags) {
  return flags.sample_every == 1   ? "each second"
         : flags.sample_every == 0 ? "as often as a coordinator asks"
                                   : absl::StrCat("every ", flags.sample_every, " s");
}

absl::Status MeasureFrames(const Flags& flags, BenchReport* report) {
  DemoOptions options;
  options.nodes = flags.nodes;
  options.gpus_per_node = flags.gpus;
  options.begin_at = absl::Seconds(8);
  options.sample_every = absl::Seconds(flags.sample_every);
  MILLRACE_ASSIGN_OR_RETURN(std::unique_ptr<UpdateSource> source, MakeDemoSource(options));
  DashboardViewer viewer(std::make_unique<ThreadedSource>(std::move(source)));
  // Until the simulation has caught up with the clock.
  const absl::Time limit = absl::Now() + absl::Minutes(2);
  while (absl::Now() < limit && (!viewer.model().has_data() ||
                                 absl::Now() - viewer.model().data_time() > absl::Seconds(2))) {
    DrawFor(&viewer, absl::Milliseconds(100));
  }
  // And until each node has been sampled, for the first sample tells of queues and GPUs.
  const auto sampled = [&] {
    const auto& nodes = viewer.model().nodes();
    return std::all_of(nodes.begin(), nodes.end(), [](const dashboard::NodeState& node) {
      return node.sampled != absl::InfinitePast();
    });
  };
  viewer.OpenAllPanels(absl::Now());
  Frames first;
  while (absl::Now() < limit && !sampled()) Draw(&viewer, kFirstFrames, &first);
  if (first.all_ms.size() >= 5 * kFirstFrames) {
    ReportFrames("dashboard_first",
                 absl::StrCat(flags.nodes, " simulated nodes with ", flags.gpus,
                              " GPUs, while each is sampled for the first time"),
                 first, report);
  }
  DrawFor(&viewer, kSettle);
  Frames frames;
  Draw(&viewer, flags.frames, &frames);
  ReportFrames("dashboard",
               absl::StrCat(flags.nodes, " simulated nodes with ", flags.gpus, " GPUs, sampled ",
                            Pace(flags)),
               frames, report);
  return absl::OkStatus();
}

// ---- a million lines ----------------------------------------------------------------------------

absl::Status MeasureLogs(const Flags& flags, BenchReport* report) {
  constexpr uint64_t kLines = 1'000'000;
  constexpr uint64_t kLinesPerFrame = 20;
  auto source = std::make_unique<LinesSource>();
  LinesSource* const lines = source.get();
  DashboardViewer viewer(std::move(source));
  lines->Write(kLines);
  const absl::Time limit = absl::Now() + kStartTimeout;
  while (viewer.model().logs().size() < kLines) {
    if (absl::Now() > limit) return absl::DeadlineExceededError("no lines come");
    viewer.Frame(absl::Now());
  }
  viewer.OpenAllPanels(absl::Now());
  Frames following, searching;
  const int count = std::max(1, flags.frames / 2);
  const auto draw = [&](Frames* frames) {
    for (int i = 0; i < count; ++i) {
      lines->Write(kLinesPerFrame);
      // A few letters more or less, so that all lines are searched anew, over and over.
      if (frames == &searching && i % 64 == 0) viewer.Type(i % 128 == 0 ? "step 7" : "77");
      frames->Add(viewer.Frame(absl::Now()));
    }
  };
  draw(&following);
  viewer.FocusSearch();
  draw(&searching);
  BenchTable table({"CPU of the window's thread, ms a frame", "p50", "p99", "max"});
  AddPercentiles("the newest lines followed", following.all_ms, &table);
  AddPercentiles("all lines searched", searching.all_ms, &table);
  report->Add(table, absl::StrCat(count, " frames each, all ten panels open, a million log lines, ",
                                  kLinesPerFrame, " more with each frame"));
  report->AddNote(absl::StrCat(
      "the model counts ",
      FormatNumber(static_cast<double>(viewer.model().memory_bytes()) / kMegabyte), " MB"));
  for (const auto& [name, frames] : {std::pair{"dashboard_logs_follow_p99", &following},
                                     {"dashboard_logs_search_p99", &searching}}) {
    report->Add(Figure{.name = name,
                       .unit = "ms",
                       .ours = Percentile(frames->all_ms, 0.99),
                       .ref = absl::ToDoubleMilliseconds(kFrame),
                       .ref_is = "a frame at 60 Hz",
                       .goal = AtMost(8)});
  }
  return absl::OkStatus();
}

// ---- a real coordinator -------------------------------------------------------------------------

// A coordinator with agents, each in processes of their own.
class BenchCluster {
 public:
  // `sample_every` seconds, six values of each GPU; 0: as often as the coordinator asks for,
  // everything that a GPU tells.
  static absl::StatusOr<std::unique_ptr<BenchCluster>> Start(int nodes, int gpus, int processes,
                                                             int sample_every) {
    std::unique_ptr<BenchCluster> cluster(new BenchCluster());
    MILLRACE_ASSIGN_OR_RETURN(cluster->server_,
                              JsonChild::Start(RunfilePath("testing/bench/dashboard_server")));
    MILLRACE_ASSIGN_OR_RETURN(cluster->address_,
                              cluster->server_->Ask(Json{{"agents", nodes}}, kStartTimeout));
    processes = std::min(processes, nodes);
    int first = 0;
    for (int i = 0; i < processes; ++i) {
      Json setup = cluster->address_;
      setup["agents"] = nodes / processes + (i < nodes % processes ? 1 : 0);
      setup["bare"] = false;
      setup["sample_every"] = sample_every;
      setup["first"] = first;
      setup["gpus"] = gpus;
      setup["everything"] = sample_every == 0;
      setup["lines"] = 10;
      first += setup["agents"].get<int>();
      MILLRACE_ASSIGN_OR_RETURN(auto swarm,
                                JsonChild::Start(RunfilePath("testing/bench/agent_swarm")));
      MILLRACE_RETURN_IF_ERROR(swarm->Ask(setup, kStartTimeout).status());
      cluster->swarms_.push_back(std::move(swarm));
    }
    for (const auto& swarm : cluster->swarms_) {
      MILLRACE_RETURN_IF_ERROR(swarm->Send(Json{{"arrive", true}}));
    }
    for (const auto& swarm : cluster->swarms_) {
      MILLRACE_RETURN_IF_ERROR(swarm->Receive(kArrivalTimeout).status());
    }
    // An agent whose heartbeat is being written just then is told the next time.
    for (int round = 0; round < 4; ++round) {
      MILLRACE_RETURN_IF_ERROR(cluster->TellSwarms(/*run=*/true).status());
      absl::SleepFor(absl::Milliseconds(730));
    }
    return cluster;
  }

  [[nodiscard]] absl::StatusOr<std::unique_ptr<UpdateSource>> Watch() const {
    LiveOptions live;
    live.client.address = address_["address"].get<std::string>();
    live.client.ca_pem = address_["ca_pem"].get<std::string>();
    live.client.identity_pem = address_["identity_pem"].get<std::string>();
    live.client.viewer_token = address_["viewer_token"].get<std::string>();
    return MakeLiveSource(std::move(live));
  }

  // CPU seconds of the coordinator so far.
  [[nodiscard]] absl::StatusOr<double> CoordinatorCpu() {
    MILLRACE_ASSIGN_OR_RETURN(const Json usage, server_->Ask(Json{{"usage", true}}, kStartTimeout));
    return usage["cpu_s"].get<double>();
  }

  // Samples of nodes that the agents have sent so far.
  [[nodiscard]] absl::StatusOr<double> SamplesSent() { return TellSwarms(/*run=*/false); }

  [[nodiscard]] const Json& address() const { return address_; }

 private:
  BenchCluster() = default;

  absl::StatusOr<double> TellSwarms(bool run) {
    double samples = 0;
    for (const auto& swarm : swarms_) {
      MILLRACE_ASSIGN_OR_RETURN(const Json said, swarm->Ask(Json{{"run", run}}, kStartTimeout));
      samples += said["samples"].get<double>();
    }
    return samples;
  }

  Json address_;
  std::unique_ptr<JsonChild> server_;
  std::vector<std::unique_ptr<JsonChild>> swarms_;  // end before the server
};

bool ShowsAll(const DashboardModel& model, int nodes) {
  return static_cast<int>(model.nodes().size()) >= nodes &&
         model.cluster().by_state[v1::SLOT_STATE_RUNNING] >= nodes;
}

absl::Status WaitForAll(DashboardViewer* viewer, int nodes) {
  const absl::Time limit = absl::Now() + kStartTimeout;
  while (!ShowsAll(viewer->model(), nodes)) {
    if (absl::Now() > limit) {
      return absl::DeadlineExceededError(
          absl::StrCat(viewer->model().cluster().by_state[v1::SLOT_STATE_RUNNING], " of ", nodes,
                       " nodes run; ", viewer->model().health().link.reason));
    }
    DrawFor(viewer, absl::Milliseconds(50));
  }
  return absl::OkStatus();
}

// What has come over this process's TCP connections that are open now: TLS and HTTP/2 included.
double ReceivedBytes() {
  double bytes = 0;
  for (const auto& file : std::filesystem::directory_iterator("/proc/self/fd")) {
    int fd = -1;
    tcp_info info = {};
    socklen_t size = sizeof(info);
    if (absl::SimpleAtoi(file.path().filename().native(), &fd) &&
        getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &size) == 0) {
      bytes += static_cast<double>(info.tcpi_bytes_received);
    }
  }
  return bytes;
}

struct LiveCost {
  Samples with, without;   // cores of the coordinator
  Samples viewer;          // cores of this process
  Samples messages, wire;  // MB/s
  Samples sent, applied;   // samples of nodes per second
  Samples updates;         // per second: all that is new, at once
  Samples age;             // ms: of a sample when a frame takes it
  Frames frames;
};

absl::Status MeasureRound(BenchCluster* cluster, int nodes, int count, LiveCost* cost) {
  MILLRACE_ASSIGN_OR_RETURN(double before, cluster->CoordinatorCpu());
  absl::Time begin = absl::Now();
  absl::SleepFor(kSpan);
  MILLRACE_ASSIGN_OR_RETURN(double after, cluster->CoordinatorCpu());
  cost->without.Add((after - before) / absl::ToDoubleSeconds(absl::Now() - begin));
  MILLRACE_ASSIGN_OR_RETURN(std::unique_ptr<UpdateSource> source, cluster->Watch());
  DashboardViewer viewer(std::move(source));
  MILLRACE_RETURN_IF_ERROR(WaitForAll(&viewer, nodes));
  viewer.OpenAllPanels(absl::Now());
  DrawFor(&viewer, 2 * kSettle);
  MILLRACE_ASSIGN_OR_RETURN(before, cluster->CoordinatorCpu());
  MILLRACE_ASSIGN_OR_RETURN(const double sent, cluster->SamplesSent());
  begin = absl::Now();
  const Traffic traffic = viewer.traffic();
  const uint64_t updates = viewer.model().health().updates;
  const absl::Duration cpu = SelfCpuTime();
  const double received = ReceivedBytes();
  Draw(&viewer, count, &cost->frames);
  if (absl::Now() - begin < kSpan) DrawFor(&viewer, begin + kSpan - absl::Now());
  const double seconds = absl::ToDoubleSeconds(absl::Now() - begin);
  const auto rate = [seconds](uint64_t now, uint64_t then) {
    return static_cast<double>(now - then) / seconds;
  };
  cost->viewer.Add(absl::ToDoubleSeconds(SelfCpuTime() - cpu) / seconds);
  cost->wire.Add((ReceivedBytes() - received) / seconds / kMegabyte);
  cost->messages.Add(rate(viewer.traffic().bytes, traffic.bytes) / kMegabyte);
  cost->applied.Add(rate(viewer.traffic().samples, traffic.samples));
  cost->age.Add(
      absl::ToDoubleMilliseconds(viewer.traffic().age - traffic.age) /
      static_cast<double>(std::max<uint64_t>(1, viewer.traffic().samples - traffic.samples)));
  cost->updates.Add(rate(viewer.model().health().updates, updates));
  MILLRACE_ASSIGN_OR_RETURN(const double sent_then, cluster->SamplesSent());
  cost->sent.Add((sent_then - sent) / seconds);
  MILLRACE_ASSIGN_OR_RETURN(after, cluster->CoordinatorCpu());
  cost->with.Add((after - before) / absl::ToDoubleSeconds(absl::Now() - begin));
  return absl::OkStatus();
}

absl::Status MeasureLive(const Flags& flags, int sample_every, BenchReport* report) {
  MILLRACE_ASSIGN_OR_RETURN(
      const std::unique_ptr<BenchCluster> cluster,
      BenchCluster::Start(flags.nodes, kGpusPerNode, flags.processes, sample_every));
  absl::SleepFor(kSettle);
  LiveCost cost;
  const int rounds = std::max(1, flags.repetitions);
  for (int round = 0; round < rounds; ++round) {
    MILLRACE_RETURN_IF_ERROR(
        MeasureRound(cluster.get(), flags.nodes, std::max(1, flags.frames / rounds), &cost));
  }
  const std::string name = sample_every > 0 ? "dashboard_live" : "dashboard_paced";
  ReportFrames(
      name,
      absl::StrCat(flags.nodes, " agents with ", kGpusPerNode, " GPUs on a real coordinator, ",
                   sample_every > 0 ? "six values of each GPU each second"
                                    : "all of a GPU as often as it asks for"),
      cost.frames, report);
  BenchTable table({"a viewer of it", "median", "min", "max"});
  table.AddSamples("samples of nodes that the agents send, 1/s", cost.sent);
  table.AddSamples("samples of nodes applied, 1/s", cost.applied);
  table.AddSamples("updates applied, 1/s", cost.updates);
  table.AddSamples("age of a sample when a frame takes it, mean, ms", cost.age);
  table.AddSamples("bytes of messages, MB/s", cost.messages);
  table.AddSamples("bytes received, MB/s", cost.wire);
  table.AddSamples("coordinator without it, cores", cost.without);
  table.AddSamples("coordinator with it, cores", cost.with);
  table.AddSamples("the viewer's process, cores", cost.viewer);
  report->Add(table, absl::StrCat(rounds, " rounds, in turns without and with it"));
  report->Add(Figure{.name = absl::StrCat(name, "_samples"),
                     .unit = "/s",
                     .ours = cost.applied.Median(),
                     .ref = cost.sent.Median(),
                     .ref_is = "what the agents send",
                     .goal = RatioAtLeast(0.95)});
  report->Add(Figure{.name = absl::StrCat(name, "_wire"),
                     .unit = "MB/s",
                     .ours = cost.wire.Median(),
                     .ref = cost.applied.Median() * kGpusPerNode * 6 * 4 / kMegabyte,
                     .ref_is = "six values of each GPU as floats",
                     .goal = AtMost(20)});
  report->Add(Figure{.name = absl::StrCat(name, "_viewer_cpu"),
                     .unit = "cores",
                     .ours = cost.with.Median() - cost.without.Median(),
                     .ref = cost.without.Median(),
                     .ref_is = "the coordinator without a viewer",
                     .goal = AtMost(0.5)});
  return absl::OkStatus();
}

absl::Status MeasureConnect(const Flags& flags, BenchReport* report) {
  MILLRACE_ASSIGN_OR_RETURN(const std::unique_ptr<BenchCluster> cluster,
                            BenchCluster::Start(flags.connect_nodes, kGpusPerNode, 1, 1));
  absl::SleepFor(kSettle);
  Samples shown;
  MILLRACE_ASSIGN_OR_RETURN(std::unique_ptr<UpdateSource> source, cluster->Watch());
  DashboardViewer viewer(std::move(source));
  MILLRACE_RETURN_IF_ERROR(WaitForAll(&viewer, flags.connect_nodes));
  viewer.OpenAllPanels(absl::Now());
  for (int i = 0; i < flags.repetitions; ++i) {
    const absl::Time begin = absl::Now();
    MILLRACE_ASSIGN_OR_RETURN(source, cluster->Watch());
    viewer.SetSource(std::move(source));
    do {
      // What a window does: it sleeps until something comes.
      absl::SleepFor(absl::Milliseconds(1));
      viewer.Frame(absl::Now());
      if (absl::Now() - begin > kStartTimeout) return absl::DeadlineExceededError("no slots come");
    } while (!ShowsAll(viewer.model(), flags.connect_nodes));
    shown.Add(absl::Now() - begin);
    DrawFor(&viewer, absl::Milliseconds(300));
  }
  BenchTable table({"ms", "median", "min", "max"});
  table.AddSamples("connect until a frame shows all slots", shown);
  report->Add(table, absl::StrCat(flags.connect_nodes, " nodes with ", kGpusPerNode, " GPUs"));
  report->Add(Figure{.name = "dashboard_connect",
                     .unit = "ms",
                     .ours = shown.Median(),
                     .ref = 4'600,
                     .ref_is = "p99 of an answer of Ray's dashboard at 10,000 actors, as published",
                     .goal = AtMost(300)});
  return absl::OkStatus();
}

// ---- a window in which nothing happens ----------------------------------------------------------

// CPU seconds of a process so far.
absl::StatusOr<double> CpuOf(pid_t pid) {
  MILLRACE_ASSIGN_OR_RETURN(const std::string stat, ReadFile(absl::StrCat("/proc/", pid, "/stat")));
  const std::vector<std::string> fields = absl::StrSplit(stat.substr(stat.rfind(')') + 2), ' ');
  double user = 0;
  double system = 0;
  if (fields.size() < 13 || !absl::SimpleAtod(fields[11], &user) ||
      !absl::SimpleAtod(fields[12], &system)) {
    return absl::InternalError("no CPU times in procfs");
  }
  return (user + system) / static_cast<double>(sysconf(_SC_CLK_TCK));
}

absl::Status MeasureIdle(const Flags& flags, BenchReport* report) {
  const char* const xvfb = "/usr/bin/Xvfb";
  if (access(xvfb, X_OK) != 0) {
    report->AddNote("idle window: not measured, for there is no Xvfb (Debian package xvfb)");
    return absl::OkStatus();
  }
  MILLRACE_ASSIGN_OR_RETURN(const auto server,
                            ChildProcess::Start({xvfb, "-displayfd", "1", "-screen", "0",
                                                 "1600x900x24", "-nolisten", "tcp"}));
  MILLRACE_ASSIGN_OR_RETURN(const std::string display, server->WaitForLine("", kStartTimeout));
  setenv("DISPLAY", absl::StrCat(":", display).c_str(), 1);
  MILLRACE_ASSIGN_OR_RETURN(TempDir dir, TempDir::Create());
  setenv("XDG_CONFIG_HOME", dir.path().c_str(), 1);
  MILLRACE_ASSIGN_OR_RETURN(const std::unique_ptr<BenchCluster> cluster,
                            BenchCluster::Start(/*nodes=*/4, kGpusPerNode, 1, 1));
  const std::string token = JoinPath(dir.path(), "token");
  const std::string ca = JoinPath(dir.path(), "ca.pem");
  const std::string identity = JoinPath(dir.path(), "identity.pem");
  MILLRACE_RETURN_IF_ERROR(
      WriteFileAtomic(token, cluster->address()["viewer_token"].get<std::string>(), 0600));
  MILLRACE_RETURN_IF_ERROR(
      WriteFileAtomic(ca, cluster->address()["ca_pem"].get<std::string>(), 0600));
  MILLRACE_RETURN_IF_ERROR(
      WriteFileAtomic(identity, cluster->address()["identity_pem"].get<std::string>(), 0600));
  MILLRACE_ASSIGN_OR_RETURN(
      const auto window,
      ChildProcess::Start({RunfilePath("dashboard/app/millrace-dashboard"), "--connect",
                           cluster->address()["address"].get<std::string>(), "--token-file", token,
                           "--ca", ca, "--identity", identity}));
  absl::SleepFor(2 * kSettle);
  Samples percent;
  for (int i = 0; i < flags.repetitions; ++i) {
    MILLRACE_ASSIGN_OR_RETURN(const double before, CpuOf(window->pid()));
    const absl::Time begin = absl::Now();
    absl::SleepFor(kSpan);
    MILLRACE_ASSIGN_OR_RETURN(const double after, CpuOf(window->pid()));
    percent.Add(100 * (after - before) / absl::ToDoubleSeconds(absl::Now() - begin));
  }
  BenchTable table({"% of a core", "median", "min", "max"});
  table.AddSamples("the window's process, Mesa's software renderer included", percent);
  report->Add(table, "A window of 1600 x 900 on a cluster of 4 nodes that is sampled each second");
  report->Add(Figure{.name = "dashboard_idle",
                     .unit = "%",
                     .ours = percent.Median(),
                     .ref = 100,
                     .ref_is = "a core",
                     .goal = AtMost(3)});
  return absl::OkStatus();
}

// ---- an hour ------------------------------------------------------------------------------------

absl::Status MeasureHour(const Flags& flags, BenchReport* report) {
  MILLRACE_ASSIGN_OR_RETURN(const HourCost hour, RunHour(flags.nodes, flags.gpus,
                                                         flags.sample_every, flags.hour_seconds));
  BenchTable table({"CPU ms", "p50", "p99", "max"});
  AddPercentiles("one part of an update", hour.part_ms, &table);
  AddPercentiles("letting a frame's time pass", hour.advance_ms, &table);
  report->Add(table, absl::StrCat("The model through ", flags.hour_seconds, " s of ", flags.nodes,
                                  " nodes with ", flags.gpus, " GPUs, sampled ", Pace(flags)));
  report->AddNote(absl::StrCat(
      "a second of it is ", FormatNumber(hour.message_bytes / kMegabyte),
      " MB as messages and takes ", FormatNumber(1000 * hour.cpu_per_second),
      " ms of CPU; the model counts ", FormatNumber(hour.model_bytes / kMegabyte),
      " MB, resident memory grew by ", FormatNumber(hour.resident_bytes / kMegabyte), " MB"));
  report->Add(Figure{
      .name = "dashboard_history",
      .unit = "MB",
      .ours = hour.history_bytes / kMegabyte,
      .ref = static_cast<double>(flags.nodes) * flags.gpus * 6 * flags.hour_seconds * 4 / kMegabyte,
      .ref_is = "each value of each GPU and second as a float",
      .goal = AtMost(1'000)});
  report->Add(Figure{.name = "dashboard_values",
                     .unit = "/s",
                     .ours = hour.samples * 6 / hour.cpu_per_second,
                     .ref = hour.samples * 6,
                     .ref_is = "what the cluster measures each second",
                     .goal = RatioAtLeast(2)});
  return absl::OkStatus();
}

absl::Status Main(const Flags& flags, BenchReport* report) {
  const auto wanted = [&](const char* part) {
    return std::find(flags.parts.begin(), flags.parts.end(), part) != flags.parts.end();
  };
  if ((wanted("live") || wanted("paced")) && flags.nodes > kMaxAgents) {
    return absl::InvalidArgumentError(
        absl::StrCat("--nodes ", flags.nodes, ": live and paced take at most ", kMaxAgents));
  }
  if (wanted("frames")) MILLRACE_RETURN_IF_ERROR(MeasureFrames(flags, report));
  if (wanted("logs")) MILLRACE_RETURN_IF_ERROR(MeasureLogs(flags, report));
  if (wanted("live")) MILLRACE_RETURN_IF_ERROR(MeasureLive(flags, /*sample_every=*/1, report));
  if (wanted("paced")) MILLRACE_RETURN_IF_ERROR(MeasureLive(flags, /*sample_every=*/0, report));
  if (wanted("connect")) MILLRACE_RETURN_IF_ERROR(MeasureConnect(flags, report));
  if (wanted("idle")) MILLRACE_RETURN_IF_ERROR(MeasureIdle(flags, report));
  if (wanted("hour")) MILLRACE_RETURN_IF_ERROR(MeasureHour(flags, report));
  return absl::OkStatus();
}

}  // namespace
}  // namespace millrace::bench

int main(int argc, char** argv) {
  millrace::bench::Flags flags;
  flags.repetitions = 5;
  CLI::App app("What the dashboard costs the thread of its window, its coordinator and its host.");
  flags.AddTo(&app);
  app.add_option("--parts", flags.parts, "what is measured")
      ->delimiter(',')
      ->check(CLI::IsMember({"frames", "logs", "live", "paced", "connect", "idle", "hour"}))
      ->capture_default_str();
  app.add_option("--nodes", flags.nodes,
                 "of frames, live, paced and hour; with 8 GPUs each in live and paced")
      ->check(CLI::Range(1, 100'000))
      ->capture_default_str();
  app.add_option("--gpus", flags.gpus, "of each node of frames and hour")
      ->check(CLI::Range(0, 16))
      ->capture_default_str();
  app.add_option(
         "--sample_every", flags.sample_every,
         "seconds between two samples of a node of frames and hour; 0: as a coordinator asks")
      ->check(CLI::Range(0, 3'600))
      ->capture_default_str();
  app.add_option("--connect_nodes", flags.connect_nodes, "of connect")
      ->check(CLI::Range(1, millrace::bench::kMaxAgents))
      ->capture_default_str();
  app.add_option("--frames", flags.frames, "that are measured, in all")
      ->check(CLI::Range(10, 1'000'000))
      ->capture_default_str();
  app.add_option("--hour_seconds", flags.hour_seconds, "of the cluster's time")
      ->check(CLI::Range(1, 36'000))
      ->capture_default_str();
  CLI11_PARSE(app, argc, argv);
  millrace::bench::RaiseFileLimit();
  millrace::bench::BenchReport report(
      "dashboard: frames, coordinator, connect, idle window, an hour", flags);
  report.AddVersion("gRPC", grpc::Version());
  report.AddVersion("Dear ImGui", IMGUI_VERSION);
  return report.Finish(millrace::bench::Main(flags, &report));
}
