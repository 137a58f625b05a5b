#include "core/cli/metrics/cluster_metrics.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "core/proto/sample.pb.h"
#include "core/proto/time_proto.h"
#include "core/proto/watch.pb.h"

namespace millrace::cli {
namespace {

using Node = v1::WatchUpdate::Node;

double UnixSeconds(absl::Time time) { return absl::ToDoubleSeconds(time - absl::UnixEpoch()); }
double Seconds(uint64_t us) { return static_cast<double>(us) / 1e6; }

// The program's nodes in one role, together.
struct RoleNumbers {
  int64_t restarts = 0;
  double cpu_s = 0;
  double rss_bytes = 0;
  std::optional<double> least_step, greatest_step;
  double oldest_sample_s = 0;
};

struct QueueNumbers {
  v1::QueueLedger ledger;  // sums
  v1::QueueSample sample;  // sums
};

struct GpuNumbers {
  int64_t gpus = 0;
  int64_t broken = 0;
  int64_t measured = 0;  // those whose utilization is known
  double utilization = 0;
  double memory_used = 0;
  double memory_total = 0;
  double power_watts = 0;
};

struct FeedNumbers {
  int64_t open = 0;
  int64_t pending = 0, feeding = 0, received = 0, done = 0, failed = 0;
};

// Seconds from the cluster's start until nodes reached a state, of the first attempts that did.
struct Ladder {
  double median = 0;
  double last = 0;
};

struct ClusterNumbers {
  const ClusterView* view = nullptr;
  std::string id;
  std::map<std::string, RoleNumbers> roles;
  std::map<std::string, QueueNumbers> queues;
  std::map<std::string, GpuNumbers> gpus;  // by the role of the node that has claimed it; "": none
  std::map<std::string, FeedNumbers> feeds;  // by queue
  std::map<int, Ladder> ladder;              // by SlotState
};

void AddLedger(const v1::QueueLedger& more, v1::QueueLedger* sum) {
  sum->set_rows_received(sum->rows_received() + more.rows_received());
  sum->set_rows_acked(sum->rows_acked() + more.rows_acked());
  sum->set_rows_returned(sum->rows_returned() + more.rows_returned());
  sum->set_rows_refed(sum->rows_refed() + more.rows_refed());
  v1::FeederStages& stages = *sum->mutable_stages();
  stages.set_source_us(stages.source_us() + more.stages().source_us());
  stages.set_encode_us(stages.encode_us() + more.stages().encode_us());
  stages.set_credit_us(stages.credit_us() + more.stages().credit_us());
  stages.set_wire_us(stages.wire_us() + more.stages().wire_us());
}

void AddSample(const v1::QueueSample& more, v1::QueueSample* sum) {
  sum->set_bytes_received(sum->bytes_received() + more.bytes_received());
  sum->set_queued_rows(sum->queued_rows() + more.queued_rows());
  sum->set_queued_bytes(sum->queued_bytes() + more.queued_bytes());
  sum->set_wait_us(sum->wait_us() + more.wait_us());
  sum->set_compute_us(sum->compute_us() + more.compute_us());
  sum->set_decode_us(sum->decode_us() + more.decode_us());
  sum->set_full_us(sum->full_us() + more.full_us());
}

void AddGpu(const v1::GpuSample& gpu, GpuNumbers* sum) {
  ++sum->gpus;
  if (!gpu.error().empty()) ++sum->broken;
  if (gpu.has_utilization_percent()) {
    ++sum->measured;
    sum->utilization += gpu.utilization_percent() / 100.0;
  }
  sum->memory_used += static_cast<double>(gpu.memory_used_bytes());
  sum->memory_total += static_cast<double>(gpu.memory_total_bytes());
  sum->power_watts += gpu.power_watts();
}

double SampleAge(const ClusterView& view, const Node& node) {
  return std::max(0.0, absl::ToDoubleSeconds(view.time() - TimeFromProto(node.received())));
}

bool HasProcess(const v1::SlotStatus& slot) {
  return slot.state() == v1::SLOT_STATE_RUNNING || slot.state() == v1::SLOT_STATE_DRAINING;
}

// The role of the node that has claimed a GPU, by the GPU's uuid.
std::map<std::string, std::string> RolesOfGpus(const ClusterView& view) {
  std::map<std::string, std::string> roles;
  for (size_t i = 0; i < view.slots().size(); ++i) {
    for (const std::string& uuid : view.nodes()[i].sample().claimed_gpus()) {
      roles[uuid] = view.slots()[i].job_name();
    }
  }
  return roles;
}

void CountNode(const ClusterView& view, const v1::SlotStatus& slot, const Node& node,
               ClusterNumbers* out) {
  RoleNumbers& role = out->roles[slot.job_name()];
  role.restarts += slot.attempt();
  for (const v1::QueueLedger& ledger : node.ledger()) {
    AddLedger(ledger, &out->queues[ledger.queue()].ledger);
  }
  if (!node.has_sample()) return;
  const v1::NodeSample& sample = node.sample();
  for (const v1::QueueSample& queue : sample.queues()) {
    AddSample(queue, &out->queues[queue.queue()].sample);
  }
  if (!HasProcess(slot)) return;
  role.cpu_s += Seconds(sample.process().cpu_us());
  role.rss_bytes += static_cast<double>(sample.process().rss_bytes());
  role.oldest_sample_s = std::max(role.oldest_sample_s, SampleAge(view, node));
  if (sample.has_step()) {
    const auto step = static_cast<double>(sample.step());
    role.least_step = std::min(role.least_step.value_or(step), step);
    role.greatest_step = std::max(role.greatest_step.value_or(step), step);
  }
}

void MeasureLadder(const ClusterView& view, ClusterNumbers* out) {
  const absl::Time started = TimeFromProto(view.cluster().started());
  std::map<int, std::vector<double>> reached;
  for (const v1::SlotStatus& slot : view.slots()) {
    if (slot.attempt() > 0) continue;
    for (const v1::StateTime& state : slot.reached()) {
      reached[state.state()].push_back(
          absl::ToDoubleSeconds(TimeFromProto(state.time()) - started));
    }
  }
  for (auto& [state, seconds] : reached) {
    const auto middle = seconds.begin() + static_cast<std::ptrdiff_t>(seconds.size() / 2);
    std::nth_element(seconds.begin(), middle, seconds.end());
    const double median = *middle;
    out->ladder[state] = {median, *std::max_element(seconds.begin(), seconds.end())};
  }
}

ClusterNumbers Count(const ClusterView& view) {
  ClusterNumbers numbers;
  numbers.view = &view;
  numbers.id = view.cluster().cluster_id();
  for (size_t i = 0; i < view.slots().size(); ++i) {
    CountNode(view, view.slots()[i], view.nodes()[i], &numbers);
  }
  const std::map<std::string, std::string> roles = RolesOfGpus(view);
  for (const Node& node : view.nodes()) {
    for (const v1::GpuSample& gpu : node.sample().gpus()) {
      const auto role = roles.find(gpu.uuid());
      AddGpu(gpu, &numbers.gpus[role == roles.end() ? "" : role->second]);
    }
  }
  for (const auto& [id, feed] : view.feeds()) {
    if (feed.closed()) continue;
    FeedNumbers& of = numbers.feeds[feed.queue()];
    ++of.open;
    of.pending += feed.pending();
    of.feeding += feed.feeding();
    of.received += feed.received();
    of.done += feed.done();
    of.failed += feed.failed();
  }
  MeasureLadder(view, &numbers);
  return numbers;
}

// A family, and what it says of one cluster.
struct Family {
  MetricFamily head;
  std::function<void(const ClusterNumbers&, MetricsText*)> add;
};

double ToSample(double value) { return value; }
double ToSample(int64_t value) { return static_cast<double>(value); }
double ToSample(uint64_t value) { return static_cast<double>(value); }
std::optional<double> ToSample(std::optional<double> value) { return value; }

// One sample for each of these groups; none where `value` is nullopt.
template <typename Numbers, typename Value>
Family ByLabel(const MetricFamily& head, absl::string_view label,
               std::map<std::string, Numbers> ClusterNumbers::*groups, Value value) {
  return {head, [=](const ClusterNumbers& of, MetricsText* text) {
            for (const auto& [name, numbers] : of.*groups) {
              const std::optional<double> found = ToSample(value(numbers));
              if (found.has_value()) text->Add({{"cluster", of.id}, {label, name}}, *found);
            }
          }};
}

template <typename Value>
Family OfRoles(const MetricFamily& head, Value value) {
  return ByLabel(head, "role", &ClusterNumbers::roles, value);
}

template <typename Value>
Family OfQueues(const MetricFamily& head, Value value) {
  return ByLabel(head, "queue", &ClusterNumbers::queues, value);
}

template <typename Value>
Family OfGpus(const MetricFamily& head, Value value) {
  return ByLabel(head, "role", &ClusterNumbers::gpus, value);
}

// One sample a cluster.
template <typename Value>
Family OfClusters(const MetricFamily& head, Value value) {
  return {head, [value](const ClusterNumbers& of, MetricsText* text) {
            text->Add({{"cluster", of.id}}, static_cast<double>(value(*of.view)));
          }};
}

void AddPhase(const ClusterNumbers& of, MetricsText* text) {
  for (int phase = v1::ClusterInfo::PHASE_RESERVING; phase <= v1::ClusterInfo::PHASE_FAILED;
       ++phase) {
    text->Add(
        {{"cluster", of.id}, {"phase", PhaseText(static_cast<v1::ClusterInfo::Phase>(phase))}},
        of.view->cluster().phase() == phase ? 1 : 0);
  }
}

void AddSlots(const ClusterNumbers& of, MetricsText* text) {
  const auto& by_state = of.view->cluster().by_state();
  for (int state = 1; state < by_state.size(); ++state) {
    text->Add({{"cluster", of.id}, {"state", SlotStateText(static_cast<v1::SlotState>(state))}},
              by_state[state]);
  }
}

void AddLadder(const ClusterNumbers& of, MetricsText* text) {
  for (const auto& [state, ladder] : of.ladder) {
    const absl::string_view name = SlotStateText(static_cast<v1::SlotState>(state));
    text->Add({{"cluster", of.id}, {"state", name}, {"node", "median"}}, ladder.median);
    text->Add({{"cluster", of.id}, {"state", name}, {"node", "last"}}, ladder.last);
  }
}

// Where the time of feeders and of nodes went.
void AddStages(const ClusterNumbers& of, MetricsText* text) {
  for (const auto& [queue, numbers] : of.queues) {
    const v1::FeederStages& feeder = numbers.ledger.stages();
    const v1::QueueSample& node = numbers.sample;
    const std::array<std::pair<absl::string_view, uint64_t>, 8> stages = {{
        {"feeder_source", feeder.source_us()},
        {"feeder_encode", feeder.encode_us()},
        {"feeder_credit", feeder.credit_us()},
        {"feeder_wire", feeder.wire_us()},
        {"node_decode", node.decode_us()},
        {"node_full", node.full_us()},
        {"program_wait", node.wait_us()},
        {"program_compute", node.compute_us()},
    }};
    for (const auto& [stage, us] : stages) {
      text->Add({{"cluster", of.id}, {"queue", queue}, {"stage", stage}}, Seconds(us));
    }
  }
}

void AddPartitions(const ClusterNumbers& of, MetricsText* text) {
  for (const auto& [queue, feed] : of.feeds) {
    const std::array<std::pair<absl::string_view, int64_t>, 5> states = {
        {{"pending", feed.pending},
         {"feeding", feed.feeding},
         {"received", feed.received},
         {"done", feed.done},
         {"failed", feed.failed}}};
    for (const auto& [state, count] : states) {
      text->Add({{"cluster", of.id}, {"queue", queue}, {"state", state}},
                static_cast<double>(count));
    }
  }
}

std::vector<Family> ClusterFamilies() {
  return {
      {{"millrace_cluster", MetricType::kInfo, "What runs."},
       [](const ClusterNumbers& of, MetricsText* text) {
         const v1::ClusterInfo& cluster = of.view->cluster();
         text->Add({{"cluster", of.id},
                    {"program", cluster.program()},
                    {"driver_host", cluster.driver_host()},
                    {"version", cluster.version()},
                    {"name", cluster.name()}},
                   1);
       }},
      {{"millrace_cluster_phase", MetricType::kGauge, "1 for the phase that the cluster is in."},
       AddPhase},
      OfClusters(
          {"millrace_cluster_started_timestamp_seconds", MetricType::kGauge,
           "When the cluster was started.", "seconds"},
          [](const ClusterView& of) { return UnixSeconds(TimeFromProto(of.cluster().started())); }),
      OfClusters({"millrace_cluster_heard_timestamp_seconds", MetricType::kGauge,
                  "When its coordinator last said what it knows, by its own clock.", "seconds"},
                 [](const ClusterView& of) { return UnixSeconds(of.time()); }),
      {{"millrace_slots", MetricType::kGauge, "Places for nodes, by state."}, AddSlots},
      {{"millrace_start_seconds", MetricType::kGauge,
        "From the cluster's start until its median and its last node reached a state.", "seconds"},
       AddLadder},
      OfClusters({"millrace_quarantined_hosts", MetricType::kGauge,
                  "Hosts on which nothing is started again for now."},
                 [](const ClusterView& of) { return of.cluster().quarantined_size(); }),
      OfClusters({"millrace_fenced_updates", MetricType::kCounter,
                  "Messages of earlier attempts, which were ignored."},
                 [](const ClusterView& of) { return of.cluster().fenced_updates(); }),
      OfRoles({"millrace_node_restarts", MetricType::kCounter,
               "How often nodes of a role were started again."},
              [](const RoleNumbers& of) { return of.restarts; }),
      OfRoles({"millrace_node_cpu_seconds", MetricType::kGauge,
               "Processor time of the programs that run, since each began.", "seconds"},
              [](const RoleNumbers& of) { return of.cpu_s; }),
      OfRoles({"millrace_node_resident_memory_bytes", MetricType::kGauge,
               "Memory of the programs that run.", "bytes"},
              [](const RoleNumbers& of) { return of.rss_bytes; }),
      OfRoles({"millrace_node_oldest_sample_seconds", MetricType::kGauge,
               "How long ago the node that has been silent longest was heard.", "seconds"},
              [](const RoleNumbers& of) { return of.oldest_sample_s; }),
      OfRoles({"millrace_node_least_step", MetricType::kGauge,
               "The step of the program that is furthest behind."},
              [](const RoleNumbers& of) { return of.least_step; }),
      OfRoles({"millrace_node_greatest_step", MetricType::kGauge,
               "The step of the program that is furthest."},
              [](const RoleNumbers& of) { return of.greatest_step; }),
      ByLabel({"millrace_feeds_open", MetricType::kGauge, "Train and inference calls under way."},
              "queue", &ClusterNumbers::feeds, [](const FeedNumbers& of) { return of.open; }),
      {{"millrace_feed_partitions", MetricType::kGauge, "Partitions of these calls, by state."},
       AddPartitions},
      OfQueues({"millrace_feed_rows_received", MetricType::kCounter, "Rows that nodes received."},
               [](const QueueNumbers& of) { return of.ledger.rows_received(); }),
      OfQueues(
          {"millrace_feed_rows_acked", MetricType::kCounter, "Rows that their programs have used."},
          [](const QueueNumbers& of) { return of.ledger.rows_acked(); }),
      OfQueues({"millrace_feed_rows_returned", MetricType::kCounter, "Rows of results."},
               [](const QueueNumbers& of) { return of.ledger.rows_returned(); }),
      OfQueues({"millrace_feed_rows_refed", MetricType::kCounter,
                "Rows that a node may have used, and that were sent again."},
               [](const QueueNumbers& of) { return of.ledger.rows_refed(); }),
      OfQueues({"millrace_feed_received_bytes", MetricType::kGauge,
                "What the programs that run have received.", "bytes"},
               [](const QueueNumbers& of) { return of.sample.bytes_received(); }),
      OfQueues({"millrace_feed_queued_rows", MetricType::kGauge,
                "Rows that wait in nodes for their programs."},
               [](const QueueNumbers& of) { return of.sample.queued_rows(); }),
      OfQueues({"millrace_feed_queued_bytes", MetricType::kGauge,
                "What waits in nodes for their programs.", "bytes"},
               [](const QueueNumbers& of) { return of.sample.queued_bytes(); }),
      {{"millrace_feed_stage_seconds", MetricType::kGauge,
        "Where the time of feeders, nodes and the programs that run went.", "seconds"},
       AddStages},
      OfGpus(
          {"millrace_gpus", MetricType::kGauge, "GPUs of the nodes' hosts, by who claimed them."},
          [](const GpuNumbers& of) { return of.gpus; }),
      OfGpus({"millrace_gpus_broken", MetricType::kGauge, "Those that cannot be asked."},
             [](const GpuNumbers& of) { return of.broken; }),
      OfGpus({"millrace_gpu_utilization_ratio", MetricType::kGauge, "Of their mean.", "ratio"},
             [](const GpuNumbers& of) -> std::optional<double> {
               if (of.measured == 0) return std::nullopt;
               return of.utilization / static_cast<double>(of.measured);
             }),
      OfGpus({"millrace_gpu_memory_used_bytes", MetricType::kGauge, "Of all.", "bytes"},
             [](const GpuNumbers& of) { return of.memory_used; }),
      OfGpus({"millrace_gpu_memory_bytes", MetricType::kGauge, "Of all.", "bytes"},
             [](const GpuNumbers& of) { return of.memory_total; }),
      OfGpus({"millrace_gpu_power_watts", MetricType::kGauge, "Of all.", "watts"},
             [](const GpuNumbers& of) { return of.power_watts; }),
  };
}

// ---- each node ----------------------------------------------------------------------------------

Family OfNodes(const MetricFamily& head,
               std::optional<double> (*value)(const v1::SlotStatus&, const Node&)) {
  return {head, [value](const ClusterNumbers& of, MetricsText* text) {
            for (size_t i = 0; i < of.view->slots().size(); ++i) {
              const v1::SlotStatus& slot = of.view->slots()[i];
              const std::optional<double> found = value(slot, of.view->nodes()[i]);
              if (found.has_value()) {
                text->Add({{"cluster", of.id}, {"node", NodeName(slot)}}, *found);
              }
            }
          }};
}

std::optional<double> SumOfQueues(const Node& node, uint64_t (*value)(const v1::QueueSample&)) {
  if (node.sample().queues().empty()) return std::nullopt;
  uint64_t sum = 0;
  for (const v1::QueueSample& queue : node.sample().queues()) sum += value(queue);
  return static_cast<double>(sum);
}

void AddGpusOfHosts(const ClusterNumbers& of, MetricsText* text) {
  for (size_t i = 0; i < of.view->slots().size(); ++i) {
    for (const v1::GpuSample& gpu : of.view->nodes()[i].sample().gpus()) {
      if (!gpu.has_utilization_percent()) continue;
      text->Add({{"cluster", of.id},
                 {"host", of.view->slots()[i].host()},
                 {"gpu", absl::StrCat(gpu.index())},
                 {"uuid", gpu.uuid()}},
                gpu.utilization_percent() / 100.0);
    }
  }
}

std::vector<Family> NodeFamilies() {
  return {
      {{"millrace_each_node_state", MetricType::kGauge, "1 for the state that the node is in."},
       [](const ClusterNumbers& of, MetricsText* text) {
         for (const v1::SlotStatus& slot : of.view->slots()) {
           text->Add({{"cluster", of.id},
                      {"node", NodeName(slot)},
                      {"host", slot.host()},
                      {"state", SlotStateText(slot.state())}},
                     1);
         }
       }},
      OfNodes(
          {"millrace_each_node_restarts", MetricType::kCounter, "How often it was started again."},
          [](const v1::SlotStatus& slot, const Node&) -> std::optional<double> {
            return slot.attempt();
          }),
      OfNodes({"millrace_each_node_cpu_seconds", MetricType::kGauge,
               "Processor time since its program began.", "seconds"},
              [](const v1::SlotStatus&, const Node& node) -> std::optional<double> {
                if (!node.sample().process().has_cpu_us()) return std::nullopt;
                return Seconds(node.sample().process().cpu_us());
              }),
      OfNodes({"millrace_each_node_resident_memory_bytes", MetricType::kGauge,
               "Memory of its program.", "bytes"},
              [](const v1::SlotStatus&, const Node& node) -> std::optional<double> {
                if (!node.sample().process().has_rss_bytes()) return std::nullopt;
                return static_cast<double>(node.sample().process().rss_bytes());
              }),
      OfNodes({"millrace_each_node_step", MetricType::kGauge, "The step that it has reported."},
              [](const v1::SlotStatus&, const Node& node) -> std::optional<double> {
                if (!node.sample().has_step()) return std::nullopt;
                return static_cast<double>(node.sample().step());
              }),
      OfNodes({"millrace_each_node_rows_received", MetricType::kGauge,
               "Rows that its program has received since it began."},
              [](const v1::SlotStatus&, const Node& node) {
                return SumOfQueues(
                    node, [](const v1::QueueSample& queue) { return queue.rows_received(); });
              }),
      OfNodes({"millrace_each_node_queued_bytes", MetricType::kGauge, "What waits for its program.",
               "bytes"},
              [](const v1::SlotStatus&, const Node& node) {
                return SumOfQueues(
                    node, [](const v1::QueueSample& queue) { return queue.queued_bytes(); });
              }),
      {{"millrace_each_gpu_utilization_ratio", MetricType::kGauge, "Of one GPU.", "ratio"},
       AddGpusOfHosts},
  };
}

}  // namespace

std::string ClusterMetrics(const std::vector<const ClusterView*>& clusters,
                           const std::vector<EndedCluster>& ended,
                           const ClusterMetricsOptions& options) {
  std::vector<ClusterNumbers> numbers;
  for (const ClusterView* view : clusters) {
    if (view->seq() > 0) numbers.push_back(Count(*view));
  }
  MetricsText text(options.format);
  std::vector<Family> families = ClusterFamilies();
  if (options.nodes) {
    for (Family& family : NodeFamilies()) families.push_back(std::move(family));
  }
  for (const Family& family : families) {
    text.Begin(family.head);
    for (const ClusterNumbers& of : numbers) family.add(of, &text);
  }
  text.Begin({"millrace_cluster_ended_timestamp_seconds", MetricType::kGauge,
              "When the last clusters ended.", "seconds"});
  for (const EndedCluster& cluster : ended) {
    text.Add({{"cluster", cluster.cluster_id},
              {"program", cluster.program},
              {"outcome", cluster.outcome}},
             UnixSeconds(cluster.ended));
  }
  return std::move(text).Finish();
}

}  // namespace millrace::cli
