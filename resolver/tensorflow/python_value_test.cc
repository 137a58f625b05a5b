#include "resolver/tensorflow/python_value.h"

#include <string>
#include <utility>
#include <vector>

#include "core/base/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "millrace/tensorflow_error.h"

namespace millrace {
namespace {

using ::testing::HasSubstr;
using ::testing::IsNull;
using ::testing::Optional;
using ::testing::Pointee;

OrderedJson Parse(const std::string& text) {
  absl::StatusOr<OrderedJson> value = ParseOrderedJson(text);
  EXPECT_THAT(value, IsOk());
  return value.value_or(OrderedJson());
}

// What Python 3.11 was seen to say.
TEST(ParsePythonJsonTest, FailsWithTheTextsAndPlacesOfPython) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"", "Expecting value: line 1 column 1 (char 0)"},
      {"  ", "Expecting value: line 1 column 3 (char 2)"},
      {"{bad", "Expecting property name enclosed in double quotes: line 1 column 2 (char 1)"},
      {"{'a':1}", "Expecting property name enclosed in double quotes: line 1 column 2 (char 1)"},
      {"{\"a\":1,}", "Expecting property name enclosed in double quotes: line 1 column 8 (char 7)"},
      {"{", "Expecting property name enclosed in double quotes: line 1 column 2 (char 1)"},
      {"{\"a\":", "Expecting value: line 1 column 6 (char 5)"},
      {"{\"a\" 1}", "Expecting ':' delimiter: line 1 column 6 (char 5)"},
      {"{\"a\":1 \"b\":2}", "Expecting ',' delimiter: line 1 column 8 (char 7)"},
      {"{\"a\":1}}", "Extra data: line 1 column 8 (char 7)"},
      {"{\"a\":tru}", "Expecting value: line 1 column 6 (char 5)"},
      {"[", "Expecting value: line 1 column 2 (char 1)"},
      {"[}", "Expecting value: line 1 column 2 (char 1)"},
      {"[1,]", "Expecting value: line 1 column 4 (char 3)"},
      {"[1 2]", "Expecting ',' delimiter: line 1 column 4 (char 3)"},
      {"\"abc", "Unterminated string starting at: line 1 column 1 (char 0)"},
      {"\"\\", "Unterminated string starting at: line 1 column 1 (char 0)"},
      {"\"a\\x\"", "Invalid \\escape: line 1 column 3 (char 2)"},
      {"\"\\u12\"", "Invalid \\uXXXX escape: line 1 column 3 (char 2)"},
      {"\"\\u12x4 \"", "Invalid \\uXXXX escape: line 1 column 3 (char 2)"},
      {"{\"a\":\"\n\"}", "Invalid control character at: line 1 column 7 (char 6)"},
      {"-", "Expecting value: line 1 column 1 (char 0)"},
      {"1.", "Extra data: line 1 column 2 (char 1)"},
      {"01", "Extra data: line 1 column 2 (char 1)"},
      {"\xEF\xBB\xBF{}", "Unexpected UTF-8 BOM (decode using utf-8-sig): line 1 column 1 (char 0)"},
      // Characters are counted, not bytes.
      {"{\"\xC3\xA9\":\n}", "Expecting value: line 2 column 1 (char 6)"},
  };
  for (const auto& [text, message] : cases) {
    const absl::Status status = ParsePythonJson(text).status();
    EXPECT_EQ(status.message(), message) << text;
    EXPECT_THAT(TensorFlowErrorClass(status), Optional(std::string("JSONDecodeError"))) << text;
  }
}

TEST(ParsePythonJsonTest, TakesWhatPythonTakes) {
  for (const char* text : {"{}", " [1, -2.5e3, true, null] ", "\"\\u00e9\\n\"",
                           "{\"a\": {\"b\": []}}", "0", "-0.0", "1E5", "\"\\ud83d\\ude00\""}) {
    EXPECT_THAT(ParsePythonJson(text), IsOk()) << text;
  }
}

TEST(ParsePythonJsonTest, WhatOnlyMillraceRefusesHasNoPythonClass) {
  const std::string deep = std::string(2000, '[') + std::string(2000, ']');
  for (const std::string& text :
       {std::string("NaN"), std::string("[-Infinity]"), deep, std::string("\"\xff\"")}) {
    const absl::Status status = ParsePythonJson(text).status();
    EXPECT_THAT(status, StatusIs(absl::StatusCode::kInvalidArgument));
    EXPECT_EQ(TensorFlowErrorClass(status), std::nullopt) << status;
  }
}

TEST(ParsePythonJsonTest, HostileNestingNeitherOverflowsNorTakesLong) {
  EXPECT_THAT(ParsePythonJson(std::string(1 << 20, '[')),
              StatusIs(absl::StatusCode::kInvalidArgument));
  EXPECT_THAT(ParsePythonJson(std::string(1 << 20, '{')),
              StatusIs(absl::StatusCode::kInvalidArgument));
}

TEST(PythonReprOfTest, WritesAsPythonDoes) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"null", "None"},
      {"true", "True"},
      {"false", "False"},
      {"5", "5"},
      {"-7", "-7"},
      {"18446744073709551615", "18446744073709551615"},
      {"1.0", "1.0"},
      {"0.1", "0.1"},
      {"-2.5", "-2.5"},
      {"1e16", "1e+16"},
      {"123456789012345680.0", "1.2345678901234568e+17"},
      {"1e15", "1000000000000000.0"},
      {"0.0001", "0.0001"},
      {"0.00001", "1e-05"},
      {"\"it's\"", "\"it's\""},
      {"[1, \"a\", null]", "[1, 'a', None]"},
      {"{\"b\": [], \"a\": {}}", "{'b': [], 'a': {}}"},
  };
  for (const auto& [json, repr] : cases) EXPECT_EQ(PythonReprOf(Parse(json)), repr) << json;
  EXPECT_EQ(PythonStrOf(Parse("\"it's\"")), "it's");
  EXPECT_EQ(PythonStrOf(Parse("[\"a\"]")), "['a']");
}

TEST(PythonIntOfTest, ConvertsWhatPythonConverts) {
  const std::vector<std::pair<std::string, int64_t>> cases = {
      {"5", 5},        {"true", 1},         {"2.9", 2},   {"-2.9", -2},
      {"\" +7 \"", 7}, {"\"1_000\"", 1000}, {"\"-0\"", 0}};
  for (const auto& [json, number] : cases) {
    EXPECT_THAT(PythonIntOf(Parse(json)), IsOkAndHolds(number)) << json;
  }
}

TEST(PythonIntOfTest, FailsAsPythonFails) {
  const auto fails = [](const std::string& json, const std::string& python_class,
                        const std::string& message) {
    const absl::Status status = PythonIntOf(Parse(json)).status();
    EXPECT_EQ(status.message(), message);
    EXPECT_THAT(TensorFlowErrorClass(status), Optional(python_class));
  };
  fails("\"x\"", "ValueError", "invalid literal for int() with base 10: 'x'");
  fails("\"1.0\"", "ValueError", "invalid literal for int() with base 10: '1.0'");
  fails("null", "TypeError",
        "int() argument must be a string, a bytes-like object or a real number, not 'NoneType'");
  fails("[]", "TypeError",
        "int() argument must be a string, a bytes-like object or a real number, not 'list'");
}

TEST(PythonItemTest, LooksIntoWhatPythonLooksInto) {
  const OrderedJson dict = Parse("{\"task\": 1}");
  EXPECT_THAT(PythonItem(dict, "task"), IsOkAndHolds(Pointee(OrderedJson(1))));
  EXPECT_THAT(PythonItem(dict, "cluster"), IsOkAndHolds(IsNull()));
  EXPECT_THAT(PythonItem(Parse("[1]"), "task"), IsOkAndHolds(IsNull()));
  EXPECT_THAT(PythonItem(Parse("\"a\""), "task"), IsOkAndHolds(IsNull()));
  EXPECT_EQ(PythonItem(Parse("[\"task\"]"), "task").status().message(),
            "list indices must be integers or slices, not str");
  EXPECT_EQ(PythonItem(Parse("\"my task\""), "task").status().message(),
            "string indices must be integers, not 'str'");
  EXPECT_EQ(PythonItem(Parse("5"), "task").status().message(),
            "argument of type 'int' is not iterable");
  EXPECT_EQ(PythonItem(Parse("null"), "task").status().message(),
            "argument of type 'NoneType' is not iterable");
}

TEST(PythonTruthTest, IsPythons) {
  for (const char* json : {"null", "false", "0", "0.0", "\"\"", "[]", "{}"}) {
    EXPECT_FALSE(PythonTruth(Parse(json))) << json;
  }
  for (const char* json : {"true", "1", "-0.5", "\"0\"", "[0]", "{\"a\": null}"}) {
    EXPECT_TRUE(PythonTruth(Parse(json))) << json;
  }
}

}  // namespace
}  // namespace millrace
