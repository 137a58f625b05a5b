#include "resolver/kubernetes/client/pruned_json.h"

#include <cstdint>
#include <random>
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
  for (const std::string text :
       {"", "{", R"({"b": tru})", R"({"b": [1,]})", R"({"b": "\xff"})", R"({"a": 1} x)",
        R"({"a": 1e999})", R"({"b": 01})", R"({"b": -})", R"({"b": 1.})", R"({"b": "\x"})",
        R"({"b": "\ud800"})", R"({"b": "\udc00"})", R"({b: 1})", R"({"b": 1,})", "{\"b\": \"\n\"}",
        R"({"b" 1})"}) {
    EXPECT_THAT(ParsePrunedJson(text, kSome), invalid("not JSON: ")) << text;
  }
  EXPECT_THAT(ParsePrunedJson(std::string("{}\0x", 4), kSome), invalid("not JSON: "));
  EXPECT_THAT(ParsePrunedJson("18446744073709551616", kSome), invalid("not JSON: "));
  const std::string deep = R"({"b":)" + std::string(100'000, '[') + std::string(100'000, ']') + "}";
  EXPECT_THAT(ParsePrunedJson(deep, kSome), invalid("nested deeper than 64"));
  EXPECT_THAT(ParsePrunedJson("{\"a\": 1}", kSome, {.max_bytes = 4}),
              StatusIs(absl::StatusCode::kResourceExhausted));
}

TEST(PrunedJsonTest, NumbersAndEscapesAreWhatTheyAreElsewhere) {
  for (const std::string text :
       {"0", "-1", "18446744073709551615", "-9223372036854775808", "1.5e-3", "1e-999", "2E+2",
        R"("\"\\\/\b\f\n\r\t\u0041\u00e9\u20ac\ud83d\ude00")", "\"\x7f \xc3\xa9 \xe2\x82\xac\""}) {
    const auto plain = ParseJson(text);
    ASSERT_THAT(plain, IsOk()) << text;
    const auto pruned = ParsePrunedJson(text, kEverything);
    ASSERT_THAT(pruned, IsOk()) << text;
    EXPECT_EQ(*pruned, *plain);
    EXPECT_EQ(pruned->type(), plain->type()) << text;
  }
}

// Another parser is the judge.
TEST(PrunedJsonTest, AgreesWithParseJsonOnDamagedTexts) {
  const std::string whole =
      "{\"list\": [{\"x\": -12.5e+3, \"y\": {\"z\": \"a\\u00e9\\n\xc3\xa9 a long plain text\"}},\n"
      " null, true, false, [[], {}]], \"a\": {\"b\\\\\": \"\\ud83d\\ude00\", \"c\": 0}}";
  const std::string alphabet =
      std::string("{}[]\":,\\/-+.0123456789eEtrufalsn \n\xc3\xa9\x80\xff\x01") + '\0';
  std::mt19937 random(7);
  int accepted = 0;
  for (int i = 0; i < 5'000; ++i) {
    std::string text = whole;
    for (uint32_t edits = 1 + random() % 3; edits > 0; --edits) {
      const size_t place = random() % text.size();
      switch (random() % 4) {
        case 0:
          text.erase(place, 1 + random() % 4);
          break;
        case 1:
          text.insert(place, 1, alphabet[random() % alphabet.size()]);
          break;
        case 2:
          text[place] = alphabet[random() % alphabet.size()];
          break;
        default:
          text.resize(place + 1);
      }
      if (text.empty()) text = " ";
    }
    const auto plain = ParseJson(text);
    const auto pruned = ParsePrunedJson(text, kEverything);
    ASSERT_EQ(pruned.ok(), plain.ok()) << text << "\n" << pruned.status() << "\n" << plain.status();
    EXPECT_EQ(ParsePrunedJson(text, kSome).ok(), plain.ok()) << text;
    if (!plain.ok()) continue;
    ++accepted;
    ASSERT_EQ(*pruned, *plain) << text;
  }
  EXPECT_GT(accepted, 125);
}

}  // namespace
}  // namespace millrace
