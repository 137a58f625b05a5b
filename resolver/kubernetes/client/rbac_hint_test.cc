#include "resolver/kubernetes/client/rbac_hint.h"

#include <yaml-cpp/yaml.h>

#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace millrace {
namespace {

std::string At(const YAML::Node& node, const char* a, const char* b) {
  return node[a][b].as<std::string>();
}

TEST(RbacHintTest, ARoleForAServiceAccount) {
  const std::vector<YAML::Node> objects =
      YAML::LoadAll(RbacManifest("system:serviceaccount:home:runner", "training"));
  ASSERT_EQ(objects.size(), 2u);
  EXPECT_EQ(objects[0]["kind"].as<std::string>(), "Role");
  EXPECT_EQ(At(objects[0], "metadata", "namespace"), "training");
  EXPECT_EQ(objects[0]["rules"][0]["resources"][0].as<std::string>(), "pods");
  EXPECT_EQ(objects[0]["rules"][0]["verbs"].as<std::vector<std::string>>(),
            (std::vector<std::string>{"list", "watch"}));
  EXPECT_EQ(objects[1]["kind"].as<std::string>(), "RoleBinding");
  EXPECT_EQ(At(objects[1], "roleRef", "kind"), "Role");
  EXPECT_EQ(At(objects[1], "roleRef", "name"), At(objects[0], "metadata", "name"));
  const YAML::Node subject = objects[1]["subjects"][0];
  EXPECT_EQ(subject["kind"].as<std::string>(), "ServiceAccount");
  EXPECT_EQ(subject["name"].as<std::string>(), "runner");
  EXPECT_EQ(subject["namespace"].as<std::string>(), "home");
}

TEST(RbacHintTest, AClusterRoleForAUser) {
  const std::vector<YAML::Node> objects = YAML::LoadAll(RbacManifest("ann: \"x\"", ""));
  ASSERT_EQ(objects.size(), 2u);
  EXPECT_EQ(objects[0]["kind"].as<std::string>(), "ClusterRole");
  EXPECT_FALSE(objects[0]["metadata"]["namespace"].IsDefined());
  EXPECT_EQ(objects[1]["kind"].as<std::string>(), "ClusterRoleBinding");
  EXPECT_EQ(At(objects[1], "roleRef", "kind"), "ClusterRole");
  EXPECT_EQ(objects[1]["subjects"][0]["kind"].as<std::string>(), "User");
  EXPECT_EQ(objects[1]["subjects"][0]["name"].as<std::string>(), "ann: \"x\"");
}

TEST(RbacHintTest, TheServersMessageNamesTheUser) {
  EXPECT_EQ(ForbiddenUser("pods is forbidden: User \"system:serviceaccount:tf:default\" cannot "
                          "watch resource \"pods\" in API group \"\" in the namespace \"tf\""),
            "system:serviceaccount:tf:default");
  EXPECT_EQ(ForbiddenUser("forbidden"), "");
  EXPECT_EQ(ForbiddenUser("User \"unfinished"), "");
}

}  // namespace
}  // namespace millrace
