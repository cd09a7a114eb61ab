// Overlap: how many answers were really in progress together, as proved by their tokens' arrival times.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace isobit::gate {

// Mean over all tokens of the number of answers (itself included) that also received a token close to it: between this answer's
// tokens w before and w after, w = an eighth of its length. 1 = one at a time.
// Not simply "between first and last token": a server may give everybody the first token and then serve one after the other.
// token_nanos: per answer, ascending. Answers without tokens count nothing. No token at all: 0.
double MeanOverlap(std::span<const std::vector<std::int64_t>> token_nanos);

// The least overlap that lets an arm say it exercised `concurrency` answers at once: 1 + 0.4 * (concurrency - 1). Prefill, the
// ragged start and the ragged end eat the rest.
double RequiredOverlap(std::int64_t concurrency);

}  // namespace isobit::gate
