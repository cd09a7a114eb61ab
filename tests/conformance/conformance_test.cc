// Every case, on every instruction set this machine has, with one, two and three threads, against the law.
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "backend/law_backend.h"
#include "backend/ops.h"
#include "backend_cpu/cpu_backend.h"
#include "cases.h"
#include "comparer.h"

namespace isobit::conformance {
namespace {

class ConformanceTest : public testing::TestWithParam<Case> {};

TEST_P(ConformanceTest, EqualsTheLaw) {
  const Case& test = GetParam();
  Recorder expected;
  const std::unique_ptr<Backend> law = MakeLawBackend(test.contract);
  test.run(*law, expected);
  ASSERT_FALSE(expected.values.empty());
  for (const std::string& isa : AvailableIsas()) {
    for (const int threads : {1, 2, 3}) {
      auto backend = MakeCpuBackend(test.contract, {.num_threads = threads, .isa = isa});
      ASSERT_TRUE(backend.ok()) << backend.error().ToString();
      Recorder actual;
      test.run(**backend, actual);
      const std::string difference = Compare(expected.values, actual.values, expected.cols);
      EXPECT_EQ(difference, "") << test.op << "/" << test.name << " on " << (*backend)->name() << "\nplans: " << DumpJson((*backend)->Plans());
    }
  }
}

std::string TestName(const testing::TestParamInfo<Case>& info) {
  std::string name = info.param.op + "_" + info.param.name;
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
}

INSTANTIATE_TEST_SUITE_P(AllCases, ConformanceTest, testing::ValuesIn(AllCases()), TestName);

TEST(CaseListTest, EveryOpHasACaseAndEveryNameIsOne) {
  std::set<std::string> ops, names;
  for (const Case& test : AllCases()) {
    ops.insert(test.op);
    EXPECT_TRUE(names.insert(test.op + "_" + test.name).second) << test.name;
  }
  EXPECT_EQ(ops, (std::set<std::string>(kBackendOps.begin(), kBackendOps.end())));
}

}  // namespace
}  // namespace isobit::conformance
