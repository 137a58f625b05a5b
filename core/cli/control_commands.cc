#include "core/cli/control_commands.h"

#include <unistd.h>

#include <cerrno>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "core/base/json.h"
#include "core/base/text.h"
#include "core/cli/output/answer.h"
#include "core/cli/output/duration_text.h"
#include "core/cli/output/report_error.h"
#include "core/cli/output/terminal.h"
#include "core/cli/output/text_table.h"
#include "core/client/raw_cluster_client.h"
#include "core/proto/kv_limits.h"
#include "millrace/status_macros.h"

namespace millrace::cli {
namespace {

// All of stdin, up to what a value may have.
absl::StatusOr<std::string> ReadStdin() {
  std::string value;
  char buffer[64 << 10];
  while (true) {
    const ssize_t n = ::read(STDIN_FILENO, buffer, sizeof(buffer));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return absl::ErrnoToStatus(errno, "reading stdin");
    if (n == 0) return value;
    value.append(buffer, static_cast<size_t>(n));
    if (value.size() > kMaxKvValueBytes) {
      return absl::InvalidArgumentError("a value may have at most 1 MiB, and stdin has more");
    }
  }
}

bool IsUtf8(absl::string_view text) {
  while (!text.empty()) {
    const size_t length = Utf8SequenceLength(text);
    if (length == 0) return false;
    text.remove_prefix(length);
  }
  return true;
}

// A value as it is; with a line end where a person reads it.
absl::Status PrintValue(const ControlOptions& options, const std::string& value) {
  if (options.json) {
    OrderedJson json = {{"key", options.key}};
    if (IsUtf8(value)) {
      json["value"] = value;
    } else {
      json["value_base64"] = absl::Base64Escape(value);
    }
    return WriteAnswer(absl::StrCat(DumpJson(json), "\n"));
  }
  const bool line_end = IsTerminal(STDOUT_FILENO) && !absl::EndsWith(value, "\n");
  return WriteAnswer(
      absl::StrCat(IsTerminal(STDOUT_FILENO) && !IsUtf8(value) ? EscapeControls(value) : value,
                   line_end ? "\n" : ""));
}

absl::Status Get(const ControlOptions& options) {
  MILLRACE_ASSIGN_OR_RETURN(const std::unique_ptr<RawClusterClient> client,
                            ConnectTo(options.choice, Purpose::kAct));
  MILLRACE_ASSIGN_OR_RETURN(const std::string value, client->KvGet(options.key, options.wait));
  return PrintValue(options, value);
}

absl::Status Set(const ControlOptions& options) {
  std::string value = options.value;
  if (value == "-") {
    MILLRACE_ASSIGN_OR_RETURN(value, ReadStdin());
  }
  MILLRACE_ASSIGN_OR_RETURN(const std::unique_ptr<RawClusterClient> client,
                            ConnectTo(options.choice, Purpose::kAct));
  return client->KvSet(options.key, value);
}

absl::Status List(const ControlOptions& options) {
  MILLRACE_ASSIGN_OR_RETURN(const std::unique_ptr<RawClusterClient> client,
                            ConnectTo(options.choice, Purpose::kAct));
  bool more = false;
  MILLRACE_ASSIGN_OR_RETURN(const std::vector<KeyEntry> keys,
                            client->ListKeys(options.key, options.limit, &more));
  if (options.json) {
    OrderedJson list = OrderedJson::array();
    for (const KeyEntry& entry : keys) {
      list.push_back({{"key", entry.key}, {"value_bytes", entry.value_bytes}});
    }
    return WriteAnswer(absl::StrCat(DumpJson(OrderedJson{{"keys", list}, {"more", more}}), "\n"));
  }
  TextTable table({"KEY", "SIZE"});
  for (const KeyEntry& entry : keys) table.AddRow({{entry.key}, {BytesText(entry.value_bytes)}});
  if (!keys.empty()) {
    MILLRACE_RETURN_IF_ERROR(WriteAnswer(table.ToString(
        Styler::ForFd(STDOUT_FILENO), static_cast<size_t>(TerminalWidth(STDOUT_FILENO, 1200)))));
  }
  if (more) {
    WriteAll(STDERR_FILENO, absl::StrCat("millrace: there are more than ", options.limit,
                                         " keys; --limit N shows more\n"));
  }
  return absl::OkStatus();
}

absl::Status Delete(const ControlOptions& options) {
  MILLRACE_ASSIGN_OR_RETURN(const std::unique_ptr<RawClusterClient> client,
                            ConnectTo(options.choice, Purpose::kAct));
  return client->KvDelete(options.key).status();
}

absl::Status Stop(const ControlOptions& options) {
  MILLRACE_ASSIGN_OR_RETURN(const std::unique_ptr<RawClusterClient> client,
                            ConnectTo(options.choice, Purpose::kAct));
  const std::string reason = options.reason.empty() ? "stopped by `millrace stop`" : options.reason;
  return client->StopCluster(reason, options.now);
}

absl::Status Restart(const ControlOptions& options) {
  MILLRACE_ASSIGN_OR_RETURN(const std::unique_ptr<RawClusterClient> client,
                            ConnectTo(options.choice, Purpose::kAct));
  MILLRACE_ASSIGN_OR_RETURN(const ClusterView view,
                            client->Snapshot({.level = v1::WATCH_LEVEL_NODES}));
  const v1::SlotStatus* slot = view.FindSlot(options.node);
  if (slot == nullptr) {
    return absl::NotFoundError(absl::StrCat(
        "the cluster has no node ", EscapeControls(options.node), "; `millrace nodes` lists them"));
  }
  const std::string reason =
      options.reason.empty() ? "restarted by `millrace restart`" : options.reason;
  MILLRACE_ASSIGN_OR_RETURN(const uint32_t attempt,
                            client->RestartNode(slot->executor_id(), reason));
  if (options.json) {
    const OrderedJson json = {
        {"node", NodeName(*slot)}, {"executor_id", slot->executor_id()}, {"attempt", attempt}};
    return WriteAnswer(absl::StrCat(DumpJson(json), "\n"));
  }
  return WriteAnswer(absl::StrCat(NodeName(*slot), " starts again as attempt ", attempt, "\n"));
}

}  // namespace

int KvGet(const ControlOptions& options) { return ReportError(Get(options)); }
int KvSet(const ControlOptions& options) { return ReportError(Set(options)); }
int KvList(const ControlOptions& options) { return ReportError(List(options)); }
int KvDelete(const ControlOptions& options) { return ReportError(Delete(options)); }
int StopCluster(const ControlOptions& options) { return ReportError(Stop(options)); }
int RestartNode(const ControlOptions& options) { return ReportError(Restart(options)); }

}  // namespace millrace::cli
