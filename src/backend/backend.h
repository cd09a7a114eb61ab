// Backend: the seam between models and kernels. A list of ops over device memory, each of which obeys src/contract to the bit; what
// is free (tiles, threads, packing, fusion) is the backend's own business. Nothing above this header knows which backend runs.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "backend/batch.h"
#include "base/json.h"
#include "base/result.h"
#include "contract/contract.h"
#include "contract/linear.h"
#include "contract/rope.h"
#include "tensor/tensor.h"

namespace isobit {

// Activations: float32, row-major, contiguous, in the backend's memory. Only the backend may follow `data`.
struct Matrix {
  float* data = nullptr;
  std::int64_t rows = 0;
  std::int64_t cols = 0;

  Matrix first_rows(std::int64_t count) const { return {data, count, cols}; }
};

// A weight matrix [n, k] as the backend packed it at load. Made by LoadLinear, used by that backend only.
class LinearWeight {
 public:
  virtual ~LinearWeight() = default;
  std::string name;
  std::int64_t n = 0, k = 0;
  DType dtype = DType::kF32;  // as stored in the checkpoint
  contract::Profile profile = contract::Profile::kF32Fma;
  contract::Topology topology = contract::Topology::kFold;
};

// The paged keys and values of every layer. Which block belongs to whom is the kvcache room's business.
struct KvMemorySpec {
  std::int64_t num_layers = 0, num_kv_heads = 0, head_dim = 0;
  std::int64_t num_blocks = 0;
  std::int64_t block_size = 16;  // 8 to 256, a power of two
  contract::KvType type = contract::KvType::kBf16;
};

class KvMemory {
 public:
  virtual ~KvMemory() = default;
  KvMemorySpec spec;
  virtual std::int64_t size_bytes() const = 0;
};

struct AttentionSpec {
  std::int64_t num_heads = 0, num_kv_heads = 0, head_dim = 0;
  std::int64_t window = 0;  // 0: all earlier positions
};

struct LinearOutput {
  const LinearWeight* weight = nullptr;
  Matrix out;  // [rows, weight->n]
};

class Backend {
 public:
  virtual ~Backend() = default;

  virtual std::string name() const = 0;  // "cpu/avx512 x2"; informative only
  virtual const contract::Contract& contract() const = 0;

  // --- At load ---------------------------------------------------------------------------------------------------------------
  // weight: [n, k] of any float or quantised dtype; bias: [n] float, or null. The profile follows from the contract and the dtype.
  virtual Result<std::unique_ptr<LinearWeight>> LoadLinear(const TensorView& weight, const TensorView* bias,
                                                           contract::Topology topology) = 0;
  // Rows for Embed: [vocab, hidden]. May be the same tensor as a tied head; the backend may keep one copy.
  virtual Result<std::unique_ptr<LinearWeight>> LoadEmbedding(const TensorView& table) = 0;
  // A vector (norm weight) widened to f32: a [1, n] matrix that lives as long as the backend.
  virtual Result<Matrix> LoadVector(const TensorView& vector) = 0;
  virtual Result<std::unique_ptr<KvMemory>> MakeKvMemory(const KvMemorySpec& spec) = 0;
  virtual Status SetRopeTable(const contract::RopeTable& table) = 0;
  // Zeroed memory for activations of at most max_rows rows; lives as long as the backend.
  virtual Result<Matrix> Allocate(std::int64_t max_rows, std::int64_t cols) = 0;

  // --- One step (shapes are CHECKed; no op fails) ------------------------------------------------------------------------------
  // out[t] = DecodeRow(table row ids[t]).  out: [tokens, hidden]
  virtual void Embed(const LinearWeight& table, std::span<const std::int32_t> ids, Matrix out) = 0;
  // contract/norm.h RmsNorm per row.  x, out: [rows, k] (may be the same); weight: [1, k]
  virtual void RmsNorm(Matrix x, Matrix weight, float eps, Matrix out) = 0;
  // contract/linear.h for each output; all weights share the operand x, which is rounded or quantised once.  x: [rows, k]
  virtual void Linear(Matrix x, std::span<const LinearOutput> outputs) = 0;
  // Rotates each head of each row by its position.  x: [tokens, heads * head_dim]
  virtual void Rope(Matrix x, std::int64_t head_dim, std::span<const std::int32_t> positions) = 0;
  // Stores k and v of every row at its sequence's slot.  k, v: [tokens, kv_heads * head_dim]
  virtual void WriteKv(KvMemory& cache, std::int64_t layer, Matrix k, Matrix v, const BatchInputs& batch) = 0;
  // contract/attention.h per row and head over the row's own sequence; WriteKv of this step came before.
  // q, out: [tokens, heads * head_dim]
  virtual void Attention(const KvMemory& cache, std::int64_t layer, const AttentionSpec& spec, Matrix q, const BatchInputs& batch,
                         Matrix out) = 0;
  // out = SiluMul(gate, up), elementwise; out may be gate.
  virtual void SiluMul(Matrix gate, Matrix up, Matrix out) = 0;
  // x = x + y
  virtual void Add(Matrix x, Matrix y) = 0;
  // out[i] = x[rows[i]]
  virtual void GatherRows(Matrix x, std::span<const std::int32_t> rows, Matrix out) = 0;
  // Device to host; the result is valid until the next op. On the CPU it is the matrix itself.
  virtual std::span<const float> Read(Matrix x) = 0;

  // Which kernel serves which op, chosen by arithmetic from static shapes: for `isobit bench --plans` and traces.
  virtual Json Plans() const = 0;
};

}  // namespace isobit
