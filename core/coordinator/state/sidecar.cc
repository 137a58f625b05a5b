#include "core/coordinator/state/sidecar.h"

#include <algorithm>
#include <cstddef>
#include <set>

#include "absl/status/statusor.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "core/base/text.h"
#include "millrace/status_macros.h"

namespace millrace {
namespace {

constexpr size_t kMaxNameChars = 40;

// Looks for TensorBoard where it runs, without blocking the agent.
constexpr char kTensorBoardScript[] =
    "if command -v tensorboard >/dev/null 2>&1; then exec tensorboard \"$@\"; fi\n"
    "if python3 -c 'import importlib.util as u, sys; sys.exit(u.find_spec(\"tensorboard\") is "
    "None)' "
    ">/dev/null 2>&1; then exec python3 -m tensorboard.main \"$@\"; fi\n"
    "echo 'no TensorBoard on this host: neither `tensorboard` in PATH nor the module of python3; "
    "pip install tensorboard' >&2\n"
    "exit 127\n";

bool IsName(absl::string_view name) {
  return !name.empty() && name.size() <= kMaxNameChars &&
         std::all_of(name.begin(), name.end(), [](unsigned char c) {
           return absl::ascii_islower(c) || absl::ascii_isdigit(c) || c == '-';
         });
}

bool HasZeroByte(const std::string& text) { return text.find('\0') != std::string::npos; }

absl::Status CheckSidecar(const Sidecar& sidecar) {
  if (!IsName(sidecar.name)) {
    return absl::InvalidArgumentError(
        absl::StrCat("sidecars: \"", Ellipsize(EscapeControls(sidecar.name), 80),
                     "\" is no name: 1 to ", kMaxNameChars, " of a-z 0-9 -"));
  }
  const std::string who = absl::StrCat("sidecar \"", sidecar.name, "\"");
  if (sidecar.program.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(who, " has no program"));
  }
  if (HasZeroByte(sidecar.program) ||
      std::any_of(sidecar.args.begin(), sidecar.args.end(), HasZeroByte)) {
    return absl::InvalidArgumentError(absl::StrCat(who, ": an argument holds a zero byte"));
  }
  for (const auto& [name, value] : sidecar.env) {
    if (name.empty() || name.find('=') != std::string::npos || HasZeroByte(name) ||
        HasZeroByte(value)) {
      return absl::InvalidArgumentError(
          absl::StrCat(who, ": \"", EscapeControls(name), "\" cannot be in an environment"));
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<NodeRole> RoleBeside(const Sidecar& sidecar, const std::vector<NodeRole>& roles) {
  for (const NodeRole& role : roles) {
    const bool wanted = sidecar.node.empty() ? role.job_name == "chief" || role.job_name == "master"
                                             : role.ToString() == sidecar.node;
    if (wanted) return role;
  }
  const NodeRole first_worker{"worker", 0};
  if (sidecar.node.empty() && std::find(roles.begin(), roles.end(), first_worker) != roles.end()) {
    return first_worker;
  }
  return absl::InvalidArgumentError(
      absl::StrCat("sidecar \"", sidecar.name, "\": the cluster has no ",
                   sidecar.node.empty() ? "chief, master or worker:0"
                                        : Ellipsize(EscapeControls(sidecar.node), 80)));
}

}  // namespace

Sidecar TensorBoardSidecar() {
  return {.name = "tensorboard",
          .node = "",
          .program = "/bin/sh",
          .args = {"-c", kTensorBoardScript, "tensorboard", "--logdir", "{log_dir}", "--port",
                   "{port}", "--host", "{host}"},
          .env = {}};
}

absl::Status AddSidecars(const std::vector<Sidecar>& sidecars, const std::vector<NodeRole>& roles,
                         v1::NodeSpec* spec) {
  std::set<std::string> names;
  for (const Sidecar& sidecar : sidecars) {
    MILLRACE_RETURN_IF_ERROR(CheckSidecar(sidecar));
    if (!names.insert(sidecar.name).second) {
      return absl::InvalidArgumentError(
          absl::StrCat("sidecars names \"", sidecar.name, "\" twice"));
    }
    MILLRACE_ASSIGN_OR_RETURN(const NodeRole role, RoleBeside(sidecar, roles));
    v1::Sidecar* out = spec->add_sidecars();
    out->set_name(sidecar.name);
    out->set_job_name(role.job_name);
    out->set_task_index(role.task_index);
    out->set_program(sidecar.program);
    for (const std::string& arg : sidecar.args) out->add_args(arg);
    for (const auto& [name, value] : sidecar.env) (*out->mutable_env())[name] = value;
  }
  return absl::OkStatus();
}

}  // namespace millrace
