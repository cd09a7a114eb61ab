#include "tokenizer/chat_template.h"

#include "base/utf8.h"
#include "tokenizer/template_interpreter.h"
#include "tokenizer/template_parser.h"

namespace isobit {
namespace {

constexpr const char* kField = "chat_template";

Error ToError(const chat::TemplateError& error) {
  if (error.raised) return Fail(error.code, "messages", "{}", error.message);
  return error.line > 0 ? Fail(error.code, kField, "line {}: {}", error.line, error.message)
                        : Fail(error.code, kField, "{}", error.message);
}

}  // namespace

struct ChatTemplate::Program {
  std::string source;
  std::vector<chat::Statement> statements;
};

ChatTemplate::ChatTemplate(std::unique_ptr<const Program> program) : program_(std::move(program)) {}
ChatTemplate::~ChatTemplate() = default;

const std::string& ChatTemplate::source() const { return program_->source; }

Result<std::shared_ptr<const ChatTemplate>> ChatTemplate::Parse(std::string_view source) {
  if (source.size() > chat::kMaxSourceBytes) {
    return Fail(ErrorCode::kInvalidArgument, kField, "has {} bytes; at most {} are allowed",
                source.size(), chat::kMaxSourceBytes);
  }
  if (!IsValidUtf8(source))
    return Fail(ErrorCode::kInvalidArgument, kField, "is not valid UTF-8 at byte {}",
                ValidUtf8Length(source));
  auto program = std::make_unique<Program>();
  program->source = source;
  try {
    program->statements = chat::ParseTemplate(source);
  } catch (const chat::TemplateError& error) {
    return ToError(error);
  }
  return std::shared_ptr<const ChatTemplate>(new ChatTemplate(std::move(program)));
}

Result<std::string> ChatTemplate::Render(const Json& context, std::int64_t unix_seconds,
                                         const TemplateLimits& limits) const {
  if (!context.is_object())
    return Fail(ErrorCode::kInvalidArgument, "messages",
                "the context of a template must be an object");
  try {
    chat::Interpreter interpreter(chat::FromJson(context), unix_seconds, limits);
    return interpreter.Run(program_->statements);
  } catch (const chat::TemplateError& error) {
    return ToError(error);
  }
}

}  // namespace isobit
