// Ten thousand agents arrive at once: how long until each holds the ClusterSpec, what that costs
// the coordinator, and what their heartbeats cost it afterwards. The same, in turns, with bare
// gRPC. See README.md.

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "core/base/json.h"
#include "grpcpp/grpcpp.h"
#include "millrace/status_macros.h"
#include "testing/bench/bench_report.h"
#include "testing/bench/json_child.h"
#include "testing/child_process.h"

namespace millrace::bench {
namespace {

constexpr absl::Duration kStartTimeout = absl::Seconds(60);
constexpr absl::Duration kArrivalTimeout = absl::Minutes(10);
constexpr absl::Duration kSettle = absl::Seconds(3);
constexpr int kMaxProcesses = 8;

struct Flags : BenchFlags {
  std::vector<int> agents = {100, 1000, 10'000, 18'000};
  int figures_at = 10'000;  // the size whose figures have goals
  int steady_seconds = 20;
  int processes = 4;  // with agents
  int slots_per_host = 1;
  bool reference = true;  // of agents that share a stream
};

struct Usage {
  double cpu_s = 0;
  double resident_bytes = 0;
  double peak_bytes = 0;
};

// One arrival of all agents at one server.
struct Arrival {
  double seconds = 0;       // from the word to go until each agent holds the spec
  double server_cpu_s = 0;  // of these
  double kb_per_agent = 0;  // of the server's memory, once all hold it
  double server_mb = 0;     // all of it
  double peak_mb = 0;       // the most that the server had until all hold the spec
  double pushed_mb = 0;     // messages that agents got
  int redials = 0;          // hosts and agents of hosts that dialled again
  double running_s = 0;     // from the first node that runs until the driver knows that all do
  double death_s = 0;       // from a node's death until all others are told; 0: not measured
  double peak_to_death_mb = 0;
  double agents_cpu_s = 0;   // of the processes with agents
  int64_t first_bytes = 0;   // Registered, mean
  int64_t second_bytes = 0;  // the spec
  int sample_every = 1;      // heartbeats of an agent whose node runs
  double steady_cores = 0;   // of the server, with heartbeats; 0: not measured
};

absl::StatusOr<Usage> UsageOf(JsonChild& server) {
  MILLRACE_ASSIGN_OR_RETURN(const Json usage, server.Ask(Json{{"usage", true}}, kStartTimeout));
  return Usage{usage["cpu_s"].get<double>(), usage["resident_bytes"].get<double>(),
               usage["peak_bytes"].get<double>()};
}

class Run {
 public:
  // `like`: an arrival at the coordinator whose bytes the bare server sends; nullptr: the
  // coordinator. `mutual`: the bare server asks for client certificates, as the coordinator does.
  // `slots_per_host`: of agents that share a stream.
  Run(const Flags& flags, int agents, const Arrival* like, bool mutual = false,
      int slots_per_host = 1)
      : flags_(flags),
        agents_(agents),
        like_(like),
        mutual_(mutual),
        slots_per_host_(slots_per_host) {}

  // `death`: of a node, at last; of the coordinator's agents that share streams.
  absl::StatusOr<Arrival> Measure(bool steady, bool death = false) {
    MILLRACE_RETURN_IF_ERROR(StartServer());
    MILLRACE_RETURN_IF_ERROR(StartSwarms());
    Arrival arrival;
    MILLRACE_ASSIGN_OR_RETURN(const Usage before, UsageOf(*server_));
    MILLRACE_RETURN_IF_ERROR(Arrive(&arrival));
    MILLRACE_ASSIGN_OR_RETURN(const Usage after, UsageOf(*server_));
    arrival.server_cpu_s = after.cpu_s - before.cpu_s;
    arrival.peak_mb = after.peak_bytes / 1e6;
    for (const auto& swarm : swarms_) {
      MILLRACE_ASSIGN_OR_RETURN(const Json said, swarm->Ask(Json{{"usage", true}}, kStartTimeout));
      arrival.agents_cpu_s += said["cpu_s"].get<double>();
    }
    absl::SleepFor(kSettle);  // what was only on its way is gone
    MILLRACE_ASSIGN_OR_RETURN(const Usage settled, UsageOf(*server_));
    arrival.server_mb = settled.resident_bytes / 1e6;
    arrival.kb_per_agent = (settled.resident_bytes - before.resident_bytes) / 1000 / agents_;
    if (steady || death) MILLRACE_RETURN_IF_ERROR(RunNodes(&arrival));
    if (steady) MILLRACE_RETURN_IF_ERROR(Steady(&arrival));
    if (death) MILLRACE_RETURN_IF_ERROR(Death(&arrival));
    return arrival;
  }

 private:
  absl::Status StartServer() {
    const char* const program = like_ == nullptr ? "reservation_server" : "bare_grpc_server";
    MILLRACE_ASSIGN_OR_RETURN(
        server_, JsonChild::Start(RunfilePath(absl::StrCat("testing/bench/", program))));
    Json options{{"agents", agents_}};
    if (like_ != nullptr) {
      options["first_bytes"] = like_->first_bytes;
      options["second_bytes"] = like_->second_bytes;
      options["mutual"] = mutual_;
    }
    MILLRACE_ASSIGN_OR_RETURN(address_, server_->Ask(options, kStartTimeout));
    return absl::OkStatus();
  }

  absl::Status StartSwarms() {
    const int hosts = (agents_ + slots_per_host_ - 1) / slots_per_host_;
    const int processes = std::min(flags_.processes, hosts);
    int first = 0;
    for (int i = 0; i < processes; ++i) {
      Json setup = address_;
      const int next = std::min(agents_, hosts * (i + 1) / processes * slots_per_host_);
      setup["agents"] = next - first;
      if (slots_per_host_ > 1) setup["first"] = first;
      first = next;
      setup["bare"] = like_ != nullptr;
      setup["slots_per_host"] = slots_per_host_;
      setup["sample_every"] = like_ != nullptr ? like_->sample_every : 1;
      MILLRACE_ASSIGN_OR_RETURN(auto swarm,
                                JsonChild::Start(RunfilePath("testing/bench/agent_swarm")));
      MILLRACE_RETURN_IF_ERROR(swarm->Ask(setup, kStartTimeout).status());
      swarms_.push_back(std::move(swarm));
    }
    return absl::OkStatus();
  }

  absl::Status Arrive(Arrival* arrival) {
    const absl::Time start = absl::Now();
    for (const auto& swarm : swarms_) MILLRACE_RETURN_IF_ERROR(swarm->Send(Json{{"arrive", true}}));
    for (const auto& swarm : swarms_) {
      MILLRACE_ASSIGN_OR_RETURN(const Json held, swarm->Receive(kArrivalTimeout));
      arrival->first_bytes = held["first_bytes"].get<int64_t>();
      arrival->second_bytes = held["second_bytes"].get<int64_t>();
      arrival->sample_every = held["sample_every"].get<int>();
      if (slots_per_host_ == 1) continue;
      arrival->pushed_mb += held["received_bytes"].get<double>() / 1e6;
      arrival->redials += held["redials"].get<int>();
    }
    arrival->seconds = absl::ToDoubleSeconds(absl::Now() - start);
    return absl::OkStatus();
  }

  // All nodes run, and the coordinator's driver knows.
  absl::Status RunNodes(Arrival* arrival) {
    const absl::Time start = absl::Now();
    for (const auto& swarm : swarms_) {
      MILLRACE_RETURN_IF_ERROR(swarm->Ask(Json{{"run", true}}, kStartTimeout).status());
    }
    for (bool running = like_ != nullptr; !running;) {
      if (absl::Now() - start > kArrivalTimeout) {
        return absl::DeadlineExceededError("not all nodes run");
      }
      absl::SleepFor(absl::Milliseconds(20));
      MILLRACE_ASSIGN_OR_RETURN(const Json said,
                                server_->Ask(Json{{"running", true}}, kStartTimeout));
      running = said["running"].get<bool>();
    }
    arrival->running_s = absl::ToDoubleSeconds(absl::Now() - start);
    return absl::OkStatus();
  }

  // A node dies of a signal; the driver then has all others stopped.
  absl::Status Death(Arrival* arrival) {
    const absl::Time start = absl::Now();
    for (size_t i = 0; i < swarms_.size(); ++i) {
      MILLRACE_RETURN_IF_ERROR(swarms_[i]->Send(Json{{"stops", true}, {"die", i == 0}}));
    }
    for (const auto& swarm : swarms_) {
      MILLRACE_RETURN_IF_ERROR(swarm->Receive(kArrivalTimeout).status());
    }
    arrival->death_s = absl::ToDoubleSeconds(absl::Now() - start);
    MILLRACE_ASSIGN_OR_RETURN(const Usage usage, UsageOf(*server_));
    arrival->peak_to_death_mb = usage.peak_bytes / 1e6;
    return absl::OkStatus();
  }

  absl::Status Steady(Arrival* arrival) {
    absl::SleepFor(kSettle);
    MILLRACE_ASSIGN_OR_RETURN(const Usage before, UsageOf(*server_));
    const absl::Time start = absl::Now();
    absl::SleepFor(absl::Seconds(flags_.steady_seconds));
    MILLRACE_ASSIGN_OR_RETURN(const Usage after, UsageOf(*server_));
    arrival->steady_cores =
        (after.cpu_s - before.cpu_s) / absl::ToDoubleSeconds(absl::Now() - start);
    return absl::OkStatus();
  }

  const Flags& flags_;
  const int agents_;
  const Arrival* const like_;
  const bool mutual_;
  const int slots_per_host_;
  Json address_;
  std::unique_ptr<JsonChild> server_;
  std::vector<std::unique_ptr<JsonChild>> swarms_;  // end before the server
};

// All sides at one size. "mutual" is bare gRPC whose clients show a certificate too.
struct Size {
  Samples ours_s, mutual_s, bare_s, ratio, mutual_ratio;
  Samples ours_cpu_s, mutual_cpu_s, bare_cpu_s;
  Samples ours_kb, bare_kb;
  Samples ours_cores, bare_cores;
  Arrival last;  // ours
};

absl::Status MeasureSize(const Flags& flags, int agents, Size* size) {
  const bool steady = agents == flags.figures_at && flags.steady_seconds > 0;
  for (int i = 0; i < flags.repetitions; ++i) {
    MILLRACE_ASSIGN_OR_RETURN(const Arrival ours, Run(flags, agents, nullptr).Measure(steady));
    MILLRACE_ASSIGN_OR_RETURN(const Arrival mutual, Run(flags, agents, &ours, true).Measure(false));
    MILLRACE_ASSIGN_OR_RETURN(const Arrival bare, Run(flags, agents, &ours).Measure(steady));
    size->ours_s.Add(ours.seconds);
    size->mutual_s.Add(mutual.seconds);
    size->bare_s.Add(bare.seconds);
    size->ratio.Add(ours.seconds / bare.seconds);
    size->mutual_ratio.Add(ours.seconds / mutual.seconds);
    size->ours_cpu_s.Add(ours.server_cpu_s);
    size->mutual_cpu_s.Add(mutual.server_cpu_s);
    size->bare_cpu_s.Add(bare.server_cpu_s);
    size->ours_kb.Add(ours.kb_per_agent);
    size->bare_kb.Add(bare.kb_per_agent);
    if (steady) size->ours_cores.Add(ours.steady_cores);
    if (steady) size->bare_cores.Add(bare.steady_cores);
    size->last = ours;
  }
  return absl::OkStatus();
}

void ReportSizes(const std::map<int, Size>& sizes, const Flags& flags, BenchReport* report) {
  BenchTable times({"agents", "ours s", "mutual TLS s", "ratio", "bare gRPC s", "ratio", "agents/s",
                    "server cpu s", "mutual cpu s", "bare cpu s", "KB/agent", "bare KB/agent",
                    "pushed to each", "pushed MB"});
  for (const auto& [agents, size] : sizes) {
    times.AddRow(
        {absl::StrCat(agents), FormatNumber(size.ours_s.Median()),
         FormatNumber(size.mutual_s.Median()), FormatNumber(size.mutual_ratio.Median()),
         FormatNumber(size.bare_s.Median()), FormatNumber(size.ratio.Median()),
         FormatNumber(agents / size.ours_s.Median()), FormatNumber(size.ours_cpu_s.Median()),
         FormatNumber(size.mutual_cpu_s.Median()), FormatNumber(size.bare_cpu_s.Median()),
         FormatNumber(size.ours_kb.Median()), FormatNumber(size.bare_kb.Median()),
         absl::StrCat(size.last.first_bytes, " + ", size.last.second_bytes, " B"),
         FormatNumber(1e-6 * static_cast<double>(size.last.first_bytes + size.last.second_bytes) *
                      agents)});
  }
  report->Add(
      times,
      absl::StrCat("All agents at once, in ", flags.processes,
                   " processes, until each holds the ClusterSpec; medians of ", flags.repetitions,
                   " in turns with bare gRPC, with client certificates (mutual TLS) ",
                   "and without"));
  BenchTable peer(
      {"TensorFlowOnSpark 2.2.5, nodes at once", "driver done s", "last node has the spec s"});
  peer.AddRow({"100", "2.0", "3.1"});
  peer.AddRow({"300", "4.0", "5.0"});
  peer.AddRow({"400", "fails: 20 never registered", "-"});
  peer.AddRow({"1100, over 10 s", "fails: its listener dies (select)", "-"});
  report->Add(
      peer, "The peer's reservation server, measured on 2 cores, threads of one process as nodes:");
}

void AddFigures(const Size& size, int agents, BenchReport* report) {
  report->Add(
      Figure{.name = "reservation",
             .unit = "s",
             .ours = size.ours_s.Median(),
             .ref = size.ours_s.Median() / size.ratio.Median(),
             .ref_is = absl::StrCat(agents, " bare gRPC TLS streams that receive the same bytes"),
             .goal = RatioAtMost(1.3)});
  report->Add(Figure{.name = "reservation_beside_mutual_tls",
                     .unit = "s",
                     .ours = size.ours_s.Median(),
                     .ref = size.ours_s.Median() / size.mutual_ratio.Median(),
                     .ref_is = "the same streams, each client with a certificate",
                     .goal = RatioAtMost(1.3)});
  report->Add(Figure{.name = "reservation_memory_above_bare",
                     .unit = "KB",
                     .ours = size.ours_kb.Median() - size.bare_kb.Median(),
                     .ref = size.bare_kb.Median(),
                     .ref_is = "memory of a bare gRPC TLS server per stream",
                     .goal = AtMost(30)});
  if (size.ours_cores.size() == 0) return;
  report->Add(Figure{.name = "steady_state",
                     .unit = "cores",
                     .ours = size.ours_cores.Median(),
                     .ref = size.bare_cores.Median(),
                     .ref_is = absl::StrCat("a bare gRPC TLS server that reads the same ", agents,
                                            " agents: a heartbeat a second, each fourth a sample"),
                     .goal = AtMost(0.5)});
}

// Agents that share the streams of their hosts, in turns with the same that have each its own; one
// process cannot open as many of those as of the others.
constexpr int kMostLoneAgents = 19'000;

absl::Status MeasureHosts(const Flags& flags, int agents, BenchTable* table, BenchReport* report) {
  const bool alone_too = flags.reference && agents <= kMostLoneAgents;
  const bool steady = agents == flags.figures_at && flags.steady_seconds > 0;
  Samples hosts_s, lone_s, hosts_cpu_s, lone_cpu_s, all_cpu_s, memory_mb, cores, lone_cores;
  double pushed_once = 0;  // MB
  Samples peak_mb, pushed_mb, redials, running_s, death_s;
  for (int i = 0; i < flags.repetitions; ++i) {
    MILLRACE_ASSIGN_OR_RETURN(
        const Arrival hosts,
        Run(flags, agents, nullptr, false, flags.slots_per_host).Measure(steady, /*death=*/true));
    hosts_s.Add(hosts.seconds);
    hosts_cpu_s.Add(hosts.server_cpu_s);
    all_cpu_s.Add(hosts.server_cpu_s + hosts.agents_cpu_s);
    memory_mb.Add(hosts.server_mb);
    peak_mb.Add(std::max(hosts.peak_mb, hosts.peak_to_death_mb));
    pushed_mb.Add(hosts.pushed_mb);
    redials.Add(hosts.redials);
    running_s.Add(hosts.running_s);
    death_s.Add(hosts.death_s);
    if (steady) cores.Add(hosts.steady_cores);
    pushed_once = 1e-6 * static_cast<double>(hosts.second_bytes) *
                  ((agents + flags.slots_per_host - 1) / flags.slots_per_host);
    if (!alone_too) continue;
    MILLRACE_ASSIGN_OR_RETURN(const Arrival lone, Run(flags, agents, nullptr).Measure(steady));
    lone_s.Add(lone.seconds);
    lone_cpu_s.Add(lone.server_cpu_s);
    if (steady) lone_cores.Add(lone.steady_cores);
  }
  table->AddRow({absl::StrCat(agents), FormatNumber(hosts_s.Median()),
                 FormatNumber(agents / hosts_s.Median()), FormatNumber(hosts_cpu_s.Median()),
                 FormatNumber(all_cpu_s.Median()), FormatNumber(memory_mb.Median()),
                 FormatNumber(peak_mb.Median()), FormatNumber(pushed_mb.Median()),
                 FormatNumber(redials.Median()), FormatNumber(running_s.Median()),
                 FormatNumber(death_s.Median()), FormatNumber(lone_s.Median()),
                 FormatNumber(lone_cpu_s.Median())});
  if (agents != flags.figures_at) return absl::OkStatus();
  report->Add(Figure{.name = "reservation_by_hosts",
                     .unit = "nodes/s",
                     .ours = agents / hosts_s.Median(),
                     .ref = alone_too ? agents / lone_s.Median() : 1000,
                     .ref_is = alone_too
                                   ? absl::StrCat(agents, " nodes, each with a stream of its own")
                                   : "the goal",
                     .goal = AtLeast(1000)});
  report->Add(Figure{.name = "reservation_by_hosts_memory",
                     .unit = "MB",
                     .ours = peak_mb.Median(),
                     .ref = 2000,
                     .ref_is = "the goal",
                     .goal = AtMost(2000)});
  report->Add(Figure{.name = "reservation_by_hosts_pushed",
                     .unit = "MB",
                     .ours = pushed_mb.Median(),
                     .ref = pushed_once,
                     .ref_is = "one copy of the spec for each host",
                     .goal = RatioAtMost(1.5)});
  report->Add(Figure{.name = "death_by_hosts",
                     .unit = "s",
                     .ours = death_s.Median(),
                     .ref = 2,
                     .ref_is = "the goal",
                     .goal = AtMost(2)});
  if (!steady) return absl::OkStatus();
  report->Add(Figure{.name = "steady_state_by_hosts",
                     .unit = "cores",
                     .ours = cores.Median(),
                     .ref = lone_cores.Median(),
                     .ref_is = "the same heartbeats and samples, a stream for each node",
                     .goal = AtMost(0.5)});
  return absl::OkStatus();
}

absl::Status MainOfHosts(const Flags& flags, BenchReport* report) {
  BenchTable table({"nodes", "s", "nodes/s", "server cpu s", "all cpu s", "server MB", "peak MB",
                    "pushed MB", "redials", "then running s", "a death known s", "a stream each s",
                    "server cpu s"});
  for (const int agents : flags.agents) {
    MILLRACE_RETURN_IF_ERROR(MeasureHosts(flags, agents, &table, report));
  }
  report->Add(table, absl::StrCat("All nodes at once, ", flags.slots_per_host, " on a host, in ",
                                  flags.processes, " processes, until each holds the ClusterSpec; ",
                                  "medians of ", flags.repetitions));
  return absl::OkStatus();
}

absl::Status Main(const Flags& flags, BenchReport* report) {
  if (flags.slots_per_host > 1) return MainOfHosts(flags, report);
  std::map<int, Size> sizes;
  for (const int agents : flags.agents) {
    MILLRACE_RETURN_IF_ERROR(MeasureSize(flags, agents, &sizes[agents]));
    report->AddNote(
        absl::StrCat(agents, " agents: ", FormatNumber(sizes[agents].ours_s.Median()), " s"));
  }
  ReportSizes(sizes, flags, report);
  if (sizes.count(flags.figures_at) > 0)
    AddFigures(sizes[flags.figures_at], flags.figures_at, report);
  return absl::OkStatus();
}

}  // namespace
}  // namespace millrace::bench

int main(int argc, char** argv) {
  millrace::bench::Flags flags;
  flags.repetitions = 1;
  CLI::App app("How long thousands of agents take to join a cluster, and what they cost it then.");
  flags.AddTo(&app);
  app.add_option("--agents", flags.agents, "sizes of the cluster")
      ->delimiter(',')
      ->check(CLI::Range(1, 100'000))
      ->capture_default_str();
  app.add_option("--figures_at", flags.figures_at, "the size whose figures have goals")
      ->capture_default_str();
  app.add_option("--steady_seconds", flags.steady_seconds, "of heartbeats at that size; 0: none")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  app.add_option("--slots_per_host", flags.slots_per_host,
                 "agents that share a stream; with more than one the reference is one for each")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  app.add_option("--reference", flags.reference,
                 "with hosts: the same agents with a stream each, too, up to 19,000")
      ->capture_default_str();
  app.add_option("--processes", flags.processes, "that the agents share")
      ->check(CLI::Range(1, millrace::bench::kMaxProcesses))
      ->capture_default_str();
  CLI11_PARSE(app, argc, argv);
  millrace::bench::BenchReport report(
      "reservation: agents that arrive at once, until each holds the ClusterSpec", flags);
  report.AddVersion("gRPC", grpc::Version());
  return report.Finish(millrace::bench::Main(flags, &report));
}
