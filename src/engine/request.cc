#include "engine/request.h"

#include "base/check.h"

namespace isobit {

const char* FinishReasonName(FinishReason reason) {
  switch (reason) {
    case FinishReason::kStop:
      return "stop";
    case FinishReason::kLength:
      return "length";
    case FinishReason::kCancelled:
      return "cancelled";
    case FinishReason::kError:
      return "error";
  }
  ISOBIT_CHECK(false, "finish reason {}", static_cast<int>(reason));
}

}  // namespace isobit
