// POST /tokenize, /detokenize and /v1/chat/completions/render, in the words of vLLM ("prompt", "add_special_tokens") and of
// llama-server ("content", "add_special", "with_pieces").
#include "base/utf8.h"
#include "serve/field_reader.h"
#include "serve/routes.h"

namespace isobit {
namespace {

constexpr std::size_t kMaxDetokenizedBytes = 16 << 20;  // 3 bytes of a body can name a token of a hundred

struct TokenizeRequest {
  std::optional<std::string> text;
  std::optional<ChatInput> chat;
  bool add_special = true;
  bool parse_special = true;
  bool token_strings = false;  // vLLM: beside the ids
  bool pieces = false;         // llama-server: in the ids' place
};

Status CheckModel(FieldReader& fields, const std::string& served) {
  std::string model = served;
  fields.String("model", 4096, &model);
  ISOBIT_TRY(fields.status());
  if (model == served) return {};
  return Fail(ErrorCode::kNotFound, "model", "no model of the name \"{}\" is served here; use \"{}\"", model, served);
}

Result<TokenizeRequest> ParseTokenize(const std::string& http_body, const std::string& model) {
  ISOBIT_ASSIGN(const Json body, ParseBody(http_body));
  FieldReader fields(body);
  ISOBIT_TRY(CheckModel(fields, model));
  TokenizeRequest request;
  std::string text;
  const bool is_content = fields.Find("content") != nullptr;
  if (is_content || fields.Find("prompt") != nullptr) {
    fields.String(is_content ? "content" : "prompt", SIZE_MAX, &text);
    request.text = text;
    request.add_special = !is_content;  // each dialect's default
  } else if (fields.Find("messages") != nullptr) {
    ISOBIT_ASSIGN(request.chat, ParseChatInput(body));
    request.add_special = false;
  } else {
    return Fail(ErrorCode::kInvalidArgument, "prompt", "is missing; send \"prompt\", \"content\" or \"messages\"");
  }
  fields.Bool("add_special", &request.add_special);
  fields.Bool("add_special_tokens", &request.add_special);
  fields.Bool("parse_special", &request.parse_special);
  fields.Bool("return_token_strs", &request.token_strings);
  fields.Bool("with_pieces", &request.pieces);
  ISOBIT_TRY(fields.status());
  return request;
}

void WriteTokens(const Tokenizer& tokenizer, const std::vector<std::int32_t>& ids, bool pieces, JsonWriter& json) {
  json.BeginArray();
  for (const std::int32_t id : ids) {
    if (!pieces) {
      json.Int(id);
      continue;
    }
    const std::string& bytes = tokenizer.TokenBytes(id);
    json.BeginObject().Key("id").Int(id).Key("piece");
    if (IsValidUtf8(bytes)) {
      json.String(bytes);
    } else {
      json.BeginArray();
      for (const char c : bytes) json.Int(static_cast<unsigned char>(c));
      json.EndArray();
    }
    json.EndObject();
  }
  json.EndArray();
}

// A chat that is not going to be run is held to no context length.
Status CheckChatBytes(const ChatInput& chat) {
  const std::size_t bytes = PromptEncoder::TextBytes(chat);
  if (bytes <= kMaxTokenizeBytes) return {};
  return Fail(ErrorCode::kInvalidArgument, "messages", "hold {} bytes of text; at most {} are rendered at once: shorten them", bytes,
              kMaxTokenizeBytes);
}

HttpResponse Refused(const Error& error) { return ErrorResponse(ApiErrorFrom(error)); }

}  // namespace

HttpResponse Api::Tokenize(const HttpRequest& http) const {
  const Result<TokenizeRequest> request = ParseTokenize(http.body, context_.model.name);
  if (!request.ok()) return Refused(request.error());
  const Tokenizer& tokenizer = *context_.model.tokenizer;
  std::vector<std::int32_t> ids;
  if (request->chat) {
    if (const Status status = CheckChatBytes(*request->chat); !status.ok()) return Refused(status.error());
    Result<RenderedChat> rendered = encoder_.Render(*request->chat, request->add_special);
    if (!rendered.ok()) return Refused(rendered.error());
    ids = std::move(rendered->ids);
  } else if (request->text->size() > kMaxTokenizeBytes) {
    return Refused(Fail(ErrorCode::kInvalidArgument, "prompt", "has {} bytes; at most {} are encoded at once: send it in parts",
                        request->text->size(), kMaxTokenizeBytes));
  } else {
    ids = encoder_.Encode(*request->text, request->add_special, request->parse_special).ids;
  }
  JsonWriter json;
  json.BeginObject().Key("count").Int(static_cast<std::int64_t>(ids.size())).Key("max_model_len").Int(context_.model.max_model_len);
  json.Key("tokens");
  WriteTokens(tokenizer, ids, request->pieces, json);
  json.Key("token_strs");
  if (request->token_strings) {
    json.BeginArray();
    for (const std::int32_t id : ids) json.String(tokenizer.TokenBytes(id));
    json.EndArray();
  } else {
    json.Null();
  }
  json.EndObject();
  HttpResponse response;
  response.body = json.Take();
  return response;
}

HttpResponse Api::Detokenize(const HttpRequest& http) const {
  const Result<Json> body = ParseBody(http.body);
  if (!body.ok()) return Refused(body.error());
  FieldReader fields(*body);
  if (const Status status = CheckModel(fields, context_.model.name); !status.ok()) return Refused(status.error());
  const Json* tokens = fields.Find("tokens");
  if (tokens == nullptr || !tokens->is_array()) {
    return Refused(Fail(ErrorCode::kInvalidArgument, "tokens", "must be a list of token ids"));
  }
  std::vector<std::int32_t> ids;
  std::size_t num_bytes = 0;
  for (const Json& item : *tokens) {
    const Result<std::int32_t> id = JsonTokenId(item, context_.model.tokenizer->vocab_size(), "tokens");
    if (!id.ok()) return Refused(id.error());
    ids.push_back(*id);
    num_bytes += context_.model.tokenizer->TokenBytes(*id).size();
    if (num_bytes > kMaxDetokenizedBytes) {
      return Refused(Fail(ErrorCode::kInvalidArgument, "tokens", "stand for more than {} bytes of text: send them in parts",
                          kMaxDetokenizedBytes));
    }
  }
  const std::string text = context_.model.tokenizer->DecodeBytes(ids, /*skip_special=*/false);
  JsonWriter json;
  json.BeginObject().Key("prompt").String(text).Key("content").String(text).EndObject();
  HttpResponse response;
  response.body = json.Take();
  return response;
}

HttpResponse Api::RenderChat(const HttpRequest& http) const {
  const Result<Json> body = ParseBody(http.body);
  if (!body.ok()) return Refused(body.error());
  FieldReader fields(*body);
  if (const Status status = CheckModel(fields, context_.model.name); !status.ok()) return Refused(status.error());
  bool add_special = false;
  fields.Bool("add_special_tokens", &add_special);
  if (fields.failed()) return Refused(fields.status().error());
  const Result<ChatInput> chat = ParseChatInput(*body);
  if (!chat.ok()) return Refused(chat.error());
  if (const Status status = CheckChatBytes(*chat); !status.ok()) return Refused(status.error());
  const Result<RenderedChat> rendered = encoder_.Render(*chat, add_special);
  if (!rendered.ok()) return Refused(rendered.error());
  JsonWriter json;
  json.BeginObject().Key("prompt").String(rendered->text).Key("token_ids");
  WriteTokens(*context_.model.tokenizer, rendered->ids, false, json);
  json.Key("count").Int(static_cast<std::int64_t>(rendered->ids.size())).Key("max_model_len").Int(context_.model.max_model_len);
  json.EndObject();
  HttpResponse response;
  response.body = json.Take();
  return response;
}

}  // namespace isobit
