// The case list of the conformance suite: each case runs one op through the law and through every backend under test, and compares.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "backend/backend.h"
#include "contract/contract.h"

namespace isobit::conformance {

// Collects every result a case reads; `cols` says how to print a place in it.
struct Recorder {
  std::vector<float> values;
  std::int64_t cols = 1;
  void Put(std::span<const float> from, std::int64_t row_size);
};

struct Case {
  std::string op;    // of kBackendOps
  std::string name;  // unique
  contract::Contract contract;
  // Uses only the seam; the same calls for the law and for the backend under test.
  std::function<void(Backend&, Recorder&)> run;
};

std::vector<Case> AllCases();

// Appenders, one per file.
void AddElementCases(std::vector<Case>& cases);
void AddLinearCases(std::vector<Case>& cases);
void AddAttentionCases(std::vector<Case>& cases);

// A matrix in the backend's memory filled with values, rows behind them poisoned with NaN.
Matrix Filled(Backend& backend, std::int64_t rows, std::int64_t cols, const std::vector<float>& values);

// An output matrix between two rows of sentinels.
class Guarded {
 public:
  Guarded(Backend& backend, std::int64_t rows, std::int64_t cols);
  Matrix inside() const { return {whole_.data + whole_.cols, whole_.rows - 2, whole_.cols}; }
  // Appends the inside to the recorder, and the sentinels too: a touched one shows as a difference.
  void Record(Backend& backend, Recorder& recorder) const;

 private:
  Matrix whole_;
};

}  // namespace isobit::conformance
