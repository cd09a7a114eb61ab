// GGUF builder: metadata and tensors to the bytes of a GGUF file. Writes what it is told, wrong
// counts and offsets included, so that tests can make hostile files with it; told nothing odd, it
// writes a valid file.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tensor/tensor.h"
#include "weights/checkpoint.h"
#include "weights/gguf_format.h"

namespace isobit {

// Little-endian bytes, growing.
class ByteWriter {
 public:
  template <class T>
  ByteWriter& Number(T value) {
    static_assert(std::is_arithmetic_v<T>);
    bytes_.append(reinterpret_cast<const char*>(&value), sizeof value);
    return *this;
  }
  ByteWriter& Type(GgufValueType type) { return Number(static_cast<std::uint32_t>(type)); }
  ByteWriter& Raw(std::string_view bytes) {
    bytes_.append(bytes);
    return *this;
  }
  // GGUF's string: u64 length, then the bytes.
  ByteWriter& String(std::string_view text) {
    return Number(static_cast<std::uint64_t>(text.size())).Raw(text);
  }
  ByteWriter& Pad(std::size_t alignment) {
    bytes_.resize((bytes_.size() + alignment - 1) / alignment * alignment);
    return *this;
  }
  std::size_t size() const { return bytes_.size(); }
  const std::string& bytes() const { return bytes_; }
  std::string Take() { return std::move(bytes_); }

 private:
  std::string bytes_;
};

struct GgufPair {
  std::string key;
  std::uint32_t type = 0;
  std::string value;  // encoded
};

struct GgufTensor {
  std::string name;
  std::vector<std::uint64_t> dims;  // as in the file: the contiguous one first
  std::uint32_t type = 0;           // ggml's number
  std::string data;
  std::optional<std::uint64_t> offset;  // instead of the right one
};

class GgufBuilder {
 public:
  // Overrides for hostile files.
  std::string magic = "GGUF";
  std::uint32_t version = 3;
  std::optional<std::uint64_t> num_tensors;
  std::optional<std::uint64_t> num_keys;
  std::uint64_t alignment =
      kDefaultGgufAlignment;  // of the layout; a "general.alignment" key is the caller's
  std::vector<GgufPair> pairs;
  std::vector<GgufTensor> tensors;

  GgufBuilder& AddU32(std::string_view key, std::uint32_t value);
  GgufBuilder& AddI32(std::string_view key, std::int32_t value);
  GgufBuilder& AddU64(std::string_view key, std::uint64_t value);
  GgufBuilder& AddF32(std::string_view key, float value);
  GgufBuilder& AddBool(std::string_view key, bool value);
  GgufBuilder& AddString(std::string_view key, std::string_view value);
  GgufBuilder& AddStrings(std::string_view key, const std::vector<std::string>& values);
  GgufBuilder& AddI32s(std::string_view key, const std::vector<std::int32_t>& values);
  GgufBuilder& AddRaw(std::string_view key, std::uint32_t type, std::string value);
  // shape outermost first; dtype must have a ggml number.
  GgufBuilder& AddTensor(std::string_view name, DType dtype, const Shape& shape,
                         std::span<const std::byte> data);

  // Replaces or removes a pair by key; CHECKs that it exists.
  GgufBuilder& Erase(std::string_view key);

  std::string Bytes() const;
};

// The GGUF file that says what checkpoint (family llama) says: llama.cpp's keys and names, q and k
// rows permuted as its converter does, llama3 scaling as rope_freqs.weight. No tokenizer. The same
// weights digest when read back.
GgufBuilder LlamaGguf(const Checkpoint& checkpoint);

}  // namespace isobit
