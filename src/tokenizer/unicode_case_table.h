// Case mappings of single characters (Unicode 14.0.0) as sorted ranges, for the string methods of
// templates.
#pragma once

#include <cstdint>
#include <span>

namespace isobit::chat {

// Every step-th code point from first to last moves by delta.
struct CaseRange {
  std::uint32_t first, last, step;
  std::int32_t delta;
};

// One character that becomes several.
struct CaseExpansion {
  std::uint32_t code_point;
  const char* text;  // UTF-8
};

struct CaseTable {
  std::span<const CaseRange> ranges;
  std::span<const CaseExpansion> expansions;
};

extern const CaseTable kUpperTable;
extern const CaseTable kLowerTable;
extern const CaseTable kTitleTable;  // only where title case differs from upper case

}  // namespace isobit::chat
