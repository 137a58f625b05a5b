#include "core/cli/doctor_command.h"

#include <unistd.h>

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "core/base/text.h"
#include "core/cli/host/agent_probe.h"
#include "core/cli/host/diagnosis.h"
#include "core/cli/host/machine_facts.h"
#include "core/cli/make_resolver.h"
#include "core/cli/output/answer.h"
#include "core/cli/output/exit_code.h"
#include "core/cli/output/report_error.h"
#include "core/cli/output/terminal.h"
#include "core/launch/agent_secret.h"
#include "millrace/cluster_resolver.h"
#include "millrace/cluster_spec.h"
#include "millrace/status_macros.h"

namespace millrace::cli {
namespace {

using Level = Finding::Level;

Style StyleOf(Level level) {
  switch (level) {
    case Level::kOk:
      return Style::kGreen;
    case Level::kWarning:
      return Style::kYellow;
    case Level::kProblem:
      return Style::kRed;
  }
  return Style::kPlain;
}

absl::StatusOr<std::vector<AgentAddress>> AgentsOf(const DoctorOptions::On& on) {
  MILLRACE_ASSIGN_OR_RETURN(const std::unique_ptr<ClusterResolver> resolver,
                            MakeResolver(on.resolver, /*tensorflow=*/false));
  MILLRACE_ASSIGN_OR_RETURN(const ClusterSpec spec, resolver->cluster_spec());
  std::vector<AgentAddress> agents;
  for (const std::string& job : spec.jobs()) {
    const auto tasks = spec.TaskMapOf(job);
    for (const auto& [index, address] : **tasks) {
      agents.push_back({absl::StrCat(job, ":", index), address});
    }
  }
  return agents;
}

// What is wrong before anybody is asked is a finding like others.
void DiagnoseAgents(const DoctorOptions::On& on, std::vector<Finding>* findings) {
  const absl::StatusOr<AgentSecret> secret = ReadAgentSecret(on.secret);
  const std::string notice = secret.ok() ? RenewalNotice(*secret, on.secret, absl::Now()) : "";
  if (!secret.ok()) {
    findings->push_back({Level::kProblem, "", "secret", FirstLine(secret.status().message()), ""});
  } else if (!notice.empty()) {
    findings->push_back({Level::kWarning, "", "secret", notice, ""});
  } else {
    findings->push_back({Level::kOk, "", "secret", "its certificate is valid", ""});
  }
  const absl::StatusOr<std::vector<AgentAddress>> agents = AgentsOf(on);
  if (!agents.ok()) {
    findings->push_back({Level::kProblem, "", "members", FirstLine(agents.status().message()), ""});
    return;
  }
  findings->push_back({agents->empty() ? Level::kProblem : Level::kOk, "", "members",
                       absl::StrCat(agents->size(), agents->size() == 1 ? " agent" : " agents"),
                       ""});
  if (!secret.ok()) return;
  for (Finding& finding : ProbeAgents(*agents, *secret, on.timeout)) {
    findings->push_back(std::move(finding));
  }
}

OrderedJson JsonOf(const std::vector<Finding>& findings) {
  OrderedJson list = OrderedJson::array();
  for (const Finding& finding : findings) {
    list.push_back(
        {{"level", std::string(LevelName(finding.level))},
         {"where", finding.where.empty() ? OrderedJson(nullptr) : OrderedJson(finding.where)},
         {"subject", finding.subject},
         {"text", finding.text},
         {"advice", finding.advice.empty() ? OrderedJson(nullptr) : OrderedJson(finding.advice)}});
  }
  return {{"findings", list}};
}

std::string TextOf(const std::vector<Finding>& findings, const Styler& style) {
  size_t width = 0;
  const auto subject = [](const Finding& finding) {
    return finding.where.empty() ? finding.subject
                                 : absl::StrCat(finding.subject, " ", finding.where);
  };
  for (const Finding& finding : findings) width = std::max(width, subject(finding).size());
  std::string text;
  for (const Finding& finding : findings) {
    const std::string level(LevelName(finding.level));
    const std::string name = EscapeControls(subject(finding));
    absl::StrAppend(&text, style(StyleOf(finding.level), level), std::string(9 - level.size(), ' '),
                    name, std::string(width + 2 - std::min(width, name.size()), ' '),
                    EscapeControls(finding.text),
                    finding.advice.empty() ? "" : absl::StrCat("; ", finding.advice), "\n");
  }
  return text;
}

}  // namespace

int Doctor(const DoctorOptions& options) {
  const int num_nodes = options.on.has_value() ? 0 : options.num_nodes;
  std::vector<Finding> findings = DiagnoseMachine(ReadMachineFacts(), num_nodes);
  if (options.on.has_value()) DiagnoseAgents(*options.on, &findings);
  const absl::Status written =
      WriteAnswer(options.json ? absl::StrCat(DumpJson(JsonOf(findings)), "\n")
                               : TextOf(findings, Styler::ForFd(STDOUT_FILENO)));
  if (!written.ok()) return ReportError(written);
  const bool well = std::none_of(findings.begin(), findings.end(), [](const Finding& finding) {
    return finding.level == Level::kProblem;
  });
  return well ? kExitOk : kExitFailed;
}

}  // namespace millrace::cli
