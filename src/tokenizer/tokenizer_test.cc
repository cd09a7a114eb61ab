#include "tokenizer/tokenizer.h"

#include <gtest/gtest.h>

#include "base/file.h"
#include "base/utf8.h"

namespace isobit {
namespace {

// tests/golden/tokenizer/small.json: a vocabulary of 512 tokens and the ids that Hugging Face's
// tokenizers gives (tools/make_tokenizer_goldens.py).
const Json& Golden() {
  static const Json golden =
      ParseJson(
          ReadFile(std::string(ISOBIT_SOURCE_DIR) + "/tests/golden/tokenizer/small.json").value(),
          "small.json")
          .value();
  return golden;
}

TokenizerSpec SmallSpec(const std::string& pre_tokenizer) {
  TokenizerSpec spec;
  spec.pre_tokenizer = pre_tokenizer;
  spec.tokens = Golden()["tokens"].get<std::vector<std::string>>();
  for (const Json& type : Golden()["types"])
    spec.token_types.push_back(static_cast<TokenType>(type.get<int>()));
  spec.merges = Golden()["merges"].get<std::vector<std::string>>();
  return spec;
}

std::shared_ptr<const Tokenizer> Small(const std::string& pre_tokenizer = "smollm") {
  return Tokenizer::Create(SmallSpec(pre_tokenizer)).value();
}

// "a", "b", "c", "ab", and control and user-defined tokens, with BOS and EOS.
TokenizerSpec TinySpec() {
  TokenizerSpec spec;
  spec.pre_tokenizer = "gpt-2";
  spec.tokens = {"a", "b", "c", "ab", "<s>", "</s>", "<u>", "<unk>"};
  spec.token_types = {TokenType::kNormal,      TokenType::kNormal,  TokenType::kNormal,
                      TokenType::kNormal,      TokenType::kControl, TokenType::kControl,
                      TokenType::kUserDefined, TokenType::kUnknown};
  spec.merges = {"a b"};
  spec.bos_id = 4;
  spec.eos_id = 5;
  return spec;
}

using Ids = std::vector<std::int32_t>;

TEST(Tokenizer, GivesTheReferencesIds) {
  const auto texts = Golden()["texts"].get<std::vector<std::string>>();
  std::size_t num_cases = 0;
  for (const Json& group : Golden()["groups"]) {
    const auto tokenizer = Small(group["pre"]);
    EncodeOptions options;
    options.parse_special = group["parse_special"];
    ASSERT_EQ(group["ids"].size(), texts.size());
    for (std::size_t i = 0; i < texts.size(); ++i, ++num_cases) {
      EXPECT_EQ(tokenizer->Encode(texts[i], options), group["ids"][i].get<Ids>())
          << group["pre"] << " " << options.parse_special << ": " << texts[i];
    }
  }
  EXPECT_GE(num_cases, 300u);
}

TEST(Tokenizer, DecodingGivesTheTextBack) {
  for (const char* pre : {"gpt-2", "smollm", "llama-bpe", "qwen2"}) {
    const auto tokenizer = Small(pre);
    for (const std::string text :
         {"Hello, Wörld 😀\n\n  123 it's", "<|im_start|>user\n[TOOL]<|", "", " "}) {
      for (const bool parse_special : {false, true}) {
        const Ids ids = tokenizer->Encode(text, {.parse_special = parse_special});
        EXPECT_EQ(tokenizer->DecodeBytes(ids, false), text) << pre;
      }
    }
  }
}

TEST(Tokenizer, BytesWithoutATokenAreLeftOut) {
  // The small vocabulary lacks the letters of bytes 0, 6 and 255.
  const auto tokenizer = Small();
  EXPECT_TRUE(tokenizer->Encode(std::string_view("\x00\x06\xFF", 3)).empty());
  EXPECT_EQ(tokenizer->DecodeBytes(tokenizer->Encode("a\x06z"), false), "az");
}

TEST(Tokenizer, InvalidUtf8IsTextToo) {
  const auto tokenizer = Small();
  const std::string text = "ab\xC3\x28\xE2\x82\xFE\x80 c";
  const Ids ids = tokenizer->Encode(text);
  EXPECT_EQ(tokenizer->DecodeBytes(ids, false), text);
  const Ids again = tokenizer->Encode("\xE2");
  ASSERT_EQ(again.size(), 1u);
  EXPECT_EQ(tokenizer->TokenBytes(again[0]), "\xE2");
}

TEST(Tokenizer, ControlTokensOnlyWhereTheyMayBe) {
  const auto tokenizer = Tokenizer::Create(TinySpec()).value();
  const std::string text = "a<s>ab<u></s>c<unk>";
  // Without parse_special '<', 's', '>' have no letters in this vocabulary; only the user-defined
  // token is seen.
  EXPECT_EQ(tokenizer->Encode(text), (Ids{0, 3, 6, 2}));
  EXPECT_EQ(tokenizer->Encode(text, {.parse_special = true}), (Ids{0, 4, 3, 6, 5, 2, 7}));
  EXPECT_TRUE(tokenizer->IsSpecial(4));
  EXPECT_TRUE(tokenizer->IsSpecial(7));
  EXPECT_FALSE(tokenizer->IsSpecial(6));
  EXPECT_EQ(tokenizer->DecodeBytes(Ids{0, 4, 3, 6, 5}, /*skip_special=*/true), "aab<u>");
  EXPECT_EQ(tokenizer->FindToken("</s>"), 5);
  EXPECT_EQ(tokenizer->FindToken("ab"), 3);
  EXPECT_EQ(tokenizer->FindToken("abc"), std::nullopt);
}

TEST(Tokenizer, PlainTextNeverBecomesASpecialToken) {
  for (const char* pre : {"gpt-2", "smollm", "llama-bpe", "qwen2"}) {
    TokenizerSpec spec = TinySpec();
    spec.pre_tokenizer = pre;
    spec.tokens[5] = "abc";  // a control token that looks like a word
    EXPECT_EQ(Tokenizer::Create(spec).value()->Encode("abc"), (Ids{3, 2})) << pre;
    spec.merges = {"a b", "ab c"};  // and a merge that would make it
    EXPECT_EQ(Tokenizer::Create(spec).error().field, "tokenizer.ggml.merges");
  }
}

TEST(Tokenizer, TheLongestSpecialTokenWinsAtOnePlace) {
  TokenizerSpec spec = TinySpec();
  spec.tokens = {"a", "b", "c", "ab", "<s>", "<s><s>", "<u>", "<s>b"};
  spec.token_types.assign(8, TokenType::kControl);
  std::fill_n(spec.token_types.begin(), 4, TokenType::kNormal);
  const auto tokenizer = Tokenizer::Create(spec).value();
  EXPECT_EQ(tokenizer->Encode("<s><s><s>ba<s>a", {.parse_special = true}), (Ids{5, 7, 0, 4, 0}));
}

TEST(Tokenizer, AddsBosAndEosAsTheFileAsks) {
  TokenizerSpec spec = TinySpec();
  spec.add_bos = spec.add_eos = true;
  const auto tokenizer = Tokenizer::Create(spec).value();
  EXPECT_EQ(tokenizer->Encode("ab"), (Ids{4, 3, 5}));
  EXPECT_EQ(tokenizer->Encode(""), (Ids{4, 5}));
  EXPECT_EQ(tokenizer->Encode("ab", {.add_special = false}), (Ids{3}));
  EXPECT_EQ(tokenizer->bos_id(), 4);
  EXPECT_EQ(tokenizer->eos_id(), 5);
}

TEST(Tokenizer, Llama3TakesWholePiecesBeforeMerges) {
  TokenizerSpec spec = TinySpec();
  spec.tokens = {"a", "b", "c", "ab", "abc"};  // no merge leads to "abc"
  spec.token_types.clear();
  spec.bos_id = spec.eos_id = std::nullopt;
  EXPECT_EQ(Tokenizer::Create(spec).value()->Encode("abc"), (Ids{3, 2}));
  spec.pre_tokenizer = "llama-bpe";
  EXPECT_EQ(Tokenizer::Create(spec).value()->Encode("abc"), (Ids{4}));
}

TEST(Tokenizer, DigestChangesWithEveryPartOfTheSpec) {
  const std::string digest = Tokenizer::Create(TinySpec()).value()->Digest();
  EXPECT_EQ(digest.size(), 64u);
  EXPECT_EQ(Tokenizer::Create(TinySpec()).value()->Digest(), digest);
  std::vector<TokenizerSpec> others(6, TinySpec());
  others[0].pre_tokenizer = "qwen2";
  others[1].tokens[2] = "d";
  others[2].token_types[6] = TokenType::kNormal;
  others[3].merges.clear();
  others[4].eos_id = 4;
  others[5].add_bos = true;
  for (const TokenizerSpec& other : others)
    EXPECT_NE(Tokenizer::Create(other).value()->Digest(), digest);
}

struct BadSpec {
  const char* field;
  const char* says;
  void (*spoil)(TokenizerSpec&);
};

TEST(Tokenizer, CreateRefusesWhatDoesNotFitTogether) {
  const BadSpec cases[] = {
      {"tokenizer.ggml.model", "llama", [](TokenizerSpec& s) { s.model = "llama"; }},
      {"tokenizer.ggml.tokens", "0 tokens",
       [](TokenizerSpec& s) { s.tokens.clear(), s.token_types.clear(); }},
      {"tokenizer.ggml.token_type", "8 tokens", [](TokenizerSpec& s) { s.token_types.pop_back(); }},
      {"tokenizer.ggml.pre", "wrong-one", [](TokenizerSpec& s) { s.pre_tokenizer = "wrong-one"; }},
      {"tokenizer.ggml.merges", "\"x\"", [](TokenizerSpec& s) { s.merges = {"a x"}; }},
      {"tokenizer.ggml.merges", "\"bc\"",
       [](TokenizerSpec& s) {
         s.merges = {"a b", "b c"};
       }},
      {"tokenizer.ggml.merges", "not two", [](TokenizerSpec& s) { s.merges = {"ab"}; }},
      {"tokenizer.ggml.merges", "not two", [](TokenizerSpec& s) { s.merges = {"a b c"}; }},
      {"tokenizer.ggml.merges", "not two", [](TokenizerSpec& s) { s.merges = {" ab"}; }},
      {"tokenizer.ggml.bos_token_id", "8", [](TokenizerSpec& s) { s.bos_id = 8; }},
      {"tokenizer.ggml.eos_token_id", "-1", [](TokenizerSpec& s) { s.eos_id = -1; }},
      {"tokenizer.ggml.unknown_token_id", "99", [](TokenizerSpec& s) { s.unknown_id = 99; }},
      {"tokenizer.ggml.padding_token_id", "99", [](TokenizerSpec& s) { s.padding_id = 99; }},
      {"tokenizer.ggml.add_bos_token", "BOS",
       [](TokenizerSpec& s) { s.bos_id.reset(), s.add_bos = true; }},
      {"tokenizer.ggml.add_eos_token", "EOS",
       [](TokenizerSpec& s) { s.eos_id.reset(), s.add_eos = true; }},
  };
  for (const BadSpec& bad : cases) {
    TokenizerSpec spec = TinySpec();
    bad.spoil(spec);
    const auto tokenizer = Tokenizer::Create(spec);
    ASSERT_FALSE(tokenizer.ok()) << bad.field;
    EXPECT_EQ(tokenizer.error().field, bad.field);
    EXPECT_NE(tokenizer.error().message.find(bad.says), std::string::npos)
        << tokenizer.error().message;
  }
}

Json Metadata() {
  return ParseJson(
             R"({"tokenizer.ggml.model": "gpt2", "tokenizer.ggml.pre": "smollm", "tokenizer.ggml.tokens": ["a", "b", "ab", "<s>"],
    "tokenizer.ggml.token_type": [1, 1, 1, 3], "tokenizer.ggml.merges": ["a b"], "tokenizer.ggml.bos_token_id": 3,
    "tokenizer.ggml.eos_token_id": 3, "tokenizer.ggml.add_bos_token": true, "general.name": "x"})",
             "metadata")
      .value();
}

TEST(TokenizerSpec, ComesFromGgufMetadata) {
  const TokenizerSpec spec = TokenizerSpecFromGguf(Metadata()).value();
  EXPECT_EQ(spec.model, "gpt2");
  EXPECT_EQ(spec.pre_tokenizer, "smollm");
  EXPECT_EQ(spec.tokens, (std::vector<std::string>{"a", "b", "ab", "<s>"}));
  EXPECT_EQ(spec.token_types[3], TokenType::kControl);
  EXPECT_EQ(spec.merges, std::vector<std::string>{"a b"});
  EXPECT_EQ(spec.bos_id, 3);
  EXPECT_EQ(spec.eos_id, 3);
  EXPECT_EQ(spec.padding_id, std::nullopt);
  EXPECT_TRUE(spec.add_bos);
  EXPECT_FALSE(spec.add_eos);
  EXPECT_EQ(Tokenizer::Create(spec).value()->Encode("ab"), (Ids{3, 2}));
}

TEST(TokenizerSpec, Llama3AddsBosUnlessTheFileSaysOtherwise) {
  Json metadata = Metadata();
  metadata["tokenizer.ggml.pre"] = "llama-bpe";
  metadata.erase("tokenizer.ggml.add_bos_token");
  EXPECT_TRUE(TokenizerSpecFromGguf(metadata)->add_bos);
  metadata["tokenizer.ggml.add_bos_token"] = false;
  EXPECT_FALSE(TokenizerSpecFromGguf(metadata)->add_bos);
}

TEST(TokenizerSpec, NamesTheKeyThatIsWrong) {
  struct Case {
    const char* key;
    Json value;  // null: the key is missing
    ErrorCode code;
  };
  const Case cases[] = {
      {"tokenizer.ggml.model", nullptr, ErrorCode::kNotFound},
      {"tokenizer.ggml.model", 5, ErrorCode::kCorrupt},
      {"tokenizer.ggml.model", "llama", ErrorCode::kUnsupported},
      {"tokenizer.ggml.model", "bert", ErrorCode::kUnsupported},
      {"tokenizer.ggml.pre", nullptr, ErrorCode::kCorrupt},
      {"tokenizer.ggml.pre", Json::array(), ErrorCode::kCorrupt},
      {"tokenizer.ggml.tokens", nullptr, ErrorCode::kCorrupt},
      {"tokenizer.ggml.tokens", "abc", ErrorCode::kCorrupt},
      {"tokenizer.ggml.tokens", Json::array({"a", 1, "b", "c"}), ErrorCode::kCorrupt},
      {"tokenizer.ggml.token_type", Json::array({1, 1, 1}), ErrorCode::kCorrupt},
      {"tokenizer.ggml.token_type", Json::array({1, 1, 1, 7}), ErrorCode::kCorrupt},
      {"tokenizer.ggml.token_type", Json::array({1, 1, 1, -1}), ErrorCode::kCorrupt},
      {"tokenizer.ggml.token_type", Json::array({1, 1, 1, 1.5}), ErrorCode::kCorrupt},
      {"tokenizer.ggml.token_type", true, ErrorCode::kCorrupt},
      {"tokenizer.ggml.merges", nullptr, ErrorCode::kCorrupt},
      {"tokenizer.ggml.merges", Json::object(), ErrorCode::kCorrupt},
      {"tokenizer.ggml.merges", Json::array({1}), ErrorCode::kCorrupt},
      {"tokenizer.ggml.bos_token_id", "3", ErrorCode::kCorrupt},
      {"tokenizer.ggml.eos_token_id", -1, ErrorCode::kCorrupt},
      {"tokenizer.ggml.unknown_token_id", 4294967296, ErrorCode::kCorrupt},
      {"tokenizer.ggml.padding_token_id", 1.0, ErrorCode::kCorrupt},
      {"tokenizer.ggml.add_bos_token", 1, ErrorCode::kCorrupt},
      {"tokenizer.ggml.add_eos_token", "yes", ErrorCode::kCorrupt},
  };
  for (const Case& one : cases) {
    Json metadata = Metadata();
    if (one.value.is_null())
      metadata.erase(one.key);
    else
      metadata[one.key] = one.value;
    const auto spec = TokenizerSpecFromGguf(metadata);
    ASSERT_FALSE(spec.ok()) << one.key << " = " << one.value;
    EXPECT_EQ(spec.error().field, one.key);
    EXPECT_EQ(ErrorCodeName(spec.error().code), ErrorCodeName(one.code))
        << one.key << " = " << one.value;
  }
  EXPECT_EQ(TokenizerSpecFromGguf(Json(1)).error().code, ErrorCode::kNotFound);
}

std::string Streamed(const std::shared_ptr<const Tokenizer>& tokenizer, const Ids& ids,
                     bool skip_special) {
  Detokenizer detokenizer(tokenizer, skip_special);
  std::string text;
  for (const std::int32_t id : ids) {
    const std::string delta = detokenizer.Append(id);
    EXPECT_TRUE(IsValidUtf8(delta));
    text += delta;
  }
  return text + detokenizer.Finish();
}

TEST(Detokenizer, HoldsBackUnfinishedCharacters) {
  const auto tokenizer = Small();
  Ids bytes;  // one token per byte
  for (const char c : std::string("é😀")) bytes.push_back(*tokenizer->FindToken(std::string(1, c)));
  Detokenizer detokenizer(tokenizer, false);
  std::vector<std::string> deltas;
  for (const std::int32_t id : bytes) deltas.push_back(detokenizer.Append(id));
  EXPECT_EQ(deltas, (std::vector<std::string>{"", "é", "", "", "", "😀"}));
  EXPECT_EQ(detokenizer.Finish(), "");
  EXPECT_EQ(detokenizer.Append(bytes[2]), "");
  EXPECT_EQ(detokenizer.Finish(), "\uFFFD");
  EXPECT_EQ(detokenizer.Finish(), "");
}

TEST(Detokenizer, JoinedDeltasAreTheReplacedBytes) {
  const auto tokenizer = Small();
  std::uint64_t state = 1;
  for (int round = 0; round < 2000; ++round) {
    Ids ids;
    for (int i = 0; i < 12; ++i) {
      state = state * 6364136223846793005u + 1442695040888963407u;
      ids.push_back(static_cast<std::int32_t>((state >> 33) % 512));
    }
    for (const bool skip_special : {false, true}) {
      ASSERT_EQ(Streamed(tokenizer, ids, skip_special),
                ReplaceInvalidUtf8(tokenizer->DecodeBytes(ids, skip_special)))
          << "round " << round;
    }
  }
}

TEST(Detokenizer, SkipsSpecialTokensInsideACharacter) {
  const auto tokenizer = Small();
  const std::int32_t control = *tokenizer->FindToken("<|im_end|>");
  const std::int32_t first = *tokenizer->FindToken("\xC3"), second = *tokenizer->FindToken("\xA9");
  EXPECT_EQ(Streamed(tokenizer, {first, control, second}, true), "é");
  EXPECT_EQ(Streamed(tokenizer, {first, control, second}, false), "\uFFFD<|im_end|>\uFFFD");
}

}  // namespace
}  // namespace isobit
