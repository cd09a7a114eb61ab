#include "backend_cpu/packed_linear.h"

#include <algorithm>
#include <cstring>
#include <span>

#include "contract/float_bits.h"
#include "contract/linear.h"
#include "contract/weight_formats.h"

namespace isobit::cpu {
namespace {

bool IsFloat(DType dtype) { return dtype == DType::kF32 || dtype == DType::kF16 || dtype == DType::kBF16; }

PanelLayout LayoutOf(contract::Profile profile, DType dtype) {
  switch (profile) {
    case contract::Profile::kBf16Tc: return PanelLayout::kBf16Pairs;
    case contract::Profile::kF32Fma:
      return dtype == DType::kF16 ? PanelLayout::kF16 : dtype == DType::kBF16 ? PanelLayout::kBf16 : PanelLayout::kF32;
    case contract::Profile::kInt8Dot: break;
  }
  switch (dtype) {
    case DType::kQ4_1: return PanelLayout::kQ4_1;
    case DType::kQ4_0: return PanelLayout::kQ4_0;
    case DType::kQ8_0: return PanelLayout::kQ8_0;
    default: return PanelLayout::kI8G128;
  }
}

std::int64_t PanelBytes(PanelLayout layout, std::int64_t k, std::int64_t group) {
  const std::int64_t groups = (k + group - 1) / group;
  switch (layout) {
    case PanelLayout::kF32: return k * 64;
    case PanelLayout::kF16:
    case PanelLayout::kBf16: return k * 32;
    case PanelLayout::kBf16Pairs: return (k + 15) / 16 * 512;
    case PanelLayout::kQ4_1: return groups * (256 + 32 + 32);
    case PanelLayout::kQ4_0: return groups * (256 + 32);
    case PanelLayout::kQ8_0: return groups * (512 + 32);
    case PanelLayout::kI8G128: return groups * (2048 + 64);
  }
  ISOBIT_CHECK(false);
}

// Stored integer blocks of one row to its lane, four bytes (a quad) at a time. GGUF's nibble order is the panel's: low nibbles are k
// 0..15 of the block, high ones k 16..31.
void PackBlocks(const PackedLinear& w, DType dtype, std::span<const std::byte> row, std::int64_t lane, std::byte* panel) {
  const DTypeInfo& info = Info(dtype);
  const std::int64_t groups = (w.k + w.group - 1) / w.group;
  const bool nibbles = w.layout == PanelLayout::kQ4_1 || w.layout == PanelLayout::kQ4_0;
  const std::int64_t scale_bytes = w.layout == PanelLayout::kI8G128 ? 4 : 2, minimum_bytes = w.layout == PanelLayout::kQ4_1 ? 2 : 0;
  const std::int64_t q_bytes = info.block_bytes - scale_bytes - minimum_bytes, group_bytes = q_bytes * kVectorLanes;
  // Q4_0 stores q + 8 already; bytes are raised by 128.
  const std::uint32_t flip = nibbles ? 0 : 0x80808080u;
  std::byte* scales = panel + groups * group_bytes;
  std::byte* minima = scales + groups * kVectorLanes * scale_bytes;
  for (std::int64_t g = 0; g < groups; ++g) {
    const std::byte* block = row.data() + g * info.block_bytes;
    std::memcpy(scales + (g * kVectorLanes + lane) * scale_bytes, block, scale_bytes);
    std::memcpy(minima + (g * kVectorLanes + lane) * minimum_bytes, block + scale_bytes, minimum_bytes);
    const std::byte* q = block + scale_bytes + minimum_bytes;
    std::byte* to = panel + g * group_bytes + lane * 4;
    for (std::int64_t byte = 0; byte < q_bytes; byte += 4) {
      std::uint32_t quad;
      std::memcpy(&quad, q + byte, 4);
      quad ^= flip;
      std::memcpy(to + byte * kVectorLanes, &quad, 4);
    }
  }
}

void PackRow(PackedLinear& w, DType dtype, std::span<const std::byte> row, std::int64_t index) {
  const std::int64_t lane = index % kVectorLanes;
  std::byte* panel = w.panels.data() + index / kVectorLanes * w.panel_bytes;
  const std::int64_t element = w.layout == PanelLayout::kF32 ? 4 : 2;
  switch (w.layout) {
    case PanelLayout::kF32:
      // Only f32 itself: quantised types are never f32-fma.
    case PanelLayout::kF16:
    case PanelLayout::kBf16:
      for (std::int64_t k = 0; k < w.k; ++k) std::memcpy(panel + (k * kVectorLanes + lane) * element, row.data() + k * element, element);
      return;
    case PanelLayout::kBf16Pairs: {
      const std::vector<float> values = contract::DecodeRow(dtype, row, w.k);
      std::int32_t& largest = w.max_exponent[index / kVectorLanes];
      for (std::int64_t k = 0; k < w.k; ++k) {
        const std::uint16_t bits = contract::Bf16FromF32(values[k]);
        largest = std::max(largest, (bits >> 7) & 255);
        std::memcpy(panel + (k / 2 * kVectorLanes + lane) * 4 + k % 2 * 2, &bits, 2);
      }
      return;
    }
    default: break;
  }
  if (IsQuantized(dtype)) {
    PackBlocks(w, dtype, row, lane, panel);
  } else {
    PackBlocks(w, DType::kI8G128, contract::QuantizeRowI8G128(contract::DecodeRow(dtype, row, w.k)), lane, panel);
  }
}

}  // namespace

const char* Name(PanelLayout layout) {
  switch (layout) {
    case PanelLayout::kF32: return "f32";
    case PanelLayout::kF16: return "f16";
    case PanelLayout::kBf16: return "bf16";
    case PanelLayout::kBf16Pairs: return "bf16-pairs";
    case PanelLayout::kQ4_1: return "q4_1";
    case PanelLayout::kQ4_0: return "q4_0";
    case PanelLayout::kQ8_0: return "q8_0";
    case PanelLayout::kI8G128: return "i8g128";
  }
  return "?";
}

Status CheckWeight(const TensorView& weight) {
  if (weight.shape.size() != 2 || weight.shape[0] <= 0 || weight.shape[1] <= 0) {
    return Fail(ErrorCode::kInvalidArgument, weight.name, "has shape {}; a weight matrix is [n, k]", ToString(weight.shape));
  }
  if (!IsFloat(weight.dtype) && !IsQuantized(weight.dtype)) {
    return Fail(ErrorCode::kUnsupported, weight.name, "is stored as {}; convert it to f32, f16, bf16 or a quantised type",
                Name(weight.dtype));
  }
  const std::int64_t k = weight.shape[1], block = Info(weight.dtype).block_values;
  if (weight.dtype != DType::kI8G128 && k % block != 0) {
    return Fail(ErrorCode::kInvalidArgument, weight.name, "has rows of {} values, not a multiple of {}'s block of {}", k,
                Name(weight.dtype), block);
  }
  const std::int64_t expected = weight.shape[0] * RowBytes(weight.dtype, k);
  if (static_cast<std::int64_t>(weight.data.size()) != expected) {
    return Fail(ErrorCode::kCorrupt, weight.name, "has {} bytes where {} {} take {}", weight.data.size(), Name(weight.dtype),
                ToString(weight.shape), expected);
  }
  return {};
}

Result<std::vector<float>> WidenFloats(const TensorView& tensor) {
  if (!IsFloat(tensor.dtype)) {
    return Fail(ErrorCode::kUnsupported, tensor.name, "is stored as {}; a vector must be f32, f16 or bf16", Name(tensor.dtype));
  }
  const std::int64_t count = NumElements(tensor.shape);
  if (count <= 0 || static_cast<std::int64_t>(tensor.data.size()) != RowBytes(tensor.dtype, count)) {
    return Fail(ErrorCode::kCorrupt, tensor.name, "has {} bytes where {} values of {} belong", tensor.data.size(), count,
                Name(tensor.dtype));
  }
  return contract::DecodeRow(tensor.dtype, tensor.data, count);
}

Result<std::unique_ptr<PackedLinear>> PackLinear(const contract::Contract& contract, const TensorView& weight, const TensorView* bias,
                                                 contract::Topology topology, ThreadPool& pool) {
  ISOBIT_TRY(CheckWeight(weight));
  auto packed = std::make_unique<PackedLinear>();
  PackedLinear& w = *packed;
  w.name = weight.name;
  w.n = weight.shape[0];
  w.k = weight.shape[1];
  w.dtype = weight.dtype;
  w.profile = contract.LinearProfile(weight.dtype);
  w.topology = topology;
  w.layout = LayoutOf(w.profile, w.dtype);
  w.group = w.profile == contract::Profile::kInt8Dot ? contract::GroupSize(w.dtype) : 1;
  w.num_panels = (w.n + kVectorLanes - 1) / kVectorLanes;
  w.panel_bytes = PanelBytes(w.layout, w.k, w.group);
  const std::vector<contract::KRange> ranges = contract::CutK(topology, w.k, w.group);
  w.cuts.push_back(0);
  for (const contract::KRange& range : ranges) w.cuts.push_back(range.end);
  w.max_exponent.assign(w.num_panels, 0);
  if (bias != nullptr) {
    ISOBIT_ASSIGN(w.bias, WidenFloats(*bias));
    if (static_cast<std::int64_t>(w.bias.size()) != w.n) {
      return Fail(ErrorCode::kInvalidArgument, bias->name, "has {} values; {} has {} rows", w.bias.size(), w.name, w.n);
    }
    w.bias.resize(w.num_panels * kVectorLanes, 0.0f);
  }
  w.panels = AlignedBuffer(w.num_panels * w.panel_bytes);
  const std::int64_t row_bytes = RowBytes(w.dtype, w.k);
  pool.Run([&](int worker) {
    const Share share = ShareOf(w.num_panels, worker, pool.size());
    for (std::int64_t row = share.begin * kVectorLanes; row < std::min(share.end * kVectorLanes, w.n); ++row) {
      PackRow(w, w.dtype, weight.data.subspan(row * row_bytes, row_bytes), row);
    }
  });
  return packed;
}

}  // namespace isobit::cpu
