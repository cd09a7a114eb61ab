#include "tokenizer/tokenizer.h"

#include <algorithm>
#include <array>
#include <limits>

#include "base/check.h"
#include "base/sha256.h"
#include "tokenizer/bpe.h"
#include "tokenizer/byte_alphabet.h"
#include "tokenizer/pre_tokenizer.h"
#include "tokenizer/special_tokens.h"

namespace isobit {
namespace {

constexpr std::int32_t kNoToken = -1;

// Texts to ids, by binary search. Of equal texts the lowest id counts.
class TextIndex {
 public:
  TextIndex() = default;
  // Of the tokens for which wanted(id) holds.
  template <class Wanted>
  TextIndex(const std::vector<std::string>& texts, Wanted wanted) : texts_(&texts) {
    for (std::size_t id = 0; id < texts.size(); ++id) {
      if (wanted(id)) order_.push_back(static_cast<std::int32_t>(id));
    }
    std::stable_sort(order_.begin(), order_.end(), [&](std::int32_t a, std::int32_t b) {
      return texts[static_cast<std::size_t>(a)] < texts[static_cast<std::size_t>(b)];
    });
  }

  std::int32_t Find(std::string_view text) const {
    const auto it = std::lower_bound(
        order_.begin(), order_.end(), text, [&](std::int32_t id, std::string_view wanted) {
          return std::string_view((*texts_)[static_cast<std::size_t>(id)]) < wanted;
        });
    return it != order_.end() && (*texts_)[static_cast<std::size_t>(*it)] == text ? *it : kNoToken;
  }

 private:
  const std::vector<std::string>* texts_ = nullptr;
  std::vector<std::int32_t> order_;  // ids sorted by text, then by id
};

TokenType TypeOf(const TokenizerSpec& spec, std::size_t id) {
  return spec.token_types.empty() ? TokenType::kNormal : spec.token_types[id];
}

bool IsSpecialType(TokenType type) {
  return type == TokenType::kControl || type == TokenType::kUnknown;
}

Status CheckId(const TokenizerSpec& spec, const std::optional<std::int32_t>& id,
               const char* field) {
  if (!id || (*id >= 0 && static_cast<std::size_t>(*id) < spec.tokens.size())) return {};
  return Fail(ErrorCode::kCorrupt, field, "{} is no token of the {} in the vocabulary", *id,
              spec.tokens.size());
}

// "left right" of letters; the byte alphabet has no space of its own.
Result<MergeRule> ReadMerge(std::string_view line, std::size_t index, const TextIndex& letters) {
  constexpr const char* kField = "tokenizer.ggml.merges";
  const std::size_t space = line.find(' ');
  const bool two_parts = space != std::string_view::npos && space > 0 && space + 1 < line.size() &&
                         line.find(' ', space + 1) == std::string_view::npos;
  if (!two_parts)
    return Fail(ErrorCode::kCorrupt, kField,
                "entry {}, \"{}\", is not two tokens with a space between", index, line);
  const std::string_view left = line.substr(0, space), right = line.substr(space + 1);
  const std::string joined = std::string(left).append(right);
  const MergeRule rule{letters.Find(left), letters.Find(right), letters.Find(joined)};
  for (const auto& [id, text] :
       {std::pair{rule.left, left}, {rule.right, right}, {rule.merged, std::string_view(joined)}}) {
    if (id == kNoToken)
      return Fail(ErrorCode::kCorrupt, kField,
                  "entry {} needs the token \"{}\", which the vocabulary lacks", index, text);
  }
  return rule;
}

void AddText(Sha256& hash, std::string_view text) { hash.UpdateU64(text.size()).Update(text); }

}  // namespace

struct Tokenizer::Data {
  TokenizerSpec spec;
  PreTokenizer pre_tokenizer;
  BpeMerges merges;
  std::vector<std::string> bytes;  // [vocab] what each token stands for
  TextIndex by_bytes;              // over bytes, all tokens
  TextIndex whole_pieces;  // over bytes, but no special token: plain text must never become one
  std::array<std::int32_t, 256>
      byte_id{};         // the token of a single byte; kNoToken where the vocabulary lacks it
  SpecialTokens always;  // user-defined tokens: recognised in any text
  SpecialTokens
      with_control;  // those, control and unknown tokens: recognised where parse_special says so

  Data(TokenizerSpec spec_in, PreTokenizer pre)
      : spec(std::move(spec_in)), pre_tokenizer(std::move(pre)) {}

  // Appends the ids of text that holds no special token.
  void EncodePlain(std::string_view text, std::vector<std::int32_t>& ids) const;
};

Tokenizer::Tokenizer(std::unique_ptr<const Data> data) : data_(std::move(data)) {}
Tokenizer::~Tokenizer() = default;

Result<std::shared_ptr<const Tokenizer>> Tokenizer::Create(TokenizerSpec spec) {
  if (spec.model != "gpt2") {
    return Fail(ErrorCode::kUnsupported, "tokenizer.ggml.model",
                "\"{}\" is not supported; isobit reads byte-level BPE, \"gpt2\"", spec.model);
  }
  if (spec.tokens.empty() ||
      spec.tokens.size() > static_cast<std::size_t>(std::numeric_limits<std::int32_t>::max())) {
    return Fail(ErrorCode::kCorrupt, "tokenizer.ggml.tokens",
                "holds {} tokens; at least 1 and fewer than 2^31 are needed", spec.tokens.size());
  }
  if (!spec.token_types.empty() && spec.token_types.size() != spec.tokens.size()) {
    return Fail(ErrorCode::kCorrupt, "tokenizer.ggml.token_type", "has {} entries for {} tokens",
                spec.token_types.size(), spec.tokens.size());
  }
  if (spec.merges.size() >= std::numeric_limits<std::uint32_t>::max()) {
    return Fail(ErrorCode::kCorrupt, "tokenizer.ggml.merges",
                "has {} entries; fewer than 2^32 - 1 are needed", spec.merges.size());
  }
  ISOBIT_TRY(CheckId(spec, spec.bos_id, "tokenizer.ggml.bos_token_id"));
  ISOBIT_TRY(CheckId(spec, spec.eos_id, "tokenizer.ggml.eos_token_id"));
  ISOBIT_TRY(CheckId(spec, spec.unknown_id, "tokenizer.ggml.unknown_token_id"));
  ISOBIT_TRY(CheckId(spec, spec.padding_id, "tokenizer.ggml.padding_token_id"));
  if (spec.add_bos && !spec.bos_id) {
    return Fail(ErrorCode::kCorrupt, "tokenizer.ggml.add_bos_token",
                "asks for a BOS token, but tokenizer.ggml.bos_token_id names none");
  }
  if (spec.add_eos && !spec.eos_id) {
    return Fail(ErrorCode::kCorrupt, "tokenizer.ggml.add_eos_token",
                "asks for an EOS token, but tokenizer.ggml.eos_token_id names none");
  }
  ISOBIT_ASSIGN(PreTokenizer pre, PreTokenizer::Create(spec.pre_tokenizer));

  auto data = std::make_unique<Data>(std::move(spec), std::move(pre));
  const TokenizerSpec& checked = data->spec;
  std::vector<MergeRule> rules;
  rules.reserve(checked.merges.size());
  const auto is_plain = [&](std::size_t id) { return !IsSpecialType(TypeOf(checked, id)); };
  // No special token is in it, so that no merge can make one out of plain text.
  const TextIndex letters(checked.tokens, is_plain);
  for (const std::string& line : checked.merges) {
    ISOBIT_ASSIGN(const MergeRule rule, ReadMerge(line, rules.size(), letters));
    rules.push_back(rule);
  }
  data->merges = BpeMerges(rules);

  std::vector<std::pair<std::string, std::int32_t>> user_defined, all_special;
  data->bytes.reserve(checked.tokens.size());
  for (std::size_t i = 0; i < checked.tokens.size(); ++i) {
    const std::string& text = checked.tokens[i];
    const TokenType type = TypeOf(checked, i);
    const bool special = IsSpecialType(type);
    if (special || type == TokenType::kUserDefined) {  // written as they are, not in letters
      data->bytes.push_back(text);
      all_special.emplace_back(text, static_cast<std::int32_t>(i));
      if (!special) user_defined.emplace_back(text, static_cast<std::int32_t>(i));
    } else {
      data->bytes.push_back(BytesFromLetters(text).value_or(text));
    }
  }
  data->by_bytes = TextIndex(data->bytes, [](std::size_t) { return true; });
  data->whole_pieces = TextIndex(data->bytes, is_plain);
  data->always = SpecialTokens(std::move(user_defined));
  data->with_control = SpecialTokens(std::move(all_special));
  for (int byte = 0; byte < 256; ++byte) {
    const char c = static_cast<char>(byte);
    data->byte_id[static_cast<std::size_t>(byte)] = letters.Find(LettersFromBytes({&c, 1}));
  }
  return std::shared_ptr<const Tokenizer>(new Tokenizer(std::move(data)));
}

void Tokenizer::Data::EncodePlain(std::string_view text, std::vector<std::int32_t>& ids) const {
  std::vector<std::string_view> pieces;
  pre_tokenizer.Split(text, pieces);
  std::vector<std::int32_t> symbols;
  BpeMerges::Scratch scratch;
  for (const std::string_view piece : pieces) {
    if (pre_tokenizer.ignore_merges()) {
      if (const std::int32_t id = whole_pieces.Find(piece); id != kNoToken) {
        ids.push_back(id);
        continue;
      }
    }
    symbols.clear();
    for (const char c : piece) {
      // A vocabulary may lack letters of bytes that its training text never held. Such a byte has
      // no token: it is left out before any merging, as the reference tokenizers do.
      if (const std::int32_t id = byte_id[static_cast<std::uint8_t>(c)]; id != kNoToken)
        symbols.push_back(id);
    }
    merges.Apply(symbols, scratch);
    ids.insert(ids.end(), symbols.begin(), symbols.end());
  }
}

std::vector<std::int32_t> Tokenizer::Encode(std::string_view text,
                                            const EncodeOptions& options) const {
  const TokenizerSpec& spec = data_->spec;
  const SpecialTokens& specials = options.parse_special ? data_->with_control : data_->always;
  std::vector<std::int32_t> ids;
  ids.reserve(text.size() / 4 + 2);
  if (options.add_special && spec.add_bos) ids.push_back(*spec.bos_id);
  std::size_t begin = 0;
  while (const auto special = specials.FindNext(text, begin)) {
    data_->EncodePlain(text.substr(begin, special->begin - begin), ids);
    ids.push_back(special->id);
    begin = special->end;
  }
  data_->EncodePlain(text.substr(begin), ids);
  if (options.add_special && spec.add_eos) ids.push_back(*spec.eos_id);
  return ids;
}

const std::string& Tokenizer::TokenBytes(std::int32_t id) const {
  ISOBIT_CHECK(id >= 0 && id < vocab_size(), "token id {} of {}", id, vocab_size());
  return data_->bytes[static_cast<std::size_t>(id)];
}

bool Tokenizer::IsSpecial(std::int32_t id) const {
  ISOBIT_CHECK(id >= 0 && id < vocab_size(), "token id {} of {}", id, vocab_size());
  return IsSpecialType(TypeOf(data_->spec, static_cast<std::size_t>(id)));
}

std::string Tokenizer::DecodeBytes(std::span<const std::int32_t> ids, bool skip_special) const {
  std::string bytes;
  for (const std::int32_t id : ids) {
    if (!skip_special || !IsSpecial(id)) bytes += TokenBytes(id);
  }
  return bytes;
}

std::optional<std::int32_t> Tokenizer::FindToken(std::string_view bytes) const {
  const std::int32_t id = data_->by_bytes.Find(bytes);
  return id == kNoToken ? std::nullopt : std::optional(id);
}

std::int32_t Tokenizer::vocab_size() const {
  return static_cast<std::int32_t>(data_->bytes.size());
}
std::optional<std::int32_t> Tokenizer::bos_id() const { return data_->spec.bos_id; }
std::optional<std::int32_t> Tokenizer::eos_id() const { return data_->spec.eos_id; }

std::string Tokenizer::Digest() const {
  const TokenizerSpec& spec = data_->spec;
  Sha256 hash;
  AddText(hash, "isobit tokenizer 1");
  AddText(hash, PreTokenizer::UnicodeVersion());
  AddText(hash, spec.model);
  AddText(hash, spec.pre_tokenizer);
  hash.UpdateU64(spec.tokens.size());
  for (std::size_t i = 0; i < spec.tokens.size(); ++i) {
    AddText(hash, spec.tokens[i]);
    hash.UpdateU64(static_cast<std::uint64_t>(TypeOf(spec, i)));
  }
  hash.UpdateU64(spec.merges.size());
  for (const std::string& merge : spec.merges) AddText(hash, merge);
  for (const auto& id : {spec.bos_id, spec.eos_id, spec.unknown_id, spec.padding_id}) {
    hash.UpdateU64(id ? static_cast<std::uint64_t>(*id) + 1 : 0);
  }
  hash.UpdateU64(spec.add_bos).UpdateU64(spec.add_eos);
  return HexString(hash.Finish());
}

}  // namespace isobit
