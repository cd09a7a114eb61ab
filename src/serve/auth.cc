#include "serve/auth.h"

namespace isobit {
namespace {

Sha256Digest Digest(std::string_view key) { return Sha256().Update(key).Finish(); }

}  // namespace

ApiKeys::ApiKeys(const std::vector<std::string>& keys) {
  for (const std::string& key : keys) digests_.push_back(Digest(key));
}

bool ApiKeys::Allows(std::string_view authorization) const {
  if (digests_.empty()) return true;
  constexpr std::string_view kScheme = "bearer ";
  if (authorization.size() < kScheme.size()) return false;
  for (std::size_t i = 0; i < kScheme.size(); ++i) {
    const char c = authorization[i];
    if ((c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c) != kScheme[i]) return false;
  }
  authorization.remove_prefix(kScheme.size());
  while (!authorization.empty() && authorization.front() == ' ') authorization.remove_prefix(1);
  const Sha256Digest given = Digest(authorization);
  bool allowed = false;
  for (const Sha256Digest& digest : digests_) {  // all of them, every byte
    unsigned difference = 0;
    for (std::size_t i = 0; i < digest.size(); ++i) difference |= static_cast<unsigned>(digest[i] ^ given[i]);
    allowed |= difference == 0;
  }
  return allowed;
}

}  // namespace isobit
