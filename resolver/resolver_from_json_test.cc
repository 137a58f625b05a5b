#include "resolver/resolver_from_json.h"

#include <string>

#include "core/base/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "millrace/tensorflow_error.h"
#include "resolver/every/basic_resolvers.h"

namespace millrace {
namespace {

using ::testing::HasSubstr;
using ::testing::Optional;

absl::StatusOr<std::unique_ptr<ClusterResolver>> Make(
    const std::string& json, ResolverBehavior behavior = ResolverBehavior::kCorrect) {
  absl::StatusOr<OrderedJson> description = ParseOrderedJson(json);
  EXPECT_THAT(description, IsOk());
  return ResolverFromJson(description.value_or(OrderedJson()), BasicResolverMakers(), behavior);
}

void ExpectMalformed(const std::string& json, const std::string& substring) {
  EXPECT_THAT(Make(json), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(substring)))
      << json;
}

TEST(ResolverFromJsonTest, MakesAStaticResolver) {
  const auto resolver = Make(
      R"({"type":"static","cluster_spec":{"z":["a:1"],"w":["b:1"]},"master":"m","rpc_layer":"grpc",
          "environment":"lab","num_accelerators":{"GPU":4}})");
  ASSERT_THAT(resolver, IsOk());
  EXPECT_EQ((*resolver)->cluster_spec()->ToJson(), R"({"z":["a:1"],"w":["b:1"]})");
  EXPECT_THAT((*resolver)->master(), IsOkAndHolds("grpc://m"));
  EXPECT_THAT((*resolver)->environment(), IsOkAndHolds(Optional(std::string("lab"))));
  EXPECT_THAT((*resolver)->num_accelerators(),
              IsOkAndHolds(std::map<std::string, int>{{"GPU", 4}}));
}

TEST(ResolverFromJsonTest, MakesAUnionOfUnions) {
  const auto resolver = Make(
      R"({"type":"union","task_type":"w","task_id":1,"resolvers":[
          {"type":"static","cluster_spec":{"w":["a:1"]}},
          {"type":"union","resolvers":[{"type":"static","cluster_spec":{"w":["b:1"]}}]}]})");
  ASSERT_THAT(resolver, IsOk());
  EXPECT_EQ((*resolver)->cluster_spec()->ToJson(), R"({"w":["a:1","b:1"]})");
  EXPECT_THAT((*resolver)->master(), IsOkAndHolds("b:1"));
}

TEST(ResolverFromJsonTest, MakesTheOthers) {
  EXPECT_THAT(Make(R"({"type":"tf_config","task_type":"w","task_id":null,"environment":"x"})"),
              IsOk());
  // Not in a step here, which is the resolver's own error.
  EXPECT_THAT(Make(R"({"type":"slurm","jobs":{"ps":1,"worker":2},"tasks_per_node":{"h":3}})"),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("SLURM_PROCID")));
}

TEST(ResolverFromJsonTest, ErrorsNameTheMemberByItsPath) {
  ExpectMalformed("[]", "must be an object, found array");
  ExpectMalformed(
      "{}", "\"type\" must be one of sagemaker, slurm, static, tf_config, union, found nothing");
  ExpectMalformed(R"({"type":"gce"})", "found 'gce'");
  ExpectMalformed(R"({"type":5})", "\"type\" must be a string, found integer");
  ExpectMalformed(R"({"type":"static"})", "\"cluster_spec\" is missing");
  ExpectMalformed(R"({"type":"static","cluster_spec":[]})", "\"cluster_spec\"");
  ExpectMalformed(R"({"type":"static","cluster_spec":{},"master":1})",
                  "\"master\" must be a string, found integer");
  ExpectMalformed(R"({"type":"static","cluster_spec":{},"task_id":"0"})",
                  "\"task_id\" must be an integer, found string");
  ExpectMalformed(R"({"type":"static","cluster_spec":{},"task_id":99999999999})", "\"task_id\"");
  ExpectMalformed(R"({"type":"static","cluster_spec":{},"task_id":18446744073709551615})",
                  "\"task_id\"");
  ExpectMalformed(R"({"type":"static","cluster_spec":{},"task_id":-1})", "task_id");
  ExpectMalformed(R"({"type":"static","cluster_spec":{},"num_accelerators":{"GPU":"x"}})",
                  "\"num_accelerators.GPU\" must be an integer");
  ExpectMalformed(R"({"type":"static","cluster_spec":{},"spec":1})",
                  "\"spec\" is not known; there are cluster_spec");
  ExpectMalformed(R"({"type":"tf_config","environment":1})", "\"environment\"");
  ExpectMalformed(R"({"type":"slurm","jobs":[]})", "\"jobs\" must be an object, found array");
  ExpectMalformed(R"({"type":"slurm","jobs":{"w":1.5}})", "\"jobs.w\" must be an integer");
  ExpectMalformed(R"({"type":"slurm","tasks_per_node":"2"})", "\"tasks_per_node\"");
  ExpectMalformed(R"({"type":"slurm","auto_set_gpu":1})", "\"auto_set_gpu\" must be a boolean");
  ExpectMalformed(R"({"type":"union"})", "\"resolvers\" is missing");
  ExpectMalformed(R"({"type":"union","resolvers":{}})", "\"resolvers\" must be an array");
  ExpectMalformed(R"({"type":"union","resolvers":[]})", "at least one resolver");
  ExpectMalformed(R"({"type":"union","resolvers":[3]})",
                  "\"resolvers[0]\" must be an object, found integer");
  ExpectMalformed(
      R"({"type":"union","resolvers":[{"type":"union","resolvers":[{"type":"static","cluster_spec":{},"x":1}]}]})",
      "\"resolvers[0].resolvers[0].x\" is not known");
}

TEST(ResolverFromJsonTest, TensorFlowsErrorsAreThoseOfItsConstructors) {
  const auto fails = [](const std::string& json, const std::string& python_class,
                        const std::string& message) {
    const absl::Status status = Make(json, ResolverBehavior::kTensorFlow).status();
    EXPECT_EQ(status.message(), message);
    EXPECT_THAT(TensorFlowErrorClass(status), Optional(python_class)) << status;
  };
  fails(R"({"type":"static","cluster_spec":["a"]})", "TypeError",
        "cluster_spec must be a `tf.train.ClusterSpec`.");
  fails(R"({"type":"static","cluster_spec":null})", "TypeError",
        "cluster_spec must be a `tf.train.ClusterSpec`.");
  fails(R"({"type":"static"})", "TypeError",
        "SimpleClusterResolver.__init__() missing 1 required positional argument: 'cluster_spec'");
  fails(R"({"type":"static","cluster_spec":{},"master":null})", "TypeError",
        "master must be a string.");
  fails(R"({"type":"static","cluster_spec":{},"foo":1})", "TypeError",
        "SimpleClusterResolver.__init__() got an unexpected keyword argument 'foo'");
  fails(R"({"type":"tf_config","task_id":"x"})", "ValueError",
        "invalid literal for int() with base 10: 'x'");
  fails(R"({"type":"slurm","jobs":["w"]})", "AttributeError",
        "'list' object has no attribute 'values'");
  fails(R"({"type":"slurm","jobs":{"w":"2"}})", "TypeError",
        "unsupported operand type(s) for +: 'int' and 'str'");
  fails(R"({"type":"union","resolvers":["x"]})", "TypeError",
        "All arguments must be a sub-class of `ClusterResolver.`");
  fails(R"({"type":"union","resolvers":[],"a":null,"b":[true]})", "ValueError",
        "Unexpected kwargs provided {'a': None, 'b': [True]}");
  fails(R"({"type":"union"})", "ValueError", "At least one ClusterResolver is required.");
}

TEST(ResolverFromJsonTest, CallersAddMakersOfTheirOwn) {
  ResolverMakers makers = BasicResolverMakers();
  makers.by_type["mine"] = [](const OrderedJson& description, ResolverBehavior,
                              absl::string_view where, const ResolverMakers&) {
    return absl::StatusOr<std::unique_ptr<ClusterResolver>>(
        CheckMembers(description, {"a"}, where).ok() ? absl::NotFoundError("known")
                                                     : absl::NotFoundError("not known"));
  };
  EXPECT_THAT(ResolverFromJson({{"type", "mine"}, {"a", 1}}, makers),
              StatusIs(absl::StatusCode::kNotFound, "known"));
  EXPECT_THAT(ResolverFromJson({{"type", "mine"}, {"b", 1}}, makers),
              StatusIs(absl::StatusCode::kNotFound, "not known"));
}

}  // namespace
}  // namespace millrace
