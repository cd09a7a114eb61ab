// BatchInputs: one step's tokens, as the engine's plan laid them out. Travels by argument to every op that needs to know whose row
// is whose; nothing in it may choose an arithmetic order.
#pragma once

#include <cstdint>
#include <vector>

namespace isobit {

struct BatchInputs {
  std::vector<std::int32_t> token_ids;       // [num_tokens]
  std::vector<std::int32_t> positions;       // [num_tokens] absolute position in the token's sequence
  std::vector<std::int32_t> sequence_index;  // [num_tokens] into block_tables; rows of a sequence are neighbours, ascending
  // [num_sequences][number of blocks]: physical block of each run of block_size positions, from absolute position 0. Covers every
  // position up to the sequence's last row.
  std::vector<std::vector<std::int32_t>> block_tables;
  std::vector<std::int32_t> output_rows;     // [num_outputs] rows whose logits are wanted, ascending

  std::int64_t num_tokens() const { return static_cast<std::int64_t>(token_ids.size()); }
  std::int64_t num_outputs() const { return static_cast<std::int64_t>(output_rows.size()); }
};

}  // namespace isobit
