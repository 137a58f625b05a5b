// File: core/cli/resolve_flags.h
//
// The options of `millrace resolve SOURCE`, and the description of a resolver that they make.
#ifndef CORE_CLI_RESOLVE_FLAGS_H_
#define CORE_CLI_RESOLVE_FLAGS_H_

#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "core/base/json.h"
#include "core/cli/resolve_command.h"

namespace CLI {
class App;
}

namespace millrace::cli {

// Adds the commands to a parser, which fills this in; one of them is then parsed.
// Thread safety: single-threaded. Lifetime: must outlive the parser.
class ResolveFlags {
 public:
  // Adds "resolve" with its sources below it.
  void AddTo(CLI::App* app);

  // Adds to "run" or "doctor" the options by which it finds agents: --on and those of the sources
  // that do not mean something else there; and how often "run" asks.
  void AddOnTo(CLI::App* app);
  void AddPollingTo(CLI::App* run);
  // Whether --on was given, and the description of its resolver. `wait`: how long it waits for
  // members that are not there yet, where nothing else was asked for; zero: not. Errors as
  // Finish().
  [[nodiscard]] bool has_on() const { return !on_.empty(); }
  [[nodiscard]] absl::Duration poll_interval() const { return options_.poll_interval; }
  [[nodiscard]] absl::StatusOr<OrderedJson> DescribeOn(absl::Duration wait) const;

  // `source` is the command that was parsed, "static". Returns INVALID_ARGUMENT for values that
  // make no sense. Blocking: reads files that options name.
  [[nodiscard]] absl::StatusOr<ResolveOptions> Finish(const std::string& source) const;

 private:
  CLI::App* AddSource(CLI::App* resolve, const std::string& name, bool tensorflow);
  void AddDuration(CLI::App* app, const std::string& name, absl::Duration* value);
  void AddWaiting(CLI::App* app);
  void AddKubernetes(CLI::App* resolve);
  void AddPods(CLI::App* app);
  void AddGce(CLI::App* resolve);
  void AddDns(CLI::App* resolve);
  void AddEtcd(CLI::App* resolve);
  void AddSpark(CLI::App* resolve);
  absl::StatusOr<OrderedJson> Describe(const std::string& source) const;
  absl::StatusOr<OrderedJson> DescribeUnion() const;
  absl::Status DescribeStatic(OrderedJson* description) const;
  absl::Status DescribeSlurm(OrderedJson* description) const;
  absl::Status DescribeKubernetes(OrderedJson* description) const;
  absl::Status DescribeGce(OrderedJson* description) const;
  absl::Status DescribeDns(OrderedJson* description) const;
  absl::Status DescribeEtcd(OrderedJson* description) const;
  absl::Status DescribeExpected(OrderedJson* description) const;
  // The one that was given; with --on otherwise the one at which agents listen.
  std::optional<int> MemberPort() const;
  absl::Status DescribeSpark(OrderedJson* description) const;
  absl::Status DescribeWaiting(OrderedJson* description) const;

  // Of run
  std::string on_;
  // Of all
  ResolveOptions options_;
  std::string format_ = "spec";
  bool json_ = false;
  std::optional<std::string> task_type_;
  std::optional<int> task_id_;
  std::optional<std::string> rpc_layer_;
  // Of several; what is not given is not described, so that each resolver has its own default.
  std::vector<std::string> jobs_;   // "ps=1", kubernetes: "ps=app=x"
  std::vector<std::string> ports_;  // "ps=2222"
  std::optional<int> port_;
  std::string complete_;
  absl::Duration wait_timeout_ = absl::ZeroDuration();  // zero: not given
  absl::Duration timeout_ = absl::ZeroDuration();
  std::string ca_file_;
  bool insecure_skip_verify_ = false;
  // static, tf-config, sagemaker
  std::string cluster_spec_;
  std::string master_;
  std::optional<std::string> environment_;
  // slurm
  std::optional<int> gpus_per_node_;
  std::optional<int> gpus_per_task_;
  std::optional<int> tasks_per_node_;
  // kubernetes
  std::string address_;
  std::string namespace_;
  bool all_namespaces_ = false;
  std::string cluster_domain_;
  std::vector<std::string> expect_;  // "worker=4"; dns and etcd too
  bool require_ready_ = false;
  absl::Duration max_backoff_ = absl::ZeroDuration();
  std::string location_;
  std::string kubeconfig_;
  std::string context_;
  // gce
  std::string instance_group_;
  std::string project_;
  std::string zone_;
  std::optional<int> expected_tasks_;
  // dns
  std::vector<std::string> servers_;
  // etcd
  std::string prefix_;
  std::vector<std::string> endpoints_;
  std::string user_;
  std::string password_file_;
  std::string certificate_file_;
  std::string key_file_;
  // spark, gce
  std::string url_;
  std::string application_;
  std::string executor_;
  // cluster
  std::string cluster_;
  std::string connect_;
  std::string identity_file_;
  std::string token_file_;  // gce too
  // union
  std::vector<std::string> resolvers_;
  std::string union_file_;
};

}  // namespace millrace::cli

#endif  // CORE_CLI_RESOLVE_FLAGS_H_
