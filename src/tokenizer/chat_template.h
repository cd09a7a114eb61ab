// ChatTemplate: a Jinja template, parsed once, rendered per request. The language is what chat templates of Hugging Face models use
// (docs/templates.md); settings are theirs too: trim_blocks, lstrip_blocks, tojson that keeps key order and non-ASCII characters.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "base/json.h"
#include "base/result.h"

namespace isobit {

struct TemplateLimits {
  std::int64_t max_steps = 2'000'000;       // evaluated nodes
  std::int64_t max_output_bytes = 16 << 20;
  int max_depth = 100;                       // nesting of calls, expressions and blocks
};

class ChatTemplate {
 public:
  // Errors name the line: field = "chat_template", "line 3: expected 'endfor'".
  static Result<std::shared_ptr<const ChatTemplate>> Parse(std::string_view source);
  ~ChatTemplate();

  // context: an object such as {"messages": [...], "add_generation_prompt": true, "bos_token": "<s>", "tools": [...]}.
  // raise_exception("...") in the template gives kInvalidArgument with that message, field "messages".
  // strftime_now is fixed by `unix_seconds` (UTC), so that no clock reaches a prompt unless configured.
  Result<std::string> Render(const Json& context, std::int64_t unix_seconds = 0, const TemplateLimits& limits = {}) const;

  const std::string& source() const;

 private:
  struct Program;
  explicit ChatTemplate(std::unique_ptr<const Program> program);
  std::unique_ptr<const Program> program_;
};

}  // namespace isobit
