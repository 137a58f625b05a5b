#include "core/agent/modes/coordinator_start.h"

#include <cstdint>
#include <deque>
#include <limits>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "absl/time/time.h"
#include "core/agent/modes/coordinator_params.h"
#include "core/base/status.h"
#include "core/base/text.h"
#include "core/coordinator/state/role_dealer.h"
#include "core/coordinator/state/sidecar.h"
#include "core/net/port_range.h"
#include "millrace/status_macros.h"

namespace millrace {
namespace {

constexpr int64_t kMaxInt64 = std::numeric_limits<int64_t>::max();

// One object of the parameters, and the names that its members may have.
struct Place {
  std::string path;  // "params.failure"
  const Json* object;
  std::set<std::string> names;
};

// Reads the members of one object by name: what is absent, or null, leaves `out` as it is. Every
// name that is asked for is one that there is, so each is asked for whatever the object has.
class Members {
 public:
  Members(std::string path, const Json* object, std::deque<Place>* places)
      : places_(places), place_(&places->emplace_back(Place{std::move(path), object, {}})) {}

  const std::string& path() const { return place_->path; }

  bool Has(const std::string& name) const {
    place_->names.insert(name);
    const Json& object = *place_->object;
    return object.is_object() && object.contains(name) && !object[name].is_null();
  }

  absl::Status Int(const std::string& name, int64_t min, int64_t max, int* out) const {
    if (!Has(name)) return absl::OkStatus();
    MILLRACE_ASSIGN_OR_RETURN(const int64_t value,
                              GetIntInRange(*place_->object, name, min, max, path()));
    *out = static_cast<int>(value);
    return absl::OkStatus();
  }

  absl::Status Int64(const std::string& name, int64_t min, int64_t* out) const {
    if (!Has(name)) return absl::OkStatus();
    MILLRACE_ASSIGN_OR_RETURN(*out, GetIntInRange(*place_->object, name, min, kMaxInt64, path()));
    return absl::OkStatus();
  }

  absl::Status Bool(const std::string& name, bool* out) const {
    if (!Has(name)) return absl::OkStatus();
    MILLRACE_ASSIGN_OR_RETURN(*out, GetBool(*place_->object, name, path()));
    return absl::OkStatus();
  }

  absl::Status Text(const std::string& name, std::string* out) const {
    return Has(name) ? NeededText(name, out) : absl::OkStatus();
  }

  absl::Status NeededText(const std::string& name, std::string* out) const {
    Has(name);
    MILLRACE_ASSIGN_OR_RETURN(*out, GetString(*place_->object, name, path()));
    return absl::OkStatus();
  }

  absl::Status Texts(const std::string& name, std::vector<std::string>* out) const {
    if (!Has(name)) return absl::OkStatus();
    MILLRACE_ASSIGN_OR_RETURN(*out, GetStringList(*place_->object, name, path()));
    return absl::OkStatus();
  }

  absl::Status Duration(const std::string& name, absl::Duration* out) const {
    Has(name);
    MILLRACE_ASSIGN_OR_RETURN(*out, GetDuration(*place_->object, name, *out, path()));
    return absl::OkStatus();
  }

  absl::Status TextByName(const std::string& name, std::map<std::string, std::string>* out) const {
    if (!Has(name)) return absl::OkStatus();
    MILLRACE_ASSIGN_OR_RETURN(const Json* object, GetObject(*place_->object, name, path()));
    for (const auto& [key, unused] : object->items()) {
      MILLRACE_ASSIGN_OR_RETURN((*out)[key],
                                GetString(*object, key, absl::StrCat(path(), ".", name)));
    }
    return absl::OkStatus();
  }

  // Its members have names that only the parent knows, as jobs have.
  absl::StatusOr<const Json*> NamedByParent(const std::string& name) const {
    static const Json* const kNothing = new Json(Json::object());
    if (!Has(name)) return kNothing;
    return GetObject(*place_->object, name, path());
  }

  absl::StatusOr<Members> Group(const std::string& name) const {
    MILLRACE_ASSIGN_OR_RETURN(const Json* object, NamedByParent(name));
    return Of(name, object);
  }

  absl::StatusOr<std::vector<Members>> Groups(const std::string& name) const {
    std::vector<Members> groups;
    if (!Has(name)) return groups;
    MILLRACE_ASSIGN_OR_RETURN(const Json* list, GetArray(*place_->object, name, path()));
    for (const Json& entry : *list) groups.push_back(Of(name, &entry));
    return groups;
  }

  // `object` is at `path` below this one.
  Members Of(absl::string_view path, const Json* object) const {
    return Members(absl::StrCat(place_->path, ".", path), object, places_);
  }

 private:
  std::deque<Place>* places_;
  Place* place_;
};

absl::Status UnknownField(const std::deque<Place>& places, const Place& at,
                          const std::string& name) {
  const std::string field =
      absl::StrCat("field \"", at.path, ".", Ellipsize(EscapeControls(name), 60), "\" is unknown");
  for (const Place& place : places) {
    if (!place.names.contains(name)) continue;
    return absl::InvalidArgumentError(
        absl::StrCat(field, ": there is \"", place.path, ".", name, "\""));
  }
  return absl::InvalidArgumentError(
      absl::StrCat(field, ": ", at.path, " has ", absl::StrJoin(at.names, ", ")));
}

absl::Status CheckAllKnown(const std::deque<Place>& places) {
  for (const Place& place : places) {
    for (const auto& [name, unused] : place.object->items()) {
      if (!place.names.contains(name)) return UnknownField(places, place, name);
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<NodeRole>> ReadRoles(const Members& params) {
  RoleOptions options{.num_executors = 1};
  MILLRACE_RETURN_IF_ERROR(
      params.Int("num_executors", INT32_MIN, INT32_MAX, &options.num_executors));
  MILLRACE_RETURN_IF_ERROR(params.Int("num_ps", INT32_MIN, INT32_MAX, &options.num_ps));
  MILLRACE_RETURN_IF_ERROR(params.Text("master_node", &options.master_node));
  MILLRACE_RETURN_IF_ERROR(params.Bool("eval_node", &options.eval_node));
  return DealRoles(options);
}

absl::Status ReadInputMode(const Members& params, InputMode* out) {
  std::string mode = "DIRECT";
  MILLRACE_RETURN_IF_ERROR(params.Text("input_mode", &mode));
  if (mode != "DIRECT" && mode != "FEED") {
    return absl::InvalidArgumentError(absl::StrCat("field \"params.input_mode\" is \"",
                                                   Ellipsize(EscapeControls(mode), 60),
                                                   "\": must be DIRECT or FEED"));
  }
  *out = mode == "FEED" ? InputMode::kFeed : InputMode::kDirect;
  return absl::OkStatus();
}

absl::Status ReadProgram(const Members& params, ProgramOptions* program) {
  MILLRACE_RETURN_IF_ERROR(params.NeededText("program", &program->path));
  MILLRACE_RETURN_IF_ERROR(params.Bool("shipped", &program->shipped));
  MILLRACE_RETURN_IF_ERROR(params.Texts("args", &program->args));
  return params.TextByName("env", &program->env);
}

absl::Status ReadSidecars(const Members& group, std::vector<Sidecar>* sidecars) {
  MILLRACE_ASSIGN_OR_RETURN(const std::vector<Members> entries, group.Groups("sidecars"));
  for (const Members& entry : entries) {
    Sidecar sidecar;
    MILLRACE_RETURN_IF_ERROR(entry.NeededText("name", &sidecar.name));
    MILLRACE_RETURN_IF_ERROR(entry.NeededText("program", &sidecar.program));
    MILLRACE_RETURN_IF_ERROR(entry.Text("node", &sidecar.node));
    MILLRACE_RETURN_IF_ERROR(entry.Texts("args", &sidecar.args));
    MILLRACE_RETURN_IF_ERROR(entry.TextByName("env", &sidecar.env));
    sidecars->push_back(std::move(sidecar));
  }
  return absl::OkStatus();
}

// NodeOptions.
absl::Status ReadNode(const Members& params, NodeOptions* node) {
  MILLRACE_ASSIGN_OR_RETURN(const Members group, params.Group("node"));
  MILLRACE_RETURN_IF_ERROR(group.Text("default_fs", &node->default_fs));
  MILLRACE_RETURN_IF_ERROR(group.Bool("release_port", &node->release_port));
  MILLRACE_RETURN_IF_ERROR(group.Int("gpus_per_node", 0, INT32_MAX, &node->gpus_per_node));
  MILLRACE_ASSIGN_OR_RETURN(const Json* jobs, group.NamedByParent("gpus_by_job"));
  for (const auto& [job, unused] : jobs->items()) {
    MILLRACE_ASSIGN_OR_RETURN(const int64_t count,
                              GetIntInRange(*jobs, job, 0, INT32_MAX, "params.node.gpus_by_job"));
    node->gpus_by_job[job] = static_cast<int>(count);
  }
  MILLRACE_RETURN_IF_ERROR(group.Int64("log_bytes_per_second", 1, &node->log_bytes_per_second));
  return ReadSidecars(group, &node->sidecars);
}

// FeedOptions.
absl::Status ReadFeed(const Members& params, FeedOptions* feed) {
  MILLRACE_ASSIGN_OR_RETURN(const Members group, params.Group("feed"));
  MILLRACE_RETURN_IF_ERROR(group.Texts("queues", &feed->queues));
  MILLRACE_RETURN_IF_ERROR(group.Text("port_range", &feed->port_range));
  MILLRACE_RETURN_IF_ERROR(group.Int64("budget_bytes", 1, &feed->budget_bytes));
  return group.Bool("shared_memory", &feed->shared_memory);
}

absl::Status ReadRestart(const Members& group, RestartPolicy* policy) {
  MILLRACE_RETURN_IF_ERROR(group.Int("max_restarts", 0, INT32_MAX, &policy->max_restarts));
  MILLRACE_RETURN_IF_ERROR(group.Duration("window_ms", &policy->window));
  MILLRACE_RETURN_IF_ERROR(group.Duration("initial_backoff_ms", &policy->initial_backoff));
  return group.Duration("max_backoff_ms", &policy->max_backoff);
}

// FailureOptions.
absl::Status ReadFailure(const Members& params, FailureOptions* failure) {
  MILLRACE_ASSIGN_OR_RETURN(const Members group, params.Group("failure"));
  MILLRACE_ASSIGN_OR_RETURN(const Members restart, group.Group("restart"));
  MILLRACE_RETURN_IF_ERROR(ReadRestart(restart, &failure->restart));
  MILLRACE_ASSIGN_OR_RETURN(const Json* jobs, group.NamedByParent("restart_by_job"));
  for (const auto& [job, unused] : jobs->items()) {
    const std::string place = "params.failure.restart_by_job";
    MILLRACE_ASSIGN_OR_RETURN(const Json* entry, GetObject(*jobs, job, place));
    RestartPolicy policy;
    MILLRACE_RETURN_IF_ERROR(
        ReadRestart(group.Of(absl::StrCat("restart_by_job.", job), entry), &policy));
    failure->restart_by_job[job] = policy;
  }
  MILLRACE_ASSIGN_OR_RETURN(const Members quarantine, group.Group("quarantine"));
  QuarantinePolicy* const policy = &failure->quarantine;
  MILLRACE_RETURN_IF_ERROR(quarantine.Int("failures", 1, INT32_MAX, &policy->failures));
  MILLRACE_RETURN_IF_ERROR(quarantine.Duration("window_ms", &policy->window));
  MILLRACE_RETURN_IF_ERROR(quarantine.Duration("duration_ms", &policy->duration));
  MILLRACE_RETURN_IF_ERROR(group.Duration("stop_grace_ms", &failure->stop_grace));
  return group.Duration("stop_timeout_ms", &failure->stop_timeout);
}

absl::Status ReadPortRange(const Members& params, PortRange* range) {
  std::string text;
  MILLRACE_RETURN_IF_ERROR(params.Text("port_range", &text));
  if (text.empty()) return absl::OkStatus();
  absl::StatusOr<PortRange> parsed = ParsePortRange(text);
  if (!parsed.ok()) return Annotate(parsed.status(), "field \"params.port_range\"");
  *range = *parsed;
  return absl::OkStatus();
}

// Where events are written on this host: in log_dir, if that is a folder here.
std::string EventLogFolder(absl::string_view log_dir) {
  absl::ConsumePrefix(&log_dir, "file://");
  return absl::StrContains(log_dir, "://") ? "" : std::string(log_dir);
}

}  // namespace

absl::StatusOr<CoordinatorStart> ParseCoordinatorStart(const Json& object) {
  std::deque<Place> places;
  const Members params("params", &object, &places);
  CoordinatorStart start;
  CoordinatorOptions& options = start.options;
  MILLRACE_ASSIGN_OR_RETURN(options.roles, ReadRoles(params));
  MILLRACE_RETURN_IF_ERROR(ReadProgram(params, &options.program));
  MILLRACE_RETURN_IF_ERROR(ReadInputMode(params, &options.input_mode));
  MILLRACE_RETURN_IF_ERROR(params.Text("name", &options.name));
  MILLRACE_RETURN_IF_ERROR(params.Text("log_dir", &options.log_dir));
  options.event_log_dir = EventLogFolder(options.log_dir);
  bool tensorboard = false;
  MILLRACE_RETURN_IF_ERROR(params.Bool("tensorboard", &tensorboard));
  if (tensorboard) options.node.sidecars.push_back(TensorBoardSidecar());
  MILLRACE_RETURN_IF_ERROR(ReadNode(params, &options.node));
  MILLRACE_RETURN_IF_ERROR(ReadFeed(params, &options.feed));
  MILLRACE_RETURN_IF_ERROR(ReadFailure(params, &options.failure));
  MILLRACE_RETURN_IF_ERROR(params.Text("cluster_id", &options.cluster_id));
  MILLRACE_RETURN_IF_ERROR(params.Text("bind_address", &options.bind_address));
  MILLRACE_RETURN_IF_ERROR(params.Int("port", 0, 65535, &options.port));
  MILLRACE_RETURN_IF_ERROR(ReadPortRange(params, &options.port_range));
  MILLRACE_RETURN_IF_ERROR(params.Text("advertise_host", &options.advertise_host));
  MILLRACE_RETURN_IF_ERROR(params.Duration("reservation_timeout_ms", &options.reservation_timeout));
  MILLRACE_RETURN_IF_ERROR(params.Bool("output_events", &start.output_events));
  MILLRACE_RETURN_IF_ERROR(params.Bool("metric_events", &start.metric_events));
  MILLRACE_RETURN_IF_ERROR(params.Bool("cluster_file", &start.cluster_file));
  MILLRACE_RETURN_IF_ERROR(CheckAllKnown(places));
  return start;
}

}  // namespace millrace
