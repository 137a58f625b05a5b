#include <map>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "core/base/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "millrace/resolver.h"

namespace millrace {
namespace {

using ::absl::StatusCode;
using ::testing::HasSubstr;

TEST(ResolverFromJsonTextTest, MakesAUnionOfOthers) {
  auto resolver = ResolverFromJson(R"({"type": "union", "resolvers": [
      {"type": "static", "cluster_spec": {"ps": ["h0:1"]}},
      {"type": "static", "cluster_spec": {"worker": ["h1:1", "h2:1"]}}]})");
  ASSERT_THAT(resolver, IsOk());
  const auto spec = (*resolver)->cluster_spec();
  ASSERT_THAT(spec, IsOk());
  EXPECT_EQ(spec->ToJson(), R"({"ps":["h0:1"],"worker":["h1:1","h2:1"]})");
}

// Each is refused by its own maker, for a member that is its own.
TEST(ResolverFromJsonTextTest, KnowsEveryTypeThatTheHeaderLists) {
  const std::map<std::string, std::string> members = {
      {"static", "cluster_spec"}, {"tf_config", "environment"},
      {"sagemaker", "port"},      {"slurm", "port_base"},
      {"kubernetes", "ports"},    {"gce", "instance_group"},
      {"etcd", "endpoints"},      {"dns", "jobs"},
      {"spark", "url"},           {"cluster", "completeness"},
      {"union", "resolvers"}};
  for (const auto& [type, member] : members) {
    EXPECT_THAT(
        ResolverFromJson(absl::StrCat(R"({"type": ")", type, R"(", ")", member, R"(": [[7]]})")),
        StatusIs(StatusCode::kInvalidArgument, HasSubstr(member)))
        << type;
  }
}

TEST(ResolverFromJsonTextTest, TensorFlowHasNoWayToBeWrongAboutWhatItHasNot) {
  for (const std::string type : {"spark", "cluster", "etcd", "dns"}) {
    EXPECT_THAT(ResolverFromJson(absl::StrCat(R"({"type": ")", type, R"("})"),
                                 ResolverBehavior::kTensorFlow),
                StatusIs(StatusCode::kInvalidArgument,
                         HasSubstr(absl::StrCat("TensorFlow has no resolver like \"", type))));
  }
}

TEST(ResolverFromJsonTextTest, RefusesWhatIsNoDescription) {
  EXPECT_THAT(ResolverFromJson("{"), StatusIs(StatusCode::kInvalidArgument, HasSubstr("resolver")));
  EXPECT_THAT(ResolverFromJson("[]"), StatusIs(StatusCode::kInvalidArgument));
  EXPECT_THAT(ResolverFromJson(R"({"type": "zookeeper"})"),
              StatusIs(StatusCode::kInvalidArgument, HasSubstr("zookeeper")));
}

}  // namespace
}  // namespace millrace
