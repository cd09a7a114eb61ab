// Kernels: the table of functions that one instruction set provides, and the plain data they work on. A vector is sixteen lanes on
// every instruction set (plain loops, two AVX2 registers, one AVX-512 register), so packed weights and caches are laid out alike.
//
// Lanes run across outputs (or positions), never along a reduction: each lane is one scalar chain of the law.
#pragma once

#include <cstddef>
#include <cstdint>

namespace isobit::cpu {

inline constexpr int kVectorLanes = 16;
inline constexpr int kMaxRanges = 8;  // segments of a tree

// How a panel of sixteen weight rows lies in memory, k major. "quad": four consecutive k of sixteen rows, 64 bytes.
enum class PanelLayout : std::uint8_t {
  kF32,        // f32-fma: float[k][16]
  kF16,        // f32-fma: f16[k][16]
  kBf16,       // f32-fma: bf16[k][16]
  kBf16Pairs,  // bf16-tc: u32[k / 2][16], low half the even k; k padded with zeros to a multiple of 16
  kQ4_1,       // int8-dot: per group of 32: 4 x 64 bytes (low nibbles quad j, high nibbles quad j + 4); then f16 d[groups][16], f16 m
  kQ4_0,       // as kQ4_1 with q + 8 and without m
  kQ8_0,       // int8-dot: per group of 32: 8 quads of q + 128; then f16 d[groups][16]
  kI8G128,     // int8-dot: per group of 128: 32 quads of q + 128; then f32 d[groups][16]
};

// What q is raised by to make it unsigned; the kernel takes offset * (sum of the activations) off again, exactly.
inline constexpr int kNibbleOffset = 8, kByteOffset = 128;

// The activations of one Linear call as one profile reads them. Rows are `rows`; each array has its own stride in elements.
struct Operand {
  std::int64_t rows = 0;
  // f32-fma: x itself. bf16-tc: x rounded to bf16, widened, padded with zeros to a multiple of 16.
  const float* values = nullptr;
  std::int64_t value_stride = 0;
  // bf16-tc: the exponent fields of each pair of bf16, in place (0x7f807f80); and the largest biased exponent of each row.
  const std::uint32_t* exponents = nullptr;
  std::int64_t exponent_stride = 0;
  const std::int32_t* max_exponent = nullptr;  // [rows]
  // int8-dot: integers padded with zeros to whole groups, scale and sum per group.
  const std::int8_t* q = nullptr;
  std::int64_t q_stride = 0;
  const float* scale = nullptr;       // [rows][groups]
  const std::int32_t* q_sum = nullptr;  // [rows][groups]
  std::int64_t groups = 0;
};

// One weight matrix times one operand.
struct LinearTask {
  PanelLayout layout = PanelLayout::kF32;
  const std::byte* panels = nullptr;
  std::int64_t panel_bytes = 0;
  std::int64_t n = 0;
  std::int64_t k = 0;
  bool tree = false;
  int num_ranges = 0;                     // tree: 8
  const std::int64_t* cuts = nullptr;     // [num_ranges + 1], in k
  const std::int32_t* max_exponent = nullptr;  // kBf16Pairs: [panels] largest biased exponent
  const float* bias = nullptr;            // [n] padded to 16, or null
  Operand x;
  float* out = nullptr;  // [rows, n]
};

enum class KvElement : std::uint8_t { kF32, kF16, kBf16, kInt8 };

// One layer of the paged cache. Keys of a block and head: [block_size / run][head_dim][run] with run = min(16, block_size), so that
// lanes run across positions; values: [block_size][value_stride], rows padded with zeros. int8: f32 scale [block_size] each.
struct CacheLayer {
  KvElement element = KvElement::kF32;
  std::int64_t block_size = 0, run = 0, head_dim = 0, value_stride = 0, num_kv_heads = 0;
  const std::byte* keys = nullptr;
  const std::byte* values = nullptr;
  const float* key_scales = nullptr;    // [blocks][heads][block_size]
  const float* value_scales = nullptr;
  std::int64_t key_head_bytes = 0, value_head_bytes = 0;  // of one block and head
};

// Neighbouring rows of one sequence against one kv head.
struct AttentionItem {
  std::int64_t first_row = 0, num_rows = 0, kv_head = 0;
  const std::int32_t* block_table = nullptr;
};
inline constexpr std::int64_t kItemRows = 32;
inline constexpr std::int64_t kMaxHeadDim = 1024;  // what fits the stack of a kernel

struct AttentionTask {
  CacheLayer cache;
  bool tensor_core = false;
  std::int64_t num_heads = 0, window = 0;
  float scale = 0;
  const std::int32_t* positions = nullptr;  // [rows]
  const float* q = nullptr;                 // [rows, num_heads * head_dim]
  float* out = nullptr;                     // likewise
};

struct Kernels {
  const char* isa;
  // Outputs of panels [begin, end) for all rows.
  void (*linear)(const LinearTask& task, std::int64_t begin, std::int64_t end);
  // One row to int8 groups: q [groups * group], scale and sum [groups].
  void (*quantize_row)(const float* x, std::int64_t k, std::int64_t group, std::int8_t* q, float* scale, std::int32_t* sum);
  // One row rounded to bf16 (see Operand); returns its largest biased exponent. Pads to a multiple of 16.
  std::int32_t (*round_row)(const float* x, std::int64_t k, float* values, std::uint32_t* exponents);
  void (*rms_norm)(const float* x, const float* weight, std::int64_t k, float eps, float* out);
  void (*rope)(float* head, std::int64_t half_dim, const float* cos, const float* sin);
  void (*silu_mul)(const float* gate, const float* up, std::int64_t count, float* out);
  void (*add)(float* x, const float* y, std::int64_t count);
  void (*exp)(const float* x, std::int64_t count, float* out);
  void (*attention)(const AttentionTask& task, const AttentionItem& item, float* scratch);
};

// Floats of scratch that `attention` needs for one item.
std::int64_t AttentionScratch(std::int64_t heads_per_kv_head, std::int64_t head_dim);

const Kernels& ScalarKernels();
const Kernels& Avx2Kernels();
const Kernels& Avx512Kernels();
const Kernels& Avx512VnniKernels();

// One tensor-core step of sixteen lanes by the law itself, for operands that the vector kernels do not take: pairs [8][16] as in
// kBf16Pairs, x [16] bf16 values widened, acc [16].
void TensorCoreStepByLaw(const std::uint32_t* pairs, const float* x, float* acc);

}  // namespace isobit::cpu
