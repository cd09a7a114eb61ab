// InProcessServer: a model served on a loopback port by threads of this process, for `isobit gate --model`.
#pragma once

#include <memory>
#include <string>

#include "base/clock.h"
#include "isobit/model_flags.h"

namespace isobit {

class InProcessServer {
 public:
  virtual ~InProcessServer() = default;  // stops everything
  virtual const std::string& url() const = 0;  // "http://127.0.0.1:40123"
};

Result<std::unique_ptr<InProcessServer>> StartInProcessServer(const ModelFlags& flags, const Clock& clock,
                                                              const std::function<void(std::string_view)>& progress);

}  // namespace isobit
