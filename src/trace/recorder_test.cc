#include "trace/recorder.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>

#include "base/file.h"

namespace isobit {
namespace {

class TraceTest : public testing::Test {
 protected:
  ~TraceTest() override { std::filesystem::remove(path_); }

  // The error of a trace with this content.
  Error ErrorOf(const std::string& content) {
    EXPECT_TRUE(WriteFile(path_, content).ok());
    const Result<Trace> trace = ReadTrace(path_);
    return trace.ok() ? Error{} : trace.error();
  }

  const std::string path_ =
      (std::filesystem::temp_directory_path() / fmt::format("isobit_recorder_test_{}", getpid()))
          .string();
  const std::string header_ = "{\"isobit_trace\":1,\"header\":{}}\n";
};

TEST_F(TraceTest, ReadsBackWhatWasRecorded) {
  auto recorder = std::move(TraceRecorder::Open(path_, Json{{"contract", "ab\"c"}}).value());
  recorder->Record(
      {.step_index = 0, .segments = {{1, 0, 7, 0}, {18446744073709551615u, 16, 3, 16}}});
  recorder->Record(
      {.step_index = 1, .segments = {{1, 7, 1, 0}}, .preempted = {9, 8}, .tokens = {{1, 50000}}});
  ASSERT_TRUE(recorder->Close().ok());
  EXPECT_TRUE(recorder->Close().ok());  // once more does nothing

  const Result<Trace> trace = ReadTrace(path_);
  ASSERT_TRUE(trace.ok()) << trace.error().ToString();
  EXPECT_EQ(trace->header["contract"], "ab\"c");
  ASSERT_EQ(trace->steps.size(), 2u);
  EXPECT_EQ(trace->steps[0].segments[1].request_id, 18446744073709551615u);
  EXPECT_EQ(trace->steps[0].segments[1].first_position, 16);
  EXPECT_EQ(trace->steps[0].segments[1].num_rows, 3);
  EXPECT_EQ(trace->steps[0].segments[1].num_cached_tokens, 16);
  EXPECT_TRUE(trace->steps[0].preempted.empty() && trace->steps[0].tokens.empty());
  EXPECT_EQ(trace->steps[1].step_index, 1);
  EXPECT_EQ(trace->steps[1].preempted, std::vector<std::uint64_t>({9, 8}));
  EXPECT_EQ(trace->steps[1].tokens[0], (std::pair<std::uint64_t, std::int32_t>(1, 50000)));
}

TEST_F(TraceTest, WritesOneLineAStep) {
  auto recorder = std::move(TraceRecorder::Open(path_, Json::object()).value());
  recorder->Record(
      {.step_index = 3, .segments = {{1, 0, 7, 0}}, .preempted = {2}, .tokens = {{1, 5}, {2, 6}}});
  ASSERT_TRUE(recorder->Close().ok());
  EXPECT_EQ(
      ReadFile(path_).value(),
      header_ +
          "{\"step\":3,\"segments\":[[1,0,7,0]],\"preempted\":[2],\"tokens\":[[1,5],[2,6]]}\n");
}

TEST_F(TraceTest, ErrorsNameTheLine) {
  const std::string good = "{\"step\":0,\"segments\":[],\"preempted\":[],\"tokens\":[]}\n";
  EXPECT_EQ(ErrorOf(header_ + good).message, "");
  EXPECT_EQ(ErrorOf("").code, ErrorCode::kCorrupt);
  EXPECT_EQ(ErrorOf(good).field, path_ + ":1");
  EXPECT_EQ(ErrorOf("{\"isobit_trace\":2,\"header\":{}}\n").code, ErrorCode::kUnsupported);
  EXPECT_EQ(ErrorOf(header_ + good + "{\"step\":1").message, "the last line is cut off");
  EXPECT_EQ(ErrorOf(header_ + good + "{\"step\":1").field, path_ + ":3");
  for (const char* bad :
       {"nonsense\n", "[]\n", "{}\n",
        "{\"step\":-1,\"segments\":[],\"preempted\":[],\"tokens\":[]}\n",
        "{\"step\":0,\"segments\":[[1,2,3]],\"preempted\":[],\"tokens\":[]}\n",
        "{\"step\":0,\"segments\":[],\"preempted\":[1.5],\"tokens\":[]}\n",
        "{\"step\":0,\"segments\":[],\"preempted\":[],\"tokens\":[[1,\"a\"]]}\n"}) {
    EXPECT_EQ(ErrorOf(header_ + bad).field, path_ + ":2") << bad;
  }
}

TEST_F(TraceTest, ReportsIoErrors) {
  const auto missing = TraceRecorder::Open(path_ + "/no/such/folder", Json::object());
  ASSERT_FALSE(missing.ok());
  EXPECT_EQ(missing.error().code, ErrorCode::kIo);
  // A full disk is met while writing and told at the end.
  auto full = std::move(TraceRecorder::Open("/dev/full", Json::object()).value());
  for (int i = 0; i < 1000; ++i) full->Record({.step_index = i, .segments = {{1, 0, 7, 0}}});
  const Status status = full->Close();
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().code, ErrorCode::kIo);
  EXPECT_EQ(status.error().field, "/dev/full");
}

}  // namespace
}  // namespace isobit
