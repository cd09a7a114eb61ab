#include "gate/arms.h"

#include <algorithm>
#include <cmath>

#include "base/utf8.h"
#include "gate/compare.h"
#include "gate/overlap.h"
#include "gate/tally.h"

namespace isobit::gate {
namespace {

constexpr std::int64_t kUnlimited = 4096;  // in flight; the script itself is the limit
constexpr double kSampledTemperature = 0.8;
// A cache hit that saves prefill shows in the time to the first token; this much faster counts as proof.
constexpr double kWarmFaster = 0.7;
constexpr std::int64_t kTimedPromptTokens = 32;
constexpr std::size_t kBytesPerToken = 5;  // of plain text, on the careful side
constexpr std::int64_t kVictimsPerWave = 4;

std::string RerunCommand(const Trial& trial, const std::string& rest) {
  return fmt::format("isobit gate {} {}", trial.options.rerun_as.empty() ? trial.options.url : trial.options.rerun_as, rest);
}

std::vector<std::vector<std::int64_t>> TokenTimes(const std::vector<Answer>& answers) {
  std::vector<std::vector<std::int64_t>> times;
  for (const Answer& answer : answers) times.push_back(answer.token_nanos);
  return times;
}

double Median(std::vector<double> values) {
  if (values.empty()) return NAN;
  std::nth_element(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2), values.end());
  return values[values.size() / 2];
}

// Whether and how the warm answers were seen to come from a cache that the cold ones did not use.
struct CacheProof {
  bool proved = false;
  std::string how;
};

struct ColdWarm {
  const Answer* cold;   // what the warm answer is compared with
  const Answer* warm;
  const Answer* fresh;  // a never-seen prompt of this length, asked just before: the time a cold first token takes now; may be null
  std::int64_t prompt_tokens;  // as counted by the server, else a guess
};

CacheProof ProveCacheHits(const std::vector<ColdWarm>& pairs, Json& details) {
  std::int64_t num_hits = 0, num_lies = 0, num_faster = 0;
  std::vector<double> fresh_ms, warm_ms;
  for (const auto& [cold, warm, fresh, prompt_tokens] : pairs) {
    if (!cold->ok() || !warm->ok()) continue;
    if (warm->cached_tokens > 0 && cold->cached_tokens == 0) ++num_hits;
    if (warm->cached_tokens > warm->prompt_tokens || cold->cached_tokens > cold->prompt_tokens) ++num_lies;
    // Short prompts have next to no prefill to save.
    if (fresh == nullptr || !fresh->streamed || !warm->streamed || fresh->first_token_nanos() <= 0) continue;
    if (prompt_tokens < kTimedPromptTokens) continue;
    fresh_ms.push_back(static_cast<double>(fresh->first_token_nanos()) / 1e6);
    warm_ms.push_back(static_cast<double>(warm->first_token_nanos()) / 1e6);
    num_faster += warm_ms.back() < kWarmFaster * fresh_ms.back();
  }
  const auto num_timed = static_cast<std::int64_t>(fresh_ms.size());
  details["cache_hits_by_counter"] = num_hits;
  details["cache_counter_impossible"] = num_lies;
  details["timed_pairs"] = num_timed;
  details["timed_pairs_faster"] = num_faster;
  // Prompts shorter than a cache block never hit; an eighth of all is no accident.
  if (num_lies == 0 && num_hits > 0 && num_hits * 8 >= static_cast<std::int64_t>(pairs.size())) {
    return {true, fmt::format("cached_tokens > 0 in {} of {} warm answers", num_hits, pairs.size())};
  }
  const std::string times =
      num_timed == 0 ? "no times to first token"
                     : fmt::format("first token after {:.3g} ms for fresh prompts, {:.3g} ms warm, clearly faster in {} of {}",
                                   Median(fresh_ms), Median(warm_ms), num_faster, num_timed);
  // One outlier in eight is forgiven; with fewer than four pairs, chance could do it.
  if (num_timed >= 4 && num_faster >= num_timed - num_timed / 8) return {true, times + " (cached_tokens proves nothing here)"};
  return {false, fmt::format("no proof of a cache hit: cached_tokens says {} of {}{}; {}", num_hits, pairs.size(),
                             num_lies > 0 ? " and more than there are tokens" : "", times)};
}

const std::vector<Answer>& ColdAnswers(const Trial& trial) { return trial.first.empty() ? trial.alone : trial.first; }

Question Shortened(Question question, std::int64_t max_tokens) {
  question.max_tokens = std::min(question.max_tokens, max_tokens);
  return question;
}

// Shares about two thirds of the question's prompt and then goes on in another way.
Question PartialRelative(Question question) {
  question.max_tokens = 1;
  if (!question.ids.empty()) {
    question.ids.resize(std::max<std::size_t>(1, question.ids.size() * 2 / 3));
    question.ids.push_back(question.ids.front());
    return question;
  }
  std::size_t cut = question.text.find(' ', question.text.size() * 2 / 3);
  if (cut == std::string::npos) cut = CompleteUtf8Length(std::string_view(question.text).substr(0, question.text.size() * 2 / 3));
  question.text.resize(cut);
  question.text += " and so they went home";
  return question;
}

// The same length of prompt, beginning like nothing asked before.
Question Fresh(Question question, const std::string& nonce, std::size_t index) {
  question.max_tokens = 1;
  if (question.ids.empty()) question.text = fmt::format("{}-{} {}", nonce, index, question.text);
  else std::reverse(question.ids.begin(), question.ids.end());
  return question;
}

// Primes the cache with `primer`, then asks the question itself under the same salt.
struct Primed {
  Question primer, question;
  std::string salt;
};

struct PrimedAnswers {
  std::vector<Answer> warm;   // [script]
  std::vector<Answer> fresh;  // [script], or empty where the counter of cached tokens can be relied on
};

PrimedAnswers AskPrimed(const Trial& trial, const std::string& what, const std::vector<Primed>& script) {
  const bool timed = !trial.subject.capabilities().cache_salt;
  std::vector<Ask> asks;
  for (std::size_t i = 0; i < script.size(); ++i) {
    if (timed) asks.push_back({Fresh(script[i].question, trial.nonce + what, i)});
    asks.push_back({script[i].primer, script[i].salt});
    asks.push_back({script[i].question, script[i].salt});
  }
  std::vector<Answer> all = trial.Play(what, asks, 1);
  PrimedAnswers answers;
  const std::size_t stride = timed ? 3 : 2;
  for (std::size_t i = 0; i < script.size(); ++i) {
    answers.warm.push_back(std::move(all[i * stride + stride - 1]));
    if (timed) answers.fresh.push_back(std::move(all[i * stride]));
  }
  return answers;
}

ArmReport ReportPrimed(const Trial& trial, const std::string& setting, const std::vector<Question>& questions,
                       const std::vector<const Answer*>& cold, const PrimedAnswers& primed) {
  Tally tally("cache", setting, trial.subject.capabilities().level(), trial.code_words);
  std::vector<ColdWarm> pairs;
  for (std::size_t i = 0; i < questions.size(); ++i) {
    const Member members[] = {{"cold", cold[i], false}, {setting, &primed.warm[i]}};
    tally.AddGroup(questions[i], members);
    const Answer& warm = primed.warm[i];
    const std::int64_t guess = static_cast<std::int64_t>(questions[i].ids.size() + questions[i].text.size() / kBytesPerToken);
    pairs.push_back({cold[i], &warm, primed.fresh.empty() ? nullptr : &primed.fresh[i],
                     warm.prompt_tokens >= 0 ? warm.prompt_tokens : guess});
  }
  const CacheProof proof = ProveCacheHits(pairs, tally.details());
  std::string circumstances = proof.how;
  if (!trial.subject.capabilities().cache_salt) circumstances += "; no working cache_salt, so cold = first ask of this run";
  ArmReport report = tally.Finish(proof.proved, MeanOverlap(TokenTimes(primed.warm)), circumstances);
  report.next_command = proof.proved ? RerunCommand(trial, "--arms repeat,cache")
                                     : RerunCommand(trial, "--arms cache   (restarted, with its prefix cache on)");
  return report;
}

}  // namespace

std::string Trial::Salt(const std::string& purpose, std::size_t index) const {
  return subject.capabilities().cache_salt ? fmt::format("isobit-{}-{}-{}", nonce, purpose, index) : "";
}

std::vector<Answer> Trial::Play(const std::string& what, const std::vector<Ask>& asks, std::int64_t max_in_flight) const {
  std::size_t num_done = 0;
  return subject.Run(asks, max_in_flight, [&] {
    ++num_done;
    if (progress) progress(fmt::format("{}: {} of {}", what, num_done, asks.size()));
  });
}

std::vector<Question> MakeQuestions(const std::vector<Prompt>& prompts, const GateOptions& options, const Capabilities& capabilities) {
  std::vector<Question> questions;
  for (std::size_t i = 0; i < prompts.size(); ++i) {
    Question question;
    question.label = prompts[i].label;
    question.text = prompts[i].text;
    question.ids = prompts[i].ids;
    question.code_word = prompts[i].code_word;
    question.max_tokens = options.max_tokens;
    question.sampling.seed = options.seed + i;
    if (i % 2 == 1 && capabilities.seed) question.sampling.temperature = kSampledTemperature;
    questions.push_back(std::move(question));
  }
  return questions;
}

void AskAlone(Trial& trial, bool cache_matters) {
  const auto pass = [&](const std::string& what) {
    std::vector<Ask> asks;
    for (std::size_t i = 0; i < trial.questions.size(); ++i) asks.push_back({trial.questions[i], trial.Salt("alone", i)});
    return trial.Play(what, asks, 1);
  };
  // Without a salt the first pass may be cold and the second warm: then the first stands apart, for the cache arm.
  if (cache_matters && !trial.subject.capabilities().cache_salt) trial.first = pass("first asks");
  trial.alone = pass("alone");
}

ArmReport RepeatArm(const Trial& trial) {
  std::vector<Ask> asks;
  for (std::size_t i = 0; i < trial.questions.size(); ++i) asks.push_back({trial.questions[i], trial.Salt("repeat", i)});
  const std::vector<Answer> again = trial.Play("repeat", asks, 1);
  Tally tally("repeat", "each prompt twice, alone", trial.subject.capabilities().level(), trial.code_words);
  for (std::size_t i = 0; i < again.size(); ++i) {
    const Member members[] = {{"alone", &trial.alone[i], false}, {"alone again", &again[i]}};
    tally.AddGroup(trial.questions[i], members);
  }
  ArmReport report = tally.Finish(true, MeanOverlap(TokenTimes(again)), "one at a time, same order");
  report.next_command = RerunCommand(trial, "--arms repeat   (nothing else must be using the server)");
  return report;
}

namespace {

// At least one ask for every slot, every question equally often.
std::vector<std::size_t> FillSlots(std::size_t num_questions, std::int64_t concurrency) {
  const std::size_t slots = static_cast<std::size_t>(std::max<std::int64_t>(1, concurrency));
  const std::size_t rounds = (slots + num_questions - 1) / num_questions;
  std::vector<std::size_t> order;
  for (std::size_t round = 0; round < rounds; ++round) {
    for (std::size_t i = 0; i < num_questions; ++i) order.push_back(i);
  }
  return order;
}

// A text-only view, for comparing with an answer that was asked for without evidence.
Answer TextOnly(const Answer& answer) {
  Answer bare = answer;
  bare.ids.clear();
  bare.scores.clear();
  return bare;
}

ArmReport JudgeBatch(const Trial& trial, std::int64_t concurrency, bool evidence) {
  const std::string setting = fmt::format("concurrency {}{}", concurrency, evidence ? "" : ", ordinary client");
  const std::vector<std::size_t> order = FillSlots(trial.questions.size(), concurrency);
  std::vector<Ask> asks;
  for (std::size_t k = 0; k < order.size(); ++k) {
    Ask ask{trial.questions[order[k]], trial.Salt(setting, k)};
    ask.question.evidence = evidence;
    asks.push_back(std::move(ask));
  }
  const std::vector<Answer> answers = trial.Play("batch " + setting, asks, concurrency);
  const std::int64_t peak = trial.subject.PeakRunning();
  Tally tally("batch", setting, evidence ? trial.subject.capabilities().level() : Level{}, trial.code_words);
  for (std::size_t i = 0; i < trial.questions.size(); ++i) {
    const Answer reference = evidence ? trial.alone[i] : TextOnly(trial.alone[i]);
    std::vector<Member> members = {{"alone", &reference, false}};
    for (std::size_t k = 0; k < order.size(); ++k) {
      if (order[k] == i) members.push_back({setting, &answers[k]});
    }
    tally.AddGroup(trial.questions[i], members);
  }
  const double overlap = MeanOverlap(TokenTimes(answers));
  const double required = RequiredOverlap(concurrency);
  // Where answers come whole, only the server's gauge can tell.
  const bool by_stream = overlap >= required;
  const bool by_gauge = !trial.subject.capabilities().stream && static_cast<double>(peak) >= required;
  tally.details()["required_overlap"] = required;
  tally.details()["peak_running_gauge"] = peak;
  std::string circumstances = fmt::format("{:.1f} answers in progress together ({:.1f} needed)", overlap, required);
  if (peak >= 0) circumstances += fmt::format(", the server's gauge reached {}", peak);
  if (!by_stream && !by_gauge) {
    circumstances += overlap < 1.2 ? ": the server answers one after the other" : ": the server takes fewer at once";
  }
  ArmReport report = tally.Finish(by_stream || by_gauge, overlap, circumstances);
  report.next_command = by_stream || by_gauge
                            ? RerunCommand(trial, fmt::format("--arms repeat,batch --concurrency 2,3,4,{}", concurrency))
                            : "give the server more slots (isobit: --max-seqs), or a smaller --concurrency";
  return report;
}

}  // namespace

ArmReport BatchArm(const Trial& trial, std::int64_t concurrency) { return JudgeBatch(trial, concurrency, true); }
ArmReport OrdinaryClientArm(const Trial& trial, std::int64_t concurrency) { return JudgeBatch(trial, concurrency, false); }

ArmReport StaggerDepthsArm(const Trial& trial) {
  std::vector<Ask> asks;
  for (std::size_t i = 0; i < trial.questions.size(); ++i) {
    Ask ask{trial.questions[i], trial.Salt("depths", i)};
    if (i > 0) {
      ask.after_ask = static_cast<std::int64_t>(i) - 1;
      // 1 to 7 tokens later, in no simple rhythm, but never after the end.
      ask.after_tokens = std::min<std::int64_t>(1 + static_cast<std::int64_t>(i * 5 % 7), std::max<std::int64_t>(1, trial.options.max_tokens / 3));
    }
    asks.push_back(std::move(ask));
  }
  const std::vector<Answer> answers = trial.Play("stagger, unequal depths", asks, kUnlimited);
  const std::int64_t peak = trial.subject.PeakRunning();
  Tally tally("stagger", "each starts 1 to 7 tokens into the one before", trial.subject.capabilities().level(), trial.code_words);
  for (std::size_t i = 0; i < answers.size(); ++i) {
    const Member members[] = {{"alone", &trial.alone[i], false}, {"staggered", &answers[i]}};
    tally.AddGroup(trial.questions[i], members);
  }
  const double overlap = MeanOverlap(TokenTimes(answers));
  const double required = RequiredOverlap(2);
  tally.details()["required_overlap"] = required;
  tally.details()["peak_running_gauge"] = peak;
  ArmReport report = tally.Finish(overlap >= required, overlap,
                                  fmt::format("{:.1f} answers in progress together ({:.1f} needed)", overlap, required));
  report.next_command = overlap >= required ? RerunCommand(trial, "--arms repeat,batch,stagger --concurrency 2")
                                            : "give the server more slots, or longer answers (--max-tokens 128)";
  return report;
}

// Waves of four plain askers. While each is being answered, a neighbour with other sampling and penalties comes and goes, and two
// more, who share the next asker's prompt as prefix, leave after 15 and 19 ms.
ArmReport StaggerNeighboursArm(const Trial& trial) {
  const Capabilities& capabilities = trial.subject.capabilities();
  const std::span<const BuiltInPrompt> talk = NeighbourPrompts();
  const std::int64_t third = std::max<std::int64_t>(1, trial.options.max_tokens / 3);
  Tally tally("stagger", "neighbours come, go and are cancelled", capabilities.level(), trial.code_words);
  double overlap_sum = 0;
  std::int64_t num_waves = 0, num_cancelled = 0, num_visited = 0, num_neighbours = 0;
  const std::size_t num_questions = trial.questions.size();
  for (std::size_t begin = 0; begin < num_questions; begin += kVictimsPerWave, ++num_waves) {
    const std::size_t end = std::min<std::size_t>(num_questions, begin + kVictimsPerWave);
    std::vector<Ask> asks;
    std::vector<std::size_t> victims;  // index into asks
    for (std::size_t i = begin; i < end; ++i) {
      const auto victim = static_cast<std::int64_t>(asks.size());
      Ask plain{trial.questions[i], trial.Salt("neighbours", i)};
      if (!victims.empty()) {
        plain.after_ask = static_cast<std::int64_t>(victims.back());
        plain.after_tokens = std::min<std::int64_t>(6, third);
      }
      victims.push_back(asks.size());
      asks.push_back(std::move(plain));

      const std::size_t step = i - begin;
      Ask passing;
      passing.question.label = "neighbour";
      passing.question.text = std::string(talk[step % talk.size()].text);
      passing.question.max_tokens = std::clamp<std::int64_t>(trial.options.max_tokens / 8, 2, 24);
      passing.question.sampling = {1.0, 0.95, 20, 0.02, 1.3, 0.4, 0.2, 1000 + i};
      passing.cache_salt = trial.Salt("passing", i);
      passing.after_ask = victim;
      passing.after_tokens = std::min<std::int64_t>(2 + static_cast<std::int64_t>(step), third);
      asks.push_back(std::move(passing));

      const std::size_t next = i + 1 < end ? i + 1 : begin;
      Ask leaving{trial.questions[next], trial.Salt("neighbours", next)};
      if (leaving.question.ids.empty()) leaving.question.text += " " + std::string(talk[(step + 1) % talk.size()].text);
      else leaving.question.ids.push_back(leaving.question.ids.front());
      leaving.question.sampling.temperature = 0;
      leaving.question.max_tokens += 128;  // long enough that even a fast server is still at it when the asker leaves
      leaving.after_ask = victim;
      leaving.after_tokens = std::min<std::int64_t>(3, third);
      leaving.cancel_after_ms = 15;
      asks.push_back(leaving);
      leaving.after_tokens = std::min<std::int64_t>(5, third);
      leaving.cancel_after_ms = 19;
      asks.push_back(std::move(leaving));
    }
    const std::vector<Answer> answers =
        trial.Play(fmt::format("stagger, neighbours, prompts {} to {}", begin, end - 1), asks, kUnlimited);
    overlap_sum += MeanOverlap(TokenTimes(answers));
    for (std::size_t k = 0; k < victims.size(); ++k) {
      const Answer& answer = answers[victims[k]];
      const Member members[] = {{"alone", &trial.alone[begin + k], false}, {"with neighbours", &answer}};
      tally.AddGroup(trial.questions[begin + k], members);
      const Answer& passing = answers[victims[k] + 1];
      ++num_neighbours;
      if (!passing.ok()) tally.AddError("a passing neighbour with penalties: " + passing.error);
      const bool inside = !answer.token_nanos.empty() &&
                          std::any_of(passing.token_nanos.begin(), passing.token_nanos.end(), [&](std::int64_t at) {
                            return at > answer.token_nanos.front() && at < answer.token_nanos.back();
                          });
      num_visited += inside;
      num_cancelled += answers[victims[k] + 2].cancelled + answers[victims[k] + 3].cancelled;
    }
  }
  const double overlap = num_waves == 0 ? 0 : overlap_sum / static_cast<double>(num_waves);
  const double required = RequiredOverlap(2);
  const bool exercised = overlap >= required && num_visited * 2 >= num_neighbours && num_cancelled > 0;
  tally.details()["required_overlap"] = required;
  tally.details()["visited"] = num_visited;
  tally.details()["cancelled"] = num_cancelled;
  ArmReport report =
      tally.Finish(exercised, overlap,
                   fmt::format("{:.1f} together ({:.1f} needed), {} of {} answers visited mid-stream, {} neighbours cancelled", overlap,
                               required, num_visited, num_neighbours, num_cancelled));
  report.next_command = exercised ? RerunCommand(trial, "--arms repeat,batch,stagger --concurrency 2")
                                  : "give the server more slots, or longer answers (--max-tokens 128)";
  return report;
}

ArmReport CacheWarmArm(const Trial& trial) {
  std::vector<Primed> script;
  std::vector<const Answer*> cold;
  for (std::size_t i = 0; i < trial.questions.size(); ++i) {
    script.push_back({Shortened(trial.questions[i], 1), trial.questions[i], trial.Salt("warm", i)});
    cold.push_back(&ColdAnswers(trial)[i]);
  }
  const PrimedAnswers warm = AskPrimed(trial, "cache, warm", script);
  return ReportPrimed(trial, "warm against cold", trial.questions, cold, warm);
}

ArmReport CachePartialArm(const Trial& trial) {
  std::vector<Primed> script;
  std::vector<const Answer*> cold;
  for (std::size_t i = 0; i < trial.questions.size(); ++i) {
    script.push_back({PartialRelative(trial.questions[i]), trial.questions[i], trial.Salt("partial", i)});
    cold.push_back(&ColdAnswers(trial)[i]);
  }
  const PrimedAnswers warm = AskPrimed(trial, "cache, partial", script);
  return ReportPrimed(trial, "partial: two thirds of the prompt shared", trial.questions, cold, warm);
}

// Prompts of ids, cut at and beside 16, 32 and 64, the usual block sizes: (a) the same prompt again, (b) a longer prompt whose
// cached prefix has that length.
ArmReport CacheBlockEdgesArm(const Trial& trial) {
  constexpr std::size_t kWarmLengths[] = {15, 16, 17, 31, 32, 33, 64, 65};
  constexpr std::size_t kPrefixLengths[] = {15, 16, 17, 32, 33, 63, 64, 65};
  constexpr std::size_t kWholeLength = 81;
  const std::string setting = "prefix of one block, one token either side";
  const auto cannot = [&](const std::string& why, const std::string& next) {
    ArmReport report = Tally("cache", setting, trial.subject.capabilities().level(), {}).Finish(false, 0, why);
    report.next_command = next;
    return report;
  };
  if (!trial.subject.capabilities().prompt_ids) {
    return cannot("the server does not take prompts as token ids, so no length can be aimed at", "nothing to do on the gate's side");
  }
  Question whole;
  whole.text = std::string(LongPrompt());
  whole.max_tokens = 1;
  const std::vector<Answer> named = trial.Play("cache, block edges", {{whole, trial.Salt("name", 0)}}, 1);
  if (!named[0].ok() || named[0].prompt_ids.size() < kWholeLength) {
    return cannot("the server did not name the ids of a long prompt: " + named[0].error, RerunCommand(trial, "--arms cache"));
  }
  const auto cut = [&](std::size_t length) {
    Question question;
    question.label = fmt::format("{} ids", length);
    question.ids.assign(named[0].prompt_ids.begin(), named[0].prompt_ids.begin() + static_cast<std::ptrdiff_t>(length));
    question.max_tokens = std::min<std::int64_t>(trial.options.max_tokens, 32);
    return question;
  };
  std::vector<Primed> script;
  std::vector<Question> questions;
  for (const std::size_t length : kWarmLengths) questions.push_back(cut(length));
  for (const std::size_t length : kPrefixLengths) {
    questions.push_back(cut(kWholeLength));
    questions.back().label = fmt::format("{} of {} ids cached", length, kWholeLength);
  }
  std::vector<Ask> cold_asks;
  for (std::size_t i = 0; i < questions.size(); ++i) {
    const bool prefix = i >= std::size(kWarmLengths);
    const std::size_t length = prefix ? kPrefixLengths[i - std::size(kWarmLengths)] : kWarmLengths[i];
    script.push_back({Shortened(cut(length), 1), questions[i], trial.Salt("edge", i)});
    // All the prefix cases share one cold answer.
    if (i <= std::size(kWarmLengths)) cold_asks.push_back({questions[i], trial.Salt("edge-cold", i)});
  }
  const std::vector<Answer> cold_answers = trial.Play("cache, block edges, cold", cold_asks, 1);
  const PrimedAnswers warm = AskPrimed(trial, "cache, block edges, warm", script);
  std::vector<const Answer*> cold;
  for (std::size_t i = 0; i < questions.size(); ++i) cold.push_back(&cold_answers[std::min(i, std::size(kWarmLengths))]);
  return ReportPrimed(trial, setting, questions, cold, warm);
}

namespace {

// The generated part of both, reduced to what scoring can say: ids, and the digits of the chosen tokens.
Answer ChosenOnly(const Answer& generated) {
  Answer reduced;
  reduced.error = generated.error;
  reduced.ids = generated.ids;
  for (const Score& score : generated.scores) reduced.scores.push_back({{"", score.chosen.digits}, {}});
  if (reduced.scores.size() != reduced.ids.size() && reduced.error.empty()) {
    reduced.error = fmt::format("{} ids but {} log-probabilities", reduced.ids.size(), reduced.scores.size());
  }
  return reduced;
}

Answer ScoredPart(const Answer& scored, const std::vector<std::int64_t>& ids, std::size_t begin, bool echo) {
  Answer reduced;
  reduced.error = scored.error;
  if (!reduced.error.empty()) return reduced;
  reduced.ids = ids;
  const std::size_t have = echo ? scored.scores.size() : scored.prompt_scores.size();
  if (have < begin + ids.size()) {
    reduced.error = fmt::format("{} scores came back for {} ids", have, begin + ids.size());
    return reduced;
  }
  for (std::size_t i = 0; i < ids.size(); ++i) {
    if (echo) {
      reduced.scores.push_back({{"", scored.scores[begin + i].chosen.digits}, {}});
      continue;
    }
    const Candidate& score = scored.prompt_scores[begin + i];
    reduced.scores.push_back({{"", score.digits}, {}});
    if (score.token != std::to_string(ids[i])) {
      reduced.error = fmt::format("position {} is scored for id {}, not for {}", begin + i, score.token, ids[i]);
      return reduced;
    }
  }
  return reduced;
}

ArmReport ScoreArm(const Trial& trial, bool echo) {
  const std::string setting = echo ? "generation against echo" : "generation against prompt_logprobs";
  std::vector<Ask> asks;
  std::vector<std::size_t> prompt_lengths;
  for (std::size_t i = 0; i < trial.questions.size(); ++i) {
    Question question = trial.questions[i];
    if (question.ids.empty()) question.ids = trial.alone[i].prompt_ids;
    prompt_lengths.push_back(question.ids.size());
    question.ids.insert(question.ids.end(), trial.alone[i].ids.begin(), trial.alone[i].ids.end());
    question.max_tokens = 1;
    question.sampling = {};
    question.scoring = echo ? Question::Scoring::kEcho : Question::Scoring::kPromptLogprobs;
    asks.push_back({std::move(question), trial.Salt(echo ? "echo" : "scored", i)});
  }
  const std::vector<Answer> scored = trial.Play("score, " + setting, asks, 1);
  Level level;
  level.ids = level.digits = true;
  Tally tally("score", setting, level, {});
  std::int64_t num_positions = 0, num_greedy_wrong = 0, num_sampled_wrong = 0;
  for (std::size_t i = 0; i < scored.size(); ++i) {
    const Answer generated = ChosenOnly(trial.alone[i]);
    const Answer score = ScoredPart(scored[i], generated.ids, prompt_lengths[i], echo);
    const Member members[] = {{"generated", &generated, false}, {echo ? "echo" : "prompt_logprobs", &score}};
    tally.AddGroup(trial.questions[i], members);
    if (score.ok()) num_positions += static_cast<std::int64_t>(score.scores.size());
    if (!CompareAnswers(generated, score, true).same()) ++(trial.questions[i].sampling.greedy() ? num_greedy_wrong : num_sampled_wrong);
  }
  tally.details()["positions"] = num_positions;
  tally.details()["sampled_only"] = num_sampled_wrong > 0 && num_greedy_wrong == 0;
  std::string circumstances = fmt::format("{} positions scored in one pass each", num_positions);
  if (num_sampled_wrong > 0 && num_greedy_wrong == 0) {
    circumstances += "; only sampled answers differ: the server may report log-probabilities after temperature";
  }
  ArmReport report = tally.Finish(num_positions > 0, 1, circumstances);
  report.next_command = RerunCommand(trial, "--arms repeat,cache,score");
  return report;
}

}  // namespace

std::vector<ArmReport> ScoreArms(const Trial& trial) {
  const Capabilities& capabilities = trial.subject.capabilities();
  std::vector<std::string> missing;
  if (!capabilities.token_ids) missing.push_back("token ids of answers");
  if (!capabilities.logprobs) missing.push_back("log-probabilities");
  if (!capabilities.prompt_ids) missing.push_back("prompts as token ids");
  if (!capabilities.echo && !capabilities.prompt_logprobs) missing.push_back("echo or prompt_logprobs");
  if (!missing.empty()) {
    ArmReport report = Tally("score", "generation against scoring", capabilities.level(), {})
                           .Finish(false, 0, fmt::format("the server lacks {}", fmt::join(missing, ", ")));
    report.next_command = "nothing to do on the gate's side";
    return {report};
  }
  std::vector<ArmReport> reports;
  if (capabilities.echo) reports.push_back(ScoreArm(trial, true));
  if (capabilities.prompt_logprobs) reports.push_back(ScoreArm(trial, false));
  return reports;
}

namespace {

// The last digit replaced by another one: the smallest thing that can differ.
std::string OtherLastDigit(std::string digits) {
  for (std::size_t i = digits.size(); i-- > 0;) {
    if (digits[i] < '0' || digits[i] > '9') continue;
    digits[i] = digits[i] == '9' ? '8' : static_cast<char>(digits[i] + 1);
    return digits;
  }
  return digits + "1";
}

}  // namespace

Control RunControl(const Trial& trial) {
  Control control;
  const auto check = [&](const std::string& name, const Answer& a, const Answer& b, bool greedy, bool must_differ) {
    const Difference difference = CompareAnswers(a, b, greedy);
    const bool good = must_differ ? !difference.same() && difference.kind != Difference::Kind::kError : difference.same();
    (must_differ ? control.sees_differences : control.sees_no_ghosts) &= good;
    control.checks.push_back({{"name", name},
                              {"expected", must_differ ? "different" : "identical"},
                              {"found", difference.same() ? "identical" : difference.summary},
                              {"ok", good}});
  };
  const auto good_answer = std::find_if(trial.alone.begin(), trial.alone.end(), [](const Answer& a) { return a.ok(); });
  if (good_answer == trial.alone.end()) {
    control.sees_differences = false;
    control.checks.push_back({{"name", "any good answer"}, {"expected", "one"}, {"found", "none"}, {"ok", false}});
    return control;
  }
  const Answer& answer = *good_answer;
  check("an answer with itself", answer, Answer(answer), true, false);
  // Both greedy if there are two such, so that only the prompt can make the difference.
  const Answer* other = nullptr;
  for (std::size_t i = static_cast<std::size_t>(good_answer - trial.alone.begin()) + 1; i < trial.alone.size(); ++i) {
    if (!trial.alone[i].ok()) continue;
    if (other == nullptr) other = &trial.alone[i];
    if (!trial.questions[i].sampling.greedy()) continue;
    other = &trial.alone[i];
    break;
  }
  if (other != nullptr) check("two different prompts", answer, *other, false, true);
  if (trial.subject.capabilities().seed) {
    Question question = Shortened(trial.questions[0], 32);
    question.sampling.temperature = 1;
    Question reseeded = question;
    reseeded.sampling.seed += 1'000'003;
    const std::vector<Answer> sampled =
        trial.Play("control", {{question, trial.Salt("control", 0)}, {reseeded, trial.Salt("control", 1)}}, 1);
    check("temperature 1, two seeds", sampled[0], sampled[1], false, true);
  }
  Answer altered = answer;
  if (!altered.text.empty()) {
    altered.text.back() = altered.text.back() == 'x' ? 'y' : 'x';
    check("one byte of the text altered", answer, altered, false, true);
  }
  if (!answer.ids.empty()) {
    altered = answer;
    altered.ids.back() += 1;
    check("the last id altered", answer, altered, false, true);
  }
  if (!answer.scores.empty()) {
    altered = answer;
    altered.scores.back().chosen.digits = OtherLastDigit(altered.scores.back().chosen.digits);
    check("the last digit of the last log-probability altered", answer, altered, false, true);
  }
  const bool any_positive = std::any_of(control.checks.begin(), control.checks.end(),
                                        [](const Json& each) { return each.at("expected") == "different"; });
  control.sees_differences &= any_positive;
  return control;
}

}  // namespace isobit::gate
