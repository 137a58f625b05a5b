#include "core/cli/view/view_json.h"

#include <cstdint>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "core/proto/fields_json.h"
#include "core/proto/time_proto.h"

namespace millrace::cli {
namespace {

OrderedJson ErrorJson(bool present, const v1::Error& error) {
  if (!present) return nullptr;
  return {{"code", absl::StatusCodeToString(static_cast<absl::StatusCode>(error.code()))},
          {"message", error.message()}};
}

OrderedJson TimeMs(bool present, const google::protobuf::Timestamp& time) {
  if (!present) return nullptr;
  return absl::ToUnixMillis(TimeFromProto(time));
}

OrderedJson TextOrNull(const std::string& text) {
  if (text.empty()) return nullptr;
  return text;
}

OrderedJson ClusterJson(const v1::ClusterInfo& cluster) {
  OrderedJson states = OrderedJson::object();
  for (int i = 0; i < cluster.by_state_size(); ++i) {
    if (cluster.by_state(i) == 0) continue;
    states[std::string(SlotStateText(static_cast<v1::SlotState>(i)))] = cluster.by_state(i);
  }
  OrderedJson cause = ErrorJson(cluster.has_first_cause(), cluster.first_cause());
  if (!cause.is_null()) {
    cause["executor_id"] = cluster.first_cause_executor() < 0
                               ? OrderedJson(nullptr)
                               : OrderedJson(cluster.first_cause_executor());
    cause["folded_failures"] = cluster.folded_failures();
  }
  return {{"id", cluster.cluster_id()},
          {"phase", std::string(PhaseText(cluster.phase()))},
          {"epoch", cluster.epoch()},
          {"started_ms", TimeMs(cluster.has_started(), cluster.started())},
          {"input_mode", cluster.input_mode() == v1::INPUT_MODE_FEED ? "FEED" : "DIRECT"},
          {"name", cluster.name()},
          {"program", cluster.program()},
          {"command", cluster.command()},
          {"driver_host", TextOrNull(cluster.driver_host())},
          {"driver_pid",
           cluster.driver_pid() == 0 ? OrderedJson(nullptr) : OrderedJson(cluster.driver_pid())},
          {"log_dir", TextOrNull(cluster.log_dir())},
          {"version", TextOrNull(cluster.version())},
          {"num_nodes", cluster.num_slots()},
          {"by_state", states},
          {"first_cause", cause}};
}

OrderedJson LedgerJson(const v1::QueueLedger& queue) {
  OrderedJson json = FieldsToJson(queue);
  json["feeders"] = FieldsToJson(queue.stages());
  return json;
}

template <typename Value>
OrderedJson Known(bool known, Value value) {
  if (!known) return nullptr;
  return value;
}

OrderedJson GpuJson(const v1::GpuSample& gpu) {
  return {{"index", gpu.index()},
          {"uuid", gpu.uuid()},
          {"name", gpu.name()},
          {"utilization_percent", Known(gpu.has_utilization_percent(), gpu.utilization_percent())},
          {"memory_used_bytes", Known(gpu.has_memory_used_bytes(), gpu.memory_used_bytes())},
          {"memory_total_bytes", Known(gpu.has_memory_total_bytes(), gpu.memory_total_bytes())},
          {"power_watts", Known(gpu.has_power_watts(), gpu.power_watts())},
          {"temperature_celsius", Known(gpu.has_temperature_celsius(), gpu.temperature_celsius())},
          {"error", TextOrNull(gpu.error())}};
}

OrderedJson SampleJson(const v1::WatchUpdate::Node& node) {
  if (!node.has_sample()) return nullptr;
  const v1::NodeSample& sample = node.sample();
  const v1::ProcessSample& process = sample.process();
  OrderedJson queues = OrderedJson::array();
  for (const v1::QueueSample& queue : sample.queues()) queues.push_back(FieldsToJson(queue));
  OrderedJson gpus = OrderedJson::array();
  for (const v1::GpuSample& gpu : sample.gpus()) gpus.push_back(GpuJson(gpu));
  return {{"time_ms", TimeMs(sample.has_time(), sample.time())},
          {"cpu_us", Known(process.has_cpu_us(), process.cpu_us())},
          {"rss_bytes", Known(process.has_rss_bytes(), process.rss_bytes())},
          {"threads", Known(process.has_threads(), process.threads())},
          {"open_files", Known(process.has_open_files(), process.open_files())},
          {"step", Known(sample.has_step(), sample.step())},
          {"step_time_ms", TimeMs(sample.has_step_time(), sample.step_time())},
          {"why_not_shared", TextOrNull(sample.why_not_shared())},
          {"queues", queues},
          {"gpus", gpus}};
}

OrderedJson NodeJson(const v1::SlotStatus& slot, const v1::WatchUpdate::Node* node) {
  OrderedJson reached = OrderedJson::object();
  for (const v1::StateTime& step : slot.reached()) {
    reached[std::string(SlotStateText(step.state()))] =
        absl::ToUnixMillis(TimeFromProto(step.time()));
  }
  OrderedJson json = {{"node", NodeName(slot)},
                      {"executor_id", slot.executor_id()},
                      {"job_name", slot.job_name()},
                      {"task_index", slot.task_index()},
                      {"state", std::string(SlotStateText(slot.state()))},
                      {"attempt", slot.attempt()},
                      {"host", TextOrNull(slot.host())},
                      {"address", TextOrNull(slot.address())},
                      {"pid", slot.pid() == 0 ? OrderedJson(nullptr) : OrderedJson(slot.pid())},
                      {"reached_ms", reached},
                      {"error", ErrorJson(slot.has_error(), slot.error())}};
  OrderedJson endpoints = OrderedJson::object();
  if (node != nullptr) {
    for (const auto& [name, address] : node->endpoints()) endpoints[name] = address;
  }
  json["endpoints"] = endpoints;
  json["restarts"] = node == nullptr ? 0u : node->restarts();
  json["max_restarts"] = node == nullptr ? 0u : node->max_restarts();
  OrderedJson ledger = OrderedJson::array();
  if (node != nullptr) {
    for (const v1::QueueLedger& queue : node->ledger()) ledger.push_back(LedgerJson(queue));
  }
  json["ledger"] = ledger;
  json["sample"] = node == nullptr ? OrderedJson(nullptr) : SampleJson(*node);
  return json;
}

OrderedJson FeedJson(const ClusterView& view, const v1::FeedInfo& feed) {
  OrderedJson refed = OrderedJson::array();
  for (const v1::RefedRows& rows : feed.refed()) {
    const bool one =
        rows.executor_id() >= 0 && rows.executor_id() < static_cast<int>(view.slots().size());
    refed.push_back(
        {{"node", one ? OrderedJson(NodeName(view.slots()[static_cast<size_t>(rows.executor_id())]))
                      : OrderedJson(nullptr)},
         {"reason", rows.reason()},
         {"times", rows.times()},
         {"rows", rows.rows()}});
  }
  OrderedJson json = {{"feed", feed.feed_id()}};
  json.update(FieldsToJson(feed));
  json.erase("feed_id");  // here it is "feed"
  json["refed"] = std::move(refed);
  json["feeders"] = FieldsToJson(feed.stages());
  json["opened_ms"] = TimeMs(feed.has_opened(), feed.opened());
  return json;
}

}  // namespace

OrderedJson NodesJson(const ClusterView& view) {
  OrderedJson nodes = OrderedJson::array();
  for (const v1::SlotStatus& slot : view.slots()) {
    const size_t id = static_cast<size_t>(slot.executor_id());
    nodes.push_back(NodeJson(slot, id < view.nodes().size() ? &view.nodes()[id] : nullptr));
  }
  return {{"time_ms", absl::ToUnixMillis(view.time())}, {"nodes", nodes}};
}

OrderedJson StatusJson(const ClusterView& view) {
  OrderedJson feeds = OrderedJson::array();
  for (const auto& [id, feed] : view.feeds()) feeds.push_back(FeedJson(view, feed));
  return {{"time_ms", absl::ToUnixMillis(view.time())},
          {"cluster", ClusterJson(view.cluster())},
          {"nodes", NodesJson(view)["nodes"]},
          {"feeds", feeds}};
}

OrderedJson EventJson(const v1::Event& event, const std::string& node) {
  return {{"number", event.number()},
          {"time_ms", TimeMs(event.has_time(), event.time())},
          {"kind", event.kind()},
          {"severity", SeverityText(event.severity())},
          {"node", TextOrNull(node)},
          {"executor_id",
           event.executor_id() < 0 ? OrderedJson(nullptr) : OrderedJson(event.executor_id())},
          {"attempt", event.attempt()},
          {"text", event.text()},
          {"first_cause", event.first_cause()},
          {"folded", event.folded()}};
}

OrderedJson LogLineJson(const v1::LogBatch& batch, const std::string& node,
                        const std::string& line) {
  return {{"time_ms", TimeMs(batch.has_time(), batch.time())},
          {"node", TextOrNull(node)},
          {"executor_id", batch.executor_id()},
          {"attempt", batch.attempt()},
          {"source", std::string(LogSourceText(batch.source()))},
          {"line", line}};
}

OrderedJson ClusterFileJson(const ClusterFile& file) {
  return {{"id", file.cluster_id},
          {"address", file.address},
          {"started_ms", absl::ToUnixMillis(file.started)},
          {"name", file.name},
          {"program", file.program},
          {"command", file.command},
          {"host", file.host},
          {"pid", file.pid},
          {"log_dir", TextOrNull(file.log_dir)},
          {"file", file.path}};
}

const char* SeverityText(v1::Event::Severity severity) {
  switch (severity) {
    case v1::Event::SEVERITY_ERROR:
      return "error";
    case v1::Event::SEVERITY_WARNING:
      return "warning";
    default:
      return "info";
  }
}

}  // namespace millrace::cli
