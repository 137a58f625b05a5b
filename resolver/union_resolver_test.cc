#include "millrace/union_resolver.h"

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "millrace/static_resolver.h"
#include "millrace/tensorflow_error.h"
#include "resolver/scripted_resolver.h"
#include "resolver/update_recorder.h"

namespace millrace {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Optional;
using ::testing::SizeIs;

constexpr ResolverBehavior kCorrect = ResolverBehavior::kCorrect;
constexpr ResolverBehavior kTensorFlow = ResolverBehavior::kTensorFlow;
constexpr WatchOptions kOften = {.poll_interval = absl::Milliseconds(2)};

ClusterSpec Spec(const std::string& json) {
  absl::StatusOr<ClusterSpec> spec = ClusterSpec::FromJsonText(json);
  EXPECT_THAT(spec, IsOk());
  return spec.value_or(ClusterSpec());
}

std::string Merge(const std::vector<std::string>& specs, ResolverBehavior behavior = kCorrect) {
  std::vector<ClusterSpec> parts;
  for (const std::string& spec : specs) parts.push_back(Spec(spec));
  const absl::StatusOr<ClusterSpec> merged = MergeClusterSpecs(parts, behavior);
  return merged.ok() ? merged->ToJson() : merged.status().ToString();
}

TEST(MergeClusterSpecsTest, ConcatenatesListsInOrderAndKeepsEqualAddresses) {
  EXPECT_EQ(Merge({R"({"w":["a","b"],"ps":["p"]})", R"({"w":["a"],"e":["x"]})"}),
            R"({"w":["a","b","a"],"ps":["p"],"e":["x"]})");
  EXPECT_EQ(Merge({"{}", "{}"}), "{}");
}

TEST(MergeClusterSpecsTest, KeepsIndicesWhereSomePartIsSparse) {
  EXPECT_EQ(Merge({R"({"w":["a","b"]})", R"({"w":{"3":"c"}})"}),
            R"({"w":{"0":"a","1":"b","3":"c"}})");
  EXPECT_EQ(Merge({R"({"w":{"1":"b"}})", R"({"w":["a"]})"}), R"({"w":["a","b"]})");
  EXPECT_THAT(Merge({R"({"w":{"7":"a","9":"b"}})", R"({"w":{"9":"c"}})"}),
              AllOf(HasSubstr("ALREADY_EXISTS"), HasSubstr("'w'"), HasSubstr(": 9;")));
}

TEST(MergeClusterSpecsTest, AJobWithoutTasksStaysAndDecidesNothing) {
  EXPECT_EQ(Merge({R"({"w":[],"e":[]})", R"({"w":["a"]})", R"({"w":["b"]})"}),
            R"({"w":["a","b"],"e":{}})");
  EXPECT_THAT(Merge({R"({"w":[]})", R"({"w":["a"]})", R"({"w":["b"]})"}, kTensorFlow),
              HasSubstr("'Duplicate keys detected when merging two ClusterSpecs: {0}'"));
}

TEST(MergeClusterSpecsTest, NamesAFewOfManyDuplicates) {
  std::string many = R"({"w":{)";
  for (int i = 1; i <= 1000; ++i) absl::StrAppend(&many, i > 1 ? "," : "", "\"", i, "\":\"a\"");
  absl::StrAppend(&many, "}}");
  EXPECT_THAT(Merge({many, many}), HasSubstr(": 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, ...;"));
}

class UnionResolverTest : public testing::Test {
 protected:
  // The next part; it stays owned by the union.
  ScriptedResolver* Add(absl::StatusOr<ClusterSpec> answer, TaskProperties properties = {}) {
    auto part = std::make_unique<ScriptedResolver>(std::move(answer), std::move(properties));
    ScriptedResolver* raw = part.get();
    options_.resolvers.push_back(std::move(part));
    return raw;
  }

  std::unique_ptr<UnionResolver> Make(ResolverBehavior behavior = kCorrect) {
    options_.behavior = behavior;
    absl::StatusOr<std::unique_ptr<UnionResolver>> resolver =
        UnionResolver::Create(std::move(options_));
    EXPECT_THAT(resolver, IsOk());
    return *std::move(resolver);
  }

  UnionResolverOptions options_;
};

TEST_F(UnionResolverTest, AsksEachResolverOnce) {
  ScriptedResolver* first = Add(Spec(R"({"w":["a"]})"));
  ScriptedResolver* second = Add(Spec(R"({"w":["b"]})"));
  const auto resolver = Make();
  EXPECT_EQ(resolver->cluster_spec()->ToJson(), R"({"w":["a","b"]})");
  EXPECT_EQ(first->asked(), 1);
  EXPECT_EQ(second->asked(), 1);
}

TEST_F(UnionResolverTest, NamesTheResolverThatFails) {
  Add(Spec("{}"));
  Add(absl::UnavailableError("down"));
  EXPECT_THAT(Make()->cluster_spec(),
              StatusIs(absl::StatusCode::kUnavailable, HasSubstr("resolver 2 of 2: down")));
}

TEST_F(UnionResolverTest, NeedsResolvers) {
  EXPECT_THAT(UnionResolver::Create({}), StatusIs(absl::StatusCode::kInvalidArgument));
  UnionResolverOptions options;
  options.resolvers.push_back(nullptr);
  EXPECT_THAT(UnionResolver::Create(std::move(options)),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("resolver 1 of 1")));
}

TEST_F(UnionResolverTest, PropertiesAreTheFirstResolversUnlessSet) {
  Add(Spec(R"({"w":["a","b"]})"), {.task_type = "w", .task_id = 1, .rpc_layer = "grpc"});
  Add(Spec(R"({"w":["c"]})"), {.task_type = "x", .task_id = 9, .rpc_layer = "y"});
  const auto resolver = Make();
  EXPECT_THAT(resolver->task_type(), IsOkAndHolds(Optional(std::string("w"))));
  EXPECT_THAT(resolver->task_id(), IsOkAndHolds(Optional(1)));
  EXPECT_THAT(resolver->rpc_layer(), IsOkAndHolds(Optional(std::string("grpc"))));
  EXPECT_THAT(resolver->master(), IsOkAndHolds("grpc://b"));
  EXPECT_THAT(resolver->master("w", 2), IsOkAndHolds("grpc://c"));
  EXPECT_THAT(resolver->master("w", 2, ""), IsOkAndHolds("c"));
  EXPECT_THAT(resolver->set_task_id(0), IsOk());
  EXPECT_THAT(resolver->task_id(), IsOkAndHolds(Optional(0)));
  EXPECT_THAT(resolver->master(), IsOkAndHolds("grpc://a"));
  EXPECT_THAT(resolver->set_rpc_layer(""), IsOk());
  EXPECT_THAT(resolver->master(), IsOkAndHolds("a"));
}

TEST_F(UnionResolverTest, EnvironmentIsThatOfTheFirst) {
  for (const char* name : {"google", "elsewhere"}) {
    auto part = StaticResolver::Create({.environment = name});
    ASSERT_THAT(part, IsOk());
    options_.resolvers.push_back(*std::move(part));
  }
  EXPECT_THAT(Make()->environment(), IsOkAndHolds(Optional(std::string("google"))));
}

TEST_F(UnionResolverTest, TensorFlowLosesZeroAndEmpty) {
  Add(Spec(R"({"w":["a","b"]})"), {.task_type = "w", .task_id = 1, .rpc_layer = "grpc"});
  options_.properties = {.task_type = "", .task_id = 0, .rpc_layer = ""};
  const auto resolver = Make(kTensorFlow);
  EXPECT_THAT(resolver->task_type(), IsOkAndHolds(Optional(std::string("w"))));
  EXPECT_THAT(resolver->task_id(), IsOkAndHolds(Optional(1)));
  EXPECT_THAT(resolver->rpc_layer(), IsOkAndHolds(Optional(std::string("grpc"))));
  EXPECT_THAT(resolver->master("w", 0), IsOkAndHolds("a"));
  EXPECT_THAT(resolver->master(), IsOkAndHolds("grpc://b"));
  const auto none = UnionResolver::Create({.behavior = kTensorFlow});
  EXPECT_THAT(TensorFlowErrorClass(none.status()), Optional(std::string("ValueError")));
}

TEST_F(UnionResolverTest, AcceleratorsOfAnotherTaskAreAskedOfTheResolverItComesFrom) {
  Add(Spec(R"({"w":["a"]})"), {.task_type = "w", .task_id = 0});
  StaticResolverOptions known = {.cluster_spec = Spec(R"({"w":["b","c"]})"),
                                 .num_accelerators = {{{"GPU", 8}}}};
  options_.resolvers.push_back(*StaticResolver::Create(std::move(known)));
  const auto resolver = Make();
  const std::map<std::string, int> two = {{"GPU", 2}};
  const std::map<std::string, int> eight = {{"GPU", 8}};
  EXPECT_THAT(resolver->num_accelerators(), IsOkAndHolds(two));
  EXPECT_THAT(resolver->num_accelerators("w", 0), IsOkAndHolds(two));
  EXPECT_THAT(resolver->num_accelerators("w", 2), IsOkAndHolds(eight));
  EXPECT_THAT(resolver->num_accelerators("w", 3), StatusIs(absl::StatusCode::kNotFound));
}

TEST_F(UnionResolverTest, AWatchMergesThoseOfItsParts) {
  ScriptedResolver* first = Add(Spec(R"({"w":["a"]})"));
  ScriptedResolver* second = Add(Spec(R"({"w":["b"]})"));
  const auto resolver = Make();
  UpdateRecorder updates;
  const auto watch = resolver->Watch(updates.callback(), kOften);
  ASSERT_THAT(watch, IsOk());
  const auto tells = [&updates](const std::string& json) {
    return updates.WaitFor(
        [&json](const MembershipUpdate& update) { return update.spec.ToJson() == json; });
  };
  EXPECT_TRUE(tells(R"({"w":["a","b"]})"));
  second->Answer(Spec(R"({"w":["b","c"]})"));
  EXPECT_TRUE(tells(R"({"w":["a","b","c"]})"));
  first->Answer(Spec("{}"));
  EXPECT_TRUE(tells(R"({"w":["b","c"]})"));
  int64_t epoch = 0;
  for (const MembershipUpdate& update : updates.updates()) EXPECT_EQ(update.epoch, ++epoch);
}

TEST_F(UnionResolverTest, AWatchSaysWhichPartIsLostAndKeepsTheOthersFresh) {
  ScriptedResolver* first = Add(Spec(R"({"w":["a"]})"));
  ScriptedResolver* second = Add(Spec(R"({"w":["b"]})"));
  const auto resolver = Make();
  UpdateRecorder updates;
  const auto watch = resolver->Watch(updates.callback(), kOften);
  ASSERT_THAT(watch, IsOk());
  EXPECT_TRUE(updates.WaitFor([](const MembershipUpdate& update) { return update.epoch == 1; }));
  first->Answer(absl::UnavailableError("down"));
  EXPECT_TRUE(updates.WaitFor([](const MembershipUpdate& update) {
    return update.status.message() == "resolver 1 of 2: down" && update.epoch == 1;
  }));
  second->Answer(Spec(R"({"w":["c"]})"));
  EXPECT_TRUE(updates.WaitFor([](const MembershipUpdate& update) {
    return !update.status.ok() && update.epoch == 2 && update.spec.ToJson() == R"({"w":["a","c"]})";
  }));
  first->Answer(Spec(R"({"w":["a"]})"));
  EXPECT_TRUE(updates.WaitFor(
      [](const MembershipUpdate& update) { return update.status.ok() && update.epoch == 2; }));
}

TEST_F(UnionResolverTest, AWatchTellsNoMembersBeforeEachPartHasAnswered) {
  Add(Spec(R"({"w":["a"]})"));
  ScriptedResolver* second = Add(absl::UnavailableError("not yet"));
  const auto resolver = Make();
  UpdateRecorder updates;
  const auto watch = resolver->Watch(updates.callback(), kOften);
  ASSERT_THAT(watch, IsOk());
  EXPECT_TRUE(updates.WaitFor([](const MembershipUpdate& update) {
    return update.epoch == 0 && update.status.message() == "resolver 2 of 2: not yet";
  }));
  for (const MembershipUpdate& update : updates.updates()) EXPECT_EQ(update.epoch, 0);
  second->Answer(Spec(R"({"w":["b"]})"));
  EXPECT_TRUE(updates.WaitFor([](const MembershipUpdate& update) {
    return update.epoch == 1 && update.status.ok() && update.spec.total_tasks() == 2;
  }));
}

TEST_F(UnionResolverTest, AWatchTellsThatPartsContradictEachOther) {
  ScriptedResolver* first = Add(Spec(R"({"w":{"1":"a"}})"));
  Add(Spec(R"({"w":{"2":"b"}})"));
  const auto resolver = Make();
  UpdateRecorder updates;
  const auto watch = resolver->Watch(updates.callback(), kOften);
  ASSERT_THAT(watch, IsOk());
  EXPECT_TRUE(updates.WaitFor([](const MembershipUpdate& update) { return update.epoch == 1; }));
  first->Answer(Spec(R"({"w":{"2":"a"}})"));
  EXPECT_TRUE(updates.WaitFor([](const MembershipUpdate& update) {
    return update.epoch == 1 && update.status.code() == absl::StatusCode::kAlreadyExists;
  }));
}

TEST_F(UnionResolverTest, AWatchOfResolversThatNeverChangeTellsOnce) {
  for (const char* json : {R"({"w":["a"]})", R"({"w":["b"]})"}) {
    options_.resolvers.push_back(*StaticResolver::Create({.cluster_spec = Spec(json)}));
  }
  const auto resolver = Make();
  UpdateRecorder updates;
  const auto watch = resolver->Watch(updates.callback());
  ASSERT_THAT(watch, IsOk());
  ASSERT_THAT(updates.updates(), SizeIs(1));
  EXPECT_EQ(updates.updates()[0].spec.total_tasks(), 2);
}

}  // namespace
}  // namespace millrace
