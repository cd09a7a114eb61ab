// TextStream: token ids to the text a client sees: whole characters only, cut exactly at a stop string, and never a byte that a stop
// string may yet claim. What Append() and Finish() return, joined, is the answer's text: streamed and whole answers are made from
// the same deltas, so they cannot differ.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tokenizer/tokenizer.h"

namespace isobit {

// Finds the first stop string to be completed, byte by byte (Knuth, Morris and Pratt over each string), so that how the text was cut
// into tokens cannot matter. Of strings completed at the same byte the longest wins.
class StopMatcher {
 public:
  explicit StopMatcher(const std::vector<std::string>& stops);  // none empty

  struct Match {
    std::size_t stop_index;
    std::size_t end;  // bytes of the fed text up to and including the stop string's last
  };
  // Reads text up to the first match, or all of it. Not armed: completed strings are passed over.
  std::optional<Match> Feed(std::string_view text, bool armed);

  // Bytes at the end of all text fed that are the start of a stop string.
  std::size_t held_bytes() const;

 private:
  struct Pattern {
    std::string text;
    std::vector<std::size_t> border;  // [size + 1]: longest proper border of each prefix
    std::size_t matched = 0;
  };
  std::vector<Pattern> patterns_;
};

struct TextStreamOptions {
  bool skip_special = true;
  bool include_stop = false;          // the stop string stays in the text
  std::vector<std::string> stops;     // none empty
  std::int64_t min_tokens = 0;        // strings completed by token min_tokens or before are ordinary text
};

class TextStream {
 public:
  TextStream(std::shared_ptr<const Tokenizer> tokenizer, TextStreamOptions options);

  // The text that became certain; may be empty. Not to be called once stopped().
  std::string Append(std::int32_t id);
  // A token that counts but shows no text: the stop token that ended the answer.
  void AppendHidden() { ++num_tokens_; }
  // The end of the answer: everything held back, which may complete a stop string too.
  std::string Finish();

  bool stopped() const { return stop_index_.has_value(); }
  const std::string& stop_string() const { return options_.stops[*stop_index_]; }
  // Code points decoded so far, before any cut: where the next token's text begins.
  std::int64_t num_code_points() const { return num_code_points_; }

 private:
  std::string Release(const std::string& decoded);

  TextStreamOptions options_;
  Detokenizer detokenizer_;
  StopMatcher matcher_;
  std::string held_;
  std::int64_t num_tokens_ = 0;
  std::int64_t num_code_points_ = 0;
  std::optional<std::size_t> stop_index_;
};

}  // namespace isobit
