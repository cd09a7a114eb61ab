#include "serve/json_writer.h"

#include <gtest/gtest.h>

#include "base/json.h"
#include "serve/api_error.h"
#include "serve/auth.h"
#include "serve/sse.h"

namespace isobit {
namespace {

TEST(JsonWriter, WritesNestedValuesWithCommas) {
  JsonWriter json;
  json.BeginObject().Key("a").BeginArray().Int(-1).Uint(UINT64_MAX).Bool(true).Null().EndArray();
  json.Key("b").BeginObject().EndObject().Key("c").Float(0.5f).EndObject();
  EXPECT_EQ(json.text(), R"({"a":[-1,18446744073709551615,true,null],"b":{},"c":0.5})");
}

TEST(JsonWriter, NoByteOfTextBreaksAString) {
  JsonWriter json;
  json.String(std::string("q\"\\\n\r\t\x01\x7F\xFF\xF0\x9F", 11) + "\xC3\xA9");
  EXPECT_EQ(json.text(), "\"q\\\"\\\\\\n\\r\\t\\u0001\\u007f\xEF\xBF\xBD\xEF\xBF\xBD\xC3\xA9\"");
  const auto back = ParseJson(json.text(), "text");
  ASSERT_TRUE(back.ok());
}

TEST(JsonWriter, FloatsAreShortestAndLookLikeFloats) {
  EXPECT_EQ(JsonFloatText(-2.674426f), "-2.674426");
  EXPECT_EQ(JsonFloatText(0.0f), "0.0");
  EXPECT_EQ(JsonFloatText(-9999.0f), "-9999.0");
  EXPECT_EQ(JsonFloatText(1e-30f), "1e-30");
  for (const float value : {-1.1920929e-07f, -17.345678f, -0.33333334f}) EXPECT_EQ(std::stof(JsonFloatText(value)), value);
}

TEST(ApiError, MapsErrorsToStatusesClientsUnderstand) {
  const auto status_code = [](ErrorCode code, const std::string& field, const std::string& message) {
    const ApiError error = ApiErrorFrom(Error{code, field, message});
    return std::to_string(error.status) + " " + error.code;
  };
  EXPECT_EQ(status_code(ErrorCode::kInvalidArgument, "n", "x"), "400 invalid_value");
  EXPECT_EQ(status_code(ErrorCode::kInvalidArgument, "prompt", "the maximum context length is"), "400 context_length_exceeded");
  EXPECT_EQ(status_code(ErrorCode::kUnsupported, "n", "x"), "400 unsupported_parameter");
  EXPECT_EQ(status_code(ErrorCode::kNotFound, "model", "x"), "404 model_not_found");
  EXPECT_EQ(status_code(ErrorCode::kResourceExhausted, "", "x"), "429 server_overloaded");
  EXPECT_EQ(status_code(ErrorCode::kNumeric, "", "x"), "422 numeric_error");
  EXPECT_EQ(status_code(ErrorCode::kCancelled, "", "x"), "503 server_shutting_down");
  EXPECT_EQ(status_code(ErrorCode::kInternal, "", "x"), "500 internal_error");
  EXPECT_EQ(ErrorBody({400, "invalid_value", "n", "n: is \"0\""}),
            R"({"error":{"message":"n: is \"0\"","type":"invalid_request_error","param":"n","code":"invalid_value"}})");
  EXPECT_EQ(ErrorBody({404, "not_found", "", "no"}), R"({"error":{"message":"no","type":"not_found_error","param":null,"code":"not_found"}})");
  const HttpResponse busy = ErrorResponse({429, "server_overloaded", "", "full"});
  EXPECT_EQ(busy.headers, (HttpHeaders{{"retry-after", "1"}}));
}

TEST(ApiKeys, AllowsExactKeysOnly) {
  const ApiKeys keys({"alpha", "beta"});
  for (const char* good : {"Bearer alpha", "bearer beta", "BEARER  beta"}) EXPECT_TRUE(keys.Allows(good)) << good;
  for (const char* bad : {"", "Bearer", "Bearer ", "Bearer alph", "Bearer alphaa", "Bearer ALPHA", "Basic alpha", "alpha"}) {
    EXPECT_FALSE(keys.Allows(bad)) << bad;
  }
  EXPECT_TRUE(ApiKeys({}).Allows("Bearer "));  // lm-eval sends an empty key when none is set
  EXPECT_TRUE(ApiKeys({}).Allows(""));
}

TEST(Sse, FramesOneLine) { EXPECT_EQ(SseEvent("{}"), "data: {}\n\n"); }

}  // namespace
}  // namespace isobit
