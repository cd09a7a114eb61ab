// DoubleDouble: an unevaluated sum of two binary64, about 106 bits, from IEEE operations only. Used for tables made at load, where a
// value must be correctly rounded to f32 without trusting a libm.
#pragma once

#include <cmath>

namespace isobit::contract {

struct DoubleDouble {
  double hi = 0, lo = 0;

  DoubleDouble() = default;
  DoubleDouble(double value) : hi(value) {}  // NOLINT: a double is a DoubleDouble
  DoubleDouble(double h, double l) : hi(h), lo(l) {}
};

// a + b exactly, for |a| >= |b| or a = 0 (Dekker 1971).
inline DoubleDouble FastTwoSum(double a, double b) {
  const double sum = a + b;
  return {sum, b - (sum - a)};
}

// a + b exactly (Knuth, TAOCP 2, 4.2.2).
inline DoubleDouble TwoSum(double a, double b) {
  const double sum = a + b, bb = sum - a;
  return {sum, (a - (sum - bb)) + (b - bb)};
}

inline DoubleDouble TwoProduct(double a, double b) {
  const double product = a * b;
  return {product, std::fma(a, b, -product)};
}

inline DoubleDouble operator+(DoubleDouble a, DoubleDouble b) {
  const DoubleDouble s = TwoSum(a.hi, b.hi), t = TwoSum(a.lo, b.lo);
  const DoubleDouble u = FastTwoSum(s.hi, s.lo + t.hi);
  return FastTwoSum(u.hi, u.lo + t.lo);
}

inline DoubleDouble operator-(DoubleDouble a) { return {-a.hi, -a.lo}; }
inline DoubleDouble operator-(DoubleDouble a, DoubleDouble b) { return a + -b; }

inline DoubleDouble operator*(DoubleDouble a, DoubleDouble b) {
  const DoubleDouble p = TwoProduct(a.hi, b.hi);
  return FastTwoSum(p.hi, p.lo + (a.hi * b.lo + a.lo * b.hi));
}

inline DoubleDouble operator/(DoubleDouble a, DoubleDouble b) {
  const double first = a.hi / b.hi;
  const DoubleDouble rest = a - b * DoubleDouble(first);
  const double second = rest.hi / b.hi;
  const DoubleDouble rest2 = rest - b * DoubleDouble(second);
  return FastTwoSum(first, second) + DoubleDouble(rest2.hi / b.hi);
}

// The f32 nearest to a, ties to even: rounding hi alone would round twice where hi sits on a midpoint of two f32.
inline float RoundToF32(DoubleDouble a) {
  const auto rounded = static_cast<float>(a.hi);
  const double rest = (a.hi - static_cast<double>(rounded)) + a.lo;
  if (a.lo == 0.0 || rest == 0.0) return rounded;
  // hi may be a midpoint: then lo decides.
  const float away = std::nextafter(rounded, rest > 0 ? HUGE_VALF : -HUGE_VALF);
  const double gap = std::fabs(static_cast<double>(away) - static_cast<double>(rounded));
  return std::fabs(rest) > gap / 2 ? away : rounded;
}

}  // namespace isobit::contract
