#include "weights/names.h"

#include <algorithm>

#include "base/utf8.h"

namespace isobit {

Status CheckName(std::string_view name, std::size_t max_bytes, std::string_view what,
                 std::string_view file) {
  const auto fail = [&](std::string_view why) {
    return Fail(ErrorCode::kCorrupt, std::string(file),
                "a {} {}; the file is damaged or was written by a faulty tool", what, why);
  };
  if (name.empty()) return fail("is empty");
  if (name.size() > max_bytes)
    return fail(fmt::format("has {} bytes, the most allowed is {}", name.size(), max_bytes));
  if (!IsValidUtf8(name)) return fail("is not valid UTF-8");
  if (std::any_of(name.begin(), name.end(),
                  [](unsigned char c) { return c < 0x20 || c == 0x7F; })) {
    return fail("contains a control character");
  }
  return {};
}

std::string Printable(std::string_view text) {
  constexpr std::size_t kMaxShown = 80;
  std::string shown(text.substr(0, kMaxShown));
  for (char& c : shown) {
    if (c < 0x20 || c > 0x7E) c = '?';
  }
  if (text.size() > kMaxShown) shown += "...";
  return shown;
}

}  // namespace isobit
