#include "core/base/json.h"

#include <string>

#include "absl/status/status.h"
#include "core/base/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace millrace {
namespace {

using absl::StatusCode;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

Json MustParse(absl::string_view text) {
  absl::StatusOr<Json> value = ParseJson(text);
  EXPECT_THAT(value, IsOk()) << text;
  return value.ok() ? *value : Json();
}

TEST(ParseJsonTest, RoundTripsEveryKindOfValue) {
  const std::string text =
      R"({"a":[1,-2,18446744073709551615,1.5,true,false,null,"x\u20ac"],"b":{"c":{}},"d":[]})";
  const Json value = MustParse(text);
  EXPECT_EQ(value["a"][2].get<uint64_t>(), 18446744073709551615u);
  EXPECT_EQ(value, Json::parse(text));
  EXPECT_EQ(MustParse(DumpJson(value)), value);
  EXPECT_EQ(MustParse(" 7\n"), Json(7));
}

TEST(ParseJsonTest, AgreesWithTheLibraryOnNestedContainers) {
  const std::string text = R"([[[1],[2,[3]]],{"k":[{"l":[]},{"m":{"n":4}}],"o":5},6])";
  EXPECT_EQ(MustParse(text), Json::parse(text));
}

TEST(ParseJsonTest, TheLastOfEqualKeysWins) {
  EXPECT_EQ(DumpJson(MustParse(R"({"a":[1],"b":2,"a":3})")), R"({"a":3,"b":2})");
  const auto ordered = ParseOrderedJson(R"({"b":{"x":[1]},"a":2,"b":{"y":3},"c":4})");
  ASSERT_THAT(ordered, IsOk());
  EXPECT_EQ(DumpJson(*ordered), R"({"b":{"y":3},"a":2,"c":4})");  // Python's dict does the same
}

TEST(ParseJsonTest, OrderedJsonKeepsTheOrder) {
  const std::string text = R"({"z":1,"a":{"y":2,"b":[{"q":1,"c":2}]}})";
  const auto ordered = ParseOrderedJson(text);
  ASSERT_THAT(ordered, IsOk());
  EXPECT_EQ(DumpJson(*ordered), text);
}

TEST(ParseJsonTest, EveryTruncationIsAnErrorWithAnOffset) {
  const std::string text = R"({"a":[1,2.5,"x\u20ac",true],"b":{"c":null}})";
  for (size_t size = 0; size < text.size(); ++size) {
    EXPECT_THAT(ParseJson(text.substr(0, size)),
                StatusIs(StatusCode::kInvalidArgument, HasSubstr("offset")))
        << size;
  }
}

TEST(ParseJsonTest, GarbageIsAnError) {
  for (const std::string& text :
       {std::string("nul"), std::string("{'a':1}"), std::string("[1,]"), std::string("{\"a\":1,}"),
        std::string("1 2"), std::string("{} x"), std::string("NaN"), std::string("01"),
        std::string("[1e999]"), std::string("\"\xff\""), std::string("\"\xed\xa0\x80\""),
        std::string("\"\\ud800\""), std::string("\"a\nb\""), std::string("/* c */1"),
        std::string("\0", 1), std::string("{}\0", 3), std::string(1000, '\xff')}) {
    EXPECT_THAT(ParseJson(text), StatusIs(StatusCode::kInvalidArgument)) << text;
    EXPECT_THAT(ParseOrderedJson(text), StatusIs(StatusCode::kInvalidArgument)) << text;
  }
}

TEST(ParseJsonTest, ErrorsSayWhereOnOneShortLine) {
  const auto result = ParseJson("[1, x]");
  EXPECT_THAT(result, StatusIs(StatusCode::kInvalidArgument,
                               AllOf(HasSubstr("offset 5"), Not(HasSubstr("json.exception")))));
  const std::string noisy = "[\"" + std::string(100000, 'a') + "\n";
  EXPECT_LT(ParseJson(noisy).status().message().size(), 300u);
  EXPECT_EQ(ParseJson(noisy).status().message().find('\n'), absl::string_view::npos);
}

TEST(ParseJsonTest, DepthIsLimited) {
  const auto nested = [](int depth) { return std::string(depth, '[') + std::string(depth, ']'); };
  EXPECT_THAT(ParseJson(nested(64)), IsOk());
  EXPECT_THAT(ParseJson(nested(65)), StatusIs(StatusCode::kInvalidArgument, HasSubstr("64")));
  EXPECT_THAT(ParseJson(std::string(1000000, '[')), StatusIs(StatusCode::kInvalidArgument));
  EXPECT_THAT(ParseJson("7", {.max_depth = 0}), IsOk());
  EXPECT_THAT(ParseJson("{}", {.max_depth = 0}), StatusIs(StatusCode::kInvalidArgument));
  EXPECT_THAT(ParseJson("[[],[],[]]", {.max_depth = 2}), IsOk());
}

TEST(ParseJsonTest, SizeIsLimited) {
  EXPECT_THAT(ParseJson("[1]", {.max_bytes = 3}), IsOk());
  EXPECT_THAT(ParseJson("[1 ]", {.max_bytes = 3}), StatusIs(StatusCode::kResourceExhausted));
}

TEST(DumpJsonTest, ReplacesWhatIsNotUtf8) {
  EXPECT_EQ(DumpJson(Json{{"a", "x\xff"}}), "{\"a\":\"x\xef\xbf\xbd\"}");
}

TEST(GettersTest, ReturnTheValue) {
  const Json value = MustParse(R"({"s":"x","i":-3,"d":1.5,"b":true,"o":{"p":1},"l":["a","b"]})");
  EXPECT_THAT(GetString(value, "s"), IsOkAndHolds("x"));
  EXPECT_THAT(GetInt(value, "i"), IsOkAndHolds(-3));
  EXPECT_THAT(GetDouble(value, "d"), IsOkAndHolds(1.5));
  EXPECT_THAT(GetDouble(value, "i"), IsOkAndHolds(-3.0));
  EXPECT_THAT(GetBool(value, "b"), IsOkAndHolds(true));
  EXPECT_THAT(GetStringList(value, "l"), IsOkAndHolds(ElementsAre("a", "b")));
  const auto object = GetObject(value, "o");
  ASSERT_THAT(object, IsOk());
  EXPECT_THAT(GetInt(**object, "p", "o"), IsOkAndHolds(1));
  const auto array = GetArray(value, "l");
  ASSERT_THAT(array, IsOk());
  EXPECT_EQ((*array)->size(), 2u);
  EXPECT_THAT(GetIntInRange(value, "i", -3, 5), IsOkAndHolds(-3));
}

TEST(GettersTest, NameTheFieldAndWhatWasFound) {
  const Json params =
      MustParse(R"({"port":"80","list":["a",2],"half":3.0,"big":9223372036854775808})");
  EXPECT_THAT(GetInt(params, "port", "params"),
              StatusIs(StatusCode::kInvalidArgument,
                       "field \"params.port\" must be an integer, found string"));
  EXPECT_THAT(GetString(params, "list"), StatusIs(StatusCode::kInvalidArgument,
                                                  "field \"list\" must be a string, found array"));
  EXPECT_THAT(GetStringList(params, "list", "params"),
              StatusIs(StatusCode::kInvalidArgument,
                       "field \"params.list[1]\" must be a string, found integer"));
  EXPECT_THAT(GetString(params, "absent", "params"),
              StatusIs(StatusCode::kInvalidArgument, "field \"params.absent\" is missing"));
  EXPECT_THAT(GetInt(params, "half"), StatusIs(StatusCode::kInvalidArgument, HasSubstr("number")));
  EXPECT_THAT(GetInt(params, "big"),
              StatusIs(StatusCode::kInvalidArgument, HasSubstr("9223372036854775808")));
  EXPECT_THAT(GetBool(params, "port"), StatusIs(StatusCode::kInvalidArgument));
  EXPECT_THAT(GetDouble(params, "port"), StatusIs(StatusCode::kInvalidArgument));
  EXPECT_THAT(GetObject(params, "port"), StatusIs(StatusCode::kInvalidArgument));
  EXPECT_THAT(GetArray(params, "port"), StatusIs(StatusCode::kInvalidArgument));
  EXPECT_THAT(
      GetIntInRange(MustParse(R"({"port":65536})"), "port", 0, 65535),
      StatusIs(StatusCode::kInvalidArgument, "field \"port\" must be in 0..65535, found 65536"));
}

TEST(GettersTest, RefuseWhatIsNoObject) {
  for (const char* text : {"[]", "null", "7", "\"port\""}) {
    EXPECT_THAT(
        GetInt(MustParse(text), "port"),
        StatusIs(StatusCode::kInvalidArgument, HasSubstr("the document must be an object")));
    EXPECT_THAT(GetIntOr(MustParse(text), "port", 1, "params"),
                StatusIs(StatusCode::kInvalidArgument, HasSubstr("\"params\" must be an object")));
  }
}

TEST(GettersTest, FallbacksStandInForAbsentAndNullOnly) {
  const Json value = MustParse(R"({"n":null,"s":"x","i":3})");
  EXPECT_THAT(GetStringOr(value, "n", "f"), IsOkAndHolds("f"));
  EXPECT_THAT(GetStringOr(value, "absent", "f"), IsOkAndHolds("f"));
  EXPECT_THAT(GetStringOr(value, "s", "f"), IsOkAndHolds("x"));
  EXPECT_THAT(GetStringOr(value, "i", "f"), StatusIs(StatusCode::kInvalidArgument));
  EXPECT_THAT(GetIntOr(value, "absent", 9), IsOkAndHolds(9));
  EXPECT_THAT(GetIntOr(value, "i", 9), IsOkAndHolds(3));
  EXPECT_THAT(GetIntOr(value, "s", 9), StatusIs(StatusCode::kInvalidArgument));
  EXPECT_THAT(GetBoolOr(value, "absent", true), IsOkAndHolds(true));
  EXPECT_THAT(GetBoolOr(value, "s", true), StatusIs(StatusCode::kInvalidArgument));
  EXPECT_THAT(GetDoubleOr(value, "absent", 0.5), IsOkAndHolds(0.5));
  EXPECT_THAT(GetDoubleOr(value, "s", 0.5), StatusIs(StatusCode::kInvalidArgument));
  EXPECT_THAT(GetString(value, "n"), StatusIs(StatusCode::kInvalidArgument, HasSubstr("missing")));
}

}  // namespace
}  // namespace millrace
