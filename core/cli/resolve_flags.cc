#include "core/cli/resolve_flags.h"

#include <cstddef>
#include <limits>
#include <map>
#include <set>
#include <utility>

#include "CLI/CLI.hpp"
#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "core/base/file.h"
#include "core/base/status.h"
#include "core/base/text.h"
#include "core/cli/output/duration_text.h"
#include "millrace/status_macros.h"

namespace millrace::cli {
namespace {

constexpr size_t kMaxFileBytes = size_t{64} << 20;
// Where agents listen unless told otherwise (core/agent/agent_main.cc).
constexpr int kAgentPort = 7077;
constexpr int kMaxInt = std::numeric_limits<int>::max();

// "name=rest".
absl::StatusOr<std::pair<std::string, std::string>> SplitAssignment(absl::string_view option,
                                                                    const std::string& text,
                                                                    absl::string_view form) {
  const size_t at = text.find('=');
  if (at != std::string::npos && at > 0 && at + 1 < text.size()) {
    return std::make_pair(text.substr(0, at), text.substr(at + 1));
  }
  return absl::InvalidArgumentError(
      absl::StrCat(option, " ", Ellipsize(EscapeControls(text), 200), ": write ", form));
}

// {"name": number, ...} of "name=number". `rest`: the word that stands for null; empty: none does.
absl::StatusOr<OrderedJson> Numbers(absl::string_view option, const std::vector<std::string>& words,
                                    absl::string_view form, absl::string_view rest = "") {
  OrderedJson numbers = OrderedJson::object();
  for (const std::string& word : words) {
    MILLRACE_ASSIGN_OR_RETURN(const auto entry, SplitAssignment(option, word, form));
    int number = 0;
    if (!rest.empty() && entry.second == rest) {
      numbers[entry.first] = nullptr;
    } else if (absl::SimpleAtoi(entry.second, &number)) {
      numbers[entry.first] = number;
    } else {
      return absl::InvalidArgumentError(
          absl::StrCat(option, " ", Ellipsize(EscapeControls(word), 200), ": write ", form));
    }
  }
  return numbers;
}

// The JSON that an option gives: itself, or @FILE.
absl::StatusOr<OrderedJson> JsonArgument(absl::string_view option, const std::string& text) {
  std::string content = text;
  if (absl::StartsWith(text, "@")) {
    MILLRACE_ASSIGN_OR_RETURN(content, ReadFile(text.substr(1), kMaxFileBytes));
  }
  absl::StatusOr<OrderedJson> value = ParseOrderedJson(content);
  if (!value.ok()) return Annotate(value.status(), option);
  return value;
}

absl::Status SetSeconds(absl::string_view option, const char* key, absl::Duration duration,
                        OrderedJson* description) {
  if (duration == absl::ZeroDuration()) return absl::OkStatus();
  if (duration == absl::InfiniteDuration()) {
    return absl::InvalidArgumentError(absl::StrCat(option, " cannot be never: give a time"));
  }
  (*description)[key] = absl::ToDoubleSeconds(duration);
  return absl::OkStatus();
}

template <typename T>
void Set(const char* key, const std::optional<T>& value, OrderedJson* description) {
  if (value.has_value()) (*description)[key] = *value;
}

void SetText(const char* key, const std::string& value, OrderedJson* description) {
  if (!value.empty()) (*description)[key] = value;
}

void SetTrue(const char* key, bool value, OrderedJson* description) {
  if (value) (*description)[key] = true;
}

}  // namespace

void ResolveFlags::AddDuration(CLI::App* app, const std::string& name, absl::Duration* value) {
  app->add_option_function<std::string>(name, [name, value](const std::string& text) {
    const absl::StatusOr<absl::Duration> duration = ParseDurationText(text);
    if (!duration.ok()) {
      throw CLI::ValidationError(name, std::string(duration.status().message()));
    }
    *value = *duration;
  });
}

CLI::App* ResolveFlags::AddSource(CLI::App* resolve, const std::string& name, bool tensorflow) {
  CLI::App* app = resolve->add_subcommand(name);
  app->add_option("--format", format_)
      ->check(CLI::IsMember({"spec", "tf_config", "hosts", "json"}));
  app->add_flag("--json", json_);
  app->add_flag("-w,--watch", options_.watch);
  AddDuration(app, "--poll-interval", &options_.poll_interval);
  app->add_option("--task-type", task_type_);
  app->add_option("--task-id", task_id_)->check(CLI::Range(0, kMaxInt));
  app->add_option("--rpc-layer", rpc_layer_);
  if (tensorflow) app->add_flag("--tensorflow", options_.tensorflow);
  return app;
}

void ResolveFlags::AddWaiting(CLI::App* app) {
  app->add_option("--complete", complete_)
      ->check(CLI::IsMember({"require_all", "wait", "available"}));
  AddDuration(app, "--wait-timeout", &wait_timeout_);
  AddDuration(app, "--timeout", &timeout_);
}

void ResolveFlags::AddPods(CLI::App* app) {
  app->add_option("--job", jobs_)->allow_extra_args(false);
  app->add_option("--port", port_)->check(CLI::Range(1, 65535));
  app->add_option("--job-port", ports_)->allow_extra_args(false);
  app->add_option("--address", address_)->check(CLI::IsMember({"pod_ip", "host_ip", "dns"}));
  app->add_option("--cluster-domain", cluster_domain_);
  app->add_option("--namespace", namespace_);
  app->add_flag("--all-namespaces", all_namespaces_);
  app->add_option("--expect", expect_)->allow_extra_args(false);
  app->add_flag("--require-ready", require_ready_);
  app->add_option("--location", location_)
      ->check(CLI::IsMember({"automatic", "within_cluster", "off_cluster"}));
  app->add_option("--kubeconfig", kubeconfig_);
  app->add_option("--context", context_);
}

void ResolveFlags::AddKubernetes(CLI::App* resolve) {
  CLI::App* app = AddSource(resolve, "kubernetes", /*tensorflow=*/true);
  AddPods(app);
  AddWaiting(app);
  AddDuration(app, "--max-backoff", &max_backoff_);
}

void ResolveFlags::AddGce(CLI::App* resolve) {
  CLI::App* app = AddSource(resolve, "gce", /*tensorflow=*/true);
  app->add_option("GROUP", instance_group_)->required();
  app->add_option("--project", project_);
  app->add_option("--zone", zone_);
  app->add_option("--port", port_)->check(CLI::Range(1, 65535));
  app->add_option("--expect", expected_tasks_)->check(CLI::Range(1, kMaxInt));
  app->add_option("--token-file", token_file_);
  app->add_option("--api", url_);
  app->add_option("--ca", ca_file_);
  AddWaiting(app);
}

void ResolveFlags::AddDns(CLI::App* resolve) {
  CLI::App* app = AddSource(resolve, "dns", /*tensorflow=*/false);
  app->add_option("--job", jobs_)->required()->allow_extra_args(false);
  app->add_option("--port", port_)->check(CLI::Range(1, 65535));
  app->add_option("--server", servers_)->allow_extra_args(false);
  app->add_option("--expect", expect_)->allow_extra_args(false);
  AddWaiting(app);
}

void ResolveFlags::AddEtcd(CLI::App* resolve) {
  CLI::App* app = AddSource(resolve, "etcd", /*tensorflow=*/false);
  app->add_option("PREFIX", prefix_)->required();
  app->add_option("--endpoint", endpoints_)->required()->allow_extra_args(false);
  app->add_option("--expect", expect_)->allow_extra_args(false);
  app->add_option("--user", user_);
  app->add_option("--password-file", password_file_);
  app->add_option("--ca", ca_file_);
  app->add_option("--certificate", certificate_file_);
  app->add_option("--key", key_file_);
  AddWaiting(app);
}

void ResolveFlags::AddSpark(CLI::App* resolve) {
  CLI::App* app = AddSource(resolve, "spark", /*tensorflow=*/false);
  app->add_option("URL", url_)->required();
  app->add_option("--application", application_);
  app->add_option("--executor", executor_);
  app->add_option("--job", jobs_)->allow_extra_args(false);
  app->add_option("--port", port_)->check(CLI::Range(1, 65535));
  app->add_option("--job-port", ports_)->allow_extra_args(false);
  app->add_option("--ca", ca_file_);
  app->add_flag("--insecure-skip-verify", insecure_skip_verify_);
  AddWaiting(app);
}

void ResolveFlags::AddOnTo(CLI::App* app) {
  app->add_option("--on", on_);
  app->add_option("--members", cluster_spec_);
  AddPods(app);
}

void ResolveFlags::AddPollingTo(CLI::App* run) {
  AddDuration(run, "--poll-interval", &options_.poll_interval);
}

absl::StatusOr<OrderedJson> ResolveFlags::DescribeOn(absl::Duration wait) const {
  if (absl::StartsWith(on_, "{") || absl::StartsWith(on_, "@")) return JsonArgument("--on", on_);
  static const auto* const kSources =
      new std::set<std::string>{"static", "slurm", "kubernetes", "dns", "sagemaker", "tf-config"};
  if (kSources->count(on_) == 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        "--on ", Ellipsize(EscapeControls(on_), 100),
        ": there are static, kubernetes, dns, slurm, sagemaker, tf-config, and the JSON "
        "of any resolver, or @FILE"));
  }
  if (on_ == "static" && cluster_spec_.empty()) {
    return absl::InvalidArgumentError(
        "--on static needs the agents' addresses: --members '{\"worker\": [\"host0:7077\", ...]}'");
  }
  MILLRACE_ASSIGN_OR_RETURN(OrderedJson description, Describe(on_));
  if ((on_ == "kubernetes" || on_ == "dns") && wait > absl::ZeroDuration()) {
    description["completeness"] = "wait";
    if (wait < absl::InfiniteDuration()) {
      description["wait_timeout_s"] = absl::ToDoubleSeconds(wait);
    }
  }
  return description;
}

void ResolveFlags::AddTo(CLI::App* app) {
  CLI::App* resolve = app->add_subcommand("resolve");
  resolve->require_subcommand(1);

  CLI::App* fixed = AddSource(resolve, "static", /*tensorflow=*/true);
  fixed->add_option("SPEC", cluster_spec_)->required();
  fixed->add_option("--master", master_);

  CLI::App* tf_config = AddSource(resolve, "tf-config", /*tensorflow=*/true);
  tf_config->add_option("--environment", environment_);

  CLI::App* slurm = AddSource(resolve, "slurm", /*tensorflow=*/true);
  slurm->add_option("--job", jobs_)->allow_extra_args(false);
  slurm->add_option("--port", port_)->check(CLI::Range(1, 65535));
  slurm->add_option("--gpus-per-node", gpus_per_node_)->check(CLI::Range(0, kMaxInt));
  slurm->add_option("--gpus-per-task", gpus_per_task_)->check(CLI::Range(0, kMaxInt));
  slurm->add_option("--tasks-per-node", tasks_per_node_)->check(CLI::Range(1, kMaxInt));

  CLI::App* sagemaker = AddSource(resolve, "sagemaker", /*tensorflow=*/true);
  sagemaker->add_option("--port", port_)->check(CLI::Range(1, 65535));
  sagemaker->add_option("--environment", environment_);

  AddKubernetes(resolve);
  AddGce(resolve);
  AddDns(resolve);
  AddEtcd(resolve);
  AddSpark(resolve);

  CLI::App* cluster = AddSource(resolve, "cluster", /*tensorflow=*/false);
  cluster->add_option("--cluster", cluster_);
  cluster->add_option("--connect", connect_);
  cluster->add_option("--ca", ca_file_);
  cluster->add_option("--identity", identity_file_);
  cluster->add_option("--token-file", token_file_);
  AddWaiting(cluster);

  CLI::App* merged = AddSource(resolve, "union", /*tensorflow=*/true);
  merged->add_option("--resolver", resolvers_)->allow_extra_args(false);
  merged->add_option("FILE", union_file_);
}

absl::Status ResolveFlags::DescribeWaiting(OrderedJson* description) const {
  SetText("completeness", complete_, description);
  MILLRACE_RETURN_IF_ERROR(
      SetSeconds("--wait-timeout", "wait_timeout_s", wait_timeout_, description));
  return SetSeconds("--timeout", "timeout_s", timeout_, description);
}

absl::Status ResolveFlags::DescribeStatic(OrderedJson* description) const {
  MILLRACE_ASSIGN_OR_RETURN((*description)["cluster_spec"], JsonArgument("SPEC", cluster_spec_));
  SetText("master", master_, description);
  return absl::OkStatus();
}

absl::Status ResolveFlags::DescribeSlurm(OrderedJson* description) const {
  if (!jobs_.empty()) {
    MILLRACE_ASSIGN_OR_RETURN((*description)["jobs"], Numbers("--job", jobs_, "NAME=TASKS"));
  }
  if (port_.has_value()) {
    (*description)["port_base"] = *port_;
  } else if (has_on()) {
    (*description)["port_base"] = kAgentPort;
  }
  Set("gpus_per_node", gpus_per_node_, description);
  Set("gpus_per_task", gpus_per_task_, description);
  Set("tasks_per_node", tasks_per_node_, description);
  return absl::OkStatus();
}

std::optional<int> ResolveFlags::MemberPort() const {
  return port_.has_value() || !has_on() ? port_ : kAgentPort;
}

absl::Status ResolveFlags::DescribeKubernetes(OrderedJson* description) const {
  for (const std::string& job : jobs_) {
    // A selector has equals signs of its own.
    MILLRACE_ASSIGN_OR_RETURN(const auto entry, SplitAssignment("--job", job, "NAME=SELECTOR"));
    OrderedJson& mapping = (*description)["job_to_label_mapping"];
    if (!mapping.contains(entry.first)) mapping[entry.first] = OrderedJson::array();
    mapping[entry.first].push_back(entry.second);
  }
  for (const std::string& port : ports_) {
    MILLRACE_ASSIGN_OR_RETURN(const auto entry,
                              SplitAssignment("--job-port", port,
                                              "NAME=PORT, a number, a container port's name or "
                                              "annotation:KEY"));
    (*description)["ports"][entry.first] = entry.second;
  }
  MILLRACE_RETURN_IF_ERROR(DescribeExpected(description));
  Set("tf_server_port", MemberPort(), description);
  SetText("address", address_, description);
  SetText("cluster_domain", cluster_domain_, description);
  SetText("namespace", namespace_, description);
  SetTrue("all_namespaces", all_namespaces_, description);
  SetTrue("require_ready", require_ready_, description);
  SetText("executable_location", location_, description);
  SetText("kubeconfig", kubeconfig_, description);
  SetText("context", context_, description);
  MILLRACE_RETURN_IF_ERROR(SetSeconds("--max-backoff", "max_backoff_s", max_backoff_, description));
  return DescribeWaiting(description);
}

absl::Status ResolveFlags::DescribeGce(OrderedJson* description) const {
  (*description)["instance_group"] = instance_group_;
  SetText("project", project_, description);
  SetText("zone", zone_, description);
  Set("port", port_, description);
  Set("expected_tasks", expected_tasks_, description);
  SetText("token_file", token_file_, description);
  SetText("api_url", url_, description);
  SetText("ca_file", ca_file_, description);
  return DescribeWaiting(description);
}

absl::Status ResolveFlags::DescribeExpected(OrderedJson* description) const {
  if (expect_.empty()) return absl::OkStatus();
  MILLRACE_ASSIGN_OR_RETURN((*description)["expected_tasks"],
                            Numbers("--expect", expect_, "NAME=TASKS"));
  return absl::OkStatus();
}

absl::Status ResolveFlags::DescribeDns(OrderedJson* description) const {
  OrderedJson& jobs = (*description)["jobs"] = OrderedJson::object();
  for (const std::string& job : jobs_) {
    MILLRACE_ASSIGN_OR_RETURN(const auto entry, SplitAssignment("--job", job, "NAME=DOMAIN"));
    jobs[entry.first] = entry.second;
  }
  Set("port", MemberPort(), description);
  if (!servers_.empty()) (*description)["servers"] = servers_;
  MILLRACE_RETURN_IF_ERROR(DescribeExpected(description));
  return DescribeWaiting(description);
}

absl::Status ResolveFlags::DescribeEtcd(OrderedJson* description) const {
  (*description)["prefix"] = prefix_;
  (*description)["endpoints"] = endpoints_;
  MILLRACE_RETURN_IF_ERROR(DescribeExpected(description));
  SetText("user", user_, description);
  SetText("password_file", password_file_, description);
  SetText("ca_file", ca_file_, description);
  SetText("certificate_file", certificate_file_, description);
  SetText("key_file", key_file_, description);
  return DescribeWaiting(description);
}

absl::Status ResolveFlags::DescribeSpark(OrderedJson* description) const {
  (*description)["url"] = url_;
  SetText("application_id", application_, description);
  SetText("executor_id", executor_, description);
  if (!jobs_.empty()) {
    MILLRACE_ASSIGN_OR_RETURN(
        (*description)["jobs"],
        Numbers("--job", jobs_, "NAME=TASKS or, for those that are left, NAME=rest", "rest"));
  }
  Set("port_base", port_, description);
  if (!ports_.empty()) {
    MILLRACE_ASSIGN_OR_RETURN((*description)["ports"], Numbers("--job-port", ports_, "NAME=PORT"));
  }
  SetText("ca_file", ca_file_, description);
  SetTrue("insecure_skip_verify", insecure_skip_verify_, description);
  return DescribeWaiting(description);
}

absl::StatusOr<OrderedJson> ResolveFlags::DescribeUnion() const {
  OrderedJson parts = OrderedJson::array();
  if (!union_file_.empty()) {
    MILLRACE_ASSIGN_OR_RETURN(OrderedJson content,
                              JsonArgument(union_file_, absl::StrCat("@", union_file_)));
    if (content.is_object() && resolvers_.empty()) return content;
    if (!content.is_array()) content = OrderedJson::array({std::move(content)});
    parts = std::move(content);
  }
  for (const std::string& resolver : resolvers_) {
    MILLRACE_ASSIGN_OR_RETURN(OrderedJson part, JsonArgument("--resolver", resolver));
    parts.push_back(std::move(part));
  }
  if (parts.empty()) {
    return absl::InvalidArgumentError(
        "there is nothing to unite: give --resolver JSON, once for each, or a FILE of them");
  }
  return OrderedJson{{"type", "union"}, {"resolvers", std::move(parts)}};
}

absl::StatusOr<OrderedJson> ResolveFlags::Describe(const std::string& source) const {
  if (source == "union") return DescribeUnion();
  OrderedJson description = {{"type", source == "tf-config" ? "tf_config" : source}};
  absl::Status status;
  if (source == "static") status = DescribeStatic(&description);
  if (source == "tf-config") Set("environment", environment_, &description);
  if (source == "sagemaker") {
    Set("environment", environment_, &description);
    Set("port", MemberPort(), &description);
  }
  if (source == "slurm") status = DescribeSlurm(&description);
  if (source == "gce") status = DescribeGce(&description);
  if (source == "dns") status = DescribeDns(&description);
  if (source == "etcd") status = DescribeEtcd(&description);
  if (source == "kubernetes") status = DescribeKubernetes(&description);
  if (source == "spark") status = DescribeSpark(&description);
  if (source == "cluster") {
    SetText("cluster", cluster_, &description);
    SetText("address", connect_, &description);
    SetText("ca_file", ca_file_, &description);
    SetText("identity_file", identity_file_, &description);
    SetText("token_file", token_file_, &description);
    status = DescribeWaiting(&description);
  }
  if (!status.ok()) return status;
  return description;
}

absl::StatusOr<ResolveOptions> ResolveFlags::Finish(const std::string& source) const {
  ResolveOptions options = options_;
  static const auto* const kFormats =
      new std::map<std::string, ResolveFormat>{{"spec", ResolveFormat::kSpec},
                                               {"tf_config", ResolveFormat::kTfConfig},
                                               {"hosts", ResolveFormat::kHosts},
                                               {"json", ResolveFormat::kJson}};
  options.format = json_ ? ResolveFormat::kJson : kFormats->at(format_);
  if (options.poll_interval == absl::InfiniteDuration()) {
    return absl::InvalidArgumentError("--poll-interval cannot be never: give a time");
  }
  MILLRACE_ASSIGN_OR_RETURN(options.description, Describe(source));
  Set("task_type", task_type_, &options.description);
  Set("task_id", task_id_, &options.description);
  Set("rpc_layer", rpc_layer_, &options.description);
  return options;
}

}  // namespace millrace::cli
