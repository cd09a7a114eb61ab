#include "contract/contract.h"

#include <fmt/format.h>
#include <xmmintrin.h>

#include <cfenv>

#include "base/check.h"
#include "base/sha256.h"
#include "contract/elementary.h"
#include "contract/float_bits.h"
#include "contract/tensor_core.h"

namespace isobit::contract {
namespace {

template <class Enum, std::size_t kCount>
Result<Enum> ParseName(std::string_view text, const char* flag, const Enum (&all)[kCount]) {
  std::string names;
  for (const Enum value : all) {
    if (text == Name(value)) return value;
    names += fmt::format("{}{}", names.empty() ? "" : ", ", Name(value));
  }
  return Fail(ErrorCode::kInvalidArgument, flag, "\"{}\" is not known; use one of {}", text, names);
}

std::string Coefficients(std::span<const float> values) {
  std::string text;
  for (const float value : values) text += fmt::format("{}{:08x}", text.empty() ? "" : " ", BitsOf(value));
  return text;
}

void Diff(const Json& a, const Json& b, const std::string& path, std::string& out) {
  if (a.is_object() && b.is_object()) {
    for (const auto& [key, value] : a.items()) {
      const std::string inner = path.empty() ? key : path + "." + key;
      if (b.contains(key)) Diff(value, b.at(key), inner, out);
      else out += fmt::format("{}: {} | (absent)\n", inner, DumpJson(value));
    }
    for (const auto& [key, value] : b.items()) {
      if (!a.contains(key)) out += fmt::format("{}: (absent) | {}\n", path.empty() ? key : path + "." + key, DumpJson(value));
    }
  } else if (a != b) {
    const auto text = [](const Json& value) { return value.is_string() ? value.get<std::string>() : DumpJson(value); };
    out += fmt::format("{}: {} | {}\n", path, text(a), text(b));
  }
}

}  // namespace

const char* Name(Profile profile) {
  switch (profile) {
    case Profile::kF32Fma: return "f32-fma";
    case Profile::kInt8Dot: return "int8-dot";
    case Profile::kBf16Tc: return "bf16-tc";
  }
  return "?";
}

const char* Name(Preset preset) {
  switch (preset) {
    case Preset::kPortable: return "portable";
    case Preset::kTensorCore: return "tensor-core";
    case Preset::kTensorCoreInt8: return "tensor-core-int8";
  }
  return "?";
}

const char* Name(KvType type) {
  switch (type) {
    case KvType::kF32: return "f32";
    case KvType::kF16: return "f16";
    case KvType::kBf16: return "bf16";
    case KvType::kInt8: return "int8";
  }
  return "?";
}

Result<Preset> ParsePreset(std::string_view text) {
  static constexpr Preset kAll[] = {Preset::kPortable, Preset::kTensorCore, Preset::kTensorCoreInt8};
  return ParseName(text, "--contract", kAll);
}

Result<KvType> ParseKvType(std::string_view text) {
  static constexpr KvType kAll[] = {KvType::kF32, KvType::kF16, KvType::kBf16, KvType::kInt8};
  return ParseName(text, "--kv-type", kAll);
}

Profile Contract::LinearProfile(DType weight) const {
  switch (preset) {
    case Preset::kPortable: return IsQuantized(weight) ? Profile::kInt8Dot : Profile::kF32Fma;
    case Preset::kTensorCore: return Profile::kBf16Tc;
    case Preset::kTensorCoreInt8: return Profile::kInt8Dot;
  }
  ISOBIT_CHECK(false);
}

Profile Contract::AttentionProfile() const {
  return preset == Preset::kPortable ? Profile::kF32Fma : Profile::kBf16Tc;
}

Json Contract::ToJson() const {
  Json json;
  json["schema"] = 1;
  json["preset"] = Name(preset);
  json["linear"] = {
      {"quantized_weights", Name(LinearProfile(DType::kQ8_0))},
      {"float_weights", Name(LinearProfile(DType::kBF16))},
      {"fold", {{"ops", {"q", "k", "v", "gate", "up", "head"}}, {"chunk", kChunk}, {"order", "left fold from chunk 0"}}},
      {"tree", {{"ops", {"o", "down"}}, {"segments", kSegments}, {"granule", "lcm(16, group)"}, {"order", "pairwise, absent joins as the other"}}},
      {"bias", "last"},
  };
  json["f32_fma"] = "acc = fma(w, x, acc), k ascending from +0";
  json["int8_dot"] = {
      {"group", {{"gguf_blocks", 32}, {"i8g128", 128}}},
      {"quantizer", "amax/127, x*(127/amax) to nearest even, clamp 127, zero below 2^-100"},
      {"group_sum", "int32 exact; first f32(isum)*s, then fma(f32(isum), s, acc); s = dw*dx; minimum: fma(f32(qsum), m*dx, acc)"},
      {"float_weights", "requantised to i8g128 at load"},
  };
  json["bf16_tc"] = {
      {"step_k", kStepK},
      {"fraction_bits", kStepFractionBits},
      {"min_exponent", kStepMinExponent},
      {"terms", "truncated toward zero"},
      {"result", "toward zero, gradual underflow, zero is +0"},
      {"non_finite", "as IEEE 754; NaN is 7fffffff; overflow is an infinity"},
  };
  json["attention"] = {
      {"profile", Name(AttentionProfile())},
      {"tile", kKvTile},
      {"tile_origin", "absolute position 0"},
      {"scale", "1/sqrt(f32(head_dim)), one multiplication after the dot"},
      {"probabilities", AttentionProfile() == Profile::kBf16Tc ? "bf16" : "f32"},
      {"row_sum", "of rounded probabilities, strided tree 64..1"},
      {"fold", "m'=max(m,mt); l=fma(l,exp(m-m'),lt*exp(mt-m')); o likewise; o/l last"},
  };
  json["kv"] = {{"type", Name(kv_type)}, {"int8_scale", "f32 per token and head"}};
  json["norm"] = {{"kind", "rms"}, {"lanes", kLanes}, {"order", "fma ascending, tree 128..1"}, {"form", "(x*(1/sqrt(sum/K+eps)))*w"}};
  json["rope"] = {
      {"inverse_frequencies", "correctly rounded to f32"},
      {"angle", "f32(position)*inv_freq"},
      {"tables", "cos, sin correctly rounded to f32"},
      {"rotation", "fma(a,cos,-(b*sin)), fma(b,cos,a*sin); rotate-half pairs"},
      {"llama3", "f64, rounded once"},
  };
  json["elementary"] = {
      {"exp", Coefficients(kExpPoly)},
      {"exp_reduction", Coefficients(std::array{kLog2E, kLn2Hi, kLn2Lo, kMagic, kExpMax, kExpMin})},
      {"log", Coefficients(kLogPoly)},
      {"log_reduction", fmt::format("{:08x}", kLogBias)},
      {"sigmoid", "1/(1+exp(-x))"},
      {"silu_mul", "(g*sigmoid(g))*u"},
  };
  json["residual"] = "x = x + y";
  json["log_prob"] = {{"of", "raw logits"}, {"segments", kSegments}, {"lanes", kLanes}, {"form", "(x-max)-log(sum exp(x-max))"}};
  json["sampler"] = {
      {"order", "bias, penalties, masks, temperature, top_k, top_p, min_p, gumbel argmax"},
      {"greedy", "argmax, lowest id"},
      {"noise", "philox4x32-10, key seed, counter token choice position"},
      {"ties", "logit descending, id ascending"},
  };
  return json;
}

std::string Contract::Id() const { return Sha256Hex(CanonicalJson(ToJson())); }

std::string DiffContracts(const Json& a, const Json& b) {
  std::string out;
  Diff(a, b, "", out);
  return out;
}

Result<Contract> CheckContract(const Json& contract) {
  if (!contract.is_object()) return Fail(ErrorCode::kInvalidArgument, "contract", "is not a JSON object");
  const auto text = [&](const char* key, const char* inner) -> std::string {
    const Json* value = contract.contains(key) ? &contract.at(key) : nullptr;
    if (value != nullptr && inner != nullptr) value = value->is_object() && value->contains(inner) ? &value->at(inner) : nullptr;
    return value != nullptr && value->is_string() ? value->get<std::string>() : "";
  };
  ISOBIT_ASSIGN(const Preset preset, ParsePreset(text("preset", nullptr)));
  ISOBIT_ASSIGN(const KvType kv_type, ParseKvType(text("kv", "type")));
  const Contract ours{preset, kv_type};
  const std::string difference = DiffContracts(contract, ours.ToJson());
  if (!difference.empty()) {
    const std::string first = difference.substr(0, difference.find('\n'));
    return Fail(ErrorCode::kUnsupported, first.substr(0, first.find(':')),
                "differs from what this build implements (theirs | ours){}", first.substr(first.find(':')));
  }
  return ours;
}

std::string ModelContractId(std::string_view contract_id, std::string_view weights_digest, std::string_view tokenizer_digest,
                            std::string_view template_digest) {
  Sha256 hash;
  for (const std::string_view part : {contract_id, weights_digest, tokenizer_digest, template_digest}) {
    hash.UpdateU64(part.size()).Update(part);
  }
  return HexString(hash.Finish());
}

void AssertFloatEnvironment() {
  constexpr unsigned kFlushToZero = 0x8000, kDenormalsAreZero = 0x0040, kRounding = 0x6000;
  const unsigned control = _mm_getcsr();
  ISOBIT_CHECK((control & (kFlushToZero | kDenormalsAreZero)) == 0,
               "subnormals are flushed on this thread: a library loaded into the process was built with -ffast-math");
  ISOBIT_CHECK((control & kRounding) == 0 && std::fegetround() == FE_TONEAREST, "rounding is not to nearest on this thread");
}

}  // namespace isobit::contract
