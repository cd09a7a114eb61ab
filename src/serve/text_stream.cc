#include "serve/text_stream.h"

#include <algorithm>

#include "base/check.h"
#include "base/utf8.h"

namespace isobit {

StopMatcher::StopMatcher(const std::vector<std::string>& stops) {
  for (const std::string& stop : stops) {
    ISOBIT_CHECK(!stop.empty());
    Pattern pattern{stop, std::vector<std::size_t>(stop.size() + 1, 0)};
    std::size_t border = 0;
    for (std::size_t i = 1; i < stop.size(); ++i) {
      while (border > 0 && stop[i] != stop[border]) border = pattern.border[border];
      if (stop[i] == stop[border]) ++border;
      pattern.border[i + 1] = border;
    }
    patterns_.push_back(std::move(pattern));
  }
}

std::optional<StopMatcher::Match> StopMatcher::Feed(std::string_view text, bool armed) {
  for (std::size_t i = 0; i < text.size(); ++i) {
    std::optional<Match> match;
    for (std::size_t p = 0; p < patterns_.size(); ++p) {
      Pattern& pattern = patterns_[p];
      while (pattern.matched > 0 && text[i] != pattern.text[pattern.matched]) pattern.matched = pattern.border[pattern.matched];
      if (text[i] == pattern.text[pattern.matched]) ++pattern.matched;
      if (pattern.matched < pattern.text.size()) continue;
      if (!match || pattern.text.size() > patterns_[match->stop_index].text.size()) match = Match{p, i + 1};
      pattern.matched = pattern.border[pattern.matched];
    }
    if (match && armed) return match;
  }
  return std::nullopt;
}

std::size_t StopMatcher::held_bytes() const {
  std::size_t held = 0;
  for (const Pattern& pattern : patterns_) held = std::max(held, pattern.matched);
  return held;
}

TextStream::TextStream(std::shared_ptr<const Tokenizer> tokenizer, TextStreamOptions options)
    : options_(std::move(options)), detokenizer_(std::move(tokenizer), options_.skip_special), matcher_(options_.stops) {}

std::string TextStream::Append(std::int32_t id) {
  ISOBIT_CHECK(!stopped());
  ++num_tokens_;
  return Release(detokenizer_.Append(id));
}

std::string TextStream::Finish() {
  if (stopped()) return {};
  std::string text = Release(detokenizer_.Finish());
  text += held_;
  held_.clear();
  return text;
}

std::string TextStream::Release(const std::string& decoded) {
  num_code_points_ += static_cast<std::int64_t>(CountCodePoints(decoded));
  const auto match = matcher_.Feed(decoded, num_tokens_ > options_.min_tokens);
  std::string text = std::move(held_);
  held_.clear();
  if (match) {
    stop_index_ = match->stop_index;
    const std::size_t end = text.size() + match->end;
    text += decoded;
    // The stop string's start cannot have been released: its bytes were held as the start of a stop string.
    text.resize(options_.include_stop ? end : end - options_.stops[match->stop_index].size());
    return text;
  }
  text += decoded;
  const std::size_t held = matcher_.held_bytes();
  held_ = text.substr(text.size() - held);
  text.resize(text.size() - held);
  return text;
}

}  // namespace isobit
