#include "core/cli/view/view_text.h"

#include <cstdint>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "core/base/text.h"
#include "core/cli/output/duration_text.h"
#include "core/cli/output/text_table.h"
#include "core/proto/time_proto.h"

namespace millrace::cli {
namespace {

Style StyleOfState(v1::SlotState state) {
  switch (state) {
    case v1::SLOT_STATE_RUNNING:
      return Style::kGreen;
    case v1::SLOT_STATE_FINISHED:
      return Style::kDim;
    case v1::SLOT_STATE_FAILED:
    case v1::SLOT_STATE_LOST:
      return Style::kRed;
    default:
      return Style::kYellow;
  }
}

Style StyleOfPhase(v1::ClusterInfo::Phase phase) {
  switch (phase) {
    case v1::ClusterInfo::PHASE_RUNNING:
      return Style::kGreen;
    case v1::ClusterInfo::PHASE_FAILED:
      return Style::kRed;
    case v1::ClusterInfo::PHASE_ENDED:
      return Style::kDim;
    default:
      return Style::kYellow;
  }
}

// How long the slot has been in its state; empty if that is not known.
std::string InState(const v1::SlotStatus& slot, absl::Time now) {
  for (const v1::StateTime& step : slot.reached()) {
    if (step.state() == slot.state()) return DurationText(now - TimeFromProto(step.time()));
  }
  return "";
}

std::string Restarts(const v1::WatchUpdate::Node* node, const v1::SlotStatus& slot) {
  if (node != nullptr && node->max_restarts() > 0) {
    return absl::StrCat(node->restarts(), " of ", node->max_restarts());
  }
  return slot.attempt() > 0 ? absl::StrCat(slot.attempt()) : "";
}

const v1::WatchUpdate::Node* NodeOf(const ClusterView& view, const v1::SlotStatus& slot) {
  const size_t id = static_cast<size_t>(slot.executor_id());
  return id < view.nodes().size() ? &view.nodes()[id] : nullptr;
}

std::string StepText(const v1::WatchUpdate::Node* node) {
  return node != nullptr && node->sample().has_step() ? absl::StrCat(node->sample().step()) : "";
}

std::string Heading(const ClusterView& view, const Styler& style) {
  const v1::ClusterInfo& cluster = view.cluster();
  std::string text =
      absl::StrCat("cluster ", style(Style::kBold, cluster.cluster_id()),
                   cluster.name().empty() ? "" : " ", EscapeControls(cluster.name()), ": ",
                   style(StyleOfPhase(cluster.phase()), PhaseText(cluster.phase())));
  if (cluster.has_started()) {
    absl::StrAppend(&text, ", started ",
                    DurationText(view.time() - TimeFromProto(cluster.started())), " ago");
  }
  if (cluster.driver_pid() != 0) {
    absl::StrAppend(&text, " by pid ", cluster.driver_pid(), " on ",
                    EscapeControls(cluster.driver_host()));
  }
  absl::StrAppend(&text, "\n");
  if (!cluster.program().empty()) {
    absl::StrAppend(
        &text, "program ",
        EscapeControls(cluster.command().empty() ? cluster.program() : cluster.command()));
    if (!cluster.log_dir().empty()) {
      absl::StrAppend(&text, ", logs in ", EscapeControls(cluster.log_dir()));
    }
    absl::StrAppend(&text, "\n");
  }
  if (cluster.has_first_cause()) {
    absl::StrAppend(&text, style(Style::kRed, "failed: "),
                    EscapeControls(FirstLine(cluster.first_cause().message())), "\n");
  }
  for (const v1::QuarantinedHost& host : cluster.quarantined()) {
    absl::StrAppend(&text, style(Style::kYellow, "quarantined: "), EscapeControls(host.host()),
                    ", for ", DurationText(TimeFromProto(host.until()) - view.time()), " more\n");
  }
  return text;
}

std::string FeedsText(const ClusterView& view, const Styler& style, size_t width) {
  TextTable table({"FEED", "QUEUE", "PARTITIONS", "ROWS", "ACKED", "BACK", "RE-FED", "NOTE"});
  std::string refed;  // why, below the table
  for (const auto& [id, feed] : view.feeds()) {
    std::string note = feed.closed() ? "closed" : "";
    for (const v1::RefedRows& rows : feed.refed()) {
      const bool one =
          rows.executor_id() >= 0 && rows.executor_id() < static_cast<int>(view.slots().size());
      absl::StrAppend(
          &refed, style(Style::kYellow, "re-fed"), " in ", id, ": ", rows.rows(), " rows",
          one ? absl::StrCat(" of ",
                             NodeName(view.slots()[static_cast<size_t>(rows.executor_id())]))
              : "",
          rows.times() > 1 ? absl::StrCat(" (", rows.times(), " times)") : "", ": ",
          EscapeControls(FirstLine(rows.reason())), "\n");
    }
    if (feed.failed() > 0) {
      absl::StrAppend(&note, note.empty() ? "" : ", ", feed.failed(), " failed");
    }
    table.AddRow(
        {{id},
         {feed.queue()},
         {absl::StrCat(feed.done(), " of ", feed.partitions(), " done")},
         {CountText(static_cast<double>(feed.rows_received()))},
         {CountText(static_cast<double>(feed.rows_acked()))},
         {feed.rows_returned() == 0 ? "" : CountText(static_cast<double>(feed.rows_returned()))},
         {feed.partitions_refed() == 0 ? "" : CountText(static_cast<double>(feed.rows_refed())),
          Style::kYellow},
         {note, feed.failed() > 0 ? Style::kRed : Style::kPlain}});
  }
  if (view.feeds().empty()) return "";
  return absl::StrCat("\n", table.ToString(style, width), refed);
}

std::string SecondsText(uint64_t us) {
  return DurationText(absl::Microseconds(static_cast<int64_t>(us)));
}

// The share of the batches of this attempt that came through shared memory.
std::string SharedText(const v1::QueueSample& sample) {
  if (sample.batches_received() == 0) return "";
  return absl::StrCat(100 * sample.batches_placed() / sample.batches_received(), "%");
}

// What was fed to each queue of each node, and where the time of both ends went. Empty if nothing
// was.
std::string LedgerText(const ClusterView& view, const Styler& style, size_t width) {
  TextTable table({"NODE", "QUEUE", "ROWS", "ACKED", "BACK", "RE-FED", "SHARED", "SOURCE", "ENCODE",
                   "CREDIT", "WIRE", "DECODE", "QUEUED", "STARVED", "COMPUTE"});
  bool any = false;
  for (const v1::SlotStatus& slot : view.slots()) {
    const v1::WatchUpdate::Node* node = NodeOf(view, slot);
    if (node == nullptr) continue;
    for (const v1::QueueLedger& queue : node->ledger()) {
      any = true;
      const v1::QueueSample* sample = nullptr;
      for (const v1::QueueSample& one : node->sample().queues()) {
        if (one.queue() == queue.queue()) sample = &one;
      }
      const auto time = [&](uint64_t (v1::QueueSample::*us)() const) {
        return sample == nullptr ? "" : SecondsText((sample->*us)());
      };
      table.AddRow(
          {{NodeName(slot), StyleOfRole(slot.job_name())},
           {queue.queue()},
           {CountText(static_cast<double>(queue.rows_received()))},
           {CountText(static_cast<double>(queue.rows_acked()))},
           {queue.rows_returned() == 0 ? ""
                                       : CountText(static_cast<double>(queue.rows_returned()))},
           {queue.rows_refed() == 0 ? "" : CountText(static_cast<double>(queue.rows_refed())),
            Style::kYellow},
           {sample == nullptr ? "" : SharedText(*sample)},
           {SecondsText(queue.stages().source_us())},
           {SecondsText(queue.stages().encode_us())},
           {SecondsText(queue.stages().credit_us())},
           {SecondsText(queue.stages().wire_us())},
           {time(&v1::QueueSample::decode_us)},
           {time(&v1::QueueSample::queued_us)},
           {time(&v1::QueueSample::wait_us)},
           {time(&v1::QueueSample::compute_us)}});
    }
  }
  return any ? absl::StrCat("\n", table.ToString(style, width)) : "";
}

// Why feeders that would share memory with a node do not, for each node where there is such a one.
std::string NotSharedText(const ClusterView& view, const Styler& style) {
  std::string text;
  for (const v1::SlotStatus& slot : view.slots()) {
    const v1::WatchUpdate::Node* node = NodeOf(view, slot);
    if (node == nullptr || node->sample().why_not_shared().empty()) continue;
    absl::StrAppend(&text, style(Style::kYellow, "not through shared memory"), ": ", NodeName(slot),
                    ", ", EscapeControls(FirstLine(node->sample().why_not_shared())), "\n");
  }
  return text.empty() ? "" : "\n" + text;
}

// "node: error" for each slot that has one.
std::string ErrorsText(const ClusterView& view, const Styler& style) {
  std::string text;
  for (const v1::SlotStatus& slot : view.slots()) {
    if (!slot.has_error()) continue;
    absl::StrAppend(&text, style(Style::kRed, NodeName(slot)), ": ",
                    EscapeControls(FirstLine(slot.error().message())), "\n");
  }
  return text.empty() ? "" : "\n" + text;
}

}  // namespace

std::string StatusText(const ClusterView& view, const Styler& style, size_t width) {
  TextTable table({"NODE", "STATE", "FOR", "HOST", "PID", "RESTARTS", "MEMORY", "STEP"});
  for (const v1::SlotStatus& slot : view.slots()) {
    const v1::WatchUpdate::Node* node = NodeOf(view, slot);
    const bool rss = node != nullptr && node->sample().process().has_rss_bytes();
    table.AddRow({{NodeName(slot), StyleOfRole(slot.job_name())},
                  {std::string(SlotStateText(slot.state())), StyleOfState(slot.state())},
                  {InState(slot, view.time())},
                  {slot.host()},
                  {slot.pid() == 0 ? "" : absl::StrCat(slot.pid())},
                  {Restarts(node, slot)},
                  {rss ? BytesText(node->sample().process().rss_bytes()) : ""},
                  {StepText(node)}});
  }
  return absl::StrCat(Heading(view, style), "\n", table.ToString(style, width),
                      ErrorsText(view, style), FeedsText(view, style, width),
                      NotSharedText(view, style));
}

std::string NodesText(const ClusterView& view, const Styler& style, size_t width) {
  TextTable table({"NODE", "ID", "STATE", "ADDRESS", "PID", "CPU TIME", "MEMORY", "THREADS",
                   "FILES", "GPUS", "STEP", "PUBLISHED"});
  for (const v1::SlotStatus& slot : view.slots()) {
    const v1::WatchUpdate::Node* node = NodeOf(view, slot);
    static const v1::NodeSample kNone;
    const v1::NodeSample& sample = node == nullptr ? kNone : node->sample();
    const v1::ProcessSample& process = sample.process();
    std::string published;
    if (node != nullptr) {
      for (const auto& [name, address] : node->endpoints()) {
        absl::StrAppend(&published, published.empty() ? "" : " ", name, "=", address);
      }
    }
    table.AddRow({{NodeName(slot), StyleOfRole(slot.job_name())},
                  {absl::StrCat(slot.executor_id())},
                  {std::string(SlotStateText(slot.state())), StyleOfState(slot.state())},
                  {slot.address()},
                  {slot.pid() == 0 ? "" : absl::StrCat(slot.pid())},
                  {process.has_cpu_us()
                       ? DurationText(absl::Microseconds(static_cast<int64_t>(process.cpu_us())))
                       : ""},
                  {process.has_rss_bytes() ? BytesText(process.rss_bytes()) : ""},
                  {process.has_threads() ? absl::StrCat(process.threads()) : ""},
                  {process.has_open_files() ? absl::StrCat(process.open_files()) : ""},
                  {sample.gpus().empty() ? "" : absl::StrCat(sample.gpus_size())},
                  {StepText(node)},
                  {published}});
  }
  return absl::StrCat(table.ToString(style, width), LedgerText(view, style, width),
                      NotSharedText(view, style));
}

std::string EventText(const v1::Event& event, const Styler& style) {
  const Style colour = event.severity() == v1::Event::SEVERITY_ERROR     ? Style::kRed
                       : event.severity() == v1::Event::SEVERITY_WARNING ? Style::kYellow
                                                                         : Style::kPlain;
  return absl::StrCat(style(Style::kDim, ClockText(TimeFromProto(event.time()))), " ",
                      absl::StrFormat("%-10s", event.kind()), " ",
                      style(colour, EscapeControls(FirstLine(event.text()))),
                      event.first_cause() ? " (first cause)"
                      : event.folded()    ? " (folded)"
                                          : "",
                      "\n");
}

std::string ClustersText(const ClusterFileList& files, absl::Time now, const Styler& style,
                         size_t width) {
  TextTable table({"CLUSTER", "NAME", "STARTED", "DRIVER", "ADDRESS", "PROGRAM"});
  for (const ClusterFile& file : files.clusters) {
    table.AddRow({{file.cluster_id, Style::kBold},
                  {file.name},
                  {absl::StrCat(DurationText(now - file.started), " ago")},
                  {absl::StrCat("pid ", file.pid, " on ", file.host)},
                  {file.address},
                  {file.command.empty() ? file.program : file.command}});
  }
  return table.ToString(style, width);
}

}  // namespace millrace::cli
