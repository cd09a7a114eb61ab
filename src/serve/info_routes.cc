// GET /health, /version, /v1/models, /tokenizer_info, /metrics.
#include "serve/routes.h"
#include "serve/version.h"

namespace isobit {
namespace {

HttpResponse JsonAnswer(JsonWriter& json) {
  HttpResponse response;
  response.body = json.Take();
  return response;
}

void WriteModel(const ServingModel& model, JsonWriter& json) {
  json.BeginObject().Key("id").String(model.name).Key("object").String("model").Key("created").Int(model.created_unix_seconds);
  json.Key("owned_by").String("isobit").Key("root").String(model.name).Key("parent").Null();
  json.Key("max_model_len").Int(model.max_model_len).Key("permission").BeginArray().EndArray();
  json.Key("isobit").BeginObject().Key("contract_id").String(model.contract_id).Key("model_contract_id").String(model.model_contract_id);
  json.Key("weights_digest").String(model.weights_digest).Key("preset").String(model.preset).Key("kv_type").String(model.kv_type);
  json.Key("device").String(model.device).EndObject().EndObject();
}

}  // namespace

HttpResponse Api::Health() const {
  HttpResponse response;
  response.body = "{\"status\":\"ok\"}";
  return response;
}

HttpResponse Api::Version() const {
  JsonWriter json;
  json.BeginObject().Key("version").String(kVersion).Key("contract_id").String(context_.model.contract_id);
  json.Key("model_contract_id").String(context_.model.model_contract_id).EndObject();
  return JsonAnswer(json);
}

HttpResponse Api::Models() const {
  JsonWriter json;
  json.BeginObject().Key("object").String("list").Key("data").BeginArray();
  WriteModel(context_.model, json);
  json.EndArray().EndObject();
  return JsonAnswer(json);
}

HttpResponse Api::Model(const std::string& id) const {
  if (id != context_.model.name) {
    return ErrorResponse(ApiErrorFrom(
        Fail(ErrorCode::kNotFound, "model", "no model of the name \"{}\" is served here; use \"{}\"", id, context_.model.name)));
  }
  JsonWriter json;
  WriteModel(context_.model, json);
  return JsonAnswer(json);
}

// What lm-eval needs to work without a model hub.
HttpResponse Api::TokenizerInfo() const {
  const Tokenizer& tokenizer = *context_.model.tokenizer;
  JsonWriter json;
  json.BeginObject();
  const auto write_token = [&](const char* name, std::optional<std::int32_t> id) {
    json.Key(name);
    if (id) json.String(tokenizer.TokenBytes(*id));
    else json.Null();
    json.Key(std::string(name) + "_id");
    if (id) json.Int(*id);
    else json.Null();
  };
  std::optional<std::int32_t> eos = tokenizer.eos_id();
  if (!eos && !context_.model.eos_token_ids.empty()) eos = context_.model.eos_token_ids.front();
  write_token("bos_token", tokenizer.bos_id());
  write_token("eos_token", eos);
  write_token("pad_token", eos);  // a batch here is never padded: for clients that must name one
  json.Key("chat_template");
  if (context_.model.chat_template) json.String(context_.model.chat_template->source());
  else json.Null();
  json.Key("tokenizer_class").String("PreTrainedTokenizerFast").Key("model_max_length").Int(context_.model.max_model_len);
  json.Key("vocab_size").Int(tokenizer.vocab_size()).Key("digest").String(tokenizer.Digest()).EndObject();
  return JsonAnswer(json);
}

HttpResponse Api::MetricsText() const {
  HttpResponse response;
  response.content_type = "text/plain; version=0.0.4; charset=utf-8";
  response.body = context_.metrics.Render(context_.engine.Stats(), num_connections_ ? num_connections_() : 0);
  return response;
}

}  // namespace isobit
