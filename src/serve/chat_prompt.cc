#include "serve/chat_prompt.h"

#include <algorithm>
#include <optional>

#include "base/check.h"
#include "base/utf8.h"

namespace isobit {
namespace {

// Length of the character that begins valid UTF-8 text.
std::size_t CharacterBytes(std::string_view text) {
  const auto lead = static_cast<unsigned char>(text.front());
  const std::size_t length = lead < 0x80 ? 1 : lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
  return std::min(length, text.size());
}

// U+FDD0 to U+FDEF, and the last two of every plane but the first: 64 noncharacters.
constexpr int kNumNoncharacters = 64;
std::string Noncharacter(int index) {
  std::string out;
  if (index < 32) AppendUtf8(0xFDD0 + static_cast<std::uint32_t>(index), out);
  else AppendUtf8(0x1FFFE + static_cast<std::uint32_t>((index - 32) / 2) * 0x10000 + static_cast<std::uint32_t>(index % 2), out);
  return out;
}
// The index of the noncharacter that valid UTF-8 text has at this byte; -1: none.
int NoncharacterAt(std::string_view text, std::size_t at) {
  const auto byte = [&](std::size_t i) { return at + i < text.size() ? static_cast<unsigned char>(text[at + i]) : 0; };
  if (byte(0) == 0xEF && byte(1) == 0xB7 && byte(2) >= 0x90 && byte(2) <= 0xAF) return byte(2) - 0x90;
  if (byte(0) < 0xF0 || (byte(1) & 0x0F) != 0x0F || byte(2) != 0xBF || byte(3) < 0xBE) return -1;
  const int plane = (byte(0) & 7) << 2 | (byte(1) >> 4 & 3);
  return plane < 1 || plane > 16 ? -1 : 32 + (plane - 1) * 2 + (byte(3) & 1);
}

// Names that templates look up: no client text.
bool IsProtocolName(std::string_view key) {
  constexpr std::string_view kNames[] = {"role",      "content",    "name",       "type",        "function",   "arguments", "parameters",
                                         "id",        "tool_calls", "tool_call_id", "description", "properties", "required", "text",
                                         "reasoning", "reasoning_content", "title", "strict", "enum", "items"};
  return std::find(std::begin(kNames), std::end(kNames), key) != std::end(kNames);
}

}  // namespace

// The noncharacters in use for one request.
class PromptEncoder::Shield {
 public:
  explicit Shield(const PromptEncoder& encoder) : encoder_(encoder) {}

  // A noncharacter that the text holds cannot serve as a mark.
  void Reserve(std::string_view text) {
    for (std::size_t at = 0; at < text.size(); ++at) {
      if (static_cast<unsigned char>(text[at]) < 0xEF) continue;
      if (const int index = NoncharacterAt(text, at); index >= 0) taken_[index] = true;
    }
  }

  std::string Protect(const std::string& text) {
    std::vector<std::size_t> starts;  // bytes at which a character is to be replaced
    for (std::size_t at = 0; at < text.size(); ++at) {
      if (encoder_.ControlTokenAt(std::string_view(text).substr(at)) >= 0) starts.push_back(at);
    }
    for (const auto& [token, id] : encoder_.control_tokens_) {
      // The text's end may begin a token that the template's next characters complete, and its start may complete one.
      for (std::size_t length = std::min(token.size() - 1, text.size()); length > 0; --length) {
        if (text.compare(text.size() - length, length, token, 0, length) == 0) starts.push_back(text.size() - length);
        if (text.compare(0, length, token, token.size() - length, length) == 0) starts.push_back(0);
      }
    }
    if (starts.empty()) return text;
    std::sort(starts.begin(), starts.end());
    starts.erase(std::unique(starts.begin(), starts.end()), starts.end());
    std::string out;
    std::size_t done = 0;
    for (const std::size_t start : starts) {
      if (start < done || (static_cast<unsigned char>(text[start]) & 0xC0) == 0x80) continue;
      const std::size_t length = CharacterBytes(std::string_view(text).substr(start));
      out.append(text, done, start - done);
      out += Mark(text.substr(start, length));
      done = start + length;
    }
    return out + text.substr(done);
  }

  std::string Restore(std::string_view text) const {
    std::string out;
    std::size_t done = 0;
    for (std::size_t at = 0; at < text.size(); ++at) {
      const int index = static_cast<unsigned char>(text[at]) < 0xEF ? -1 : NoncharacterAt(text, at);
      if (index < 0) continue;
      for (const auto& [character, mark] : marks_) {
        if (text.compare(at, mark.size(), mark) != 0) continue;
        out.append(text.substr(done, at - done)).append(character);
        done = at + mark.size();
        break;
      }
    }
    return out.append(text.substr(done));
  }

  bool used() const { return !marks_.empty(); }
  bool exhausted() const { return exhausted_; }

 private:
  std::string Mark(const std::string& character) {
    for (const auto& [known, mark] : marks_) {
      if (known == character) return mark;
    }
    for (int i = 0; i < kNumNoncharacters; ++i) {
      if (taken_[i]) continue;
      taken_[i] = true;
      marks_.emplace_back(character, Noncharacter(i));
      return marks_.back().second;
    }
    exhausted_ = true;
    return character;
  }

  const PromptEncoder& encoder_;
  bool taken_[kNumNoncharacters] = {};
  bool exhausted_ = false;
  std::vector<std::pair<std::string, std::string>> marks_;  // character, its noncharacter
};

namespace {

// Calls visit(string) on every string a client wrote: values of messages but roles, keys that are no protocol names.
template <class Visit>
Json MapStrings(const Json& value, const Visit& visit, bool message_list = false) {
  if (value.is_string()) return visit(value.get_ref<const std::string&>());
  if (value.is_array()) {
    Json out = Json::array();
    for (const Json& item : value) {
      if (!message_list) {
        out.push_back(MapStrings(item, visit));
        continue;
      }
      Json message = Json::object();
      for (const auto& [key, part] : item.items()) message[key] = key == "role" ? part : MapStrings(part, visit);
      out.push_back(std::move(message));
    }
    return out;
  }
  if (value.is_object()) {
    Json out = Json::object();
    for (const auto& [key, part] : value.items()) {
      out[IsProtocolName(key) ? key : visit(key).template get<std::string>()] = MapStrings(part, visit);
    }
    return out;
  }
  return value;
}

std::string_view Stripped(std::string_view text) {
  constexpr std::string_view kSpace = " \t\r\n\f\v";
  const std::size_t start = text.find_first_not_of(kSpace);
  if (start == std::string_view::npos) return {};
  return text.substr(start, text.find_last_not_of(kSpace) + 1 - start);
}

// The rendered prompt up to the end of the last message's text: the model goes on writing it.
Result<std::string> CutAfterFinalMessage(const std::string& rendered, const std::string& content) {
  const std::string_view stripped = Stripped(content);
  const std::size_t at = stripped.empty() ? std::string::npos : rendered.rfind(stripped);
  if (at == std::string::npos) {
    return Fail(ErrorCode::kInvalidArgument, "continue_final_message", "the chat template does not show the last message as it is");
  }
  // Trailing white space belongs to the message if the template kept it.
  const std::string_view tail = std::string_view(content).substr(content.find(stripped.front()));
  if (rendered.compare(at, tail.size(), tail) == 0) return rendered.substr(0, at + tail.size());
  return rendered.substr(0, at + stripped.size());
}

}  // namespace

PromptEncoder::PromptEncoder(std::shared_ptr<const Tokenizer> tokenizer, std::shared_ptr<const ChatTemplate> chat_template)
    : tokenizer_(std::move(tokenizer)), chat_template_(std::move(chat_template)) {
  for (std::int32_t id = 0; id < tokenizer_->vocab_size(); ++id) {
    const std::string& text = tokenizer_->TokenBytes(id);
    longest_token_bytes_ = std::max(longest_token_bytes_, text.size());
    if (!tokenizer_->IsSpecial(id) || text.empty()) continue;
    control_tokens_.emplace_back(text, id);
    can_begin_[static_cast<unsigned char>(text.front())] = true;
  }
  std::sort(control_tokens_.begin(), control_tokens_.end());
  std::vector<std::int32_t> added = tokenizer_->Encode("", {.add_special = true, .parse_special = false});
  if (!added.empty() && added.front() == tokenizer_->bos_id()) {
    prefix_.push_back(added.front());
    added.erase(added.begin());
  }
  suffix_ = std::move(added);
}

EncodedPrompt PromptEncoder::Encode(std::string_view text, bool add_special, bool parse_special) const {
  EncodedPrompt prompt;
  prompt.ids = tokenizer_->Encode(text, {.add_special = false, .parse_special = parse_special});
  if (!add_special) return prompt;
  const bool has_prefix = !prefix_.empty() && !prompt.ids.empty() && prompt.ids.front() == prefix_.front();
  if (!has_prefix) {
    prompt.ids.insert(prompt.ids.begin(), prefix_.begin(), prefix_.end());
    prompt.num_prefix = prefix_.size();
  }
  prompt.ids.insert(prompt.ids.end(), suffix_.begin(), suffix_.end());
  prompt.num_suffix = suffix_.size();
  return prompt;
}

bool PromptEncoder::CanFit(std::size_t text_bytes, std::int64_t max_tokens) const {
  return text_bytes / longest_token_bytes_ <= static_cast<std::size_t>(max_tokens);
}

std::size_t PromptEncoder::TextBytes(const ChatInput& chat) {
  std::size_t bytes = 0;
  const auto add = [&](const std::string& text) {
    bytes += text.size();
    return Json(text);
  };
  MapStrings(chat.messages, add, true);
  MapStrings(chat.tools, add);
  MapStrings(chat.documents, add);
  MapStrings(chat.template_kwargs, add);
  return bytes;
}

Json PromptEncoder::Context(const ChatInput& chat, Shield& shield) const {
  const auto text_of = [&](std::optional<std::int32_t> id) { return id ? Json(tokenizer_->TokenBytes(*id)) : Json(""); };
  const auto reserve = [&](const std::string& text) {
    shield.Reserve(text);
    return Json(text);
  };
  const auto protect = [&](const std::string& text) { return Json(shield.Protect(text)); };
  MapStrings(chat.messages, reserve, true);
  MapStrings(chat.tools, reserve);
  MapStrings(chat.documents, reserve);
  MapStrings(chat.template_kwargs, reserve);
  shield.Reserve(chat_template_->source());

  Json context = Json::object();
  for (const auto& [key, value] : chat.template_kwargs.items()) context[key] = MapStrings(value, protect);
  context["messages"] = MapStrings(chat.messages, protect, true);
  if (!chat.tools.is_null()) context["tools"] = MapStrings(chat.tools, protect);
  if (!chat.documents.is_null()) context["documents"] = MapStrings(chat.documents, protect);
  context["add_generation_prompt"] = chat.add_generation_prompt;
  context["bos_token"] = text_of(tokenizer_->bos_id());
  context["eos_token"] = text_of(tokenizer_->eos_id());
  return context;
}

Result<RenderedChat> PromptEncoder::Render(const ChatInput& chat, bool add_special) const {
  if (!chat_template_) {
    return Fail(ErrorCode::kUnsupported, "messages", "this model's file has no chat template; use /v1/completions");
  }
  Shield shield(*this);
  const Json context = Context(chat, shield);
  if (shield.exhausted()) {
    return Fail(ErrorCode::kInvalidArgument, "messages", "hold nearly every noncharacter of Unicode (U+FDD0 ...); remove some");
  }
  Result<std::string> written = chat_template_->Render(context);
  if (!written.ok()) {
    // A conversation beyond the template's limits is the client's to shorten: a retry would meet them again.
    if (written.error().code != ErrorCode::kResourceExhausted) return written.error();
    return Fail(ErrorCode::kInvalidArgument, "messages", "are too much for the chat template: {}", written.error().message);
  }
  std::string marked = std::move(written).value();
  if (chat.continue_final_message) {
    ISOBIT_ASSIGN(marked, CutAfterFinalMessage(marked, context["messages"].back()["content"].get_ref<const std::string&>()));
  }
  RenderedChat rendered;
  if (shield.used()) {
    rendered.ids = EncodeShielded(marked, shield);
    rendered.text = shield.Restore(marked);
  } else {
    rendered.ids = tokenizer_->Encode(marked, {.add_special = false, .parse_special = true});
    rendered.text = std::move(marked);
  }
  if (add_special && (prefix_.empty() || rendered.ids.empty() || rendered.ids.front() != prefix_.front())) {
    rendered.ids.insert(rendered.ids.begin(), prefix_.begin(), prefix_.end());
  }
  return rendered;
}

std::int32_t PromptEncoder::ControlTokenAt(std::string_view text) const {
  std::int32_t found = -1;
  std::size_t length = 0;
  if (!can_begin_[static_cast<unsigned char>(text.front())]) return found;
  // Texts that can begin here share its first byte: a short run of the sorted list.
  const auto begin = std::lower_bound(control_tokens_.begin(), control_tokens_.end(), text.substr(0, 1),
                                      [](const auto& entry, std::string_view first) { return entry.first < first; });
  for (auto entry = begin; entry != control_tokens_.end() && entry->first.front() == text.front(); ++entry) {
    if (entry->first.size() > length && text.substr(0, entry->first.size()) == entry->first) {
      found = entry->second;
      length = entry->first.size();
    }
  }
  return found;
}

std::vector<std::int32_t> PromptEncoder::EncodeShielded(std::string_view text, const Shield& shield) const {
  std::vector<std::int32_t> ids;
  const auto encode_plain = [&](std::string_view plain) {
    if (plain.empty()) return;
    const auto part = tokenizer_->Encode(shield.Restore(plain), {.add_special = false, .parse_special = false});
    ids.insert(ids.end(), part.begin(), part.end());
  };
  std::size_t plain_start = 0;
  for (std::size_t at = 0; at < text.size();) {
    const std::int32_t id = ControlTokenAt(text.substr(at));
    if (id < 0) {
      ++at;
      continue;
    }
    encode_plain(text.substr(plain_start, at - plain_start));
    ids.push_back(id);
    at += tokenizer_->TokenBytes(id).size();
    plain_start = at;
  }
  encode_plain(text.substr(plain_start));
  return ids;
}

}  // namespace isobit
