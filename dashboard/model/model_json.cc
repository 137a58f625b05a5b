#include "dashboard/model/model_json.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "absl/strings/string_view.h"
#include "core/client/cluster_view.h"
#include "core/cluster_spec/cluster_spec_json.h"
#include "core/proto/fields_json.h"

namespace millrace::dashboard {
namespace {

std::string Rfc3339(absl::Time time) {
  return absl::FormatTime("%Y-%m-%dT%H:%M:%E*SZ", time, absl::UTCTimeZone());
}

// Members that are left out where the value is not known.
void Set(OrderedJson* object, const char* key, float value) {
  if (std::isfinite(value)) (*object)[key] = value;
}
void Set(OrderedJson* object, const char* key, absl::Time time) {
  if (time != absl::InfinitePast() && time != absl::InfiniteFuture()) {
    (*object)[key] = Rfc3339(time);
  }
}
void Set(OrderedJson* object, const char* key, const std::string& text) {
  if (!text.empty()) (*object)[key] = text;
}

absl::string_view LinkName(LinkState::Kind kind) {
  switch (kind) {
    case LinkState::Kind::kConnecting:
      return "connecting";
    case LinkState::Kind::kLive:
      return "live";
    case LinkState::Kind::kStale:
      return "stale";
    case LinkState::Kind::kEnded:
      return "ended";
    case LinkState::Kind::kLost:
      return "lost";
    case LinkState::Kind::kRefused:
      return "refused";
  }
  return "unknown";
}

OrderedJson LinkToJson(const LinkHealth& health) {
  OrderedJson json = {{"state", LinkName(health.link.kind)}};
  Set(&json, "reason", health.link.reason);
  if (health.data_age != absl::InfiniteDuration()) {
    json["data_age_seconds"] = absl::ToDoubleSeconds(health.data_age);
  }
  json["stale"] = health.stale;
  json["reconnects"] = health.link.reconnects;
  json["updates"] = health.updates;
  json["bytes"] = health.bytes;
  json["dropped_metrics"] = health.dropped_metrics;
  json["dropped_events"] = health.dropped_events;
  json["dropped_log_lines"] = health.dropped_log_lines;
  json["dropped_updates"] = health.dropped_updates;
  json["refused_updates"] = health.refused_updates;
  Set(&json, "last_refusal", health.last_refusal);
  return json;
}

OrderedJson ClusterToJson(const DashboardModel& model) {
  const ClusterFacts& cluster = model.cluster();
  OrderedJson json = {
      {"id", cluster.cluster_id}, {"phase", PhaseText(cluster.phase)}, {"epoch", cluster.epoch}};
  Set(&json, "started", cluster.started);
  Set(&json, "all_ran", model.all_ran());
  json["input_mode"] = cluster.input_mode == v1::INPUT_MODE_FEED     ? "FEED"
                       : cluster.input_mode == v1::INPUT_MODE_DIRECT ? "DIRECT"
                                                                     : "unknown";
  json["slots"] = cluster.num_slots;
  OrderedJson by_state = OrderedJson::object();
  for (int state = 1; state < kSlotStates; ++state) {
    if (cluster.by_state[state] > 0) {
      by_state[std::string(SlotStateText(static_cast<v1::SlotState>(state)))] =
          cluster.by_state[state];
    }
  }
  json["slots_by_state"] = std::move(by_state);
  Set(&json, "first_cause", cluster.first_cause);
  if (cluster.first_cause_executor >= 0) {
    json["first_cause_node"] = model.NodeName(cluster.first_cause_executor);
    json["folded_failures"] = cluster.folded_failures;
  }
  Set(&json, "name", cluster.name);
  Set(&json, "program", cluster.program);
  Set(&json, "command", cluster.command);
  Set(&json, "driver_host", cluster.driver_host);
  json["driver_pid"] = cluster.driver_pid;
  Set(&json, "version", cluster.version);
  json["queues"] = cluster.queues;
  for (int i = 0; i < kClusterMetrics; ++i) {
    constexpr const char* kKeys[kClusterMetrics] = {"running",          "rows_per_second",
                                                    "bytes_per_second", "gpu_utilization_percent",
                                                    "starved_fraction", "backpressured_fraction"};
    Set(&json, kKeys[i], model.cluster_value(static_cast<ClusterMetric>(i)));
  }
  return json;
}

OrderedJson SentenceToJson(const VerdictSentence& sentence) {
  OrderedJson json = {{"mood", MoodName(sentence.mood)}, {"text", sentence.text}};
  Set(&json, "evidence", sentence.evidence);
  json["panel"] = PanelName(sentence.jump.panel);
  if (sentence.jump.selection.node >= 0) json["executor_id"] = sentence.jump.selection.node;
  return json;
}

OrderedJson QueueToJson(const QueueState& queue) {
  OrderedJson json = FieldsToJson(queue.sample);
  Set(&json, "rows_per_second", queue.rows_per_second);
  Set(&json, "bytes_per_second", queue.bytes_per_second);
  Set(&json, "returned_per_second", queue.returned_per_second);
  Set(&json, "starved_fraction", queue.starved);
  Set(&json, "compute_fraction", queue.compute);
  Set(&json, "decode_fraction", queue.decode);
  Set(&json, "backpressured_fraction", queue.backpressured);
  Set(&json, "placed_fraction", queue.placed());
  return json;
}

OrderedJson NodeToJson(const DashboardModel& model, const NodeState& node) {
  OrderedJson json = {{"executor_id", node.executor_id},
                      {"name", node.name},
                      {"state", SlotStateText(node.state)},
                      {"attempt", node.attempt}};
  Set(&json, "since", node.since());
  Set(&json, "host", node.host);
  Set(&json, "address", node.address);
  if (node.pid > 0) json["pid"] = node.pid;
  Set(&json, "error", node.error);
  if (node.stopped) json["stopped"] = true;
  json["attached"] = node.attached;
  json["restarts"] = node.restarts;
  Set(&json, "restart_at", node.restart_at);
  OrderedJson reached = OrderedJson::object();
  for (int state = 1; state < kSlotStates; ++state) {
    const std::string name(SlotStateText(static_cast<v1::SlotState>(state)));
    Set(&reached, name.c_str(), node.reached[state]);
  }
  json["reached"] = std::move(reached);
  Set(&json, "sampled", node.sampled);
  Set(&json, "cpu_percent", node.cpu_percent);
  Set(&json, "rss_bytes", node.rss_bytes);
  Set(&json, "threads", node.threads);
  Set(&json, "open_files", node.open_files);
  if (node.step >= 0) json["step"] = node.step;
  Set(&json, "last_metric", node.last_metric);
  Set(&json, "last_metric_value", node.last_metric_value);
  Set(&json, "why_not_shared", node.why_not_shared);
  if (!node.endpoints.empty()) json["endpoints"] = node.endpoints;
  OrderedJson queues = OrderedJson::array();
  for (const QueueState& queue : node.queues) queues.push_back(QueueToJson(queue));
  json["queues"] = std::move(queues);
  OrderedJson gpus = OrderedJson::array();
  for (const int gpu : node.gpus) gpus.push_back(model.gpus()[gpu].uuid);
  json["claimed_gpus"] = std::move(gpus);
  return json;
}

OrderedJson GpuToJson(const DashboardModel& model, const GpuState& gpu) {
  OrderedJson json = {
      {"host", model.hosts()[gpu.host].name}, {"index", gpu.index}, {"uuid", gpu.uuid}};
  Set(&json, "parent_uuid", gpu.parent_uuid);
  Set(&json, "name", gpu.name);
  Set(&json, "source", gpu.source);
  Set(&json, "error", gpu.error);
  Set(&json, "time", gpu.time);
  if (gpu.owner >= 0) json["owner"] = model.NodeName(gpu.owner);
  Set(&json, "utilization_percent", gpu.value(GpuMetric::kUtilization));
  Set(&json, "memory_used_bytes", gpu.memory_used_bytes);
  Set(&json, "memory_total_bytes", gpu.memory_total_bytes);
  Set(&json, "power_watts", gpu.value(GpuMetric::kPower));
  Set(&json, "temperature_celsius", gpu.value(GpuMetric::kTemperature));
  Set(&json, "sm_clock_mhz", gpu.value(GpuMetric::kClock));
  Set(&json, "max_sm_clock_mhz", gpu.max_clock_mhz);
  Set(&json, "memory_bandwidth_percent", gpu.value(GpuMetric::kMemoryBandwidth));
  Set(&json, "sm_active_percent", gpu.sm_active_percent);
  Set(&json, "tensor_active_percent", gpu.tensor_active_percent);
  if (gpu.throttle_known) json["throttle_reasons"] = gpu.throttle_reasons;
  return json;
}

OrderedJson FeedToJson(const FeedState& feed) {
  OrderedJson json = FieldsToJson(feed.info);
  Set(&json, "opened", feed.opened);
  Set(&json, "progress_fraction", feed.progress);
  Set(&json, "rows_per_second", feed.rows_per_second);
  if (feed.eta != absl::InfiniteDuration() && !feed.info.closed()) {
    json["eta_seconds"] = absl::ToDoubleSeconds(feed.eta);
  }
  return json;
}

OrderedJson EventToJson(const DashboardModel& model, const TimelineEvent& event) {
  constexpr const char* kSeverities[] = {"info", "info", "warning", "error"};
  OrderedJson json = {{"number", event.number}, {"kind", event.kind}};
  Set(&json, "time", event.time);
  json["severity"] = kSeverities[std::clamp<int>(event.severity, 0, 3)];
  if (event.executor_id >= 0) {
    json["node"] = model.NodeName(event.executor_id);
    json["attempt"] = event.attempt;
  }
  json["text"] = event.text;
  if (event.first_cause) json["first_cause"] = true;
  if (event.folded) json["folded"] = true;
  return json;
}

OrderedJson MetricsToJson(const DashboardModel& model) {
  OrderedJson json = OrderedJson::array();
  for (const std::string& name : model.metrics().names()) {
    for (const MetricSeries* series : model.metrics().SeriesOf(name)) {
      const MetricSample& last = series->samples().back();
      OrderedJson entry = {{"name", name},
                           {"node", model.NodeName(series->executor_id())},
                           {"points", series->count()},
                           {"last_step", last.step}};
      Set(&entry, "last_value", last.value);
      json.push_back(std::move(entry));
    }
  }
  return json;
}

OrderedJson LogsToJson(const DashboardModel& model, int lines) {
  const LogRing& logs = model.logs();
  OrderedJson last = OrderedJson::array();
  const uint64_t count = std::min<uint64_t>(logs.size(), static_cast<uint64_t>(std::max(lines, 0)));
  for (uint64_t number = logs.end() - count; number < logs.end(); ++number) {
    const LogLine line = logs.line(number);
    OrderedJson entry = {{"node", model.NodeName(line.executor_id)},
                         {"level", LogLevelLetter(line.level)},
                         {"text", line.text}};
    Set(&entry, "time", line.time);
    last.push_back(std::move(entry));
  }
  return {{"lines", logs.size()}, {"dropped", logs.dropped()}, {"last", std::move(last)}};
}

}  // namespace

OrderedJson ModelToJson(const DashboardModel& model, const ModelJsonOptions& options) {
  OrderedJson json = {{"format", kModelJsonFormat}};
  if (model.has_data()) Set(&json, "time", model.now());
  json["link"] = LinkToJson(model.health());
  const Verdict& verdict = model.verdict();
  json["verdict"] = {{"start", SentenceToJson(verdict.start)},
                     {"gpus", SentenceToJson(verdict.gpus)},
                     {"failure", SentenceToJson(verdict.failure)}};
  json["cluster"] = ClusterToJson(model);
  OrderedJson warnings = OrderedJson::array();
  for (const Warning* warning : model.warnings()) {
    OrderedJson entry = {
        {"id", warning->id}, {"mood", MoodName(warning->mood)}, {"text", warning->text}};
    Set(&entry, "since", warning->since);
    warnings.push_back(std::move(entry));
  }
  json["warnings"] = std::move(warnings);
  OrderedJson nodes = OrderedJson::array();
  for (const NodeState& node : model.nodes()) nodes.push_back(NodeToJson(model, node));
  json["nodes"] = std::move(nodes);
  OrderedJson hosts = OrderedJson::array();
  for (const HostState& host : model.hosts()) {
    OrderedJson entry = {
        {"name", host.name}, {"executor_ids", host.nodes}, {"gpus", host.gpus.size()}};
    Set(&entry, "gpus_unknown", host.gpus_unknown);
    hosts.push_back(std::move(entry));
  }
  json["hosts"] = std::move(hosts);
  OrderedJson gpus = OrderedJson::array();
  for (const GpuState& gpu : model.gpus()) gpus.push_back(GpuToJson(model, gpu));
  json["gpus"] = std::move(gpus);
  OrderedJson feeds = OrderedJson::array();
  for (const auto& [id, feed] : model.feeds()) feeds.push_back(FeedToJson(feed));
  json["feeds"] = std::move(feeds);
  OrderedJson events = OrderedJson::array();
  const auto& all = model.timeline().events();
  const size_t shown = std::min(all.size(), static_cast<size_t>(std::max(options.events, 0)));
  for (size_t i = all.size() - shown; i < all.size(); ++i) {
    events.push_back(EventToJson(model, all[i]));
  }
  json["events"] = std::move(events);
  json["metrics"] = MetricsToJson(model);
  json["membership"] = {{"epoch", model.membership().epoch()},
                        {"cluster_spec", ClusterSpecToJson(model.membership().spec())}};
  json["logs"] = LogsToJson(model, options.log_lines);
  return json;
}

}  // namespace millrace::dashboard
