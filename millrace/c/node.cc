#include "millrace/c/node.h"

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "core/base/log.h"
#include "core/node/node_context.h"
#include "core/node/node_exit.h"
#include "core/process/process.h"
#include "millrace/c/c_support.h"
#include "millrace/node.h"
#include "millrace/status_macros.h"

namespace millrace {
namespace {

// A process has one place in its cluster, and taking it uses up the channel to the agent.
std::atomic<bool> place_taken{false};

absl::Status TakePlace() {
  // Without an agent nothing is used up: the error says so each time.
  if (EnvOr("MILLRACE_CONTEXT_FILE", "").empty() || !place_taken.exchange(true)) {
    return absl::OkStatus();
  }
  return absl::FailedPreconditionError(
      "this process has opened its node before; there is one in a process, once");
}

absl::Status Open(millrace_node** node) {
  if (node == nullptr) return NullArgument("millrace_node_open", "node");
  MILLRACE_RETURN_IF_ERROR(TakePlace());
  MILLRACE_ASSIGN_OR_RETURN(std::unique_ptr<NodeContext> context, OpenNode());
  auto opened = std::make_unique<millrace_node>(context.get());
  opened->owned = std::move(context);
  *node = opened.release();
  return absl::OkStatus();
}

absl::Status CopyStrings(const std::vector<std::string>& from, millrace_strings* out) {
  millrace_strings made{sizeof(millrace_strings), nullptr, from.size()};
  made.items = static_cast<char**>(std::calloc(from.size() + 1, sizeof(char*)));
  MILLRACE_CHECK(made.items != nullptr) << "out of memory";
  for (size_t i = 0; i < from.size(); ++i) made.items[i] = CopyText(from[i]);
  const absl::Status written = WriteStruct(made, out);
  if (!written.ok()) millrace_strings_free(&made);
  return written;
}

absl::StatusOr<std::vector<std::string>> ReadStrings(const char* const* items, size_t num_items) {
  std::vector<std::string> texts;
  for (size_t i = 0; i < num_items; ++i) {
    if (items == nullptr || items[i] == nullptr) {
      return absl::InvalidArgumentError(absl::StrCat("text ", i, " of ", num_items, " is NULL"));
    }
    texts.emplace_back(items[i]);
  }
  return texts;
}

absl::Status ClaimGpus(NodeContext* context, int32_t num_gpus, const char* const* ids,
                       size_t num_ids, millrace_strings* out) {
  MILLRACE_RETURN_IF_ERROR(
      c_support_internal::CheckStructSize(nullptr, out->struct_size, sizeof(millrace_strings)));
  if (num_ids > 0 && num_gpus != 0) {
    return absl::InvalidArgumentError(
        "millrace_node_claim_gpus: give a number of GPUs or ids, not both");
  }
  MILLRACE_ASSIGN_OR_RETURN(const std::vector<std::string> wanted, ReadStrings(ids, num_ids));
  absl::StatusOr<std::vector<std::string>> claimed =
      num_ids > 0 ? context->ClaimGpus(wanted) : context->ClaimGpus(num_gpus);
  if (!claimed.ok()) return claimed.status();
  return CopyStrings(*claimed, out);
}

}  // namespace
}  // namespace millrace

using ::millrace::CopyText;
using ::millrace::DurationOf;
using ::millrace::NodeContext;
using ::millrace::NullArgument;
using ::millrace::ReportStatus;

// ---- a node's life ------------------------------------------------------------------------------

int32_t millrace_run_node(millrace_node_main node_main, void* user_data) {
  if (const absl::Status status = millrace::TakePlace(); !status.ok()) {
    millrace::PrintNodeError("node", status);
    return MILLRACE_EXIT_NO_PLACE;
  }
  std::string name = "node";
  char* argv[] = {name.data(), nullptr};
  return millrace::RunNode(1, argv, [node_main, user_data](NodeContext& context) -> absl::Status {
    if (node_main == nullptr) return NullArgument("millrace_run_node", "node_main");
    millrace_node node(&context);
    millrace_error error = MILLRACE_ERROR_INIT;
    const int32_t code = node_main(&node, user_data, &error);
    const absl::Status outcome = millrace::StatusOf(code, error);
    millrace_error_clear(&error);
    return outcome;
  });
}

int32_t millrace_node_open(millrace_node** node, millrace_error* error) {
  return ReportStatus(millrace::Open(node), error);
}

int32_t millrace_node_close(millrace_node* node, int32_t code, const char* message,
                            millrace_error* error) {
  if (node == nullptr) return ReportStatus(NullArgument("millrace_node_close", "node"), error);
  if (node->owned == nullptr) {
    return ReportStatus(absl::FailedPreconditionError(
                            "millrace_run_node() closes its node by itself; return instead"),
                        error);
  }
  // `message` may be the text of `error`, which is replaced.
  const absl::Status end = millrace::FinishNode(*node->context, millrace::StatusOf(code, message));
  delete node;
  return ReportStatus(end, error);
}

int32_t millrace_node_describe(const millrace_node* node, millrace_node_info* info,
                               millrace_error* error) {
  if (node == nullptr) return ReportStatus(NullArgument("millrace_node_describe", "node"), error);
  if (info == nullptr) return ReportStatus(NullArgument("millrace_node_describe", "info"), error);
  const NodeContext& context = *node->context;
  millrace_node_info known = {};
  known.cluster_id = context.cluster_id().c_str();
  known.name = node->name.c_str();
  known.job_name = context.job_name().c_str();
  known.task_index = context.task_index();
  known.executor_id = context.executor_id();
  known.attempt = context.attempt();
  known.num_workers = context.num_workers();
  known.rank = context.rank();
  known.is_chief = context.is_chief() ? 1 : 0;
  known.address = context.address().c_str();
  known.default_fs = context.default_fs().c_str();
  known.working_dir = context.working_dir().c_str();
  known.log_dir = context.log_dir().c_str();
  known.tls_ca = context.tls().ca.c_str();
  known.tls_certificate = context.tls().certificate.c_str();
  known.tls_key = context.tls().key.c_str();
  return ReportStatus(millrace::WriteStruct(known, info), error);
}

int32_t millrace_node_cluster_spec(const millrace_node* node, char** json, uint64_t* epoch,
                                   millrace_error* error) {
  if (node == nullptr) {
    return ReportStatus(NullArgument("millrace_node_cluster_spec", "node"), error);
  }
  if (json == nullptr) {
    return ReportStatus(NullArgument("millrace_node_cluster_spec", "json"), error);
  }
  // The epoch first: the members may be newer than it says, never older.
  const uint64_t made = node->context->epoch();
  *json = CopyText(node->context->cluster_spec().ToJson());
  if (epoch != nullptr) *epoch = made;
  return ReportStatus(absl::OkStatus(), error);
}

int32_t millrace_node_wait_for_epoch(const millrace_node* node, uint64_t epoch, int64_t timeout_ms,
                                     millrace_error* error) {
  if (node == nullptr) {
    return ReportStatus(NullArgument("millrace_node_wait_for_epoch", "node"), error);
  }
  if (node->context->WaitForEpoch(epoch, DurationOf(timeout_ms))) {
    return ReportStatus(absl::OkStatus(), error);
  }
  return ReportStatus(absl::DeadlineExceededError(absl::StrCat(
                          node->name, ": the members are of epoch ", node->context->epoch(),
                          " after ", timeout_ms, " ms, not of ", epoch)),
                      error);
}

int32_t millrace_node_wait_for_stop(const millrace_node* node, int64_t timeout_ms) {
  return node != nullptr && node->context->WaitForStop(DurationOf(timeout_ms)) ? 1 : 0;
}

int32_t millrace_node_absolute_path(const millrace_node* node, const char* path, char** out,
                                    millrace_error* error) {
  if (node == nullptr || path == nullptr || out == nullptr) {
    return ReportStatus(NullArgument("millrace_node_absolute_path", "node, path or out"), error);
  }
  *out = CopyText(node->context->AbsolutePath(path));
  return ReportStatus(absl::OkStatus(), error);
}

int32_t millrace_node_port_fd(const millrace_node* node) {
  return node == nullptr ? -1 : node->context->port_fd();
}

int32_t millrace_node_release_port(millrace_node* node, millrace_error* error) {
  if (node == nullptr) {
    return ReportStatus(NullArgument("millrace_node_release_port", "node"), error);
  }
  return ReportStatus(node->context->ReleasePort(), error);
}

int32_t millrace_node_gpus(const millrace_node* node, millrace_strings* out,
                           millrace_error* error) {
  if (node == nullptr || out == nullptr) {
    return ReportStatus(NullArgument("millrace_node_gpus", "node or out"), error);
  }
  return ReportStatus(millrace::CopyStrings(node->context->gpus(), out), error);
}

int32_t millrace_node_claim_gpus(millrace_node* node, int32_t num_gpus, const char* const* ids,
                                 size_t num_ids, millrace_strings* out, millrace_error* error) {
  if (node == nullptr || out == nullptr) {
    return ReportStatus(NullArgument("millrace_node_claim_gpus", "node or out"), error);
  }
  return ReportStatus(millrace::ClaimGpus(node->context, num_gpus, ids, num_ids, out), error);
}

int32_t millrace_node_release_gpus(millrace_node* node, const char* const* ids, size_t num_ids,
                                   millrace_error* error) {
  if (node == nullptr) {
    return ReportStatus(NullArgument("millrace_node_release_gpus", "node"), error);
  }
  absl::StatusOr<std::vector<std::string>> given = millrace::ReadStrings(ids, num_ids);
  if (!given.ok()) return ReportStatus(given.status(), error);
  return ReportStatus(node->context->ReleaseGpus(*given), error);
}

int32_t millrace_node_export_model(millrace_node* node, const char* path,
                                   millrace_write_model write_model, void* user_data,
                                   millrace_error* error) {
  if (node == nullptr || path == nullptr || write_model == nullptr) {
    return ReportStatus(NullArgument("millrace_node_export_model", "node, path or write_model"),
                        error);
  }
  const auto write = [write_model, user_data](const std::string& directory) {
    millrace_error why = MILLRACE_ERROR_INIT;
    const int32_t code = write_model(directory.c_str(), user_data, &why);
    const absl::Status written = millrace::StatusOf(code, why);
    millrace_error_clear(&why);
    return written;
  };
  return ReportStatus(node->context->ExportModel(path, write), error);
}

// ---- the others ---------------------------------------------------------------------------------

int32_t millrace_kv_set(millrace_node* node, const char* key, const void* value, size_t value_bytes,
                        millrace_error* error) {
  if (node == nullptr || key == nullptr || (value == nullptr && value_bytes > 0)) {
    return ReportStatus(NullArgument("millrace_kv_set", "node, key or value"), error);
  }
  const absl::string_view bytes(static_cast<const char*>(value), value_bytes);
  return ReportStatus(node->context->kv().Set(key, bytes), error);
}

int32_t millrace_kv_get(millrace_node* node, const char* key, int64_t timeout_ms, void** value,
                        size_t* value_bytes, millrace_error* error) {
  if (node == nullptr || key == nullptr || value == nullptr || value_bytes == nullptr) {
    return ReportStatus(NullArgument("millrace_kv_get", "node, key, value or value_bytes"), error);
  }
  const absl::StatusOr<std::string> found = node->context->kv().Get(key, DurationOf(timeout_ms));
  if (!found.ok()) return ReportStatus(found.status(), error);
  *value = CopyText(*found);
  *value_bytes = found->size();
  return ReportStatus(absl::OkStatus(), error);
}

int32_t millrace_kv_add(millrace_node* node, const char* key, int64_t delta, int64_t* sum,
                        millrace_error* error) {
  if (node == nullptr || key == nullptr) {
    return ReportStatus(NullArgument("millrace_kv_add", "node or key"), error);
  }
  const absl::StatusOr<int64_t> added = node->context->kv().Add(key, delta);
  if (added.ok() && sum != nullptr) *sum = *added;
  return ReportStatus(added.status(), error);
}

int32_t millrace_kv_delete(millrace_node* node, const char* key, millrace_error* error) {
  if (node == nullptr || key == nullptr) {
    return ReportStatus(NullArgument("millrace_kv_delete", "node or key"), error);
  }
  return ReportStatus(node->context->kv().Delete(key), error);
}

int32_t millrace_barrier(millrace_node* node, const char* name, int64_t timeout_ms,
                         millrace_error* error) {
  if (node == nullptr || name == nullptr) {
    return ReportStatus(NullArgument("millrace_barrier", "node or name"), error);
  }
  return ReportStatus(node->context->Barrier(name, DurationOf(timeout_ms)), error);
}

void millrace_report_metric(millrace_node* node, const char* name, int64_t step, double value) {
  if (node != nullptr && name != nullptr) node->context->ReportMetric(name, step, value);
}
