#include "dashboard/views/details_panel.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "core/client/cluster_view.h"
#include "dashboard/model/format.h"
#include "dashboard/model/membership.h"
#include "dashboard/views/widgets.h"
#include "imgui.h"

namespace millrace::dashboard {
namespace {

constexpr size_t kTailLines = 14;
constexpr size_t kShownValue = 2'048;  // bytes of a variable's value: a TF_CONFIG can have 300 KB
// Lines of the ring that are searched for the last ones of a node.
constexpr uint64_t kTailSearch = 200'000;

std::vector<uint64_t> TailOf(const LogRing& logs, int node, size_t lines) {
  std::vector<uint64_t> tail;
  const uint64_t stop = logs.end() - std::min<uint64_t>(logs.size(), kTailSearch);
  for (uint64_t number = logs.end(); number > stop && tail.size() < lines; --number) {
    if (logs.line(number - 1).executor_id == node) tail.push_back(number - 1);
  }
  std::reverse(tail.begin(), tail.end());
  return tail;
}

void Title(const Theme& theme, absl::string_view text) {
  ImGui::PushFont(theme.fonts.strong, 18);
  Text(theme, text, theme.text);
  ImGui::PopFont();
}

ImU32 LevelColor(const Theme& theme, LogLevel level) {
  return level == LogLevel::kError     ? theme.bad
         : level == LogLevel::kWarning ? theme.caution
         : level == LogLevel::kDebug   ? theme.dim
                                       : theme.text;
}

}  // namespace

std::string NodeDiagnosis(const DashboardModel& model, const NodeState& node) {
  std::string text = absl::StrCat(node.name, " (executor ", node.executor_id, ", attempt ",
                                  node.attempt, ") of cluster ", model.cluster().cluster_id, ": ",
                                  SlotStateText(node.state), "\n");
  if (!node.host.empty())
    absl::StrAppend(&text, "host ", node.host, ", address ",
                    node.address.empty() ? "unknown" : node.address, ", pid ", node.pid, "\n");
  for (int state = 1; state < kSlotStates; ++state) {
    const absl::Time reached = node.reached[static_cast<size_t>(state)];
    if (reached == absl::InfinitePast()) continue;
    absl::StrAppend(&text, FormatDateTime(reached, model.options().zone), "  ",
                    SlotStateText(static_cast<v1::SlotState>(state)), "\n");
  }
  if (!node.error.empty()) absl::StrAppend(&text, node.error, "\n");
  if (!model.cluster().first_cause.empty())
    absl::StrAppend(&text, "first cause: ", model.cluster().first_cause, "\n");
  const std::vector<uint64_t> tail = TailOf(model.logs(), node.executor_id, 50);
  if (!tail.empty()) absl::StrAppend(&text, "last lines:\n");
  for (const uint64_t number : tail)
    absl::StrAppend(&text, "  ", model.logs().line(number).text, "\n");
  return text;
}

void DetailsPanel::Line(const ViewContext& context, const char* name, const std::string& value,
                        float ceiling, ImU32 color, bool old) {
  const Theme& theme = context.theme;
  const TimeRange range = Range(context);
  ImGui::TableNextRow();
  ImGui::TableNextColumn();
  Text(theme, name, theme.dim);
  ImGui::TableNextColumn();
  Sparkline(theme, ImVec2(ImGui::GetContentRegionAvail().x, 20 * context.scale), points_,
            range.from, range.to, ceiling, old ? Fade(color, 0.5F) : color);
  ImGui::TableNextColumn();
  MonoRight(theme, value, old ? theme.dim : theme.text);
}

void DetailsPanel::NodeLines(const ViewContext& context, const NodeState& node) {
  const Theme& theme = context.theme;
  const DashboardModel& model = context.model;
  const TimeRange range = Range(context);
  const bool old = model.IsOld(node.sampled) || model.health().stale;
  if (!ImGui::BeginTable("lines", 3, ImGuiTableFlags_SizingFixedFit)) return;
  ImGui::TableSetupColumn("name", ImGuiTableColumnFlags_WidthFixed, 56 * context.scale);
  ImGui::TableSetupColumn("line", ImGuiTableColumnFlags_WidthStretch);
  ImGui::TableSetupColumn("value", ImGuiTableColumnFlags_WidthFixed, 110 * context.scale);
  const auto line = [&](NodeMetric metric, const char* name, const std::string& value,
                        float ceiling, ImU32 color) {
    model.node_history(metric).Query(static_cast<size_t>(node.executor_id), range.from, range.to,
                                     100, &points_);
    Line(context, name, value, ceiling, color, old);
  };
  line(NodeMetric::kCpu, "CPU", FormatPercent(node.cpu_percent), 0, theme.accent);
  line(NodeMetric::kRss, "memory", FormatBytes(node.rss_bytes), 0, theme.accent);
  if (!node.queues.empty()) {
    line(NodeMetric::kRows, "rows", FormatSi(node.rows_per_second, "rows/s"), 0, theme.accent);
    line(NodeMetric::kBytes, "bytes", FormatBytesRate(node.bytes_per_second), 0, theme.accent);
    line(NodeMetric::kStarved, "starved", FormatFraction(node.starved), 1, theme.starved);
    line(NodeMetric::kBackpressured, "full", FormatFraction(node.backpressured), 1, theme.caution);
  }
  ImGui::EndTable();
  if (old && node.sampled != absl::InfinitePast()) {
    SmallText(theme, absl::StrCat("values are ", FormatSpan(model.now() - node.sampled), " old"),
              theme.caution);
  }
}

void DetailsPanel::NodeGpus(const ViewContext& context, const NodeState& node, Commands* commands) {
  if (node.gpus.empty()) return;
  const Theme& theme = context.theme;
  const DashboardModel& model = context.model;
  ImGui::Spacing();
  Heading(theme, "GPUS");
  if (!ImGui::BeginTable("gpus", 4, ImGuiTableFlags_SizingFixedFit)) return;
  const float px = context.scale;
  ImGui::TableSetupColumn("gpu", ImGuiTableColumnFlags_WidthFixed, 24 * px);
  ImGui::TableSetupColumn("bar", ImGuiTableColumnFlags_WidthStretch);
  ImGui::TableSetupColumn("use", ImGuiTableColumnFlags_WidthFixed, 44 * px);
  ImGui::TableSetupColumn("memory", ImGuiTableColumnFlags_WidthFixed, 78 * px);
  for (const int index : node.gpus) {
    const GpuState& gpu = model.gpus()[static_cast<size_t>(index)];
    ImGui::TableNextRow();
    ImGui::TableNextColumn();
    ImGui::PushID(index);
    if (ImGui::Selectable("##gpu", context.selection.gpu == index,
                          ImGuiSelectableFlags_SpanAllColumns)) {
      Selection selection = context.selection;
      selection.gpu = index;
      commands->Select(selection);
    }
    ImGui::PopID();
    ImGui::SameLine(0, 0);
    Mono(theme, absl::StrCat(gpu.index), theme.dim);
    ImGui::TableNextColumn();
    ImGui::SetCursorPosY(ImGui::GetCursorPosY() + 5 * px);
    const float use = gpu.value(GpuMetric::kUtilization);
    MeterBar(theme, ImVec2(ImGui::GetContentRegionAvail().x, 9 * px),
             Known(use) ? use / 100 : kUnknown, gpu.throttled() ? theme.caution : theme.good);
    ImGui::TableNextColumn();
    MonoRight(theme, FormatPercent(use), theme.text);
    ImGui::TableNextColumn();
    MonoRight(theme, FormatBytes(gpu.memory_used_bytes), theme.dim);
  }
  ImGui::EndTable();
}

void DetailsPanel::NodeEnvironment(const ViewContext& context, const NodeState& node,
                                   Commands* commands) {
  const Theme& theme = context.theme;
  const Membership& membership = context.model.membership();
  const bool member = membership.spec().TaskAddress(node.job, node.task).ok();
  if (!member && node.endpoints.empty()) return;
  ImGui::Spacing();
  if (!ImGui::TreeNodeEx("environment and endpoints", ImGuiTreeNodeFlags_SpanAvailWidth)) return;
  if (BeginFacts("environment", 92, context.scale)) {
    for (const auto& [name, address] : node.endpoints) Fact(theme, name.c_str(), address);
    for (const EnvironmentBridge& bridge : bridges_.Get(membership, node.job, node.task)) {
      const absl::string_view value = bridge.value;
      Fact(theme, bridge.name.c_str(),
           value.size() > kShownValue ? absl::StrCat(value.substr(0, kShownValue), "…") : value);
      if (ImGui::IsItemClicked()) commands->Copy(absl::StrCat(bridge.name, "=", bridge.value));
      Tip(value.size() > kShownValue ? "Cut here; click copies all of it" : "Click copies it");
    }
    EndFacts();
  }
  ImGui::TreePop();
}

void DetailsPanel::NodeLogs(const ViewContext& context, const NodeState& node, Commands* commands) {
  const Theme& theme = context.theme;
  const LogRing& logs = context.model.logs();
  if (tail_cluster_ != context.cluster || tail_node_ != node.executor_id ||
      tail_end_ != logs.end()) {
    tail_ = TailOf(logs, node.executor_id, kTailLines);
    tail_cluster_ = context.cluster;
    tail_node_ = node.executor_id;
    tail_end_ = logs.end();
  }
  ImGui::Spacing();
  Heading(theme, "LAST LINES");
  if (tail_.empty()) {
    SmallText(theme, "It has written nothing that was kept.", theme.dim);
    return;
  }
  ImGui::PushFont(theme.fonts.mono, kSmallSize);
  for (const uint64_t number : tail_) {
    if (number < logs.first() || number >= logs.end()) continue;
    const LogLine line = logs.line(number);
    const absl::string_view text = line.text.substr(0, 400);
    ImGui::PushID(static_cast<int>(number - logs.first()));
    const ImVec2 at = ImGui::GetCursorScreenPos();
    if (ImGui::InvisibleButton("line", ImVec2(std::max(1.0F, ImGui::GetContentRegionAvail().x),
                                              ImGui::GetTextLineHeight()))) {
      commands->Go({.panel = Panel::kLogs, .selection = context.selection, .at = line.time});
    }
    if (BeginTip()) {
      Text(theme, FormatDateTime(line.time, context.model.options().zone), theme.dim);
      Text(theme, line.text.substr(0, 2000), LevelColor(theme, line.level));
      EndTip();
    }
    DrawShortened(ImGui::GetWindowDrawList(), at, at.x + ImGui::GetItemRectSize().x, text,
                  LevelColor(theme, line.level));
    ImGui::PopID();
  }
  ImGui::PopFont();
}

void DetailsPanel::Node(const ViewContext& context, const NodeState& node, Commands* commands) {
  const Theme& theme = context.theme;
  const DashboardModel& model = context.model;
  Title(theme, node.name);
  ImGui::SameLine(0, 12 * context.scale);
  ImGui::AlignTextToFramePadding();
  StateBadge(theme, node.state, node.stopped ? "stopped by a signal" : SlotStateText(node.state));
  if (node.since() != absl::InfinitePast()) {
    ImGui::SameLine();
    Mono(theme, FormatSpan(model.now() - node.since()), theme.dim);
  }
  if (!node.error.empty()) WrappedText(node.error, theme.bad);
  if (BeginFacts("facts", 78, context.scale)) {
    Fact(theme, "host", node.host);
    Fact(theme, "address", node.address);
    Fact(theme, "pid", node.pid == 0 ? "" : absl::StrCat(node.pid));
    Fact(theme, "executor",
         absl::StrCat(node.executor_id, ", attempt ", node.attempt,
                      node.max_restarts > 0 ? absl::StrCat(" (", node.restarts, " of ",
                                                           node.max_restarts, " restarts used)")
                                            : ""));
    if (node.restart_at != absl::InfinitePast())
      Fact(theme, "restarts", absl::StrCat("in ", FormatSpan(node.restart_at - model.now())),
           theme.caution);
    if (!node.attached && !node.ended() && node.state > v1::SLOT_STATE_STARTED)
      Fact(theme, "agent", "not connected", theme.caution);
    if (node.step >= 0)
      Fact(theme, "step",
           absl::StrCat(FormatCount(node.step), ", ", FormatAge(node.step_time, model.now())));
    if (!node.last_metric.empty())
      Fact(theme, node.last_metric.c_str(), FormatNumber(node.last_metric_value));
    Fact(theme, "threads",
         Known(node.threads) ? absl::StrCat(FormatNumber(node.threads), ", ",
                                            FormatNumber(node.open_files), " open files")
                             : "");
    for (const QueueState& queue : node.queues) {
      if (!Known(queue.placed())) continue;
      Fact(theme, "shared",
           absl::StrCat(FormatFraction(queue.placed()), " of the batches for ",
                        queue.sample.queue(), " came through shared memory"));
    }
    Fact(theme, "not shared", node.why_not_shared, theme.caution);
    EndFacts();
  }
  if (ImGui::Button(absl::StrCat(icon::kCopy, "  Copy diagnosis").c_str()))
    commands->Copy(NodeDiagnosis(model, node));
  ImGui::SameLine();
  if (ImGui::Button("Logs")) commands->Go({.panel = Panel::kLogs, .selection = context.selection});
  if (context.operator_allowed && !node.ended()) {
    ImGui::SameLine();
    if (ImGui::Button(absl::StrCat(icon::kRestart, "  Restart…").c_str()))
      commands->RestartNode(node.executor_id);
  }
  NodeLines(context, node);
  NodeGpus(context, node, commands);
  NodeEnvironment(context, node, commands);
  NodeLogs(context, node, commands);
}

void DetailsPanel::Gpu(const ViewContext& context, int index, Commands* commands) {
  const Theme& theme = context.theme;
  const DashboardModel& model = context.model;
  const GpuState& gpu = model.gpus()[static_cast<size_t>(index)];
  const TimeRange range = Range(context);
  Title(theme, model.GpuName(index));
  ImGui::SameLine();
  Text(theme, gpu.name, theme.dim);
  if (!gpu.error.empty()) WrappedText(gpu.error, theme.bad);
  if (gpu.owner >= 0) {
    if (ImGui::Button(absl::StrCat("claimed by ", model.NodeName(gpu.owner)).c_str())) {
      commands->Select({.node = gpu.owner, .host = gpu.host});
    }
  } else {
    Text(theme, "claimed by nobody", theme.dim);
  }
  const bool old = model.IsOld(gpu.time);
  if (ImGui::BeginTable("lines", 3, ImGuiTableFlags_SizingFixedFit)) {
    ImGui::TableSetupColumn("name", ImGuiTableColumnFlags_WidthFixed, 92 * context.scale);
    ImGui::TableSetupColumn("line", ImGuiTableColumnFlags_WidthStretch);
    ImGui::TableSetupColumn("value", ImGuiTableColumnFlags_WidthFixed, 78 * context.scale);
    static constexpr ValueUnit kUnits[kGpuMetrics] = {ValueUnit::kPercent,   ValueUnit::kPercent,
                                                      ValueUnit::kWatts,     ValueUnit::kCelsius,
                                                      ValueUnit::kMegahertz, ValueUnit::kPercent};
    for (int i = 0; i < kGpuMetrics; ++i) {
      const auto metric = static_cast<GpuMetric>(i);
      model.gpu_history(metric).Query(static_cast<size_t>(index), range.from, range.to, 100,
                                      &points_);
      Line(context, std::string(GpuMetricName(metric)).c_str(),
           FormatValue(kUnits[i], gpu.value(metric)), kUnits[i] == ValueUnit::kPercent ? 100 : 0,
           theme.accent, old);
    }
    ImGui::EndTable();
  }
  if (BeginFacts("facts", 92, context.scale)) {
    Fact(theme, "memory",
         Known(gpu.memory_total_bytes) ? absl::StrCat(FormatBytes(gpu.memory_used_bytes), " of ",
                                                      FormatBytes(gpu.memory_total_bytes))
                                       : "");
    Fact(theme, "power limit",
         Known(gpu.power_limit_watts) ? absl::StrCat(FormatNumber(gpu.power_limit_watts), " W")
                                      : "");
    Fact(theme, "throttled",
         gpu.throttle_reasons.empty() ? (gpu.throttle_known ? "no" : "")
                                      : absl::StrJoin(gpu.throttle_reasons, ", "),
         gpu.throttled() ? theme.caution : theme.text);
    Fact(theme, "SM active",
         Known(gpu.sm_active_percent) ? FormatPercent(gpu.sm_active_percent) : "");
    Fact(theme, "tensor",
         Known(gpu.tensor_active_percent) ? FormatPercent(gpu.tensor_active_percent) : "");
    Fact(theme, "DRAM",
         Known(gpu.dram_active_percent) ? FormatPercent(gpu.dram_active_percent) : "");
    Fact(theme, "PCIe",
         Known(gpu.pcie_rx_bytes_per_second)
             ? absl::StrCat("in ", FormatBytesRate(gpu.pcie_rx_bytes_per_second), ", out ",
                            FormatBytesRate(gpu.pcie_tx_bytes_per_second))
             : "");
    Fact(theme, "link",
         Known(gpu.pcie_generation) ? absl::StrCat("gen ", FormatNumber(gpu.pcie_generation), " x",
                                                   FormatNumber(gpu.pcie_width))
                                    : "");
    Fact(theme, "ECC",
         Known(gpu.ecc_uncorrected) ? absl::StrCat(FormatNumber(gpu.ecc_corrected), " corrected, ",
                                                   FormatNumber(gpu.ecc_uncorrected), " not")
                                    : "");
    Fact(theme, "XID",
         Known(gpu.xid_count) && gpu.xid_count > 0
             ? absl::StrCat(FormatNumber(gpu.last_xid), " (", FormatNumber(gpu.xid_count),
                            " so far)")
             : "",
         theme.bad);
    Fact(theme, "UUID", gpu.uuid);
    Fact(theme, "part of", gpu.parent_uuid);
    Fact(theme, "bus", gpu.pci_bus_id);
    Fact(theme, "read from", absl::StrCat(gpu.source, ", ", FormatAge(gpu.time, model.now())));
    for (const GpuState::Process& process : gpu.processes) {
      std::string fact = absl::StrCat(process.pid);
      for (const int id : model.hosts()[static_cast<size_t>(gpu.host)].nodes) {
        const NodeState& node = model.nodes()[static_cast<size_t>(id)];
        if (node.pid == process.pid) absl::StrAppend(&fact, "  ", node.name);
      }
      if (Known(process.memory_bytes)) {
        absl::StrAppend(&fact, "  ", FormatBytes(process.memory_bytes));
      }
      Fact(theme, "process", fact);
    }
    EndFacts();
  }
}

void DetailsPanel::Feed(const ViewContext& context, const FeedState& feed, Commands* commands) {
  const Theme& theme = context.theme;
  const v1::FeedInfo& info = feed.info;
  Title(theme, absl::StrCat("feed into ", info.queue()));
  if (BeginFacts("facts", 92, context.scale)) {
    Fact(theme, "id", info.feed_id());
    Fact(theme, "opened", FormatAge(feed.opened, context.model.now()));
    Fact(theme, "partitions",
         absl::StrCat(FormatCount(info.partitions()), ": ", info.pending(), " pending, ",
                      info.feeding(), " being fed, ", info.received(), " received, ", info.done(),
                      " done"));
    Fact(theme, "failed",
         info.failed() == 0
             ? ""
             : absl::StrCat(info.failed(), ": ", absl::StrJoin(info.failed_partitions(), ", ")),
         theme.bad);
    Fact(theme, "fed again",
         info.partitions_refed() == 0
             ? ""
             : absl::StrCat(info.partitions_refed(), " partitions, ",
                            FormatCount(static_cast<int64_t>(info.rows_refed())), " rows"),
         theme.caution);
    for (const v1::RefedRows& rows : info.refed()) {
      const bool one = rows.executor_id() >= 0 &&
                       rows.executor_id() < static_cast<int>(context.model.nodes().size());
      Fact(
          theme, "",
          absl::StrCat(
              FormatCount(static_cast<int64_t>(rows.rows())), " rows",
              one ? absl::StrCat(
                        " of ", context.model.nodes()[static_cast<size_t>(rows.executor_id())].name)
                  : "",
              ": ", rows.reason()),
          theme.caution);
    }
    Fact(theme, "rows",
         absl::StrCat(FormatCount(static_cast<int64_t>(info.rows_received())), " received, ",
                      FormatCount(static_cast<int64_t>(info.rows_acked())), " acknowledged, ",
                      FormatCount(static_cast<int64_t>(info.rows_returned())), " returned"));
    Fact(theme, "pace",
         absl::StrCat(FormatSi(feed.rows_per_second, "rows/s"), " received, ",
                      FormatSi(feed.acked_per_second, "rows/s"), " acknowledged"));
    const v1::FeederStages& stages = info.stages();
    const auto span = [](uint64_t us) {
      return FormatSpan(absl::Microseconds(static_cast<int64_t>(us)));
    };
    Fact(theme, "feeders",
         absl::StrCat(span(stages.source_us()), " source, ", span(stages.encode_us()), " encode, ",
                      span(stages.credit_us()), " no credit, ", span(stages.wire_us()), " wire"));
    Fact(theme, "left", info.closed() ? "ended" : FormatSpan(feed.eta));
    Fact(theme, "promise", info.exactly_once() ? "exactly once" : "at least once");
    EndFacts();
  }
  if (ImGui::Button("Show its lanes"))
    commands->Go({.panel = Panel::kFeed, .selection = context.selection});
}

void DetailsPanel::Event(const ViewContext& context, const TimelineEvent& event,
                         Commands* commands) {
  const Theme& theme = context.theme;
  const DashboardModel& model = context.model;
  const ImU32 color = event.severity == v1::Event::SEVERITY_ERROR     ? theme.bad
                      : event.severity == v1::Event::SEVERITY_WARNING ? theme.caution
                                                                      : theme.text;
  Title(theme, event.first_cause ? "first cause" : absl::StrCat(event.kind, " event"));
  WrappedText(event.text, color);
  if (BeginFacts("facts", 78, context.scale)) {
    Fact(theme, "time",
         absl::StrCat(FormatDateTime(event.time, model.options().zone), "  ",
                      FormatAge(event.time, model.now())));
    Fact(theme, "number", absl::StrCat(event.number));
    Fact(theme, "folded", event.folded ? "it follows from the first cause" : "");
    EndFacts();
  }
  if (ImGui::Button(absl::StrCat(icon::kCopy, "  Copy").c_str())) commands->Copy(event.text);
  ImGui::SameLine();
  if (ImGui::Button("Logs then"))
    commands->Go({.panel = Panel::kLogs, .selection = context.selection, .at = event.time});
}

void DetailsPanel::Cluster(const ViewContext& context) {
  const Theme& theme = context.theme;
  const DashboardModel& model = context.model;
  const ClusterFacts& cluster = model.cluster();
  const LinkHealth& health = model.health();
  Title(theme, "cluster");
  if (!cluster.first_cause.empty()) WrappedText(cluster.first_cause, theme.bad);
  if (BeginFacts("facts", 92, context.scale)) {
    Fact(theme, "name", cluster.name);
    Fact(theme, "id", cluster.cluster_id);
    Fact(theme, "phase", PhaseText(cluster.phase));
    Fact(theme, "started",
         cluster.started == absl::InfinitePast()
             ? ""
             : absl::StrCat(FormatAge(cluster.started, model.now()), ", ",
                            FormatDateTime(cluster.started, model.options().zone)));
    Fact(theme, "program", cluster.shown_program());
    Fact(theme, "driver",
         cluster.driver_host.empty()
             ? ""
             : absl::StrCat(cluster.driver_host, ", pid ", cluster.driver_pid));
    Fact(theme, "version", cluster.version);
    Fact(theme, "input",
         cluster.input_mode == v1::INPUT_MODE_DIRECT ? "direct"
         : cluster.input_mode == v1::INPUT_MODE_FEED
             ? absl::StrCat("fed: ", absl::StrJoin(cluster.queues, ", "))
             : "");
    Fact(theme, "logs in", cluster.log_dir);
    Fact(theme, "epoch", absl::StrCat(cluster.epoch));
    Fact(theme, "fenced",
         cluster.fenced_updates == 0
             ? ""
             : absl::StrCat(FormatCount(static_cast<int64_t>(cluster.fenced_updates)),
                            " reports of replaced attempts"),
         theme.caution);
    Fact(theme, "illegal",
         cluster.illegal_updates == 0
             ? ""
             : absl::StrCat(FormatCount(static_cast<int64_t>(cluster.illegal_updates)),
                            " reports that made no sense"),
         theme.caution);
    for (const ClusterFacts::Quarantine& quarantine : cluster.quarantined) {
      Fact(theme, "quarantine",
           absl::StrCat(quarantine.host, " for ", FormatDuration(quarantine.until - model.now())),
           theme.caution);
    }
    Fact(theme, "received",
         absl::StrCat(FormatCount(static_cast<int64_t>(health.updates)), " updates",
                      Known(health.bytes_per_second)
                          ? absl::StrCat(", ", FormatBytesRate(health.bytes_per_second))
                          : ""));
    Fact(theme, "kept here", FormatBytes(static_cast<double>(model.memory_bytes())));
    EndFacts();
  }
  ImGui::Spacing();
  ImGui::PushFont(theme.fonts.text, kSmallSize);
  WrappedText(
      "Click a node, GPU, feed or event in any panel for its own facts. Ctrl+P finds one by name, "
      "F1 shows the keys.",
      theme.dim);
  ImGui::PopFont();
}

void DetailsPanel::Host(const ViewContext& context, const HostState& host, Commands* commands) {
  const Theme& theme = context.theme;
  const DashboardModel& model = context.model;
  Title(theme, host.name);
  if (!host.gpus_unknown.empty())
    WrappedText(absl::StrCat("GPUs not known: ", host.gpus_unknown), theme.dim);
  for (const ClusterFacts::Quarantine& quarantine : model.cluster().quarantined) {
    if (quarantine.host == host.name)
      WrappedText(absl::StrCat("in quarantine for ", FormatSpan(quarantine.until - model.now()),
                               ": restarts stay off it"),
                  theme.caution);
  }
  for (const int id : host.nodes) {
    const NodeState& node = model.nodes()[static_cast<size_t>(id)];
    ImGui::PushID(id);
    if (ImGui::Selectable("##node")) commands->Select({.node = id, .host = node.host_index});
    ImGui::SameLine(0, 0);
    StateBadge(theme, node.state, absl::StrCat(node.name, "  ", SlotStateText(node.state)));
    ImGui::PopID();
  }
}

void DetailsPanel::Draw(const ViewContext& context, Commands* commands) {
  const DashboardModel& model = context.model;
  const Selection& selection = context.selection;
  if (selection.event >= 0) {
    if (const TimelineEvent* event = model.timeline().Find(static_cast<uint64_t>(selection.event));
        event != nullptr) {
      Event(context, *event, commands);
      ImGui::Separator();
    }
  }
  if (selection.gpu >= 0 && selection.gpu < static_cast<int>(model.gpus().size())) {
    Gpu(context, selection.gpu, commands);
  } else if (selection.node >= 0 && selection.node < static_cast<int>(model.nodes().size())) {
    Node(context, model.nodes()[static_cast<size_t>(selection.node)], commands);
  } else if (const auto feed = model.feeds().find(selection.feed); feed != model.feeds().end()) {
    Feed(context, feed->second, commands);
  } else if (selection.host >= 0 && selection.host < static_cast<int>(model.hosts().size())) {
    Host(context, model.hosts()[static_cast<size_t>(selection.host)], commands);
  } else if (selection.event < 0 && model.has_data()) {
    Cluster(context);
  } else if (selection.event < 0) {
    EmptyState(context.theme, icon::kPlug, "Nothing has come yet",
               "The cluster's facts appear here, and those of whatever is selected.");
  }
}

}  // namespace millrace::dashboard
