#include "resolver/kubernetes/pruned_json.h"

#include <string>

#include "absl/status/status.h"
#include "core/base/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace millrace {
namespace {

using ::testing::HasSubstr;

const JsonKeep kEverything = {"", {}};
const JsonKeep kSome = {"", {{"a", {}}, {"list", {{"x", {}}, {"y", {{"z", {}}}}}}}};

std::string Prune(const std::string& text, const JsonKeep& keep = kSome) {
  const auto pruned = ParsePrunedJson(text, keep);
  return pruned.ok() ? DumpJson(*pruned) : pruned.status().ToString();
}

TEST(PrunedJsonTest, KeepsWhatIsNamed) {
  EXPECT_EQ(Prune(R"({"a": {"deep": [1, {"b": null}]}, "b": {"a": 1}, "c": [{"x": 2}], "d": "e"})"),
            R"({"a":{"deep":[1,{"b":null}]}})");
  EXPECT_EQ(
      Prune(R"({"list": [{"x": 1, "no": [[{}]]}, {"y": {"z": true, "no": 0}}, 7, [{"x": 2}]]})"),
      R"({"list":[{"x":1},{"y":{"z":true}},7,[{"x":2}]]})");
}

TEST(PrunedJsonTest, KeepsAllWhereNothingIsNamed) {
  const std::string text = R"({"a":[1,-2,2.5,"s",false,null,{}],"b":{"c":[[]]}})";
  EXPECT_EQ(Prune(text, kEverything), text);
}

TEST(PrunedJsonTest, OtherTypesOnTheWayAreKeptAsTheyAre) {
  EXPECT_EQ(Prune(R"({"list": "text", "a": 1})"), R"({"a":1,"list":"text"})");
  EXPECT_EQ(Prune("[1]"), "[1]");
  EXPECT_EQ(Prune("\"s\""), "\"s\"");
}

TEST(PrunedJsonTest, OfEqualKeysTheLastCounts) {
  EXPECT_EQ(Prune(R"({"a": 1, "a": 2})"), R"({"a":2})");
}

TEST(PrunedJsonTest, WhatIsNotKeptIsCheckedAllTheSame) {
  const auto invalid = [](const std::string& part) {
    return StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(part));
  };
  for (const std::string text : {"", "{", R"({"b": tru})", R"({"b": [1,]})", R"({"b": "\xff"})",
                                 R"({"a": 1} x)", R"({"b": 1e999})"}) {
    EXPECT_THAT(ParsePrunedJson(text, kSome), invalid("not JSON at offset")) << text;
  }
  EXPECT_THAT(ParsePrunedJson(std::string("{}\0x", 4), kSome), invalid("NUL byte"));
  const std::string deep = R"({"b":)" + std::string(100'000, '[');
  EXPECT_THAT(ParsePrunedJson(deep, kSome), invalid("nested deeper than 64"));
  EXPECT_THAT(ParsePrunedJson("{\"a\": 1}", kSome, {.max_bytes = 4}),
              StatusIs(absl::StatusCode::kResourceExhausted));
}

}  // namespace
}  // namespace millrace
