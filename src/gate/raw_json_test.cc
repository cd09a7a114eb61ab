#include "gate/raw_json.h"

#include <gtest/gtest.h>

namespace isobit::gate {
namespace {

TEST(RawJson, KeepsNumbersAsWritten) {
  const auto value = ParseRawJson(R"({"a": -0.10, "b": [1e-05, 1E+5, -9999.0, -2.6744260787963867], "c": -0})");
  ASSERT_TRUE(value.ok());
  EXPECT_EQ(value->Find("a")->text, "-0.10");
  const RawJson& list = *value->Find("b");
  ASSERT_EQ(list.items.size(), 4u);
  EXPECT_EQ(list.items[0].text, "1e-05");
  EXPECT_EQ(list.items[1].text, "1E+5");
  EXPECT_EQ(list.items[2].text, "-9999.0");
  EXPECT_EQ(list.items[3].text, "-2.6744260787963867");
  EXPECT_EQ(value->Find("c")->text, "-0");
  EXPECT_EQ(value->Find("d"), nullptr);
}

TEST(RawJson, TakesPythonsNonNumbers) {
  const auto value = ParseRawJson("[NaN, -Infinity, Infinity, null]");
  ASSERT_TRUE(value.ok());
  EXPECT_EQ(value->items[0].text, "NaN");
  EXPECT_EQ(value->items[1].text, "-Infinity");
  EXPECT_TRUE(value->items[2].is_number());
  EXPECT_TRUE(value->items[3].is_null());
}

TEST(RawJson, UnescapesStringsAndKeepsBadBytes) {
  const auto value = ParseRawJson("[\"a\\n\\u00e9\\ud83d\\ude00\\ud83dx\\/\", \"\xFF\", true, false]");
  ASSERT_TRUE(value.ok());
  EXPECT_EQ(value->items[0].text, "a\n\xC3\xA9\xF0\x9F\x98\x80\xEF\xBF\xBDx/");
  EXPECT_EQ(value->items[1].text, "\xFF");
  EXPECT_TRUE(value->items[2].truth);
  EXPECT_FALSE(value->items[3].truth);
}

TEST(RawJson, KeepsKeyOrderAndTheFirstOfEqualKeys) {
  const auto value = ParseRawJson(R"({"z": 1, "a": 2, "z": 3})");
  ASSERT_TRUE(value.ok());
  EXPECT_EQ(value->keys, (std::vector<std::string>{"z", "a", "z"}));
  EXPECT_EQ(value->Find("z")->text, "1");
}

TEST(RawJson, RefusesWhatIsNoJson) {
  for (const char* text : {"", "{", "[1,]", "{\"a\" 1}", "01x", "1 2", "\"abc", "tru", "-", "1.", "1e", "\"\\x\"", "\"\\u12g4\"", "[1}"}) {
    EXPECT_FALSE(ParseRawJson(text).ok()) << text;
  }
  EXPECT_FALSE(ParseRawJson(std::string(100, '[') + std::string(100, ']')).ok());
  EXPECT_EQ(ParseRawJson("[1, x]").error().message, "is not valid JSON at byte 4 of 6");
}

TEST(RawJson, IntegersAreWholeAndInRange) {
  EXPECT_EQ(ParseRawJson("42")->Integer(), 42);
  EXPECT_EQ(ParseRawJson("-7")->Integer(), -7);
  EXPECT_FALSE(ParseRawJson("4.0")->Integer().has_value());
  EXPECT_FALSE(ParseRawJson("99999999999999999999")->Integer().has_value());
  EXPECT_FALSE(ParseRawJson("\"1\"")->Integer().has_value());
}

}  // namespace
}  // namespace isobit::gate
