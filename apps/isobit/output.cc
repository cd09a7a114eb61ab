#include "isobit/output.h"

#include <unistd.h>

#include <cstdio>

#include "base/file.h"

namespace isobit {

int PrintError(const Error& error) {
  std::fprintf(stderr, "isobit: %s\n", error.ToString().c_str());
  return 2;
}

Status WriteJson(const std::string& path, const Json& json) {
  const std::string text = DumpJson(json, 2) + "\n";
  if (path != "-") return WriteFile(path, text);
  std::fwrite(text.data(), 1, text.size(), stdout);
  return {};
}

ProgressLine::ProgressLine() : terminal_(isatty(STDERR_FILENO) == 1) {}

ProgressLine::~ProgressLine() {
  if (shown_) std::fprintf(stderr, "\r\033[K");
}

void ProgressLine::Show(std::string_view text) {
  if (!terminal_) return;
  std::fprintf(stderr, "\r\033[K%.*s", static_cast<int>(text.size()), text.data());
  std::fflush(stderr);
  shown_ = true;
}

}  // namespace isobit
