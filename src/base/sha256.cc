#include "base/sha256.h"

#include <openssl/evp.h>

#include "base/check.h"

namespace isobit {

struct Sha256::State {
  EVP_MD_CTX* context = EVP_MD_CTX_new();
  ~State() { EVP_MD_CTX_free(context); }
};

Sha256::Sha256() : state_(std::make_unique<State>()) {
  ISOBIT_CHECK(state_->context != nullptr);
  ISOBIT_CHECK(EVP_DigestInit_ex(state_->context, EVP_sha256(), nullptr) == 1);
}

Sha256::~Sha256() = default;

Sha256& Sha256::Update(std::span<const std::byte> bytes) {
  ISOBIT_CHECK(EVP_DigestUpdate(state_->context, bytes.data(), bytes.size()) == 1);
  return *this;
}

Sha256& Sha256::Update(std::string_view text) {
  return Update(std::as_bytes(std::span(text.data(), text.size())));
}

Sha256& Sha256::UpdateU64(std::uint64_t value) {
  std::array<std::byte, 8> bytes;
  for (int i = 0; i < 8; ++i) bytes[i] = static_cast<std::byte>(value >> (8 * i));
  return Update(bytes);
}

Sha256Digest Sha256::Finish() {
  Sha256Digest digest;
  unsigned int length = 0;
  ISOBIT_CHECK(EVP_DigestFinal_ex(state_->context, digest.data(), &length) == 1 && length == 32);
  return digest;
}

std::string HexString(std::span<const std::uint8_t> bytes) {
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string text;
  text.reserve(bytes.size() * 2);
  for (std::uint8_t byte : bytes) {
    text += kDigits[byte >> 4];
    text += kDigits[byte & 15];
  }
  return text;
}

std::string Sha256Hex(std::span<const std::byte> bytes) {
  return HexString(Sha256().Update(bytes).Finish());
}

std::string Sha256Hex(std::string_view text) { return HexString(Sha256().Update(text).Finish()); }

}  // namespace isobit
