#include "schedule/plan.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <numeric>
#include <string>

namespace isobit {
namespace {

void Arrive(ScheduleState& state, std::uint64_t id, std::int64_t prompt_length,
            std::int32_t first_token = 0) {
  Sequence sequence;
  sequence.id = id;
  sequence.tokens.resize(static_cast<std::size_t>(prompt_length));
  std::iota(sequence.tokens.begin(), sequence.tokens.end(), first_token);
  sequence.prompt_length = prompt_length;
  state.sequences.emplace(id, std::move(sequence));
}

// What the engine does with a plan, with a model that always says 7.
void Commit(ScheduleState& state, const StepPlan& plan) {
  for (const PlannedSegment& segment : plan.segments) {
    Sequence& sequence = state.sequences.at(segment.id);
    sequence.num_computed += segment.num_rows;
    state.cache.Publish(sequence.table, sequence.tokens, sequence.num_computed,
                        sequence.cache_salt);
    if (sequence.num_remaining() == 0) sequence.tokens.push_back(7);
  }
}

// "id@first+rows ..." and "!id" for each preempted.
std::string Step(ScheduleState& state, const ScheduleLimits& limits) {
  const StepPlan plan = PlanStep(state, limits);
  std::string text;
  for (const PlannedSegment& s : plan.segments) {
    text += fmt::format("{}{}@{}+{}", text.empty() ? "" : " ", s.id, s.first_position, s.num_rows);
  }
  for (const std::uint64_t id : plan.preempted) text += fmt::format(" !{}", id);
  Commit(state, plan);
  return text;
}

TEST(PlanStep, NothingToDo) {
  ScheduleState state({.num_blocks = 4, .block_size = 8});
  EXPECT_EQ(Step(state, {}), "");
}

TEST(PlanStep, DecodesFirstThenGoesOnThenAdmits) {
  ScheduleState state({.num_blocks = 100, .block_size = 8});
  const ScheduleLimits limits{.max_sequences = 4, .max_batch_tokens = 16, .prefill_chunk = 8};
  Arrive(state, 1, 20);
  EXPECT_EQ(Step(state, limits), "1@0+8");
  Arrive(state, 2, 3, 100);
  EXPECT_EQ(Step(state, limits), "1@8+8 2@0+3");
  Arrive(state, 3, 30, 200);
  // 2 decodes, 1 finishes its prompt, 3 begins with a whole chunk.
  EXPECT_EQ(Step(state, limits), "2@3+1 1@16+4 3@0+8");
  Arrive(state, 4, 30, 300);
  // The step's rows run out in the chunk of 4.
  EXPECT_EQ(Step(state, limits), "1@20+1 2@4+1 3@8+8 4@0+6");
}

TEST(PlanStep, AdmitsByArrivalUpToTheMaximum) {
  ScheduleState state({.num_blocks = 100, .block_size = 8});
  const ScheduleLimits limits{.max_sequences = 2, .max_batch_tokens = 64, .prefill_chunk = 8};
  for (std::uint64_t id = 1; id <= 3; ++id)
    Arrive(state, id, 4, 100 * static_cast<std::int32_t>(id));
  EXPECT_EQ(Step(state, limits), "1@0+4 2@0+4");
  state.cache.Release(state.sequences.at(1).table);
  state.sequences.erase(1);
  EXPECT_EQ(Step(state, limits), "2@4+1 3@0+4");
}

TEST(PlanStep, ALargeRequestIsNotOvertakenByASmallOne) {
  ScheduleState state({.num_blocks = 4, .block_size = 8});
  const ScheduleLimits limits{.max_sequences = 4, .max_batch_tokens = 64, .prefill_chunk = 32};
  Arrive(state, 1, 8);
  EXPECT_EQ(Step(state, limits), "1@0+8");
  Arrive(state, 2, 32, 100);
  Arrive(state, 3, 1, 200);
  EXPECT_EQ(Step(state, limits), "1@8+1");
}

TEST(PlanStep, TheLatestArrivalGivesItsBlocks) {
  ScheduleState state({.num_blocks = 4, .block_size = 8});
  const ScheduleLimits limits{.max_sequences = 4, .max_batch_tokens = 64, .prefill_chunk = 32};
  Arrive(state, 1, 15);
  Arrive(state, 2, 7, 100);
  EXPECT_EQ(Step(state, limits), "1@0+15 2@0+7");
  EXPECT_EQ(Step(state, limits), "1@15+1 2@7+1");
  EXPECT_EQ(Step(state, limits), "1@16+1");  // it took the last block: 2 has to skip
  for (int i = 17; i < 24; ++i) EXPECT_EQ(Step(state, limits), fmt::format("1@{}+1", i));
  EXPECT_EQ(Step(state, limits), "1@24+1 !2");
  const Sequence& second = state.sequences.at(2);
  EXPECT_FALSE(second.running);
  EXPECT_EQ(second.num_computed, 0);
  EXPECT_EQ(second.length(), 9);  // what it generated stays
  EXPECT_TRUE(second.table.blocks.empty());
  EXPECT_EQ(state.sequences.at(1).table.num_blocks(), 4);
}

TEST(PlanStep, AChunkShrinksBeforeAnybodyIsPreempted) {
  ScheduleState state({.num_blocks = 4, .block_size = 8});
  const ScheduleLimits limits{.max_sequences = 4, .max_batch_tokens = 64, .prefill_chunk = 12};
  Arrive(state, 1, 26);
  EXPECT_EQ(Step(state, limits), "1@0+12");
  Arrive(state, 2, 2, 100);
  EXPECT_EQ(Step(state, limits), "1@12+12");  // one block left, kept for 1
  EXPECT_EQ(Step(state, limits), "1@24+2");
  EXPECT_EQ(Step(state, limits), "1@26+1");

  ScheduleState tight({.num_blocks = 4, .block_size = 8});
  Arrive(tight, 1, 4);
  Arrive(tight, 2, 30, 100);
  EXPECT_EQ(Step(tight, limits), "1@0+4 2@0+12");
  EXPECT_EQ(Step(tight, limits), "1@4+1 2@12+12");
  // 2 has three blocks, all full; 1 has one. Nothing is left for 2, and nobody is behind it.
  EXPECT_EQ(Step(tight, limits), "1@5+1");
}

TEST(PlanStep, TakesThePrefixFromTheCache) {
  ScheduleState state({.num_blocks = 16, .block_size = 8});
  const ScheduleLimits limits{.max_sequences = 4, .max_batch_tokens = 64, .prefill_chunk = 32};
  Arrive(state, 1, 16);
  EXPECT_EQ(Step(state, limits), "1@0+16");
  Arrive(state, 2, 16);
  // The whole prompt is cached, but a row is needed: the last block is computed again.
  const StepPlan plan = PlanStep(state, limits);
  ASSERT_EQ(plan.segments.size(), 2u);
  EXPECT_EQ(plan.segments[1].id, 2u);
  EXPECT_EQ(plan.segments[1].first_position, 8);
  EXPECT_EQ(plan.segments[1].num_rows, 8);
  EXPECT_EQ(plan.segments[1].num_cached, 8);
  EXPECT_TRUE(plan.segments[1].first_admission);
  EXPECT_EQ(state.sequences.at(2).table.blocks[0], state.sequences.at(1).table.blocks[0]);
  EXPECT_NE(state.sequences.at(2).table.blocks[1], state.sequences.at(1).table.blocks[1]);
  Commit(state, plan);
  EXPECT_EQ(state.sequences.at(2).table.blocks[1], state.sequences.at(1).table.blocks[1]);
}

TEST(Sequence, WhatMayComeFromTheCache) {
  Sequence sequence;
  sequence.tokens.resize(10);
  sequence.prompt_length = 10;
  EXPECT_EQ(sequence.MaxCachedTokens(), 9);
  sequence.scores_prompt = true;
  EXPECT_EQ(sequence.MaxCachedTokens(), 0);
  sequence.num_scored = 4;  // preempted in the middle of scoring: rows 4 ... 8 still need logits
  EXPECT_EQ(sequence.MaxCachedTokens(), 4);
  EXPECT_FALSE(sequence.WantsLogits(3));
  EXPECT_TRUE(sequence.WantsLogits(4));
  sequence.num_scored = 9;
  EXPECT_EQ(sequence.MaxCachedTokens(), 9);
  EXPECT_TRUE(sequence.WantsLogits(9));
  sequence.generates = false;
  EXPECT_FALSE(sequence.WantsLogits(9));
  sequence.uses_prefix_cache = false;
  EXPECT_EQ(sequence.MaxCachedTokens(), 0);
}

}  // namespace
}  // namespace isobit
