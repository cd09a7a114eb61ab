#include "gate/tally.h"

#include "base/utf8.h"

namespace isobit::gate {
namespace {

constexpr std::size_t kMaxListedDifferences = 8;

}  // namespace

Tally::Tally(std::string arm, std::string setting, Level level, std::vector<std::string> code_words)
    : level_(level), code_words_(std::move(code_words)) {
  report_.name = std::move(arm);
  report_.setting = std::move(setting);
  report_.verdict = Verdict::kIdentical;
  report_.details["level"] = level.ToString();
  report_.details["differences"] = Json::array();
}

void Tally::Note(Verdict verdict, std::string evidence) {
  if (report_.details["differences"].size() < kMaxListedDifferences) {
    report_.details["differences"].push_back({{"verdict", VerdictName(verdict)}, {"evidence", evidence}});
  }
  if (WorstVerdict(verdict, report_.verdict) == report_.verdict) return;
  report_.verdict = verdict;
  first_evidence_ = std::move(evidence);
}

void Tally::AddError(std::string evidence) {
  ++num_errors_;
  Note(Verdict::kError, std::move(evidence));
}

void Tally::AddGroup(const Question& question, std::span<const Member> members) {
  std::vector<const Answer*> answers;
  for (const Member& member : members) answers.push_back(member.answer);
  const GroupComparison group = CompareGroup(answers, question.sampling.greedy());
  std::vector<std::string> foreign;
  for (const std::string& word : code_words_) {
    // A word of the question itself is no leak, nor is one that belongs to a prompt this one was built from.
    if (!word.empty() && word != question.code_word && question.text.find(word) == std::string::npos) foreign.push_back(word);
  }
  for (std::size_t i = 0; i < members.size(); ++i) {
    if (!members[i].counted) continue;
    ++report_.total;
    const std::string leaked = FindForeignWord(*answers[i], foreign);
    if (!leaked.empty()) {
      Note(Verdict::kStructured,
           fmt::format("{}, {}: the answer holds \"{}\", which stands only in another prompt", question.label, members[i].where, leaked));
    } else if (group.agrees[i]) {
      ++report_.identical;
    }
    if (!answers[i]->ok()) ++num_errors_;
  }
  if (group.worst.same()) return;
  if (group.worst.near_tie) ++num_near_ties_;
  const std::string who = group.worst.kind == Difference::Kind::kError
                              ? members[answers[group.worst_a]->ok() ? group.worst_b : group.worst_a].where
                              : members[group.worst_a].where + " / " + members[group.worst_b].where;
  Note(group.worst.verdict(), fmt::format("{}, {}: {}", question.label, who, group.worst.summary));
}

ArmReport Tally::Finish(bool exercised, double overlap, const std::string& circumstances) {
  report_.overlap = overlap;
  if (report_.verdict == Verdict::kIdentical && (!exercised || report_.total == 0)) report_.verdict = Verdict::kNotExercised;
  report_.details["errors"] = num_errors_;
  report_.details["near_ties"] = num_near_ties_;
  report_.details["exercised"] = exercised && report_.total > 0;
  report_.details["circumstances"] = circumstances;
  switch (report_.verdict) {
    case Verdict::kIdentical: report_.evidence = fmt::format("{}; {}", level_.ToString(), circumstances); break;
    case Verdict::kNotExercised: report_.evidence = circumstances; break;
    default:
      report_.evidence = fmt::format("{} ({} of {} answers agree; {})", first_evidence_, report_.identical, report_.total, circumstances);
  }
  return report_;
}

}  // namespace isobit::gate
