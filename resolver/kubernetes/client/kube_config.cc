#include "resolver/kubernetes/client/kube_config.h"

#include <yaml-cpp/yaml.h>

#include <cstddef>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "core/base/file.h"
#include "core/base/json.h"
#include "core/base/text.h"
#include "core/process/process.h"
#include "millrace/status_macros.h"

namespace millrace {
namespace {

constexpr size_t kMaxFileBytes = size_t{4} << 20;
constexpr absl::string_view kExecGroup = "client.authentication.k8s.io/";

// A mapping of a file, and where it stands, for error texts and relative paths. yaml-cpp throws
// where a node has another type than is asked for: only these functions ask.
class Section {
 public:
  Section(YAML::Node node, std::string file, std::string where)
      : node_(std::move(node)), file_(std::move(file)), where_(std::move(where)) {}

  [[nodiscard]] const std::string& file() const { return file_; }

  absl::Status Error(absl::string_view field, absl::string_view what) const {
    return ErrorAt(node_, field, what);
  }

  // A text, or "" if the field is absent or null.
  [[nodiscard]] absl::StatusOr<std::string> Text(const char* field) const {
    const YAML::Node value = node_[field];
    if (!value.IsDefined() || value.IsNull()) return std::string();
    if (!value.IsScalar()) return ErrorAt(value, field, "must be a text");
    return value.Scalar();
  }

  [[nodiscard]] absl::StatusOr<bool> Flag(const char* field) const {
    const YAML::Node value = node_[field];
    if (!value.IsDefined() || value.IsNull()) return false;
    bool flag = false;
    if (!value.IsScalar() || !YAML::convert<bool>::decode(value, flag)) {
      return ErrorAt(value, field, "must be true or false");
    }
    return flag;
  }

  // Base64 data, decoded.
  [[nodiscard]] absl::StatusOr<std::string> Data(const char* field) const {
    MILLRACE_ASSIGN_OR_RETURN(const std::string text, Text(field));
    std::string data;
    if (!absl::Base64Unescape(text, &data)) return Error(field, "must be base64");
    return data;
  }

  // A path; relative ones are relative to the file's folder.
  [[nodiscard]] absl::StatusOr<std::string> Path(const char* field) const {
    MILLRACE_ASSIGN_OR_RETURN(const std::string path, Text(field));
    return path.empty() ? path : InFolder(path);
  }

  [[nodiscard]] std::string InFolder(const std::string& path) const {
    const size_t slash = file_.rfind('/');
    return JoinPath(slash == std::string::npos ? "." : file_.substr(0, slash + 1), path);
  }

  [[nodiscard]] bool Has(const char* field) const {
    const YAML::Node value = node_[field];
    return value.IsDefined() && !value.IsNull();
  }

  // A mapping, empty if it is absent.
  [[nodiscard]] absl::StatusOr<Section> Map(const char* field) const {
    const YAML::Node value = node_[field];
    if (value.IsDefined() && !value.IsNull() && !value.IsMap()) {
      return ErrorAt(value, field, "must be a mapping");
    }
    return Section(value.IsDefined() && value.IsMap() ? value : YAML::Node(YAML::NodeType::Map),
                   file_, FieldPath(field));
  }

  // The mappings of a list, empty if it is absent.
  [[nodiscard]] absl::StatusOr<std::vector<Section>> List(const char* field) const {
    std::vector<Section> sections;
    const YAML::Node value = node_[field];
    if (!value.IsDefined() || value.IsNull()) return sections;
    if (!value.IsSequence()) return ErrorAt(value, field, "must be a list");
    for (const YAML::Node& item : value) {
      const std::string name = absl::StrCat(field, "[", sections.size(), "]");
      if (!item.IsMap()) return ErrorAt(item, name, "must be a mapping");
      sections.emplace_back(item, file_, FieldPath(name));
    }
    return sections;
  }

  [[nodiscard]] absl::StatusOr<std::vector<std::string>> Texts(const char* field) const {
    std::vector<std::string> texts;
    const YAML::Node value = node_[field];
    if (!value.IsDefined() || value.IsNull()) return texts;
    if (!value.IsSequence()) return ErrorAt(value, field, "must be a list");
    for (const YAML::Node& item : value) {
      if (!item.IsScalar()) return ErrorAt(item, field, "must be a list of texts");
      texts.push_back(item.Scalar());
    }
    return texts;
  }

 private:
  [[nodiscard]] std::string FieldPath(absl::string_view field) const {
    return where_.empty() ? std::string(field) : absl::StrCat(where_, ".", field);
  }

  absl::Status ErrorAt(const YAML::Node& node, absl::string_view field,
                       absl::string_view what) const {
    const int line = node.IsDefined() ? node.Mark().line : -1;
    return absl::InvalidArgumentError(absl::StrCat(file_,
                                                   line >= 0 ? absl::StrCat(":", line + 1) : "",
                                                   ": field \"", FieldPath(field), "\" ", what));
  }

  YAML::Node node_;
  std::string file_;
  std::string where_;
};

absl::StatusOr<Section> LoadFile(const std::string& path) {
  MILLRACE_ASSIGN_OR_RETURN(const std::string text, ReadFile(path, kMaxFileBytes));
  try {
    YAML::Node root = YAML::Load(text);
    if (root.IsNull()) root = YAML::Node(YAML::NodeType::Map);  // an empty file
    if (!root.IsMap()) {
      return absl::InvalidArgumentError(
          absl::StrCat(path, " is no kubeconfig: it holds no mapping"));
    }
    return Section(root, path, "");
  } catch (const YAML::Exception& error) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, error.mark.is_null() ? "" : absl::StrCat(":", error.mark.line + 1),
                     " is no YAML: ", Ellipsize(EscapeControls(error.msg), 200)));
  }
}

// Those that exist. A named file must.
absl::StatusOr<std::vector<Section>> LoadFiles(const KubeConfigOptions& options) {
  std::vector<std::string> paths;
  const std::string variable = EnvOr("KUBECONFIG", "");
  if (!options.path.empty()) {
    paths.push_back(options.path);
  } else if (!variable.empty()) {
    paths = absl::StrSplit(variable, ':', absl::SkipEmpty());
  } else if (const std::string home = EnvOr("HOME", ""); !home.empty()) {
    paths.push_back(JoinPath(home, ".kube/config"));
  }
  std::vector<Section> files;
  for (const std::string& path : paths) {
    absl::StatusOr<Section> file = LoadFile(path);
    if (file.ok()) {
      files.push_back(*std::move(file));
    } else if (!absl::IsNotFound(file.status())) {
      return file.status();
    }
  }
  if (files.empty()) {
    return absl::NotFoundError(absl::StrCat("there is no kubeconfig: looked at ",
                                            paths.empty() ? "nothing" : absl::StrJoin(paths, ", "),
                                            "; name one, or set KUBECONFIG"));
  }
  return files;
}

// The entry `name` of a list such as "users", and in it the mapping such as "user".
absl::StatusOr<Section> FindEntry(const std::vector<Section>& files, const char* list,
                                  const char* kind, const std::string& name) {
  std::vector<std::string> known;
  for (const Section& file : files) {
    MILLRACE_ASSIGN_OR_RETURN(const std::vector<Section> entries, file.List(list));
    for (const Section& entry : entries) {
      MILLRACE_ASSIGN_OR_RETURN(const std::string entry_name, entry.Text("name"));
      if (entry_name == name) return entry.Map(kind);
      known.push_back(entry_name);
    }
  }
  return absl::NotFoundError(absl::StrCat(
      files.front().file(), files.size() > 1 ? " and the files after it have" : " has", " no ",
      kind, " \"", EscapeControls(Ellipsize(name, 100)), "\"; there is ",
      known.empty() ? "none" : Ellipsize(EscapeControls(absl::StrJoin(known, ", ")), 300)));
}

absl::StatusOr<std::string> ChooseContext(const std::vector<Section>& files,
                                          const std::string& asked) {
  if (!asked.empty()) return asked;
  for (const Section& file : files) {
    MILLRACE_ASSIGN_OR_RETURN(std::string current, file.Text("current-context"));
    if (!current.empty()) return current;
  }
  return absl::FailedPreconditionError(
      absl::StrCat(files.front().file(),
                   " has no current-context: name a context, or run kubectl config use-context"));
}

absl::Status ReadCluster(const Section& cluster, KubeConfig* config) {
  MILLRACE_ASSIGN_OR_RETURN(config->server, cluster.Text("server"));
  if (!absl::StartsWith(config->server, "https://") &&
      !absl::StartsWith(config->server, "http://")) {
    return cluster.Error("server", "must be a URL such as https://10.0.0.1:6443");
  }
  MILLRACE_ASSIGN_OR_RETURN(config->tls.ca_pem, cluster.Data("certificate-authority-data"));
  if (config->tls.ca_pem.empty()) {
    MILLRACE_ASSIGN_OR_RETURN(config->tls.ca_file, cluster.Path("certificate-authority"));
  }
  MILLRACE_ASSIGN_OR_RETURN(config->tls.server_name, cluster.Text("tls-server-name"));
  MILLRACE_ASSIGN_OR_RETURN(config->tls.insecure_skip_verify,
                            cluster.Flag("insecure-skip-tls-verify"));
  if (config->tls.insecure_skip_verify &&
      (!config->tls.ca_pem.empty() || !config->tls.ca_file.empty())) {
    return cluster.Error("insecure-skip-tls-verify",
                         "makes no sense with a certificate-authority: remove one of them");
  }
  MILLRACE_ASSIGN_OR_RETURN(config->proxy_url, cluster.Text("proxy-url"));
  return absl::OkStatus();
}

// spec.cluster of what a plugin is told.
absl::StatusOr<std::string> ClusterInfo(const KubeConfig& config) {
  std::string ca = config.tls.ca_pem;
  if (!config.tls.ca_file.empty()) {
    MILLRACE_ASSIGN_OR_RETURN(ca, ReadFile(config.tls.ca_file, kMaxFileBytes));
  }
  Json info = {{"server", config.server}};
  if (!ca.empty()) info["certificate-authority-data"] = absl::Base64Escape(ca);
  if (!config.tls.server_name.empty()) info["tls-server-name"] = config.tls.server_name;
  if (config.tls.insecure_skip_verify) info["insecure-skip-tls-verify"] = true;
  if (!config.proxy_url.empty()) info["proxy-url"] = config.proxy_url;
  return DumpJson(info);
}

absl::StatusOr<ExecPlugin> ReadPlugin(const Section& exec, const KubeConfig& config) {
  ExecPlugin plugin;
  MILLRACE_ASSIGN_OR_RETURN(plugin.api_version, exec.Text("apiVersion"));
  if (plugin.api_version != absl::StrCat(kExecGroup, "v1") &&
      plugin.api_version != absl::StrCat(kExecGroup, "v1beta1")) {
    return exec.Error("apiVersion", absl::StrCat("must be ", kExecGroup, "v1 or ", kExecGroup,
                                                 "v1beta1; update the plugin's configuration"));
  }
  MILLRACE_ASSIGN_OR_RETURN(plugin.command, exec.Text("command"));
  if (plugin.command.empty()) return exec.Error("command", "is missing");
  if (absl::StrContains(plugin.command, '/')) plugin.command = exec.InFolder(plugin.command);
  MILLRACE_ASSIGN_OR_RETURN(plugin.args, exec.Texts("args"));
  MILLRACE_ASSIGN_OR_RETURN(const std::vector<Section> variables, exec.List("env"));
  for (const Section& variable : variables) {
    MILLRACE_ASSIGN_OR_RETURN(std::string name, variable.Text("name"));
    MILLRACE_ASSIGN_OR_RETURN(std::string value, variable.Text("value"));
    if (name.empty() || absl::StrContains(name, '=')) {
      return variable.Error("name", "must be the name of a variable");
    }
    plugin.env.emplace_back(std::move(name), std::move(value));
  }
  MILLRACE_ASSIGN_OR_RETURN(plugin.install_hint, exec.Text("installHint"));
  MILLRACE_ASSIGN_OR_RETURN(const std::string mode, exec.Text("interactiveMode"));
  if (mode == "Always") {
    return exec.Error("interactiveMode",
                      "is Always, but nobody can answer the plugin here; use another user");
  }
  if (!mode.empty() && mode != "Never" && mode != "IfAvailable") {
    return exec.Error("interactiveMode", "must be Never, IfAvailable or Always");
  }
  MILLRACE_ASSIGN_OR_RETURN(const bool wants_cluster, exec.Flag("provideClusterInfo"));
  if (wants_cluster) {
    MILLRACE_ASSIGN_OR_RETURN(plugin.cluster_info, ClusterInfo(config));
  }
  return plugin;
}

absl::Status ReadImpersonation(const Section& user, CredentialOptions* credentials) {
  MILLRACE_ASSIGN_OR_RETURN(const std::string as, user.Text("as"));
  MILLRACE_ASSIGN_OR_RETURN(const std::string uid, user.Text("as-uid"));
  MILLRACE_ASSIGN_OR_RETURN(const std::vector<std::string> groups, user.Texts("as-groups"));
  if (user.Has("as-user-extra")) return user.Error("as-user-extra", "is not supported; remove it");
  if (!as.empty()) credentials->headers.emplace_back("Impersonate-User", as);
  if (!uid.empty()) credentials->headers.emplace_back("Impersonate-Uid", uid);
  for (const std::string& group : groups) {
    credentials->headers.emplace_back("Impersonate-Group", group);
  }
  return absl::OkStatus();
}

absl::Status ReadUser(const Section& user, KubeConfig* config) {
  CredentialOptions& credentials = config->credentials;
  for (const char* field : {"username", "password"}) {
    if (user.Has(field)) {
      return absl::FailedPreconditionError(
          absl::StrCat(user.Error(field, "").message(),
                       "asks for basic auth, which Kubernetes removed in 1.19: use a token, a "
                       "client certificate or "
                       "an exec plugin"));
    }
  }
  if (user.Has("auth-provider")) {
    return absl::FailedPreconditionError(absl::StrCat(
        user.Error("auth-provider", "").message(),
        "asks for a built-in provider, which Kubernetes removed in 1.26: use an exec plugin "
        "(such as gke-gcloud-auth-plugin or kubelogin)"));
  }
  // As in kubectl, data count before files, and a token file before a token.
  MILLRACE_ASSIGN_OR_RETURN(credentials.token_file, user.Path("tokenFile"));
  if (credentials.token_file.empty()) {
    MILLRACE_ASSIGN_OR_RETURN(credentials.token, user.Text("token"));
  }
  MILLRACE_ASSIGN_OR_RETURN(credentials.client_certificate_pem,
                            user.Data("client-certificate-data"));
  if (credentials.client_certificate_pem.empty()) {
    MILLRACE_ASSIGN_OR_RETURN(credentials.client_certificate_file, user.Path("client-certificate"));
  }
  MILLRACE_ASSIGN_OR_RETURN(credentials.client_key_pem, user.Data("client-key-data"));
  if (credentials.client_key_pem.empty()) {
    MILLRACE_ASSIGN_OR_RETURN(credentials.client_key_file, user.Path("client-key"));
  }
  const bool has_certificate =
      !credentials.client_certificate_pem.empty() || !credentials.client_certificate_file.empty();
  const bool has_key = !credentials.client_key_pem.empty() || !credentials.client_key_file.empty();
  if (has_certificate != has_key) {
    return user.Error(has_key ? "client-certificate" : "client-key", "is missing: they are a pair");
  }
  // A token makes the plugin superfluous.
  if (user.Has("exec") && credentials.token.empty() && credentials.token_file.empty()) {
    MILLRACE_ASSIGN_OR_RETURN(const Section exec, user.Map("exec"));
    MILLRACE_ASSIGN_OR_RETURN(credentials.exec, ReadPlugin(exec, *config));
  }
  return ReadImpersonation(user, &credentials);
}

absl::StatusOr<KubeConfig> Load(const KubeConfigOptions& options) {
  MILLRACE_ASSIGN_OR_RETURN(const std::vector<Section> files, LoadFiles(options));
  KubeConfig config;
  MILLRACE_ASSIGN_OR_RETURN(config.context, ChooseContext(files, options.context));
  MILLRACE_ASSIGN_OR_RETURN(const Section context,
                            FindEntry(files, "contexts", "context", config.context));
  MILLRACE_ASSIGN_OR_RETURN(config.namespace_name, context.Text("namespace"));
  if (config.namespace_name.empty()) config.namespace_name = "default";
  MILLRACE_ASSIGN_OR_RETURN(const std::string cluster_name, context.Text("cluster"));
  if (cluster_name.empty()) return context.Error("cluster", "is missing");
  MILLRACE_ASSIGN_OR_RETURN(const Section cluster,
                            FindEntry(files, "clusters", "cluster", cluster_name));
  MILLRACE_RETURN_IF_ERROR(ReadCluster(cluster, &config));
  MILLRACE_ASSIGN_OR_RETURN(const std::string user_name, context.Text("user"));
  if (!user_name.empty()) {  // else anonymous
    MILLRACE_ASSIGN_OR_RETURN(const Section user, FindEntry(files, "users", "user", user_name));
    MILLRACE_RETURN_IF_ERROR(ReadUser(user, &config));
  }
  return config;
}

}  // namespace

absl::StatusOr<KubeConfig> LoadKubeConfig(const KubeConfigOptions& options) {
  try {
    return Load(options);
  } catch (const YAML::Exception& error) {
    return absl::InvalidArgumentError(
        absl::StrCat("the kubeconfig cannot be read: ", Ellipsize(EscapeControls(error.msg), 200)));
  }
}

}  // namespace millrace
