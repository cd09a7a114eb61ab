#include "base/json.h"

#include <gtest/gtest.h>

#include <limits>

namespace isobit {
namespace {

std::string Problem(std::string_view text) {
  const auto value = ParseJson(text, "body");
  if (value.ok()) return "";
  EXPECT_EQ(value.error().field, "body");
  EXPECT_EQ(value.error().code, ErrorCode::kInvalidArgument);
  return value.error().message;
}

TEST(Json, KeepsOrderAndKinds) {
  const auto value = ParseJson(R"({"b": 1, "a": [true, null, "x", 2.5, -7]})", "body");
  ASSERT_TRUE(value.ok());
  EXPECT_EQ(DumpJson(*value), R"({"b":1,"a":[true,null,"x",2.5,-7]})");
}

TEST(Json, RefusesWhatIsNotJson) {
  for (const char* text : {"", "{", "[1,", "{\"a\":}", "nul", "{\"a\":NaN}", "[Infinity]", "\"\xff\"", "{} {}", "'a'", "\xEF\xBB\xBF["}) {
    EXPECT_FALSE(Problem(text).empty()) << text;
  }
  EXPECT_NE(Problem("[1, 2").find("byte"), std::string::npos);
}

TEST(Json, RefusesDuplicateKeysAndDepth) {
  EXPECT_EQ(Problem(R"({"a":{"b":1,"b":2}})"), "JSON has the key \"b\" twice");
  EXPECT_EQ(Problem(R"([{"a":1},{"a":2}])"), "");
  EXPECT_EQ(Problem(std::string(64, '[') + std::string(64, ']')), "");
  EXPECT_EQ(Problem(std::string(65, '[') + std::string(65, ']')), "JSON nests deeper than 64");
  EXPECT_FALSE(Problem(std::string(1000000, '[')).empty());
}

TEST(Json, RefusesObjectsTooWideToSearch) {
  std::string wide = "{";
  for (int i = 0; i < 200000; ++i) wide += "\"" + std::to_string(i) + "\":0,";
  wide.back() = '}';
  EXPECT_EQ(Problem(wide), "JSON has an object with more than 10000 keys");
}

TEST(Json, ErrorsNameTheNearestKey) {
  EXPECT_EQ(Problem(R"({"prompt": "x", "temperature": NaN})"), "is not valid JSON at byte 32, near the key \"temperature\"");
  EXPECT_EQ(Problem(R"({"a": {"b": 1}, "bias": [1, 1e999]})"),
            "is not valid JSON at byte 33, near the key \"bias\": the number is too large");
  EXPECT_EQ(Problem("[1, Infinity]"), "is not valid JSON at byte 5");
  EXPECT_LT(Problem("{\"" + std::string(100000, 'k') + "\": x}").size(), 200u);
}

// Minutes, if the cost grew with the square of the length.
TEST(Json, LongListsOfContainersAreLinear) {
  for (const std::string item : {"{\"a\":1},", "[],"}) {
    std::string text = "[";
    for (int i = 0; i < 400000; ++i) text += item;
    text.back() = ']';
    const auto value = ParseJson(text, "body");
    ASSERT_TRUE(value.ok());
    EXPECT_EQ(value->size(), 400000u);
    EXPECT_EQ(DumpJson(value->back()), item.substr(0, item.size() - 1));
  }
}

TEST(Json, FloatsAreShortAndRoundTrip) {
  EXPECT_EQ(FormatFloat(-2.674426f), "-2.674426");
  EXPECT_EQ(FormatFloat(0.1f), "0.1");
  EXPECT_EQ(FormatFloat(1e30f), "1e+30");
  EXPECT_EQ(FormatFloat(-0.0f), "-0");
  for (const float value : {1.0f / 3, 3.4028235e38f, std::numeric_limits<float>::denorm_min(), 16777217.0f}) {
    EXPECT_EQ(std::strtof(FormatFloat(value).c_str(), nullptr), value);
  }
  EXPECT_EQ(DumpJson(JsonFloat(-2.674426f)), "-2.674426");
}

TEST(Json, DumpNeverThrowsOnBadBytes) { EXPECT_EQ(DumpJson(Json("a\xff")), "\"a\xEF\xBF\xBD\""); }

TEST(Json, CanonicalSortsKeys) {
  EXPECT_EQ(CanonicalJson(Json::parse(R"({"b":[1,{"d":2,"c":"x"}],"a":null})")), R"({"a":null,"b":[1,{"c":"x","d":2}]})");
}

}  // namespace
}  // namespace isobit
