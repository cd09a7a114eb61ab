# sim_variant(NAME FILE FROM TO [FROM TO]...): the simulator built against src/FILE with FROM replaced by TO. sim_mutant: the same
# for a fault put in on purpose; its test passes only if some world catches the fault, so the simulator's eyes are tested, too.
add_custom_target(sim_mutants)  # builds them all

macro(sim_build_edited NAME FILE)
  edit_source(sim_${NAME} ${FILE} ${ARGN})
  mutant(isobit_sim_${NAME} sim_${NAME} ${FILE} isobit_sim_main isobit_sim_parts)
  add_dependencies(sim_mutants isobit_sim_${NAME})
endmacro()

macro(sim_mutant NAME)
  sim_build_edited(${NAME} ${ARGN})
  add_test(NAME sim_mutant_${NAME} COMMAND isobit_sim_${NAME} --expect-caught 400)
endmacro()

macro(sim_variant NAME)
  sim_build_edited(${NAME} ${ARGN})
  add_test(NAME sim_variant_${NAME} COMMAND isobit_sim_${NAME} --seeds 1 300)
endmacro()

sim_mutant(trust_hash kvcache/prefix_index.cc
  "return hash" "return 0 * hash"
  "node.parent == parent && node.salt == salt && std::ranges::equal(node.tokens, tokens)" "node.present")
sim_mutant(ignore_salt kvcache/prefix_index.cc
  "static_cast<unsigned char>(byte)" "0 * static_cast<unsigned char>(byte)"
  "node.salt == salt" "true")
sim_mutant(ignore_parent kvcache/prefix_index.cc
  "nodes_.at(parent).hash" "kRootHash"
  "node.parent == parent" "true")
sim_mutant(publish_unsettled engine/step.cc
  "sequence.tokens, sequence.num_computed,"
  "sequence.tokens, std::min(sequence.length(), sequence.table.num_blocks() * state_.cache.block_size()),")
sim_mutant(publish_against_will engine/step.cc
  "if (sequence.uses_prefix_cache) {" "if (true) {")
sim_mutant(free_too_early kvcache/block_pool.cc
  "if (--state.num_owners > 0) return" "if (--state.num_owners > 1) return")
sim_mutant(attach_without_owning kvcache/kv_cache.cc
  "pool_.Acquire(block)" "(void)block")
sim_mutant(share_without_owning kvcache/kv_cache.cc
  "pool_.Acquire(shared)" "(void)shared")
sim_mutant(evict_parent_first kvcache/kv_cache.cc
  "auto it = table.blocks.rbegin()" "auto it = table.blocks.begin()"
  "it != table.blocks.rend()" "it != table.blocks.end()")
sim_mutant(leak_blocks engine/step.cc
  "state_.cache.Release(state_.sequences.at(id).table)" "(void)id")
sim_mutant(seed_by_step engine/step.cc
  "masked, sequence.length())" "masked, counters_.num_steps)")
sim_mutant(forget_min_tokens engine/step.cc
  "< request.min_new_tokens" "< 0")
sim_mutant(score_the_wrong_token engine/step.cc
  "sequence.tokens[position + 1]" "sequence.tokens[position]")
sim_mutant(score_twice engine/step.cc
  "active.prompt_scores_delivered = true" "active.prompt_scores_delivered = false")
sim_mutant(cancel_only_running engine/step.cc
  "if (requests_.contains(id)) Finish" "if (requests_.contains(id) && state_.sequences.at(id).running) Finish")
sim_mutant(keep_failed_request_going engine/step.cc
  "active.failure = token.error()" "active.sampled.emplace().token = 0")
sim_mutant(drop_tokens_on_preemption schedule/plan.cc
  "sequence.num_computed = 0" "sequence.tokens.resize(sequence.prompt_length), sequence.num_computed = 0")
sim_mutant(preempt_the_first schedule/plan.cc
  "Preempt(*running_.back())" "Preempt(*running_.front())")
sim_mutant(keep_row_of_preempted schedule/plan.cc
  "if (planned != plan_.segments.end())" "if (false)")
sim_mutant(overtake_in_queue schedule/plan.cc
  "if (!Admit(next->second)) return" "if (!Admit(next->second)) continue")
sim_mutant(batch_row_misplaced engine/batch.cc
  "sequence.tokens[position]" "sequence.tokens[i]")

# And a change that must not be seen: every block hashes alike, so that only the comparison tells them apart.
sim_variant(one_hash_for_all kvcache/prefix_index.cc
  "return hash" "return 0 * hash")
