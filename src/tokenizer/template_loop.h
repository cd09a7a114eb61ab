// LoopState: the variable `loop` inside a for block, and the source of its items. Items behind a
// filter ({% for x in xs if ... %}) are asked for one at a time, because the condition may depend
// on what the body did with earlier items.
#pragma once

#include <cstddef>
#include <deque>
#include <functional>
#include <optional>
#include <vector>

#include "tokenizer/template_value.h"

namespace isobit::chat {

struct LoopState {
  std::vector<Value> source;
  std::size_t next_source = 0;
  std::function<bool(const Value&)> filter;  // empty: all; valid only while the for block runs
  std::deque<Value> ahead;                   // passed the filter, not yet reached
  std::optional<Value> previous, current;
  std::int64_t index0 = -1;
  std::optional<Value> last_changed;  // arguments of the last loop.changed()
  int depth = 1;

  // Moves on to the next item; false at the end.
  bool Advance() {
    FillAhead(1);
    if (ahead.empty()) return false;
    previous = std::move(current);
    current = std::move(ahead.front());
    ahead.pop_front();
    ++index0;
    return true;
  }

  // Looks at most `count` items ahead.
  void FillAhead(std::size_t count) {
    while (ahead.size() < count && next_source < source.size()) {
      Value& item = source[next_source++];
      if (!filter || filter(item)) ahead.push_back(item);
    }
  }

  bool IsLast() {
    FillAhead(1);
    return ahead.empty();
  }

  std::int64_t Length() {
    FillAhead(source.size());
    return index0 + 1 + static_cast<std::int64_t>(ahead.size());
  }
};

}  // namespace isobit::chat
