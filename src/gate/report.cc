// What the gate says in the end: verdict names and order, exit code, JSON, and the table a person reads.
#include <algorithm>
#include <cmath>

#include "base/utf8.h"
#include "gate/gate.h"

namespace isobit::gate {
namespace {

std::string Cell(std::string text, std::size_t width) {
  const std::size_t length = CountCodePoints(text);
  if (length < width) text.append(width - length, ' ');
  return text;
}

// n prompts without a difference leave this much room for a rate of differing prompts, at 95 %: 1 - 0.05^(1/n).
double UpperBound(std::int64_t n) { return 1 - std::pow(0.05, 1.0 / static_cast<double>(n)); }

}  // namespace

const char* VerdictName(Verdict verdict) {
  switch (verdict) {
    case Verdict::kIdentical: return "IDENTICAL";
    case Verdict::kNotExercised: return "NOT-EXERCISED";
    case Verdict::kInconclusive: return "INCONCLUSIVE";
    case Verdict::kError: return "ERROR";
    case Verdict::kNearTie: return "NEAR-TIE";
    case Verdict::kDifferent: return "DIFFERENT";
    case Verdict::kStructured: return "STRUCTURED";
  }
  ISOBIT_CHECK(false, "verdict {}", static_cast<int>(verdict));
}

Verdict WorstVerdict(Verdict a, Verdict b) { return std::max(a, b); }

int GateReport::exit_code() const {
  switch (verdict) {
    case Verdict::kIdentical: return 0;
    case Verdict::kNearTie:
    case Verdict::kDifferent:
    case Verdict::kStructured: return 1;
    case Verdict::kError: return 2;
    case Verdict::kNotExercised:
    case Verdict::kInconclusive: return 3;
  }
  ISOBIT_CHECK(false, "verdict {}", static_cast<int>(verdict));
}

Json GateReport::ToJson() const {
  Json json;
  json["schema"] = "isobit-gate-1";
  json["verdict"] = VerdictName(verdict);
  json["exit_code"] = exit_code();
  json["reason"] = reason;
  json["level"] = level;
  json["arms"] = Json::array();
  for (const ArmReport& arm : arms) {
    json["arms"].push_back({{"name", arm.name},
                            {"setting", arm.setting},
                            {"verdict", VerdictName(arm.verdict)},
                            {"identical", arm.identical},
                            {"total", arm.total},
                            {"overlap", std::round(arm.overlap * 100) / 100},
                            {"evidence", arm.evidence},
                            {"next_command", arm.next_command},
                            {"details", arm.details}});
  }
  json["notes"] = notes;
  json["options"] = options;
  json["control"] = control;
  json["subject"] = subject;
  return json;
}

std::string GateReport::ToText() const {
  std::size_t name_width = 3, setting_width = 7;
  for (const ArmReport& arm : arms) {
    name_width = std::max(name_width, CountCodePoints(arm.name));
    setting_width = std::max(setting_width, CountCodePoints(arm.setting));
  }
  const auto fact = [&](const char* key) { return subject.contains(key) && subject[key].is_string() ? subject[key].get<std::string>() : ""; };
  std::string text = fmt::format("{}, model {}{}{}\n", fact("url"), fact("model"), fact("version").empty() ? "" : ", version ", fact("version"));
  if (!fact("system_fingerprint").empty()) text += fact("system_fingerprint") + "\n";
  text += fmt::format("compared by {}\n\n", level);
  text += Cell("arm", name_width + 2) + Cell("setting", setting_width + 2) + Cell("verdict", 15) + Cell("identical", 11) + "overlap\n";
  for (const ArmReport& arm : arms) {
    text += Cell(arm.name, name_width + 2) + Cell(arm.setting, setting_width + 2) + Cell(VerdictName(arm.verdict), 15) +
            Cell(fmt::format("{}/{}", arm.identical, arm.total), 11) + fmt::format("{:.1f}\n", arm.overlap);
  }
  bool any = false;
  for (const ArmReport& arm : arms) {
    if (arm.verdict == Verdict::kIdentical) continue;
    if (!any) text += "\n";
    any = true;
    text += fmt::format("{}, {}: {}\n", arm.name, arm.setting, arm.evidence);
    if (!arm.next_command.empty()) text += fmt::format("  next: {}\n", arm.next_command);
  }
  if (!notes.empty()) text += "\nnot exercised or not honoured by this server:\n";
  for (const std::string& note : notes) text += "  " + note + "\n";
  text += fmt::format("\nverdict: {}", VerdictName(verdict));
  if (!reason.empty()) text += " (" + reason + ")";
  if (verdict == Verdict::kIdentical && options.contains("num_prompts")) {
    const auto n = options["num_prompts"].get<std::int64_t>();
    text += fmt::format(": 0 of {} prompts differed in any arm; at most {:.0f} % of such prompts do (95 %, one server lifetime)", n,
                        std::ceil(100 * UpperBound(n)));
  }
  return text + "\n";
}

}  // namespace isobit::gate
