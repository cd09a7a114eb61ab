// What commands print: errors in one form, progress only on a terminal, JSON where asked.
#pragma once

#include <string>
#include <string_view>

#include "base/json.h"
#include "base/result.h"

namespace isobit {

// "isobit: --block-size: must be ..." on standard error. Returns 2, the exit code of usage and environment errors.
int PrintError(const Error& error);

// Writes pretty JSON to `path`, or to standard output if path is "-".
Status WriteJson(const std::string& path, const Json& json);

// One line on standard error that replaces itself; nothing if standard error is no terminal.
class ProgressLine {
 public:
  ProgressLine();
  ~ProgressLine();  // clears the line
  void Show(std::string_view text);

 private:
  bool terminal_;
  bool shown_ = false;
};

}  // namespace isobit
