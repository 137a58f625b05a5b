#include "core/cli/view_commands.h"

#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/clock.h"
#include "core/base/json.h"
#include "core/base/mutex.h"
#include "core/base/status_macros.h"
#include "core/base/text.h"
#include "core/cli/report_error.h"
#include "core/cli/terminal.h"
#include "core/cli/view_json.h"
#include "core/cli/view_text.h"
#include "core/client/cluster_client.h"
#include "core/client/cluster_file.h"
#include "core/client/cluster_view.h"

namespace millrace::cli {
namespace {

constexpr int kPipeWidth = 1000;  // nothing is cut where nobody counts columns
constexpr char kClearScreen[] = "\x1b[H\x1b[2J\x1b[3J";

using Render = std::function<std::string(const ClusterView& view)>;

size_t Width() { return static_cast<size_t>(TerminalWidth(STDOUT_FILENO, kPipeWidth)); }

// Runs a watch until it ends by itself. OK for a cluster that has ended.
absl::Status WatchUntilGone(ClusterClient* client, const ClusterWatchOptions& options,
                            std::function<void(const v1::WatchUpdate&, const ClusterView&)> update) {
  Mutex mu;
  CondVar ended;
  bool done = false;
  absl::Status result;
  WatchCallbacks callbacks;
  callbacks.on_update = std::move(update);
  callbacks.on_state = [&](const WatchState& state) {
    const bool gone = state.kind == WatchState::Kind::kGone;
    if (!gone && state.kind != WatchState::Kind::kRefused) return;
    MutexLock lock(&mu);
    done = true;
    // A driver that ended without a word has ended too; the reader's job is done.
    result = gone ? absl::OkStatus() : state.reason;
    ended.SignalAll();
  };
  MILLRACE_ASSIGN_OR_RETURN(const std::unique_ptr<ClusterWatch> watch,
                            client->Watch(options, std::move(callbacks)));
  {
    MutexLock lock(&mu);
    while (!done) ended.Wait(&mu);
  }
  watch->Stop();
  return result;
}

absl::Status Look(const ViewOptions& options, const Render& text,
                  const std::function<OrderedJson(const ClusterView&)>& json) {
  MILLRACE_ASSIGN_OR_RETURN(const std::unique_ptr<ClusterClient> client, ConnectTo(options.choice));
  const bool screen = IsTerminal(STDOUT_FILENO) && !options.json;
  const auto show = [&](const ClusterView& view) {
    std::string out = options.json ? absl::StrCat(DumpJson(json(view)), "\n") : text(view);
    if (options.watch && screen) out = absl::StrCat(kClearScreen, out);
    if (options.watch && !screen && !options.json) out += "\n";
    WriteAll(STDOUT_FILENO, out);
  };
  if (!options.watch) {
    MILLRACE_ASSIGN_OR_RETURN(const ClusterView view,
                              client->Snapshot({.level = v1::WATCH_LEVEL_ALL}));
    show(view);
    return absl::OkStatus();
  }
  return WatchUntilGone(client.get(), {.interval = options.interval},
                        [&](const v1::WatchUpdate&, const ClusterView& view) { show(view); });
}

std::string NameOf(const ClusterView& view, int executor_id) {
  if (executor_id < 0 || executor_id >= static_cast<int>(view.slots().size())) return "";
  return NodeName(view.slots()[static_cast<size_t>(executor_id)]);
}

absl::Status Events(const ViewOptions& options) {
  MILLRACE_ASSIGN_OR_RETURN(const std::unique_ptr<ClusterClient> client, ConnectTo(options.choice));
  const Styler style = Styler::ForFd(STDOUT_FILENO);
  const auto print = [&](const v1::Event& event, const ClusterView& view) {
    WriteAll(STDOUT_FILENO,
             options.json
                 ? absl::StrCat(DumpJson(EventJson(event, NameOf(view, event.executor_id()))), "\n")
                 : EventText(event, style));
  };
  const auto print_last = [&](const ClusterView& view) {
    const auto& events = view.events();
    const size_t wanted = std::min(events.size(), static_cast<size_t>(options.lines));
    for (auto event = events.end() - static_cast<std::ptrdiff_t>(wanted); event != events.end();
         ++event) {
      print(*event, view);
    }
  };
  if (!options.follow) {
    MILLRACE_ASSIGN_OR_RETURN(const ClusterView view,
                              client->Snapshot({.level = v1::WATCH_LEVEL_NODES}));
    print_last(view);
    return absl::OkStatus();
  }
  bool first = true;
  uint64_t next = 0;  // number of the first event that was not printed
  return WatchUntilGone(
      client.get(), {.level = v1::WATCH_LEVEL_NODES, .interval = absl::Milliseconds(200)},
      [&](const v1::WatchUpdate& update, const ClusterView& view) {
        if (first) {
          print_last(view);
        } else {
          // A snapshot after a lost connection brings old ones again.
          for (const v1::Event& event : update.events()) {
            if (event.number() >= next) print(event, view);
          }
        }
        first = false;
        if (!view.events().empty()) next = view.events().back().number() + 1;
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
      return absl::NotFoundError(absl::StrCat("the cluster has no node ", EscapeControls(node), ": ",
                                              Ellipsize(absl::StrJoin(names, ", "), 300)));
    }
    ids.push_back(slot->executor_id());
  }
  return ids;
}

absl::Status Logs(const ViewOptions& options) {
  MILLRACE_ASSIGN_OR_RETURN(const std::unique_ptr<ClusterClient> client, ConnectTo(options.choice));
  MILLRACE_ASSIGN_OR_RETURN(const ClusterView view,
                            client->Snapshot({.level = v1::WATCH_LEVEL_NODES}));
  ReadLogsOptions read;
  MILLRACE_ASSIGN_OR_RETURN(read.executor_ids, ExecutorIds(view, options.nodes));
  read.lines = options.lines;
  read.follow = options.follow;
  const Styler style = Styler::ForFd(STDOUT_FILENO);
  return client->ReadLogs(read, [&](const v1::LogBatch& batch) {
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
      absl::StrAppend(&out, style(Style::kDim, absl::StrCat(node, ": ", batch.dropped(),
                                                            " lines left out")),
                      "\n");
    }
    for (const std::string& line : batch.lines()) {
      absl::StrAppend(&out, options.json ? DumpJson(LogLineJson(batch, node, line))
                                         : absl::StrCat(prefix, line),
                      "\n");
    }
    return WriteAll(STDOUT_FILENO, out);
  });
}

absl::Status Clusters(const ViewOptions& options) {
  MILLRACE_ASSIGN_OR_RETURN(const ClusterFileList files, ListClusterFiles());
  for (const absl::Status& problem : files.problems) {
    WriteAll(STDERR_FILENO, absl::StrCat("millrace: ", problem.message(), "\n"));
  }
  if (options.json) {
    OrderedJson list = OrderedJson::array();
    for (const ClusterFile& file : files.clusters) list.push_back(ClusterFileJson(file));
    WriteAll(STDOUT_FILENO, absl::StrCat(DumpJson(OrderedJson{{"clusters", list}}), "\n"));
    return absl::OkStatus();
  }
  if (files.clusters.empty()) {
    WriteAll(STDERR_FILENO, "millrace: no cluster of yours runs on this machine\n");
    return absl::OkStatus();
  }
  WriteAll(STDOUT_FILENO,
           ClustersText(files, absl::Now(), Styler::ForFd(STDOUT_FILENO), Width()));
  return absl::OkStatus();
}

}  // namespace

int ShowStatus(const ViewOptions& options) {
  const Styler style = Styler::ForFd(STDOUT_FILENO);
  return ReportError(Look(
      options, [&](const ClusterView& view) { return StatusText(view, style, Width()); },
      StatusJson));
}

int ShowNodes(const ViewOptions& options) {
  const Styler style = Styler::ForFd(STDOUT_FILENO);
  return ReportError(Look(
      options, [&](const ClusterView& view) { return NodesText(view, style, Width()); }, NodesJson));
}

int ShowEvents(const ViewOptions& options) { return ReportError(Events(options)); }
int ShowLogs(const ViewOptions& options) { return ReportError(Logs(options)); }
int ShowClusters(const ViewOptions& options) { return ReportError(Clusters(options)); }

}  // namespace millrace::cli
