#include "core/cli/view/view_commands.h"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "absl/time/clock.h"
#include "core/base/json.h"
#include "core/base/mutex.h"
#include "core/base/text.h"
#include "core/cli/output/answer.h"
#include "core/cli/output/node_line.h"
#include "core/cli/output/report_error.h"
#include "core/cli/output/screen.h"
#include "core/cli/output/terminal.h"
#include "core/cli/view/view_json.h"
#include "core/cli/view/view_text.h"
#include "core/client/cluster_file.h"
#include "core/client/cluster_view.h"
#include "core/client/raw_cluster_client.h"
#include "millrace/status_macros.h"

namespace millrace::cli {
namespace {

constexpr int kPipeWidth = 1000;    // nothing is cut where nobody counts columns
constexpr size_t kScreenRows = 24;  // of a terminal that does not say how many it has

using Render = std::function<std::string(const ClusterView& view)>;

size_t Width() { return static_cast<size_t>(TerminalWidth(STDOUT_FILENO, kPipeWidth)); }

// Runs a watch until it ends by itself, `update` fails, or nobody reads stdout any more. OK for a
// cluster that has ended.
absl::Status WatchUntilGone(
    RawClusterClient* client, const RawWatchOptions& options,
    const std::function<absl::Status(const v1::WatchUpdate&, const ClusterView&)>& update) {
  Mutex mu;
  CondVar ended;
  std::optional<absl::Status> result;
  const auto end = [&](const absl::Status& status) {
    MutexLock lock(&mu);
    if (!result.has_value()) result = status;
    ended.SignalAll();
  };
  RawWatchCallbacks callbacks;
  bool failed = false;  // the watch's thread's own
  callbacks.on_update = [&](const v1::WatchUpdate& changes, const ClusterView& view) {
    if (failed) return;
    const absl::Status status = update(changes, view);
    failed = !status.ok();
    if (failed) end(status);
  };
  callbacks.on_state = [&](const WatchState& state) {
    // A driver that ended without a word has ended too; the reader's job is done.
    if (state.kind == WatchState::Kind::kGone) end(absl::OkStatus());
    if (state.kind == WatchState::Kind::kRefused) end(state.reason);
  };
  const ReaderWatch reader([&] { end(NobodyReadsError()); });
  MILLRACE_ASSIGN_OR_RETURN(const std::unique_ptr<ClusterWatch> watch,
                            client->Watch(options, std::move(callbacks)));
  {
    MutexLock lock(&mu);
    while (!result.has_value()) ended.Wait(&mu);
  }
  watch->Stop();
  return *result;
}

// `where_all`: where a person finds what does not fit the screen.
absl::Status Look(const ViewOptions& options, const Render& text,
                  const std::function<OrderedJson(const ClusterView&)>& json,
                  absl::string_view where_all) {
  MILLRACE_ASSIGN_OR_RETURN(const std::unique_ptr<RawClusterClient> client,
                            ConnectTo(options.choice, Purpose::kLook));
  const bool screen = IsTerminal(STDOUT_FILENO) && !options.json;
  bool first = true;
  const auto show = [&](const ClusterView& view) {
    if (options.json) return WriteAnswer(absl::StrCat(DumpJson(json(view)), "\n"));
    const std::string out = text(view);
    if (!options.watch) return WriteAnswer(out);
    if (!screen) return WriteAnswer(absl::StrCat(out, "\n"));
    const ScreenSize size = {.columns = Width(),
                             .rows = TerminalHeight(STDOUT_FILENO, kScreenRows)};
    const auto frame = std::exchange(first, false) ? FirstFrame : NextFrame;
    return WriteAnswer(frame(out, size, where_all));
  };
  if (!options.watch) {
    MILLRACE_ASSIGN_OR_RETURN(const ClusterView view,
                              client->Snapshot({.level = v1::WATCH_LEVEL_ALL}));
    return show(view);
  }
  return WatchUntilGone(
      client.get(), {.interval = options.interval},
      [&](const v1::WatchUpdate&, const ClusterView& view) { return show(view); });
}

std::string NameOf(const ClusterView& view, int executor_id) {
  if (executor_id < 0 || executor_id >= static_cast<int>(view.slots().size())) return "";
  return NodeName(view.slots()[static_cast<size_t>(executor_id)]);
}

absl::Status Events(const ViewOptions& options) {
  MILLRACE_ASSIGN_OR_RETURN(const std::unique_ptr<RawClusterClient> client,
                            ConnectTo(options.choice, Purpose::kLook));
  const Styler style = Styler::ForFd(STDOUT_FILENO);
  const auto print = [&](const v1::Event& event, const ClusterView& view) {
    return WriteAnswer(
        options.json
            ? absl::StrCat(DumpJson(EventJson(event, NameOf(view, event.executor_id()))), "\n")
            : EventText(event, style));
  };
  const auto print_last = [&](const ClusterView& view) -> absl::Status {
    const auto& events = view.events();
    const size_t wanted = std::min(events.size(), static_cast<size_t>(options.lines));
    for (auto event = events.end() - static_cast<std::ptrdiff_t>(wanted); event != events.end();
         ++event) {
      MILLRACE_RETURN_IF_ERROR(print(*event, view));
    }
    return absl::OkStatus();
  };
  if (!options.follow) {
    MILLRACE_ASSIGN_OR_RETURN(const ClusterView view,
                              client->Snapshot({.level = v1::WATCH_LEVEL_NODES}));
    return print_last(view);
  }
  bool first = true;
  uint64_t next = 0;  // number of the first event that was not printed
  return WatchUntilGone(
      client.get(), {.level = v1::WATCH_LEVEL_NODES, .interval = absl::Milliseconds(200)},
      [&](const v1::WatchUpdate& update, const ClusterView& view) -> absl::Status {
        if (first) {
          MILLRACE_RETURN_IF_ERROR(print_last(view));
        } else {
          for (const v1::Event& event : update.events()) {
            // A snapshot after a lost connection brings old ones again.
            if (event.number() < next) continue;
            MILLRACE_RETURN_IF_ERROR(print(event, view));
          }
        }
        first = false;
        if (!view.events().empty()) next = view.events().back().number() + 1;
        return absl::OkStatus();
      });
}

absl::StatusOr<std::vector<int>> ExecutorIds(const ClusterView& view,
                                             const std::vector<std::string>& nodes) {
  std::vector<int> ids;
  for (const std::string& node : nodes) {
    const v1::SlotStatus* slot = view.FindSlot(node);
    if (slot == nullptr) {
      std::vector<std::string> names;
      for (const v1::SlotStatus& there : view.slots()) names.push_back(NodeName(there));
      return absl::NotFoundError(absl::StrCat("the cluster has no node ", EscapeControls(node),
                                              ": ", Ellipsize(absl::StrJoin(names, ", "), 300)));
    }
    ids.push_back(slot->executor_id());
  }
  return ids;
}

absl::Status Logs(const ViewOptions& options) {
  MILLRACE_ASSIGN_OR_RETURN(const std::unique_ptr<RawClusterClient> client,
                            ConnectTo(options.choice, Purpose::kLook));
  MILLRACE_ASSIGN_OR_RETURN(const ClusterView view,
                            client->Snapshot({.level = v1::WATCH_LEVEL_NODES}));
  ReadLogsOptions read;
  MILLRACE_ASSIGN_OR_RETURN(read.executor_ids, ExecutorIds(view, options.nodes));
  read.lines = options.lines;
  read.follow = options.follow;
  const Styler style = Styler::ForFd(STDOUT_FILENO);
  const bool harmless = IsTerminal(STDOUT_FILENO) && !options.raw;
  std::atomic<bool> unread = false;
  const ReaderWatch reader([&] {
    unread = true;
    client->Cancel();
  });
  absl::Status written;
  const absl::Status ended = client->ReadLogs(read, [&](const v1::LogBatch& batch) {
    const std::string node = NameOf(view, batch.executor_id());
    const std::string prefix =
        style(StyleOfRole(node),
              absl::StrCat(node, batch.source() == v1::LogLines::SOURCE_AGENT ? "! " : "| "));
    std::string out;
    if (batch.dropped() > 0 && options.json) {
      OrderedJson gap = LogLineJson(batch, node, "");
      gap.erase("line");
      gap["dropped"] = batch.dropped();
      absl::StrAppend(&out, DumpJson(gap), "\n");
    } else if (batch.dropped() > 0) {
      absl::StrAppend(
          &out, style(Style::kDim, absl::StrCat(node, ": ", batch.dropped(), " lines left out")),
          "\n");
    }
    for (const std::string& line : batch.lines()) {
      absl::StrAppend(&out,
                      options.json ? DumpJson(LogLineJson(batch, node, line))
                                   : absl::StrCat(prefix, harmless ? HarmlessLine(line) : line),
                      "\n");
    }
    written = WriteAnswer(out);
    return written.ok();
  });
  if (!written.ok()) return written;
  return unread ? NobodyReadsError() : ended;
}

absl::Status Clusters(const ViewOptions& options) {
  MILLRACE_ASSIGN_OR_RETURN(const ClusterFileList files, ListClusterFiles());
  for (const absl::Status& problem : files.problems) {
    WriteAll(STDERR_FILENO, absl::StrCat("millrace: ", problem.message(), "\n"));
  }
  if (options.json) {
    OrderedJson list = OrderedJson::array();
    for (const ClusterFile& file : files.clusters) list.push_back(ClusterFileJson(file));
    return WriteAnswer(absl::StrCat(DumpJson(OrderedJson{{"clusters", list}}), "\n"));
  }
  if (files.clusters.empty()) {
    WriteAll(STDERR_FILENO, "millrace: no cluster of yours runs on this machine\n");
    return absl::OkStatus();
  }
  return WriteAnswer(ClustersText(files, absl::Now(), Styler::ForFd(STDOUT_FILENO), Width()));
}

}  // namespace

int ShowStatus(const ViewOptions& options) {
  const Styler style = Styler::ForFd(STDOUT_FILENO);
  return ReportError(Look(
      options, [&](const ClusterView& view) { return StatusText(view, style, Width()); },
      StatusJson, "`millrace status` shows all"));
}

int ShowNodes(const ViewOptions& options) {
  const Styler style = Styler::ForFd(STDOUT_FILENO);
  return ReportError(Look(
      options, [&](const ClusterView& view) { return NodesText(view, style, Width()); }, NodesJson,
      "`millrace nodes` shows all"));
}

int ShowEvents(const ViewOptions& options) { return ReportError(Events(options)); }
int ShowLogs(const ViewOptions& options) { return ReportError(Logs(options)); }
int ShowClusters(const ViewOptions& options) { return ReportError(Clusters(options)); }

}  // namespace millrace::cli
