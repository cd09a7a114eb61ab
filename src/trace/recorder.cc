// Trace files: JSON lines. The first line is {"isobit_trace":1,"header":...}, each further one a step:
// {"step":7,
//  "segments":[[request,first_position,num_rows,num_cached_tokens]...],
//  "preempted":[request...],
//  "tokens":[[request,token]...]}  (without the line breaks)
#include "trace/recorder.h"

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <string_view>

#include "base/file.h"

namespace isobit {
namespace {

constexpr int kTraceVersion = 1;

// "[a,b],[c,d]": items joined by commas.
template <class Items, class Format>
void AppendList(std::string& line, std::string_view key, const Items& items, Format format) {
  fmt::format_to(std::back_inserter(line), ",\"{}\":[", key);
  bool first = true;
  for (const auto& item : items) {
    if (!first) line += ',';
    first = false;
    format(item);
  }
  line += ']';
}

std::string StepLine(const TraceStep& step) {
  std::string line = fmt::format("{{\"step\":{}", step.step_index);
  const auto out = std::back_inserter(line);
  AppendList(line, "segments", step.segments, [&](const TraceSegment& s) {
    fmt::format_to(out, "[{},{},{},{}]", s.request_id, s.first_position, s.num_rows,
                   s.num_cached_tokens);
  });
  AppendList(line, "preempted", step.preempted,
             [&](std::uint64_t id) { fmt::format_to(out, "{}", id); });
  AppendList(line, "tokens", step.tokens,
             [&](const auto& token) { fmt::format_to(out, "[{},{}]", token.first, token.second); });
  line += "}\n";
  return line;
}

// One line of a trace while it is read: takes typed members out, or says what is wrong.
class LineReader {
 public:
  LineReader(const Json& line, std::string field) : line_(line), field_(std::move(field)) {}

  Error Wrong(std::string_view what) const {
    return Fail(ErrorCode::kCorrupt, field_, "{}; is this a trace written by isobit?", what);
  }

  Result<const Json*> Array(const char* key) const {
    const auto it = line_.is_object() ? line_.find(key) : line_.end();
    if (!line_.is_object() || it == line_.end() || !it->is_array()) {
      return Wrong(fmt::format("\"{}\" must be an array", key));
    }
    return &*it;
  }

  // A non-negative integer.
  Result<std::uint64_t> Number(const Json& value, std::string_view what) const {
    if (!value.is_number_unsigned())
      return Wrong(fmt::format("{} must be a non-negative integer", what));
    return value.get<std::uint64_t>();
  }

  // Exactly `count` non-negative integers.
  Result<std::vector<std::uint64_t>> Numbers(const Json& value, std::size_t count,
                                             std::string_view what) const {
    if (!value.is_array() || value.size() != count)
      return Wrong(fmt::format("{} must be {} integers", what, count));
    std::vector<std::uint64_t> numbers;
    for (const Json& item : value) {
      ISOBIT_ASSIGN(numbers.emplace_back(), Number(item, what));
    }
    return numbers;
  }

 private:
  const Json& line_;
  std::string field_;
};

Result<TraceStep> ReadStep(const Json& line, const std::string& field) {
  const LineReader reader(line, field);
  TraceStep step;
  if (!line.is_object() || !line.contains("step")) return reader.Wrong("\"step\" is missing");
  ISOBIT_ASSIGN(step.step_index, reader.Number(line["step"], "\"step\""));

  ISOBIT_ASSIGN(const Json* segments, reader.Array("segments"));
  for (const Json& item : *segments) {
    ISOBIT_ASSIGN(const auto n, reader.Numbers(item, 4, "a segment"));
    step.segments.push_back({.request_id = n[0],
                             .first_position = static_cast<std::int64_t>(n[1]),
                             .num_rows = static_cast<std::int64_t>(n[2]),
                             .num_cached_tokens = static_cast<std::int64_t>(n[3])});
  }
  ISOBIT_ASSIGN(const Json* preempted, reader.Array("preempted"));
  for (const Json& item : *preempted) {
    ISOBIT_ASSIGN(const std::uint64_t id, reader.Number(item, "a preempted request"));
    step.preempted.push_back(id);
  }
  ISOBIT_ASSIGN(const Json* tokens, reader.Array("tokens"));
  for (const Json& item : *tokens) {
    ISOBIT_ASSIGN(const auto n, reader.Numbers(item, 2, "a token"));
    step.tokens.emplace_back(n[0], static_cast<std::int32_t>(n[1]));
  }
  return step;
}

Result<Json> ReadHeader(const Json& line, const std::string& field) {
  if (!line.is_object() || !line.contains("isobit_trace") || !line.contains("header")) {
    return Fail(ErrorCode::kCorrupt, field, "no trace header; is this a trace written by isobit?");
  }
  if (line["isobit_trace"] != kTraceVersion) {
    return Fail(ErrorCode::kUnsupported, field,
                "trace version {}, this build reads {}; record it anew",
                DumpJson(line["isobit_trace"]), kTraceVersion);
  }
  return line["header"];
}

}  // namespace

struct TraceRecorder::Impl {
  std::mutex mutex;
  std::string path;
  std::FILE* file = nullptr;
  Status status;  // the first failure

  void Write(std::string_view line) {
    if (!status.ok() || file == nullptr) return;
    if (std::fwrite(line.data(), 1, line.size(), file) != line.size()) SetIoError("write");
  }
  void SetIoError(const char* what) {
    if (status.ok()) {
      status = Fail(ErrorCode::kIo, path, "cannot {} the trace: {}; is the disk full?", what,
                    std::strerror(errno));
    }
  }
};

TraceRecorder::TraceRecorder(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

Result<std::unique_ptr<TraceRecorder>> TraceRecorder::Open(const std::string& path,
                                                           const Json& header) {
  auto impl = std::make_unique<Impl>();
  impl->path = path;
  impl->file = std::fopen(path.c_str(), "wb");
  if (impl->file == nullptr) {
    return Fail(ErrorCode::kIo, path, "cannot create the trace file: {}", std::strerror(errno));
  }
  impl->Write(
      fmt::format("{{\"isobit_trace\":{},\"header\":{}}}\n", kTraceVersion, DumpJson(header)));
  return std::unique_ptr<TraceRecorder>(new TraceRecorder(std::move(impl)));
}

TraceRecorder::~TraceRecorder() { (void)Close(); }

void TraceRecorder::Record(const TraceStep& step) {
  const std::string line = StepLine(step);
  const std::lock_guard lock(impl_->mutex);
  impl_->Write(line);
}

Status TraceRecorder::Close() {
  const std::lock_guard lock(impl_->mutex);
  if (impl_->file != nullptr) {
    if (std::fclose(impl_->file) != 0) impl_->SetIoError("finish");
    impl_->file = nullptr;
  }
  return impl_->status;
}

Result<Trace> ReadTrace(const std::string& path) {
  ISOBIT_ASSIGN(const std::string text, ReadFile(path));
  Trace trace;
  std::int64_t line_number = 0;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = text.find('\n', begin);
    const std::string field = fmt::format("{}:{}", path, ++line_number);
    // Every line ends with a newline, so a missing one means that the writer died in the middle.
    if (end == std::string::npos)
      return Fail(ErrorCode::kCorrupt, field, "the last line is cut off");
    ISOBIT_ASSIGN(const Json line,
                  ParseJson(std::string_view(text).substr(begin, end - begin), field));
    if (line_number == 1) {
      ISOBIT_ASSIGN(trace.header, ReadHeader(line, field));
    } else {
      ISOBIT_ASSIGN(trace.steps.emplace_back(), ReadStep(line, field));
    }
    begin = end + 1;
  }
  if (line_number == 0) return Fail(ErrorCode::kCorrupt, path, "the trace is empty");
  return trace;
}

}  // namespace isobit
