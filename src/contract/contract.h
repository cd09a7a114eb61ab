// Contract: the whole numeric contract as data, and its id. Two equal ids are one numeric function; every response names its own.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/json.h"
#include "base/result.h"
#include "tensor/dtype.h"

namespace isobit::contract {

// How a sum of products is formed. See linear.h and attention.h for the exact expressions.
enum class Profile : std::uint8_t {
  kF32Fma,   // f32 operands, one fused multiply-add per k, ascending from +0
  kInt8Dot,  // int8 operands per group, exact int32 inside a group, one f32 fma per group
  kBf16Tc,   // bf16 operands, the Hopper k16 step (tensor_core.h)
};

enum class Preset : std::uint8_t {
  kPortable,        // int8-dot for quantised weights, f32-fma for the rest and for attention
  kTensorCore,      // bf16-tc everywhere; quantised weights are widened to bf16
  kTensorCoreInt8,  // int8-dot linear layers (float weights are requantised to i8g128 at load), bf16-tc attention
};

enum class KvType : std::uint8_t { kF32, kF16, kBf16, kInt8 };  // kInt8: one f32 scale per token and kv head

const char* Name(Profile profile);  // "f32-fma", "int8-dot", "bf16-tc"
const char* Name(Preset preset);    // "portable", "tensor-core", "tensor-core-int8"
const char* Name(KvType type);      // "f32", "f16", "bf16", "int8"
Result<Preset> ParsePreset(std::string_view text);  // field "--contract"
Result<KvType> ParseKvType(std::string_view text);  // field "--kv-type"

// Constants of the law that are not written at their op.
inline constexpr std::int64_t kChunk = 512;      // C: k per chunk of a fold
inline constexpr int kSegments = 8;              // S: segments of a tree, vocabulary segments of log-sum-exp
inline constexpr std::int64_t kStepK = 16;       // k per tensor-core step
inline constexpr int kLanes = 256;               // strided lanes of a norm and of log-sum-exp
inline constexpr std::int64_t kKvTile = 128;     // positions per attention tile

struct Contract {
  Preset preset = Preset::kPortable;
  KvType kv_type = KvType::kBf16;

  // The profile of a linear layer whose weights are stored as `weight`.
  Profile LinearProfile(DType weight) const;
  Profile AttentionProfile() const;

  Json ToJson() const;     // all of the law as data: what `isobit contract show` prints
  std::string Id() const;  // SHA-256 of CanonicalJson(ToJson()), 64 hex digits
};

// Field by field: one line per difference, "linear.float: f32-fma | bf16-tc"; empty if equal.
std::string DiffContracts(const Json& a, const Json& b);

// Is `contract` one that this build implements, wholly? The error names the first field that is not.
Result<Contract> CheckContract(const Json& contract);

// The model contract: SHA-256 over contract id, weights digest, tokenizer digest and chat template digest, length-prefixed.
std::string ModelContractId(std::string_view contract_id, std::string_view weights_digest, std::string_view tokenizer_digest,
                            std::string_view template_digest);

// Asserts that the calling thread rounds to nearest and flushes no subnormals (a foreign library may have switched it).
// Called at start and by every worker thread.
void AssertFloatEnvironment();

}  // namespace isobit::contract
