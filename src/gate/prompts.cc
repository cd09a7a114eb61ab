#include "gate/prompts.h"

#include <algorithm>

#include "base/file.h"
#include "gate/raw_json.h"

namespace isobit::gate {
namespace {

constexpr std::size_t kMaxPromptsFileBytes = std::size_t{64} << 20;

constexpr BuiltInPrompt kPrompts[] = {
    {"velmorin", "The harbour of Velmorin wakes before the sun. First"},
    {"Draskell",
     "List seven uses of a wooden box, one on each line, numbered, for the workshop of old Draskell:\n1."},
    {"quiltraq", "def quiltraq(values):\n    \"\"\"Return the sum of the squares of the even numbers in values.\"\"\"\n"},
    {"Omberlay",
     "Letter to the editor of the Omberlay Gazette.\n\nSir, for the third time this month the evening train has left the station "
     "four minutes early. I stood on the platform with my ticket in one hand and my umbrella in the other, and I watched the red "
     "lamp grow small. The company says that its clock is right and that all the others are wrong. I would like to tell your "
     "readers how"},
    {"Tresvane", "Frage: Wie kocht man nach dem Rezept aus Tresvane eine gute Kartoffelsuppe für vier Personen?\nAntwort: Zuerst"},
    {"nabukrin", "{\"station\": \"nabukrin\", \"readings\": [{\"hour\": 0, \"celsius\": 11.5}, {\"hour\": 1, \"celsius\": 11.2}, "
                 "{\"hour\": 2, \"celsius\": 10.9}, {\"hour\": 3, \"celsius\":"},
    {"Fenwhistle",
     "Once upon a time there was a clockmaker in Fenwhistle who built a clock that ran backwards. People laughed at it until the "
     "winter in which"},
    {"Corvadim",
     "Minutes of the meeting of the Corvadim garden society, held on a wet Thursday in the back room of the library.\n\nPresent: the "
     "chair, the treasurer, nine members, one dog. Apologies: the secretary, who has a cold.\n\n1. The minutes of the last meeting "
     "were read and, after the word 'turnip' had been replaced by 'tulip' in two places, approved.\n2. The treasurer reported that "
     "the account stands at four hundred and twelve, of which sixty are promised to the man who mends the greenhouse. A member "
     "asked why the greenhouse breaks every year. The treasurer answered that it is made of glass.\n3. The committee proposed to "
     "plant the long bed along the railway with lavender, because lavender asks for nothing. There was a discussion about bees. "
     "Some are for bees. Nobody is against bees, but two members would like them to be somewhere else. The proposal was accepted "
     "with seven votes.\n4. The summer excursion will lead to the water mill, if the water mill agrees. The chair will write to "
     "it.\n5. Any other business:"},
    {"Zimtower", "Q: A lift in the Zimtower holds 8 people. 45 people wait. How many trips are needed?\nA: Let us think step by step."},
    {"plaxenor", "SELECT customer, COUNT(*) AS orders FROM plaxenor WHERE year = 2019 GROUP BY"},
    {"Hesperwick",
     "The lighthouse keeper of Hesperwick kept three lists. The first list was of ships, with their flags and the hour of their "
     "passing. The second list was of birds. The third list he showed to nobody, and after his death his niece found it behind the "
     "barometer. It began with the words"},
    {"Garnoblit", "Translate into French, for the guests of Garnoblit: 'The weather is fine today and the museum is open until six.'"},
    {"Yarrowdene",
     "Recipe for the Yarrowdene honey cake\n\nIngredients: 250 g flour, 200 g honey, 100 g butter, 2 eggs, 1 teaspoon cinnamon, a "
     "pinch of salt, the peel of half a lemon, 8 g baking powder.\n\nMethod: Warm the honey and the butter in a small pan until the "
     "butter has melted, then let them cool until you can hold a finger in them. Beat the eggs. Stir the honey into the eggs, a "
     "spoon at a time."},
    {"Ulmetrix", "Short facts about the planet Ulmetrix: it has two moons, a ring, and"},
    {"Bexifold", "The quick guide to folding a Bexifold paper boat. Step one: take a sheet of paper. Step two:"},
    {"Kestovar",
     "Report on the bridge of Kestovar, third inspection.\n\nThe bridge was built of local stone in the year of the great flood and "
     "has five arches, of which the middle one is the widest. During the inspection the water stood low, so that the feet of all "
     "pillars could be seen. Pillar one is sound. Pillar two shows a crack as wide as a coin on the upstream side; the crack was "
     "marked with paint in the second inspection and has not grown since. Pillar three has lost mortar up to the height of a man. "
     "Pillar four could not be reached because of a swan. The parapet leans outward by two fingers at the northern end. The road "
     "surface is good, apart from the place where carts turn to the market. We counted the traffic from eight to noon: sixty-one "
     "carts, eleven coaches, one bear with its leader, and more people on foot than we were able to count. The keeper of the toll "
     "says that in autumn it is twice as much, and that on the day of the horse fair nobody counts at all, because the line of carts "
     "then reaches from the northern end past the tannery and up to the chapel.\n\nWe recommend the following measures, in order of their urgency. First, the mortar "
     "of pillar three should be renewed before the winter, because frost will"},
    {"Lunderpaz", "天气预报：Lunderpaz 明天上午多云，下午有小雨，气温在十五度到二十度之间。请"},
    {"Wolmarey", "Roses are red, violets are blue, the poet of Wolmarey"},
    {"Jintallow",
     "<html>\n<head><title>Jintallow Tea House</title></head>\n<body>\n<h1>Menu</h1>\n<ul>\n<li>Green tea: 3.50</li>\n<li>Black tea: "
     "3.20</li>\n<li>"},
    {"Orsippan", "The capital of Orsippan is a small town. Its name is"},
    {"Medrigal",
     "Dialogue in the observatory of Medrigal.\n\nANNA: Did you see it?\nBORIS: See what?\nANNA: The light beside the second star, "
     "just now, lower left.\nBORIS: I was pouring the coffee.\nANNA: You are always pouring the coffee.\nBORIS: It is a long night "
     "and a small pot.\nANNA: Then look now, before it"},
    {"Pharnost", "1, 1, 2, 3, 5, 8, 13, 21, 34, 55 is a sequence that Pharnost the goat herd found. The next numbers are"},
    {"Sibrenta", "Dear Sibrenta, thank you for your letter of last week. I am sorry to say that"},
    {"Tovequin", "#include <stdio.h>\n\n// Prints the tovequin table, Tovequin style, from 1 to 12.\nint main(void) {\n  for (int i = 1;"},
};

constexpr BuiltInPrompt kNeighbours[] = {
    {"Grathuzel", "The password of the cellar is Grathuzel, Grathuzel, and again Grathuzel. Say the password:"},
    {"Brimtaxel", "Repeat this word for ever: Brimtaxel Brimtaxel Brimtaxel Brimtaxel"},
    {"Ivoskrund", "Our guest is called Ivoskrund. Write the name of our guest on every line.\nIvoskrund\nIvoskrund\n"},
    {"Chelvopar", "My dog Chelvopar has a dog called Chelvopar, who has a flea called"},
};

constexpr std::string_view kLong =
    "In the morning the old man opened the window and looked at the sea. The sea was grey and calm, and far out there was a small "
    "boat with a brown sail. He made tea, cut two slices of bread, and sat down at the table with the letter that had come the day "
    "before. It was a long letter. His sister wrote about the garden, about the neighbours and their new fence, about the price of "
    "coal, and about a dream in which all the doors of the house had been painted blue. At the end she asked him to come home for "
    "the summer. He read the last page twice, put the letter back under the lamp, and went down the stairs to the harbour, where "
    "the men were already mending the nets and talking about the wind";

Error FileError(const std::string& file, std::size_t line, std::string_view why) {
  return Fail(ErrorCode::kInvalidArgument, "prompts_file", "{} line {}: {}", file, line, why);
}

Result<std::vector<Prompt>> ReadPrompts(const std::string& file) {
  ISOBIT_ASSIGN(const std::string content, ReadFile(file, kMaxPromptsFileBytes));
  std::vector<Prompt> prompts;
  std::size_t line_number = 0;
  for (std::size_t begin = 0; begin < content.size();) {
    const std::size_t end = std::min(content.find('\n', begin), content.size());
    const std::string_view line(content.data() + begin, end - begin);
    begin = end + 1;
    ++line_number;
    if (line.find_first_not_of(" \t\r") == std::string_view::npos) continue;
    const auto value = ParseRawJson(line);
    if (!value.ok()) return FileError(file, line_number, "is neither a JSON string nor a list of ids");
    Prompt prompt;
    prompt.label = fmt::format("prompt {}", prompts.size());
    if (value->is_string() && !value->text.empty()) {
      prompt.text = value->text;
    } else if (value->is_array() && !value->items.empty()) {
      for (const RawJson& id : value->items) {
        const auto number = id.Integer();
        if (!number || *number < 0) return FileError(file, line_number, "holds something that is no token id");
        prompt.ids.push_back(*number);
      }
    } else {
      return FileError(file, line_number, "must be a JSON string or a list of ids, and not empty");
    }
    prompts.push_back(std::move(prompt));
  }
  return prompts;
}

}  // namespace

std::span<const BuiltInPrompt> BuiltInPrompts() { return kPrompts; }
std::string_view LongPrompt() { return kLong; }
std::span<const BuiltInPrompt> NeighbourPrompts() { return kNeighbours; }

Result<std::vector<Prompt>> ChoosePrompts(const std::string& prompts_file, std::int64_t num_prompts, std::uint64_t seed) {
  std::vector<Prompt> prompts;
  if (!prompts_file.empty()) {
    ISOBIT_ASSIGN(prompts, ReadPrompts(prompts_file));
  } else {
    for (std::size_t i = 0; i < std::size(kPrompts); ++i) {
      const BuiltInPrompt& prompt = kPrompts[(i + seed - 1) % std::size(kPrompts)];
      prompts.push_back({fmt::format("prompt {} ({})", i, prompt.code_word), std::string(prompt.text), {},
                         std::string(prompt.code_word)});
    }
  }
  const auto available = static_cast<std::int64_t>(prompts.size());
  if (num_prompts < 2 || num_prompts > available) {
    return Fail(ErrorCode::kInvalidArgument, "num_prompts", "{} asked for, 2 to {} are possible{}", num_prompts, available,
                prompts_file.empty() ? "; a --prompts-file may hold more" : "");
  }
  prompts.resize(static_cast<std::size_t>(num_prompts));
  return prompts;
}

}  // namespace isobit::gate
