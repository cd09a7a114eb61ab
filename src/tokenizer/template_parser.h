// The parser of the template language: tokens to a syntax tree. Precedence and syntax are Jinja's.
#pragma once

#include <string_view>
#include <vector>

#include "tokenizer/template_ast.h"

namespace isobit::chat {

inline constexpr int kMaxNesting = 100;  // of blocks, brackets and operators inside each other
inline constexpr int kMaxExpressionDepth = 500;  // of chains such as a + b + c + ...
inline constexpr std::size_t kMaxSourceBytes = std::size_t{4} << 20;

// Throws TemplateError with the line.
std::vector<Statement> ParseTemplate(std::string_view source);

}  // namespace isobit::chat
