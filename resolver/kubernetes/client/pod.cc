#include "resolver/kubernetes/client/pod.h"

#include <cstdint>
#include <limits>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "core/base/status.h"
#include "core/base/text.h"
#include "millrace/status_macros.h"

namespace millrace {
namespace {

// The member `key` of `object` (itself an object), or null if it is absent or null.
const Json* Find(const Json& object, absl::string_view key) {
  const auto it = object.find(key);
  return it == object.end() || it->is_null() ? nullptr : &*it;
}

// As Find(), for a member that must have a type.
absl::StatusOr<const Json*> FindObject(const Json& object, absl::string_view key,
                                       absl::string_view where) {
  if (Find(object, key) == nullptr) return nullptr;
  return GetObject(object, key, where);
}

absl::StatusOr<const Json*> FindArray(const Json& object, absl::string_view key,
                                      absl::string_view where) {
  if (Find(object, key) == nullptr) return nullptr;
  return GetArray(object, key, where);
}

absl::Status ReadStrings(const Json& metadata, absl::string_view key,
                         std::map<std::string, std::string>* strings) {
  MILLRACE_ASSIGN_OR_RETURN(const Json* object, FindObject(metadata, key, "metadata"));
  if (object == nullptr) return absl::OkStatus();
  for (const auto& [name, value] : object->items()) {
    if (!value.is_string()) {
      return absl::InvalidArgumentError(absl::StrCat(
          "field \"metadata.", key, ".", name, "\" must be a string, found ", JsonTypeName(value)));
    }
    strings->emplace(name, value.get_ref<const std::string&>());
  }
  return absl::OkStatus();
}

// The type of device that an extended resource counts, "" if it is none.
absl::string_view AcceleratorType(absl::string_view resource) {
  // "nvidia.com/gpu.shared" is a time slice, "nvidia.com/mig-1g.5gb" an instance of a divided GPU.
  if (resource == "nvidia.com/gpu" || resource == "nvidia.com/gpu.shared" ||
      absl::StartsWith(resource, "nvidia.com/mig-") || resource == "amd.com/gpu") {
    return "GPU";
  }
  return resource == "google.com/tpu" ? "TPU" : "";
}

// A count as a Kubernetes quantity: "2", 2, "1k".
absl::StatusOr<int> Count(const Json& quantity) {
  std::string text;
  if (quantity.is_string()) text = quantity.get<std::string>();
  if (quantity.is_number_integer()) text = DumpJson(quantity);
  absl::string_view digits = text;
  const int64_t factor = absl::ConsumeSuffix(&digits, "k") ? 1000 : 1;
  int32_t count = 0;
  if (!absl::SimpleAtoi(digits, &count) || count < 0 ||
      count > std::numeric_limits<int32_t>::max() / factor) {
    return absl::InvalidArgumentError(
        absl::StrCat("must be a count, found ", Ellipsize(DumpJson(quantity), 40)));
  }
  return static_cast<int>(count * factor);
}

absl::Status ReadContainer(const Json& container, const std::string& where, Pod* pod) {
  if (!container.is_object()) {
    return absl::InvalidArgumentError(
        absl::StrCat("field \"", where, "\" must be an object, found ", JsonTypeName(container)));
  }
  MILLRACE_ASSIGN_OR_RETURN(const Json* ports, FindArray(container, "ports", where));
  if (ports != nullptr) {
    for (const Json& entry : *ports) {
      const std::string path = absl::StrCat(where, ".ports[]");
      Pod::Port port;
      MILLRACE_ASSIGN_OR_RETURN(port.name, GetStringOr(entry, "name", "", path));
      MILLRACE_ASSIGN_OR_RETURN(const int64_t number,
                                GetIntInRange(entry, "containerPort", 1, 65535, path));
      port.port = static_cast<int>(number);
      pod->ports.push_back(std::move(port));
    }
  }
  MILLRACE_ASSIGN_OR_RETURN(const Json* resources, FindObject(container, "resources", where));
  if (resources == nullptr) return absl::OkStatus();
  const std::string path = absl::StrCat(where, ".resources");
  MILLRACE_ASSIGN_OR_RETURN(const Json* limits, FindObject(*resources, "limits", path));
  if (limits == nullptr) return absl::OkStatus();
  for (const auto& [resource, quantity] : limits->items()) {
    const absl::string_view type = AcceleratorType(resource);
    if (type.empty()) continue;
    const absl::StatusOr<int> count = Count(quantity);
    if (!count.ok()) {
      return Annotate(count.status(), absl::StrCat("field \"", path, ".limits.", resource, "\""));
    }
    if (*count == 0) continue;
    int& total = pod->accelerators[std::string(type)];
    total = *count > std::numeric_limits<int>::max() - total ? std::numeric_limits<int>::max()
                                                             : total + *count;
  }
  return absl::OkStatus();
}

absl::Status ReadSpec(const Json& spec, Pod* pod) {
  MILLRACE_ASSIGN_OR_RETURN(pod->hostname, GetStringOr(spec, "hostname", "", "spec"));
  MILLRACE_ASSIGN_OR_RETURN(pod->subdomain, GetStringOr(spec, "subdomain", "", "spec"));
  MILLRACE_ASSIGN_OR_RETURN(const Json* containers, FindArray(spec, "containers", "spec"));
  if (containers == nullptr) return absl::OkStatus();
  for (const Json& container : *containers) {
    MILLRACE_RETURN_IF_ERROR(ReadContainer(container, "spec.containers[]", pod));
  }
  return absl::OkStatus();
}

absl::Status ReadStatus(const Json& status, Pod* pod) {
  MILLRACE_ASSIGN_OR_RETURN(pod->phase, GetStringOr(status, "phase", "", "status"));
  MILLRACE_ASSIGN_OR_RETURN(pod->host_ip, GetStringOr(status, "hostIP", "", "status"));
  MILLRACE_ASSIGN_OR_RETURN(pod->pod_ip, GetStringOr(status, "podIP", "", "status"));
  MILLRACE_ASSIGN_OR_RETURN(const Json* ips, FindArray(status, "podIPs", "status"));
  if (ips != nullptr && !ips->empty()) {
    MILLRACE_ASSIGN_OR_RETURN(pod->pod_ip,
                              GetStringOr(ips->front(), "ip", pod->pod_ip, "status.podIPs[0]"));
  }
  MILLRACE_ASSIGN_OR_RETURN(const Json* conditions, FindArray(status, "conditions", "status"));
  if (conditions == nullptr) return absl::OkStatus();
  for (const Json& condition : *conditions) {
    const std::string where = "status.conditions[]";
    MILLRACE_ASSIGN_OR_RETURN(const std::string type, GetStringOr(condition, "type", "", where));
    if (type != "Ready") continue;
    MILLRACE_ASSIGN_OR_RETURN(const std::string value, GetStringOr(condition, "status", "", where));
    pod->ready = value == "True";
  }
  return absl::OkStatus();
}

absl::Status ReadRest(const Json& object, const Json& metadata, Pod* pod) {
  MILLRACE_ASSIGN_OR_RETURN(pod->namespace_name,
                            GetStringOr(metadata, "namespace", "", "metadata"));
  MILLRACE_ASSIGN_OR_RETURN(pod->uid, GetStringOr(metadata, "uid", "", "metadata"));
  MILLRACE_ASSIGN_OR_RETURN(pod->resource_version,
                            GetStringOr(metadata, "resourceVersion", "", "metadata"));
  MILLRACE_ASSIGN_OR_RETURN(const std::string deletion,
                            GetStringOr(metadata, "deletionTimestamp", "", "metadata"));
  pod->terminating = !deletion.empty();
  MILLRACE_RETURN_IF_ERROR(ReadStrings(metadata, "labels", &pod->labels));
  MILLRACE_RETURN_IF_ERROR(ReadStrings(metadata, "annotations", &pod->annotations));
  MILLRACE_ASSIGN_OR_RETURN(const Json* spec, FindObject(object, "spec", ""));
  if (spec != nullptr) MILLRACE_RETURN_IF_ERROR(ReadSpec(*spec, pod));
  MILLRACE_ASSIGN_OR_RETURN(const Json* status, FindObject(object, "status", ""));
  if (status != nullptr) MILLRACE_RETURN_IF_ERROR(ReadStatus(*status, pod));
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<Pod> PodFromJson(const Json& object) {
  if (!object.is_object()) {
    return absl::InvalidArgumentError(
        absl::StrCat("a pod must be an object, found ", JsonTypeName(object)));
  }
  const absl::StatusOr<const Json*> metadata = GetObject(object, "metadata");
  if (!metadata.ok()) return Annotate(metadata.status(), "a pod");
  Pod pod;
  {
    absl::StatusOr<std::string> name = GetString(**metadata, "name", "metadata");
    if (!name.ok()) return Annotate(name.status(), "a pod");
    if (name->empty()) return absl::InvalidArgumentError("a pod: its name is empty");
    pod.name = *std::move(name);
  }
  if (const absl::Status status = ReadRest(object, **metadata, &pod); !status.ok()) {
    return Annotate(status, absl::StrCat("pod ", EscapeControls(Ellipsize(pod.name, 100))));
  }
  return pod;
}

}  // namespace millrace
