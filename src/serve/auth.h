// ApiKeys: who may ask. Compared by digest in constant time, so that no answer's delay tells how much of a key was right.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/sha256.h"

namespace isobit {

class ApiKeys {
 public:
  explicit ApiKeys(const std::vector<std::string>& keys);  // none: every request may pass

  // authorization: the header's value, "Bearer KEY"; the scheme in any case. Without keys anything passes, an empty bearer too.
  bool Allows(std::string_view authorization) const;

 private:
  std::vector<Sha256Digest> digests_;
};

}  // namespace isobit
