#include "tokenizer/pre_tokenizer.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <array>
#include <limits>
#include <utility>

#include "base/utf8.h"

namespace isobit {
namespace {

// White space is spelled out: PCRE2's own \s also holds U+180E, which Unicode and the reference
// tokenizers do not count.
#define SPACE \
  R"(\x09-\x0D\x20\x85\xA0\x{1680}\x{2000}-\x{200A}\x{2028}\x{2029}\x{202F}\x{205F}\x{3000})"
// The end of a run of space that leaves its last character to the word behind it.
#define TRAILING_SPACE "[" SPACE "]+(?![^" SPACE "])|[" SPACE "]+"
#define CONTRACTION "'(?:[sdmt]|ll|ve|re)"

struct Known {
  std::string_view name;
  const char* expression;
  bool ignore_merges;
  bool add_bos;
};

constexpr const char* kGpt2 =
    CONTRACTION R"(|\x20?\p{L}+|\x20?\p{N}+|\x20?[^)" SPACE R"(\p{L}\p{N}]+|)" TRAILING_SPACE;

// The reference isolates every digit first and cuts the stretches between them as GPT-2 does, so a
// digit ends a run of space the way the end of the text does. One expression says both.
constexpr const char* kSmolLm =
    R"(\p{N}|)" CONTRACTION R"(|\x20?\p{L}+|\x20?[^)" SPACE R"(\p{L}\p{N}]+|[)" SPACE
    R"(]+(?![^)" SPACE R"(\p{N}])|[)" SPACE "]+";

#define LLAMA3_BEFORE_DIGITS "(?i:" CONTRACTION R"()|[^\r\n\p{L}\p{N}]?\p{L}+|)"
#define LLAMA3_AFTER_DIGITS \
  R"(|\x20?[^)" SPACE R"(\p{L}\p{N}]+[\r\n]*|[)" SPACE R"(]*[\r\n]+|)" TRAILING_SPACE

constexpr const char* kLlama3 = LLAMA3_BEFORE_DIGITS R"(\p{N}{1,3})" LLAMA3_AFTER_DIGITS;
constexpr const char* kQwen2 = LLAMA3_BEFORE_DIGITS R"(\p{N})" LLAMA3_AFTER_DIGITS;

constexpr std::array kKnown = {
    Known{"gpt-2", kGpt2, false, false},
    Known{"smollm", kSmolLm, false, false},
    Known{"llama-bpe", kLlama3, true, true},
    Known{"llama3", kLlama3, true, true},
    Known{"llama-v3", kLlama3, true, true},
    Known{"qwen2", kQwen2, false, false},
    Known{"deepseek-r1-qwen", kQwen2, false, false},
};

const Known* Find(std::string_view name) {
  for (const Known& known : kKnown) {
    if (known.name == name) return &known;
  }
  return nullptr;
}

struct FreeCode {
  void operator()(pcre2_code* code) const { pcre2_code_free(code); }
};
struct FreeMatchData {
  void operator()(pcre2_match_data* data) const { pcre2_match_data_free(data); }
};
struct FreeMatchContext {
  void operator()(pcre2_match_context* context) const { pcre2_match_context_free(context); }
};

}  // namespace

struct PreTokenizer::Pattern {
  std::unique_ptr<pcre2_code, FreeCode> code;  // read-only after Create, so that threads share it
  std::unique_ptr<pcre2_match_context, FreeMatchContext> context;
  bool jit = false;  // speed only: both ways find the same match

  // The end of the piece that begins at `begin` of valid UTF-8.
  std::size_t PieceEnd(std::string_view text, std::size_t begin, pcre2_match_data* data) const {
    const auto* subject = reinterpret_cast<PCRE2_SPTR>(text.data());
    int found = PCRE2_ERROR_JIT_STACKLIMIT;
    if (jit)
      found = pcre2_jit_match(code.get(), subject, text.size(), begin, PCRE2_NO_UTF_CHECK, data,
                              context.get());
    if (found == PCRE2_ERROR_JIT_STACKLIMIT) {
      found = pcre2_match(code.get(), subject, text.size(), begin,
                          PCRE2_NO_UTF_CHECK | PCRE2_NO_JIT, data, context.get());
    }
    // Every character is space, letter, number or none of them, so each expression matches
    // something at every place; its limits are off, which leaves lack of memory as the only way to
    // fail.
    ISOBIT_CHECK(found > 0, "pre-tokenizer match failed with PCRE2 code {}", found);
    const std::size_t end = pcre2_get_ovector_pointer(data)[1];
    ISOBIT_CHECK(end > begin && end <= text.size());
    return end;
  }
};

PreTokenizer::PreTokenizer(std::unique_ptr<const Pattern> pattern, bool ignore_merges)
    : pattern_(std::move(pattern)), ignore_merges_(ignore_merges) {}
PreTokenizer::PreTokenizer(PreTokenizer&&) noexcept = default;
PreTokenizer& PreTokenizer::operator=(PreTokenizer&&) noexcept = default;
PreTokenizer::~PreTokenizer() = default;

Result<PreTokenizer> PreTokenizer::Create(std::string_view name) {
  const Known* known = Find(name);
  if (known == nullptr) {
    std::string names;
    for (const Known& one : kKnown) names.append(names.empty() ? "" : ", ").append(one.name);
    return Fail(ErrorCode::kUnsupported, "tokenizer.ggml.pre",
                "the pre-tokenizer \"{}\" is not known; isobit knows {}", name, names);
  }
  auto pattern = std::make_unique<Pattern>();
  int error_code = 0;
  PCRE2_SIZE error_offset = 0;
  // Anchored: pieces follow each other without a gap.
  pattern->code.reset(pcre2_compile(reinterpret_cast<PCRE2_SPTR>(known->expression),
                                    PCRE2_ZERO_TERMINATED,
                                    PCRE2_UTF | PCRE2_UCP | PCRE2_ANCHORED | PCRE2_NO_AUTO_CAPTURE,
                                    &error_code, &error_offset, nullptr));
  ISOBIT_CHECK(pattern->code != nullptr, "PCRE2 error {} at {} of {}", error_code, error_offset,
               known->expression);
  pattern->jit = pcre2_jit_compile(pattern->code.get(), PCRE2_JIT_COMPLETE) == 0;
  pattern->context.reset(pcre2_match_context_create(nullptr));
  ISOBIT_CHECK(pattern->context != nullptr);
  // A long run of space is walked back once per line end; that is linear, and no limit may turn it
  // into a failure.
  constexpr std::uint32_t kNoLimit = std::numeric_limits<std::uint32_t>::max();
  pcre2_set_match_limit(pattern->context.get(), kNoLimit);
  pcre2_set_depth_limit(pattern->context.get(), kNoLimit);
  pcre2_set_heap_limit(pattern->context.get(), kNoLimit);
  return PreTokenizer(std::move(pattern), known->ignore_merges);
}

void PreTokenizer::Split(std::string_view text, std::vector<std::string_view>& pieces) const {
  const std::unique_ptr<pcre2_match_data, FreeMatchData> data(pcre2_match_data_create(1, nullptr));
  ISOBIT_CHECK(data != nullptr);
  while (!text.empty()) {
    const std::string_view valid = text.substr(0, ValidUtf8Length(text));
    for (std::size_t begin = 0; begin < valid.size();) {
      const std::size_t end = pattern_->PieceEnd(valid, begin, data.get());
      pieces.push_back(valid.substr(begin, end - begin));
      begin = end;
    }
    text.remove_prefix(valid.size());
    if (!text.empty()) {
      pieces.push_back(text.substr(0, 1));
      text.remove_prefix(1);
    }
  }
}

bool PreTokenizer::AddBosByDefault(std::string_view name) {
  const Known* known = Find(name);
  return known != nullptr && known->add_bos;
}

std::string PreTokenizer::UnicodeVersion() {
  std::array<char, 64> version{};
  const int length = pcre2_config(PCRE2_CONFIG_UNICODE_VERSION, nullptr);
  ISOBIT_CHECK(length > 0 && length <= static_cast<int>(version.size()));
  pcre2_config(PCRE2_CONFIG_UNICODE_VERSION, version.data());
  return version.data();
}

}  // namespace isobit
