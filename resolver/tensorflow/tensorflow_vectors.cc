#include "resolver/tensorflow/tensorflow_vectors.h"

#include <stdlib.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <stop_token>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "core/cluster_spec/cluster_spec_json.h"
#include "core/cluster_spec/python_text.h"
#include "millrace/cluster_resolver.h"
#include "millrace/cluster_spec.h"
#include "millrace/kubernetes_client.h"
#include "millrace/kubernetes_resolver.h"
#include "millrace/resolver_base.h"
#include "millrace/roles.h"
#include "millrace/slurm_resolver.h"
#include "millrace/status_macros.h"
#include "millrace/tensorflow_error.h"
#include "resolver/every/basic_resolvers.h"
#include "resolver/every/cloud_resolvers_from_json.h"
#include "resolver/every/kubernetes_resolver_from_json.h"
#include "resolver/every/make_kubernetes_resolver.h"
#include "resolver/http/loopback_server.h"
#include "resolver/kubernetes/client/kubernetes_config_loader.h"
#include "resolver/resolver_from_json.h"
#include "resolver/tensorflow/python_value.h"
#include "resolver/tensorflow/tensorflow_base.h"
#include "resolver/tensorflow/tensorflow_cluster_spec.h"
#include "resolver/tensorflow/tensorflow_hostlist.h"

extern char** environ;

namespace millrace {
namespace {

using Members = OrderedJson::object_t;
using Result = absl::StatusOr<OrderedJson>;

constexpr ResolverBehavior kMode = ResolverBehavior::kTensorFlow;

// Stand for arguments of a type that our methods cannot take: no cluster has such a job or task, so
// that the error tells of them, and their texts are put back into it.
constexpr char kNoSuchJob[] = "no such job \x7f";
constexpr int kNoSuchTask = std::numeric_limits<int>::min() + 7;

absl::Status Unsupported(absl::string_view what) {
  return absl::UnimplementedError(absl::StrCat("the interpreter does not know ", what));
}

const OrderedJson& Null() {
  static const OrderedJson* const null = new OrderedJson();
  return *null;
}

// An argument or a field; null, which is Python's None, if it is absent.
const OrderedJson& Get(const OrderedJson& object, const char* key) {
  const auto found = object.find(key);
  return found == object.end() ? Null() : *found;
}

absl::StatusOr<std::string> Text(const OrderedJson& object, const char* key) {
  const OrderedJson& value = Get(object, key);
  if (value.is_string()) return value.get<std::string>();
  return Unsupported(absl::StrCat("a ", key, " that is no string"));
}

// The keys of `object` beside those that are always there.
absl::Status CheckKeys(const OrderedJson& object, std::vector<absl::string_view> known) {
  if (!object.is_object()) return Unsupported(DumpJson(object));
  known.insert(known.end(), {"type", "method"});
  for (const auto& [key, value] : object.get_ref<const Members&>()) {
    if (std::find(known.begin(), known.end(), key) == known.end()) {
      return Unsupported(absl::StrCat("\"", key, "\" in ", DumpJson(object)));
    }
  }
  return absl::OkStatus();
}

absl::Status Require(const OrderedJson& call, absl::string_view function,
                     const std::vector<absl::string_view>& names) {
  std::vector<std::string> missing;
  for (const absl::string_view name : names) {
    if (!call.contains(std::string(name))) missing.push_back(PythonRepr(name));
  }
  if (missing.empty()) return absl::OkStatus();
  return PythonError(
      "TypeError",
      absl::StrCat(function, "() missing ", missing.size(), " required positional argument",
                   missing.size() > 1 ? "s" : "", ": ", absl::StrJoin(missing, " and ")));
}

// --- The environment ---

// Sets exactly these of the variables that resolvers read, and unsets them again.
class ScopedEnvironment {
 public:
  explicit ScopedEnvironment(const OrderedJson& variables) {
    Clear();
    for (const auto& [name, value] : variables.items()) {
      if (value.is_string()) ::setenv(name.c_str(), value.get<std::string>().c_str(), 1);
      set_.push_back(name);
    }
  }
  ~ScopedEnvironment() {
    for (const std::string& name : set_) ::unsetenv(name.c_str());
    Clear();
  }
  ScopedEnvironment(const ScopedEnvironment&) = delete;
  ScopedEnvironment& operator=(const ScopedEnvironment&) = delete;

 private:
  static void Clear() {
    std::vector<std::string> names;
    for (char** entry = environ; *entry != nullptr; ++entry) {
      const absl::string_view text(*entry);
      const std::string name(text.substr(0, text.find('=')));
      if (absl::StartsWith(name, "SLURM_") || absl::StartsWith(name, "SM_") ||
          name == "TF_CONFIG" || name == "CUDA_VISIBLE_DEVICES") {
        names.push_back(name);
      }
    }
    for (const std::string& name : names) ::unsetenv(name.c_str());
  }

  std::vector<std::string> set_;
};

// --- The fakes ---

// Lists by selector, over all namespaces.
class VectorKubernetesClient final : public KubernetesClient {
 public:
  explicit VectorKubernetesClient(OrderedJson pods) : pods_(std::move(pods)) {}

  absl::StatusOr<PodList> ListPods(const PodSelection& selection, absl::Duration,
                                   std::stop_token) override {
    if (!selection.namespace_name.empty()) {
      return absl::InternalError("asked for one namespace in place of all");
    }
    PodList list;
    for (const OrderedJson& pod : Get(pods_, selection.label_selector.c_str())) {
      MILLRACE_RETURN_IF_ERROR(CheckKeys(pod, {"name", "phase", "host_ip", "pod_ip"}));
      Pod& added = list.pods.emplace_back();
      MILLRACE_ASSIGN_OR_RETURN(added.name, Text(pod, "name"));
      MILLRACE_ASSIGN_OR_RETURN(added.phase, Text(pod, "phase"));
      for (const auto& [key, ip] :
           {std::pair("host_ip", &added.host_ip), {"pod_ip", &added.pod_ip}}) {
        if (!Get(pod, key).is_null()) {
          MILLRACE_ASSIGN_OR_RETURN(*ip, Text(pod, key));
        }
      }
      added.uid = absl::StrCat("uid-", added.name);
    }
    return list;
  }

  absl::Status WatchPods(const PodSelection&, const std::string&,
                         const std::function<absl::Status(PodEvent)>&, std::stop_token) override {
    return Unsupported("watches of pods");
  }

  std::string Describe() const override { return "the fake client"; }

 private:
  const OrderedJson pods_;
};

// Stands for the configuration loaders of the Kubernetes client library.
class VectorConfigLoader final : public KubernetesConfigLoader {
 public:
  explicit VectorConfigLoader(OrderedJson pods) : pods_(std::move(pods)) {}

  absl::StatusOr<KubernetesAccess> InCluster() override {
    calls_.push_back("load_incluster_config");
    return Access();
  }
  absl::StatusOr<KubernetesAccess> KubeConfig(const std::string&) override {
    calls_.push_back("load_kube_config");
    return Access();
  }
  bool RunsInCluster() override { return true; }

  const OrderedJson& calls() const { return calls_; }

 private:
  KubernetesAccess Access() const {
    return {.client = std::make_unique<VectorKubernetesClient>(pods_), .namespace_name = ""};
  }

  const OrderedJson pods_;
  OrderedJson calls_ = OrderedJson::array();
};

// A subclass that adds only an empty spec and a master of ''.
class BaseResolver final : public AsTensorFlow<ResolverBase> {
 public:
  explicit BaseResolver(std::vector<std::string> devices)
      : AsTensorFlow(BaseOptions()), devices_(std::move(devices)) {}

  absl::StatusOr<ClusterSpec> cluster_spec() override { return ClusterSpec(); }
  absl::StatusOr<std::string> master(std::optional<std::string>, std::optional<int>,
                                     std::optional<std::string>) override {
    return std::string();
  }
  absl::StatusOr<std::optional<std::string>> rpc_layer() override {
    MILLRACE_ASSIGN_OR_RETURN(std::optional<std::string> set, ResolverBase::rpc_layer());
    if (set.has_value()) return set;
    return PythonError("AttributeError", "'Base' object has no attribute 'rpc_layer'");
  }

 protected:
  absl::StatusOr<std::vector<std::string>> DeviceNames() override { return devices_; }

 private:
  const std::vector<std::string> devices_;
};

// --- Subjects ---

struct Subject {
  std::string type;
  std::optional<TensorFlowClusterSpec> spec;
  std::unique_ptr<ClusterResolver> resolver;
  SlurmResolver* slurm = nullptr;                     // resolver, if it is one
  std::shared_ptr<VectorConfigLoader> config_loader;  // of a resolver of type kubernetes
  std::unique_ptr<LoopbackServer> gce;                // of a resolver of type gce
};

std::string PythonClassOf(const std::string& type) {
  static const auto* const classes =
      new std::map<std::string, std::string>{{"static", "SimpleClusterResolver"},
                                             {"tf_config", "TFConfigClusterResolver"},
                                             {"kubernetes", "KubernetesClusterResolver"},
                                             {"sagemaker", "SageMakerClusterResolver"},
                                             {"gce", "GCEClusterResolver"},
                                             {"slurm", "SlurmClusterResolver"},
                                             {"union", "UnionClusterResolver"},
                                             {"base", "Base"},
                                             {"cluster_spec", "ClusterSpec"}};
  const auto found = classes->find(type);
  return found == classes->end() ? type : found->second;
}

absl::StatusOr<std::unique_ptr<ClusterResolver>> MakeBase(const OrderedJson& description) {
  MILLRACE_RETURN_IF_ERROR(CheckKeys(description, {"devices"}));
  std::vector<std::string> devices;
  for (const OrderedJson& device : Get(description, "devices")) {
    if (!device.is_string()) return Unsupported("a device that is no string");
    devices.push_back(device.get<std::string>());
  }
  return std::make_unique<BaseResolver>(std::move(devices));
}

absl::StatusOr<std::unique_ptr<ClusterResolver>> MakeKubernetes(
    OrderedJson description, std::shared_ptr<VectorConfigLoader>* loader) {
  const OrderedJson pods = Get(description, "pods");
  const bool given =
      !description.contains("override_client") || PythonTruth(Get(description, "override_client"));
  description.erase("pods");
  description.erase("override_client");
  MILLRACE_ASSIGN_OR_RETURN(KubernetesResolverOptions options,
                            KubernetesOptionsFromJson(description, kMode));
  *loader = std::make_shared<VectorConfigLoader>(pods);
  if (given) options.override_client = std::make_shared<VectorKubernetesClient>(pods);
  return internal::MakeKubernetesResolver(std::move(options), {.config_loader = *loader});
}

// The Compute Engine API and the metadata server, of one group.
absl::StatusOr<std::unique_ptr<LoopbackServer>> ServeGce(const OrderedJson& pages) {
  const auto answer = [pages](const LoopbackServer::Request& request) -> OrderedJson {
    if (absl::StrContains(request.target, "/service-accounts/")) return {{"access_token", "t"}};
    if (absl::StrContains(request.target, "/listInstances?")) {
      size_t number = 0;
      const std::vector<std::string> parts = absl::StrSplit(request.target, "pageToken=");
      if (parts.size() > 1) number = std::stoul(parts[1]);
      OrderedJson listed = OrderedJson::object();
      if (number + 1 < pages.size()) listed["nextPageToken"] = absl::StrCat(number + 1);
      if (pages[number].is_null()) return listed;
      listed["items"] = OrderedJson::array();
      for (const OrderedJson& instance : pages[number]) {
        listed["items"].push_back(
            {{"instance", absl::StrCat("https://api/projects/p/zones/z/instances/",
                                       Get(instance, "name").get<std::string>())},
             {"status", "RUNNING"}});
      }
      return listed;
    }
    for (const OrderedJson& page : pages) {
      for (const OrderedJson& instance : page) {
        if (!absl::EndsWith(request.target,
                            "/instances/" + Get(instance, "name").get<std::string>())) {
          continue;
        }
        OrderedJson described = OrderedJson::object();
        if (!instance.contains("ip")) return described;
        described["networkInterfaces"] = OrderedJson::array();
        if (const OrderedJson& ip = Get(instance, "ip"); !ip.is_null()) {
          described["networkInterfaces"].push_back({{"networkIP", ip}});
        }
        return described;
      }
    }
    return {{"error", {{"message", "no such thing"}}}};
  };
  return LoopbackServer::Start({}, [answer](const auto& request, LoopbackServer::Peer& peer) {
    const OrderedJson body = answer(request);
    peer.Answer(body.contains("error") ? 404 : 200, DumpJson(body));
  });
}

absl::StatusOr<std::unique_ptr<ClusterResolver>> MakeGce(OrderedJson description,
                                                         std::unique_ptr<LoopbackServer>* server,
                                                         const ResolverMakers& makers) {
  MILLRACE_ASSIGN_OR_RETURN(*server, ServeGce(Get(description, "pages")));
  description.erase("pages");
  description["api_url"] = (*server)->url();
  description["metadata_url"] = (*server)->url();
  return MakeGceResolverFromJson(description, kMode, "", makers);
}

absl::Status BuildSpec(const OrderedJson& description, Subject* subject) {
  MILLRACE_RETURN_IF_ERROR(CheckKeys(description, {"cluster", "via"}));
  MILLRACE_RETURN_IF_ERROR(Require(description, "ClusterSpec.__init__", {"cluster"}));
  MILLRACE_ASSIGN_OR_RETURN(TensorFlowClusterSpec spec,
                            TensorFlowClusterSpec::FromJson(Get(description, "cluster")));
  if (description.contains("via")) {
    const OrderedJson& via = Get(description, "via");
    if (via != "copy" && via != "cluster_def") {
      return Unsupported(absl::StrCat("via ", DumpJson(via)));
    }
    spec = spec.Copy();
  }
  subject->spec = std::move(spec);
  return absl::OkStatus();
}

absl::StatusOr<Subject> Build(const OrderedJson& description) {
  Subject subject;
  MILLRACE_ASSIGN_OR_RETURN(subject.type, Text(description, "type"));
  if (subject.type == "cluster_spec") {
    MILLRACE_RETURN_IF_ERROR(BuildSpec(description, &subject));
    return subject;
  }
  for (const char* functions : {"hostlist", "tasks_per_node", "roles"}) {
    if (subject.type != functions) continue;
    MILLRACE_RETURN_IF_ERROR(CheckKeys(description, {}));
    return subject;
  }
  ResolverMakers makers = BasicResolverMakers();
  makers.by_type["base"] = [](const OrderedJson& base, ResolverBehavior, absl::string_view,
                              const ResolverMakers&) { return MakeBase(base); };
  makers.by_type["kubernetes"] = [&subject](const OrderedJson& kubernetes, ResolverBehavior,
                                            absl::string_view, const ResolverMakers&) {
    return MakeKubernetes(kubernetes, &subject.config_loader);
  };
  makers.by_type["gce"] = [&subject](const OrderedJson& gce, ResolverBehavior, absl::string_view,
                                     const ResolverMakers& all) {
    return MakeGce(gce, &subject.gce, all);
  };
  if (!makers.by_type.contains(subject.type)) {
    return Unsupported(absl::StrCat("the subject type ", subject.type));
  }
  MILLRACE_ASSIGN_OR_RETURN(subject.resolver, ResolverFromJson(description, makers, kMode));
  if (subject.type == "slurm") subject.slurm = static_cast<SlurmResolver*>(subject.resolver.get());
  return subject;
}

// --- Arguments ---

// A task as our methods take it, and what Python was given.
struct TaskArguments {
  std::optional<std::string> type;
  std::optional<int> id;
  const OrderedJson* python_type = nullptr;  // of a stand-in
  const OrderedJson* python_id = nullptr;
};

TaskArguments ReadTask(const OrderedJson& call) {
  TaskArguments task;
  const OrderedJson& type = Get(call, "task_type");
  if (type.is_string()) {
    task.type = type.get<std::string>();
  } else if (!type.is_null()) {
    task.type = kNoSuchJob;
    task.python_type = &type;
  }
  const OrderedJson& id = Get(call, "task_id");
  // As keys True is 1 and 2.0 is 2.
  const absl::StatusOr<int64_t> number = PythonIntOf(id);
  const bool whole = id.is_boolean() || id.is_number_integer() ||
                     (id.is_number() && static_cast<double>(*number) == id.get<double>());
  if (whole && *number >= std::numeric_limits<int>::min() &&
      *number <= std::numeric_limits<int>::max()) {
    task.id = static_cast<int>(*number);
    if (!id.is_number_integer()) task.python_id = &id;  // True and 2.0 stay so in messages
  } else if (!id.is_null()) {
    task.id = kNoSuchTask;
    task.python_id = &id;
  }
  return task;
}

// Puts what Python was given in the place of the stand-ins.
absl::Status Restore(const TaskArguments& task, const absl::Status& status) {
  std::string message(status.message());
  const auto replace = [&message](const std::string& stand_in, const OrderedJson& value,
                                  const std::string& text) -> absl::Status {
    if (!absl::StrContains(message, stand_in)) return absl::OkStatus();
    if (value.is_structured()) {
      return PythonError("TypeError",
                         absl::StrCat("unhashable type: '", PythonTypeName(value), "'"));
    }
    message = absl::StrReplaceAll(message, {{stand_in, text}});
    return absl::OkStatus();
  };
  if (task.python_type != nullptr) {
    MILLRACE_RETURN_IF_ERROR(
        replace(PythonRepr(kNoSuchJob), *task.python_type, PythonReprOf(*task.python_type)));
    MILLRACE_RETURN_IF_ERROR(
        replace(std::string(kNoSuchJob), *task.python_type, PythonStrOf(*task.python_type)));
  }
  if (task.python_id != nullptr) {
    MILLRACE_RETURN_IF_ERROR(replace(absl::StrCat("index ", task.id.value_or(0), " in"),
                                     *task.python_id,
                                     absl::StrCat("index ", PythonReprOf(*task.python_id), " in")));
  }
  const std::optional<std::string> python_class = TensorFlowErrorClass(status);
  return python_class.has_value() ? PythonError(*python_class, message) : status;
}

template <typename T>
Result ToResult(const absl::StatusOr<T>& value) {
  if (!value.ok()) return value.status();
  return OrderedJson(*value);
}

template <typename T>
Result ToResult(const absl::StatusOr<std::optional<T>>& value) {
  if (!value.ok()) return value.status();
  return value->has_value() ? OrderedJson(**value) : OrderedJson();
}

Result SpecResult(ClusterResolver* resolver) {
  MILLRACE_ASSIGN_OR_RETURN(const ClusterSpec spec, resolver->cluster_spec());
  return ClusterSpecToJson(spec);
}

// --- Calls ---

Result CallSpec(const TensorFlowClusterSpec& spec, const std::string& method,
                const OrderedJson& call) {
  const auto require = [&call, &method](std::vector<absl::string_view> names) -> absl::Status {
    MILLRACE_RETURN_IF_ERROR(CheckKeys(call, names));
    return Require(call, absl::StrCat("ClusterSpec.", method), names);
  };
  const OrderedJson& job = Get(call, "job_name");
  if (method == "job_tasks" || method == "num_tasks") {
    MILLRACE_RETURN_IF_ERROR(require({"job_name"}));
    return method == "job_tasks" ? spec.JobTasks(job) : ToResult(spec.NumTasks(job));
  }
  if (method == "task_address") {
    MILLRACE_RETURN_IF_ERROR(require({"job_name", "task_index"}));
    return ToResult(spec.TaskAddress(job, Get(call, "task_index")));
  }
  if (method == "equals") {
    MILLRACE_RETURN_IF_ERROR(CheckKeys(call, {"other", "other_type"}));
    const OrderedJson& other = Get(call, "other");
    if (Get(call, "other_type") == "dict") return OrderedJson(spec.EqualsDict(other));
    if (Get(call, "other_type") != "cluster_spec") return Unsupported("the other_type");
    MILLRACE_ASSIGN_OR_RETURN(const auto made, TensorFlowClusterSpec::FromJson(other));
    return OrderedJson(spec.Equals(made));
  }
  MILLRACE_RETURN_IF_ERROR(CheckKeys(call, {}));
  if (method == "as_dict") return spec.AsDict();
  if (method == "jobs") return OrderedJson(spec.jobs());
  if (method == "bool") return OrderedJson(spec.Truth());
  if (method == "repr") return ToResult(spec.Repr());
  return Unsupported(absl::StrCat("the method ", method, " of a cluster_spec"));
}

Result CallHostlist(const std::string& type, const std::string& method, const OrderedJson& call) {
  if (method != "expand") return Unsupported(absl::StrCat("the method ", method, " of ", type));
  MILLRACE_RETURN_IF_ERROR(CheckKeys(call, {type}));
  MILLRACE_RETURN_IF_ERROR(
      Require(call, type == "hostlist" ? "expand_hostlist" : "expand_tasks_per_node", {type}));
  const OrderedJson& text = Get(call, type.c_str());
  if (type == "hostlist") {
    if (text.is_string()) return ToResult(ExpandHostlistAsTensorFlow(text.get<std::string>()));
    if (text.is_structured()) return Unsupported("a hostlist that is a list");
    return PythonError("ValueError",
                       absl::StrCat("Invalid hostlist format \"", PythonStrOf(text), "\": '",
                                    PythonTypeName(text), "' object is not iterable"));
  }
  if (text.is_string()) return ToResult(ExpandTasksPerNodeAsTensorFlow(text.get<std::string>()));
  return PythonError("ValueError", absl::StrCat("Invalid tasks-per-node list format \"",
                                                PythonStrOf(text), "\": '", PythonTypeName(text),
                                                "' object has no attribute 'split'"));
}

Result CallRoles(const std::string& method, const OrderedJson& call) {
  const bool counts = method == "worker_count";
  if (!counts && method != "is_chief" && method != "id_in_cluster") {
    return Unsupported(absl::StrCat("the method ", method, " of roles"));
  }
  std::vector<absl::string_view> names = {"cluster_spec", "task_type"};
  if (!counts) names.push_back("task_id");
  MILLRACE_RETURN_IF_ERROR(CheckKeys(call, names));
  if (method != "is_chief") MILLRACE_RETURN_IF_ERROR(Require(call, method, names));
  const OrderedJson& cluster = Get(call, "cluster_spec");
  if (!cluster.is_object()) {
    return PythonError("ValueError",
                       "`cluster_spec' should be dict or a `tf.train.ClusterSpec` or a "
                       "`tf.train.ClusterDef` object");
  }
  MILLRACE_ASSIGN_OR_RETURN(const auto made, TensorFlowClusterSpec::FromJson(cluster));
  MILLRACE_ASSIGN_OR_RETURN(const ClusterSpec spec, made.ToClusterSpec());
  const TaskArguments task = ReadTask(call);
  Result result;
  if (counts) {
    result = ToResult(WorkerCount(spec, task.type, kMode));
  } else if (method == "is_chief") {
    result = ToResult(IsChief(spec, task.type, task.id, kMode));
  } else {
    result = ToResult(IdInCluster(spec, task.type, task.id, kMode));
  }
  if (!result.ok()) return Restore(task, result.status());
  return result;
}

Result CallMaster(ClusterResolver* resolver, const OrderedJson& call) {
  MILLRACE_RETURN_IF_ERROR(CheckKeys(call, {"task_type", "task_id", "rpc_layer"}));
  const TaskArguments task = ReadTask(call);
  std::optional<std::string> rpc_layer;
  if (const OrderedJson& given = Get(call, "rpc_layer"); !given.is_null()) {
    rpc_layer = PythonTruth(given) ? PythonStrOf(given) : "";
  }
  const absl::StatusOr<std::string> master = resolver->master(task.type, task.id, rpc_layer);
  if (!master.ok()) return Restore(task, master.status());
  return OrderedJson(*master);
}

Result CallNumAccelerators(ClusterResolver* resolver, const OrderedJson& call) {
  MILLRACE_RETURN_IF_ERROR(CheckKeys(call, {"task_type", "task_id"}));
  TaskArguments task = ReadTask(call);
  // It formats the type, whatever it is.
  if (task.python_type != nullptr) task.type = PythonStrOf(*task.python_type);
  if (task.python_id != nullptr) return Unsupported("a task_id that is no integer");
  return ToResult(resolver->num_accelerators(task.type, task.id));
}

Result CallSet(const Subject& subject, const OrderedJson& call) {
  MILLRACE_RETURN_IF_ERROR(CheckKeys(call, {"property", "value"}));
  MILLRACE_ASSIGN_OR_RETURN(const std::string property, Text(call, "property"));
  if (property == "environment") {
    return PythonError("AttributeError",
                       absl::StrCat("property 'environment' of '", PythonClassOf(subject.type),
                                    "' object has no setter"));
  }
  const OrderedJson& value = Get(call, "value");
  ClusterResolver& resolver = *subject.resolver;
  if (property == "task_id" && (value.is_null() || value.is_number_integer())) {
    return resolver.set_task_id(ReadTask({{"task_id", value}}).id).ok()
               ? Result(OrderedJson())
               : Unsupported("the task_id to set");
  }
  if (!value.is_null() && !value.is_string()) return Unsupported("the value to set");
  std::optional<std::string> text;
  if (value.is_string()) text = value.get<std::string>();
  absl::Status status = Unsupported(absl::StrCat("the property ", property));
  if (property == "task_type") status = resolver.set_task_type(text);
  if (property == "rpc_layer") status = resolver.set_rpc_layer(text);
  MILLRACE_RETURN_IF_ERROR(status);
  return OrderedJson();
}

OrderedJson TaskInfo(const SlurmResolver& slurm) {
  const SlurmTaskInfo info = slurm.GetTaskInfo();
  OrderedJson list = OrderedJson::array({nullptr, nullptr});
  if (info.task_type.has_value()) list[0] = *info.task_type;
  if (info.task_id.has_value()) list[1] = *info.task_id;
  return list;
}

Result ObserveSageMaker(ClusterResolver* resolver) {
  OrderedJson all = OrderedJson::object();
  MILLRACE_ASSIGN_OR_RETURN(all["cluster_spec"], SpecResult(resolver));
  MILLRACE_ASSIGN_OR_RETURN(all["task_id"], ToResult(resolver->task_id()));
  MILLRACE_ASSIGN_OR_RETURN(all["master"], ToResult(resolver->master()));
  return all;
}

Result ObserveAll(SlurmResolver* slurm) {
  OrderedJson all = OrderedJson::object();
  MILLRACE_ASSIGN_OR_RETURN(all["cluster_spec"], SpecResult(slurm));
  all["task_info"] = TaskInfo(*slurm);
  const char* devices = std::getenv("CUDA_VISIBLE_DEVICES");
  all["cuda_visible_devices"] = devices == nullptr ? OrderedJson() : OrderedJson(devices);
  MILLRACE_ASSIGN_OR_RETURN(all["num_accelerators"], ToResult(slurm->num_accelerators()));
  return all;
}

Result CallResolver(const Subject& subject, const std::string& method, const OrderedJson& call) {
  ClusterResolver* resolver = subject.resolver.get();
  if (method == "master") return CallMaster(resolver, call);
  if (method == "num_accelerators") return CallNumAccelerators(resolver, call);
  if (method == "set") return CallSet(subject, call);
  MILLRACE_RETURN_IF_ERROR(CheckKeys(call, {}));
  if (method == "cluster_spec") return SpecResult(resolver);
  if (method == "task_type") return ToResult(resolver->task_type());
  if (method == "task_id") return ToResult(resolver->task_id());
  if (method == "rpc_layer") return ToResult(resolver->rpc_layer());
  if (method == "environment") return ToResult(resolver->environment());
  if (method == "get_task_info" && subject.slurm == nullptr) {
    return PythonError("AttributeError", absl::StrCat("'", PythonClassOf(subject.type),
                                                      "' object has no attribute 'get_task_info'"));
  }
  if (method == "get_task_info") return TaskInfo(*subject.slurm);
  if (method == "observe_all" && subject.slurm != nullptr) return ObserveAll(subject.slurm);
  if (method == "observe_all" && subject.type == "sagemaker") return ObserveSageMaker(resolver);
  if (method == "config_calls" && subject.config_loader != nullptr) {
    MILLRACE_RETURN_IF_ERROR(resolver->cluster_spec());
    return subject.config_loader->calls();
  }
  return Unsupported(absl::StrCat("the method ", method, " of a resolver of type ", subject.type));
}

Result BuildAndCall(const OrderedJson& vector) {
  MILLRACE_ASSIGN_OR_RETURN(const Subject subject, Build(Get(vector, "subject")));
  const OrderedJson& call = Get(vector, "call");
  MILLRACE_ASSIGN_OR_RETURN(const std::string method, Text(call, "method"));
  if (method == "construct") {
    MILLRACE_RETURN_IF_ERROR(CheckKeys(call, {}));
    return OrderedJson();
  }
  if (subject.spec.has_value()) return CallSpec(*subject.spec, method, call);
  if (subject.resolver != nullptr) return CallResolver(subject, method, call);
  if (subject.type == "roles") return CallRoles(method, call);
  return CallHostlist(subject.type, method, call);
}

// --- Comparison ---

// The class and those it is derived from, but Exception.
std::vector<std::string> Ancestry(const std::string& python_class) {
  static const auto* const parents =
      new std::map<std::string, std::string>{{"JSONDecodeError", "ValueError"},
                                             {"UnicodeDecodeError", "ValueError"},
                                             {"KeyError", "LookupError"},
                                             {"IndexError", "LookupError"},
                                             {"ZeroDivisionError", "ArithmeticError"},
                                             {"OverflowError", "ArithmeticError"},
                                             {"NotImplementedError", "RuntimeError"},
                                             {"RecursionError", "RuntimeError"}};
  std::vector<std::string> classes = {python_class};
  for (auto parent = parents->find(python_class); parent != parents->end();
       parent = parents->find(parent->second)) {
    classes.push_back(parent->second);
  }
  return classes;
}

// {9, 3} and {3, 9} are the same set.
std::string WithSortedSets(absl::string_view message) {
  std::string out;
  while (true) {
    const size_t open = message.find('{');
    const size_t close = open == absl::string_view::npos ? open : message.find('}', open);
    if (close == absl::string_view::npos) return absl::StrCat(out, message);
    std::vector<absl::string_view> items =
        absl::StrSplit(message.substr(open + 1, close - open - 1), ", ");
    const bool numbers = std::all_of(items.begin(), items.end(), [](absl::string_view item) {
      return PythonInt(item).has_value();
    });
    if (numbers) std::sort(items.begin(), items.end());
    absl::StrAppend(&out, message.substr(0, open), "{", absl::StrJoin(items, ", "), "}");
    message.remove_prefix(close + 1);
  }
}

absl::Status Mismatch(const absl::StatusOr<OrderedJson>& result, const OrderedJson& expect) {
  const std::string found =
      result.ok() ? DumpJson(OrderedJson{{"value", *result}})
                  : absl::StrCat(TensorFlowErrorClass(result.status()).value_or("no Python class"),
                                 ": ", result.status().ToString());
  return absl::FailedPreconditionError(
      absl::StrCat("expected ", DumpJson(expect), "\n   found ", found));
}

}  // namespace

absl::StatusOr<VectorOutcome> RunVector(const OrderedJson& vector) {
  VectorOutcome outcome;
  if (vector.contains("not_expressible")) {
    outcome.skipped =
        absl::StrCat("not expressible: ", PythonStrOf(Get(vector, "not_expressible")));
    return outcome;
  }
  for (const auto& [key, value] : vector.items()) {
    if (key != "name" && key != "env" && key != "subject" && key != "call" && key != "expect" &&
        key != "note") {
      return Unsupported(absl::StrCat("\"", key, "\" in a case"));
    }
  }
  const ScopedEnvironment environment(Get(vector, "env"));
  outcome.result = BuildAndCall(vector);
  if (absl::IsUnimplemented(outcome.result.status())) return outcome.result.status();
  return outcome;
}

absl::Status CompareOutcome(const absl::StatusOr<OrderedJson>& result, const OrderedJson& expect) {
  if (expect.contains("value") == expect.contains("error")) {
    return Unsupported("an expect that has not either value or error");
  }
  if (expect.contains("value")) {
    const bool same = result.ok() && Json(*result) == Json(Get(expect, "value"));
    return same ? absl::OkStatus() : Mismatch(result, expect);
  }
  if (result.ok()) return Mismatch(result, expect);
  const std::vector<std::string> classes =
      Ancestry(TensorFlowErrorClass(result.status()).value_or(""));
  const std::string wanted = PythonStrOf(Get(expect, "error"));
  const bool same_class = std::find(classes.begin(), classes.end(), wanted) != classes.end();
  const bool same_message =
      !expect.contains("message") || WithSortedSets(result.status().message()) ==
                                         WithSortedSets(PythonStrOf(Get(expect, "message")));
  return same_class && same_message ? absl::OkStatus() : Mismatch(result, expect);
}

}  // namespace millrace
