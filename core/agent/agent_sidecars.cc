// The sidecars of an agent's node: started when it runs, killed with it, published as its
// endpoints.

#include <map>
#include <optional>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "core/agent/agent.h"
#include "core/agent/node/sidecar_runner.h"
#include "core/base/log.h"
#include "core/net/loopback.h"
#include "core/net/socket_address.h"

namespace millrace {
namespace {

// What the sidecar inherits: the agent's environment and that of this host, with the node's mark,
// by which the guard finds what a killed agent leaves. GPUs are the node's.
std::vector<std::string> SidecarEnvironment(const std::vector<std::string>& inherited,
                                            const std::map<std::string, std::string>& host_env,
                                            const v1::Sidecar& sidecar,
                                            const std::string& context) {
  std::map<std::string, std::string> variables;
  for (const std::string& entry : inherited) {
    const size_t equals = entry.find('=');
    if (equals != std::string::npos) variables[entry.substr(0, equals)] = entry.substr(equals + 1);
  }
  for (const auto& [name, value] : host_env) variables[name] = value;
  variables["CUDA_VISIBLE_DEVICES"] = "";
  for (const auto& [name, value] : sidecar.env()) variables[name] = value;
  variables["MILLRACE_CONTEXT_FILE"] = context;
  std::vector<std::string> env;
  for (const auto& [name, value] : variables) env.push_back(absl::StrCat(name, "=", value));
  return env;
}

std::string ValueOf(const std::vector<std::string>& env, absl::string_view name) {
  for (const std::string& entry : env) {
    if (absl::StartsWith(entry, absl::StrCat(name, "="))) return entry.substr(name.size() + 1);
  }
  return "";
}

}  // namespace

void Agent::StartSidecars() {
  for (const v1::Sidecar& sidecar : registered_->node().sidecars()) {
    if (sidecar.job_name() != registered_->job_name() ||
        sidecar.task_index() != registered_->task_index()) {
      continue;
    }
    const std::string name = sidecar.name();
    SidecarRunner::Options options;
    options.sidecar = sidecar;
    options.advertise = ParseHostPort(address_).value_or(HostPort{.host = local_host_}).host;
    // A program binds an address, not a name.
    options.bind_address = options.advertise == "localhost"    ? "127.0.0.1"
                           : IsLoopbackHost(options.advertise) ? options.advertise
                                                               : local_host_;
    options.ports = params_.port_range;
    options.log_dir = log_dir_;
    options.attempt = registered_->attempt();
    options.working_dir = working_dir_;
    options.env =
        SidecarEnvironment(options_.environment, params_.env, sidecar, attempt_->context_path());
    options.path = ValueOf(options.env, "PATH");
    auto runner = std::make_unique<SidecarRunner>(
        loop_, reaper_,
        SidecarRunner::Hooks{
            .on_url = [this, name](const std::string& url) { OnSidecarUrl(name, url); },
            .on_text = [this](const std::string& text) { SayOfNode(text); }});
    const absl::Status started = runner->Start(std::move(options));
    if (started.ok()) {
      attempt_->AddSidecar(std::move(runner));
    } else {
      SayOfNode(absl::StrCat("sidecar ", name, ": ", started.message()));
    }
  }
}

void Agent::OnSidecarUrl(const std::string& name, const std::string& url) {
  attempt_->OnSidecarUrl(name, url);
  if (!url.empty()) SayOfNode(absl::StrCat(name, ": ", url));
  SendEndpoints();
}

void Agent::SendEndpoints() {
  std::optional<v1::NodeEndpoints> published = attempt_->Published();
  if (!published.has_value()) return;
  published->set_attempt(registered_->attempt());
  v1::AgentMessage message;
  *message.mutable_endpoints() = *std::move(published);
  link_->Send(std::move(message));
}

void Agent::SayOfNode(const std::string& text) {
  MILLRACE_LOG(INFO) << text;
  if (runner() != nullptr) runner()->Say(text);
}

}  // namespace millrace
