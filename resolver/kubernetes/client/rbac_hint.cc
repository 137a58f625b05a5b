#include "resolver/kubernetes/client/rbac_hint.h"

#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "core/base/json.h"
#include "core/base/text.h"

namespace millrace {
namespace {

constexpr absl::string_view kName = "millrace-resolver";

// A JSON string is a YAML string.
std::string Quoted(absl::string_view text) { return DumpJson(Json(std::string(text))); }

std::string Subject(absl::string_view user, absl::string_view namespace_name) {
  absl::string_view account = user;
  if (absl::ConsumePrefix(&account, "system:serviceaccount:")) {
    const std::vector<absl::string_view> parts = absl::StrSplit(account, absl::MaxSplits(':', 1));
    if (parts.size() == 2) {
      return absl::StrCat("{kind: ServiceAccount, name: ", Quoted(parts[1]),
                          ", namespace: ", Quoted(parts[0]), "}");
    }
  }
  if (!user.empty()) {
    return absl::StrCat("{kind: User, name: ", Quoted(user),
                        ", apiGroup: rbac.authorization.k8s.io}");
  }
  return absl::StrCat("{kind: ServiceAccount, name: default, namespace: ",
                      Quoted(namespace_name.empty() ? "default" : namespace_name), "}");
}

}  // namespace

std::string RbacManifest(absl::string_view user, absl::string_view namespace_name) {
  const absl::string_view scope = namespace_name.empty() ? "Cluster" : "";
  const std::string metadata = namespace_name.empty()
                                   ? absl::StrCat("metadata: {name: ", kName, "}\n")
                                   : absl::StrCat("metadata: {name: ", kName,
                                                  ", namespace: ", Quoted(namespace_name), "}\n");
  return absl::StrCat(
      "apiVersion: rbac.authorization.k8s.io/v1\n", "kind: ", scope, "Role\n", metadata,
      "rules: [{apiGroups: [\"\"], resources: [pods], verbs: [list, watch]}]\n", "---\n",
      "apiVersion: rbac.authorization.k8s.io/v1\n", "kind: ", scope, "RoleBinding\n", metadata,
      "roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ", scope, "Role, name: ", kName, "}\n",
      "subjects: [", Subject(user, namespace_name), "]\n");
}

std::string ForbiddenUser(absl::string_view message) {
  constexpr absl::string_view kBefore = "User \"";
  const size_t begin = message.find(kBefore);
  if (begin == absl::string_view::npos) return "";
  message.remove_prefix(begin + kBefore.size());
  const size_t end = message.find('"');
  if (end == absl::string_view::npos) return "";
  return EscapeControls(Ellipsize(message.substr(0, end), 256));
}

}  // namespace millrace
