// ApiError: a refusal or failure as an HTTP client sees it: OpenAI's shape, with string codes.
#pragma once

#include <string>

#include "base/result.h"
#include "serve/http_server.h"

namespace isobit {

struct ApiError {
  int status = 400;
  std::string code;   // "invalid_value", "context_length_exceeded", ...
  std::string param;  // the request field; empty: null
  std::string message;
};

// Which status and code an error of any room has:
//   kInvalidArgument 400 invalid_value, or context_length_exceeded if it says "maximum context length"; kUnsupported 400
//   unsupported_parameter; kNotFound 404 not_found, or model_not_found for the field "model"; kResourceExhausted 429
//   server_overloaded; kNumeric 422 numeric_error (a retry would meet it again, and SDKs retry every status >= 500); kCancelled 503
//   server_shutting_down; the rest 500 internal_error.
ApiError ApiErrorFrom(const Error& error);

// {"error": {"message", "type", "param", "code"}}
std::string ErrorBody(const ApiError& error);
// With retry-after for 429 and 503, x-should-retry: false for 422.
HttpResponse ErrorResponse(const ApiError& error);

}  // namespace isobit
