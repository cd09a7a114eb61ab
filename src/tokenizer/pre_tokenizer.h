// PreTokenizer: cuts text into the pieces inside which byte pairs may merge. The cut is a regular
// expression that a GGUF file only names (tokenizer.ggml.pre); the expressions are ours to know.
//
// Text that is not valid UTF-8 is cut first into its valid stretches and its invalid bytes. Each
// valid stretch is cut by the expression as if it were the whole text; each invalid byte is a piece
// by itself. So every text has exactly one cut, and valid text is cut as the reference tokenizers
// do it.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace isobit {

class PreTokenizer {
 public:
  // kUnsupported, naming the known names, for any other: a wrong cut would give plausible, wrong
  // ids without a sign.
  static Result<PreTokenizer> Create(std::string_view name);
  PreTokenizer(PreTokenizer&&) noexcept;
  PreTokenizer& operator=(PreTokenizer&&) noexcept;
  ~PreTokenizer();

  // Appends the pieces of text in order; joined they are text.
  void Split(std::string_view text, std::vector<std::string_view>& pieces) const;

  // A piece that is a token as it stands is that token, whatever the merges would give.
  bool ignore_merges() const { return ignore_merges_; }
  // What a file that does not say it wants: Llama 3 begins every text with BOS.
  static bool AddBosByDefault(std::string_view name);
  // Of the tables behind \p{L} and \p{N}: "14.0.0".
  static std::string UnicodeVersion();

 private:
  struct Pattern;
  PreTokenizer(std::unique_ptr<const Pattern> pattern, bool ignore_merges);
  std::unique_ptr<const Pattern> pattern_;
  bool ignore_merges_ = false;
};

}  // namespace isobit
