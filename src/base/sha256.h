// SHA-256 over OpenSSL: contract ids, digests of weights, tokenizers and answers, API keys.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

namespace isobit {

using Sha256Digest = std::array<std::uint8_t, 32>;

class Sha256 {
 public:
  Sha256();
  ~Sha256();
  Sha256(const Sha256&) = delete;
  Sha256& operator=(const Sha256&) = delete;

  Sha256& Update(std::span<const std::byte> bytes);
  Sha256& Update(std::string_view text);
  // Little-endian, so that a digest over numbers is the same on every host.
  Sha256& UpdateU64(std::uint64_t value);
  Sha256Digest Finish();  // once

 private:
  struct State;
  std::unique_ptr<State> state_;
};

std::string HexString(std::span<const std::uint8_t> bytes);  // lower case
std::string Sha256Hex(std::span<const std::byte> bytes);
std::string Sha256Hex(std::string_view text);

}  // namespace isobit
