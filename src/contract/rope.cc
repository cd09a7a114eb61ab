#include "contract/rope.h"

#include <cmath>

#include "base/check.h"
#include "contract/double_double.h"

namespace isobit::contract {
namespace {

const DoubleDouble kLn2(0x1.62e42fefa39efp-1, 0x1.abc9e3b39803fp-56);
constexpr double kTwoOverPi = 0x1.45f306dc9c883p-1;
// pi / 2 in three parts; the first two have 33 bits, so a 20-bit multiple of either is exact.
constexpr double kHalfPi1 = 0x1.921fb544p+0, kHalfPi2 = 0x1.0b4611a6p-34;
const DoubleDouble kHalfPi3(0x1.3198a2e037073p-69, 0x1.1290000000000p-123);

// e^x for |x| < 700: 2^n * e^r, the series of e^(r / 256) squared eight times.
DoubleDouble ExpDoubleDouble(DoubleDouble x) {
  const double n = std::nearbyint(x.hi / kLn2.hi);
  const DoubleDouble r = (x - kLn2 * DoubleDouble(n)) * DoubleDouble(0x1p-8);
  DoubleDouble term = 1.0, sum = 1.0;
  for (int i = 1; i <= 12; ++i) {
    term = term * r / DoubleDouble(i);
    sum = sum + term;
  }
  for (int i = 0; i < 8; ++i) sum = sum * sum;
  const double scale = std::ldexp(1.0, static_cast<int>(n));
  return {sum.hi * scale, sum.lo * scale};
}

// ln x for x > 0: Newton on e^y = x from a series start; each step doubles the bits.
DoubleDouble LogDoubleDouble(double x) {
  int exponent = 0;
  const double m = std::frexp(x, &exponent);  // [0.5, 1)
  // Start: ln m by the series of 2 artanh((m - 1) / (m + 1)), |z| <= 1/3, to about 50 bits.
  const double z = (m - 1) / (m + 1), zz = z * z;
  double series = 0;
  for (int i = 39; i >= 1; i -= 2) series = series * zz + 1.0 / i;
  DoubleDouble y = kLn2 * DoubleDouble(exponent) + DoubleDouble(2 * z * series);
  for (int i = 0; i < 2; ++i) y = y + DoubleDouble(x) * ExpDoubleDouble(-y) - DoubleDouble(1.0);
  return y;
}

struct ReducedAngle {
  int quadrant;    // of pi / 2
  DoubleDouble r;  // |r| <= pi / 4, about
};

ReducedAngle Reduce(float x) {
  ISOBIT_CHECK(std::fabs(x) < 0x1p20f, "angle {} is past the law's range", x);
  const double a = x, k = std::nearbyint(a * kTwoOverPi);
  DoubleDouble r = DoubleDouble(a - k * kHalfPi1);  // exact: both are multiples of 2^-32 near each other or small
  r = r - TwoProduct(k, kHalfPi2);
  r = r - DoubleDouble(k) * kHalfPi3;
  return {static_cast<int>(static_cast<std::int64_t>(k) & 3), r};
}

// Sum of x^first/first! - x^(first+2)/(first+2)! + ..., for |x| <= 0.79.
DoubleDouble AlternatingSeries(DoubleDouble x, int first) {
  const DoubleDouble square = x * x;
  DoubleDouble term = first == 0 ? DoubleDouble(1.0) : x, sum = term;
  for (int i = first + 2; i <= 28; i += 2) {
    term = -(term * square) / DoubleDouble(static_cast<double>(i) * (i - 1));
    sum = sum + term;
  }
  return sum;
}

float Quadrant(int quadrant, DoubleDouble r) {
  const DoubleDouble value = AlternatingSeries(r, quadrant & 1 ? 0 : 1);
  return RoundToF32(quadrant & 2 ? -value : value);
}

}  // namespace

float SinCorrectlyRounded(float x) {
  if (x == 0.0f) return x;
  const ReducedAngle reduced = Reduce(x);
  return Quadrant(reduced.quadrant, reduced.r);
}

float CosCorrectlyRounded(float x) {
  const ReducedAngle reduced = Reduce(x);
  return Quadrant((reduced.quadrant + 1) & 3, reduced.r);
}

std::vector<float> RopeInverseFrequencies(const RopeSpec& spec) {
  ISOBIT_CHECK(spec.head_dim > 0 && spec.head_dim % 2 == 0 && spec.theta > 1.0);
  const std::int64_t half_dim = spec.head_dim / 2;
  ISOBIT_CHECK(spec.frequency_divisors.empty() || static_cast<std::int64_t>(spec.frequency_divisors.size()) == half_dim);
  const DoubleDouble log_theta = LogDoubleDouble(spec.theta);
  std::vector<float> frequencies(half_dim);
  for (std::int64_t i = 0; i < half_dim; ++i) {
    const DoubleDouble power = DoubleDouble(-2.0 * static_cast<double>(i)) / DoubleDouble(static_cast<double>(spec.head_dim));
    float frequency = i == 0 ? 1.0f : RoundToF32(ExpDoubleDouble(power * log_theta));
    if (spec.llama3) {
      const double wide = frequency, wavelength = 0x1.921fb54442d18p+2 / wide;
      const auto original = static_cast<double>(spec.original_max_positions);
      if (wavelength > original / spec.low_freq_factor) {
        frequency = static_cast<float>(wide / spec.factor);
      } else if (wavelength >= original / spec.high_freq_factor) {
        const double smooth =
            (original / wavelength - spec.low_freq_factor) / (spec.high_freq_factor - spec.low_freq_factor);
        frequency = static_cast<float>((1.0 - smooth) * wide / spec.factor + smooth * wide);
      }
    }
    if (!spec.frequency_divisors.empty()) frequency = frequency / spec.frequency_divisors[i];
    frequencies[i] = frequency;
  }
  return frequencies;
}

RopeTable MakeRopeTable(const RopeSpec& spec, std::int64_t num_positions) {
  const std::vector<float> frequencies = RopeInverseFrequencies(spec);
  RopeTable table{.half_dim = spec.head_dim / 2};
  table.cos.reserve(num_positions * table.half_dim);
  table.sin.reserve(num_positions * table.half_dim);
  for (std::int64_t position = 0; position < num_positions; ++position) {
    for (const float frequency : frequencies) {
      const float angle = static_cast<float>(position) * frequency;
      table.cos.push_back(CosCorrectlyRounded(angle));
      table.sin.push_back(SinCorrectlyRounded(angle));
    }
  }
  return table;
}

void RotateHead(std::span<float> head, std::span<const float> cos, std::span<const float> sin) {
  const std::size_t half = head.size() / 2;
  ISOBIT_CHECK(cos.size() == half && sin.size() == half);
  for (std::size_t i = 0; i < half; ++i) {
    const float a = head[i], b = head[i + half];
    head[i] = std::fma(a, cos[i], -(b * sin[i]));
    head[i + half] = std::fma(b, cos[i], a * sin[i]);
  }
}

}  // namespace isobit::contract
