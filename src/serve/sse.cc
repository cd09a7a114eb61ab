#include "serve/sse.h"

#include "base/check.h"

namespace isobit {

std::string SseEvent(std::string_view json) {
  ISOBIT_CHECK(json.find_first_of("\r\n") == std::string_view::npos);
  std::string event = "data: ";
  event += json;
  event += "\n\n";
  return event;
}

}  // namespace isobit
