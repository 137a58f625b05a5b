#include "resolver/tensorflow/tensorflow_base.h"

#include <cstddef>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "core/cluster_spec/python_text.h"
#include "resolver/tensorflow/python_value.h"

namespace millrace {
namespace {

// What stands between "device:" and the next colon.
std::string DeviceType(absl::string_view name) {
  constexpr absl::string_view kMark = "device:";
  const size_t mark = name.rfind(kMark);
  if (mark == absl::string_view::npos) return "";
  name.remove_prefix(mark + kMark.size());
  return std::string(name.substr(0, name.find(':')));
}

}  // namespace

std::map<std::string, int> CountDevicesAsTensorFlow(const std::vector<std::string>& devices,
                                                    const std::optional<std::string>& task_type,
                                                    const std::optional<int>& task_id) {
  std::map<std::string, int> counts;
  for (const std::string& device : devices) {
    const std::string type = DeviceType(device);
    if (type == "CPU" || type == "XLA_CPU") continue;
    if (task_type.has_value() && task_id.has_value() &&
        (!absl::StrContains(device, absl::StrCat("/job:", *task_type)) ||
         !absl::StrContains(device, absl::StrCat("/task:", *task_id)))) {
      continue;
    }
    ++counts[type];
  }
  return counts;
}

absl::StatusOr<std::string> TaskAddressAsTensorFlow(const ClusterSpec& spec,
                                                    const std::optional<std::string>& task_type,
                                                    const std::optional<int>& task_id) {
  const std::string job = task_type.has_value() ? PythonRepr(*task_type) : "None";
  if (!task_type.has_value() || !spec.HasJob(*task_type)) {
    return PythonError("ValueError", absl::StrCat("No such job in cluster: ", job));
  }
  if (task_id.has_value()) {
    absl::StatusOr<std::string> address = spec.TaskAddress(*task_type, *task_id);
    if (address.ok()) return address;
  }
  return PythonError(
      "ValueError",
      absl::StrCat("No task with index ", task_id.has_value() ? absl::StrCat(*task_id) : "None",
                   " in job ", job));
}

}  // namespace millrace
