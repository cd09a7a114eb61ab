#include "serve/api_error.h"

#include "serve/json_writer.h"

namespace isobit {
namespace {

const char* ErrorType(const ApiError& error) {
  switch (error.status) {
    case 401: return "authentication_error";
    case 404: return "not_found_error";
    case 422: return "numeric_error";
    case 429: return "rate_limit_error";
    case 503: return "unavailable_error";
    default: return error.status >= 500 ? "server_error" : "invalid_request_error";
  }
}

}  // namespace

ApiError ApiErrorFrom(const Error& error) {
  const auto make = [&](int status, const char* code) {
    return ApiError{status, code, error.field, error.ToString()};
  };
  switch (error.code) {
    case ErrorCode::kInvalidArgument:
      if (error.message.find("maximum context length") != std::string::npos) return make(400, "context_length_exceeded");
      return make(400, "invalid_value");
    case ErrorCode::kUnsupported: return make(400, "unsupported_parameter");
    case ErrorCode::kNotFound: return make(404, error.field == "model" ? "model_not_found" : "not_found");
    case ErrorCode::kResourceExhausted: return make(429, "server_overloaded");
    case ErrorCode::kNumeric: return make(422, "numeric_error");
    case ErrorCode::kCancelled: return make(503, "server_shutting_down");
    case ErrorCode::kCorrupt:
    case ErrorCode::kIo:
    case ErrorCode::kInternal: break;
  }
  return make(500, "internal_error");
}

std::string ErrorBody(const ApiError& error) {
  JsonWriter json;
  json.BeginObject().Key("error").BeginObject();
  json.Key("message").String(error.message).Key("type").String(ErrorType(error)).Key("param");
  if (error.param.empty()) json.Null();
  else json.String(error.param);
  json.Key("code").String(error.code).EndObject().EndObject();
  return json.Take();
}

HttpResponse ErrorResponse(const ApiError& error) {
  HttpResponse response;
  response.status = error.status;
  response.body = ErrorBody(error);
  if (error.status == 429 || error.status == 503) response.headers.emplace_back("retry-after", "1");
  if (error.status == 422) response.headers.emplace_back("x-should-retry", "false");
  if (error.status == 401) response.headers.emplace_back("www-authenticate", "Bearer");
  return response;
}

}  // namespace isobit
