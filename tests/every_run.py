"""Of tests that are many of a kind, and long: the ones of each kind that every run has, by their parameters;
of a whole file the tests, by their names. `make thorough` has all.
"""

# of the mistakes of solutions/wrong those that every run judges, beside the ones that no compiler takes
MISTAKES = {
    "01 D is never stored [the one of its kind]",
    "02 a slice that counts elements [the one of its kind]",
    "03 B goes to slot 1, and slot 0 is multiplied [the one of its kind]",
    "03 half of the threads store [map: Parts of tiles are missing]",
    "03 m and n mixed up, CuTe DSL [the one of its kind]",
    "03 two CTAs for each tile [the one of its kind]",
    "04 B goes to A's buffer, CuTe DSL [the one of its kind]",
    "04 no swizzle [04: D's map]",
    "04 the init in a warp that there is not [map: barrier-uninitialised]",
    "05 a wait that leaves a group in flight [its own line]",
    "05 five stages, four slots [the one of its kind]",
    "05 room for half of the pipeline's barriers [map: barrier-outside]",
    "05 the load's state does not advance [05: whether both states advance]",
    "05a bias in shared memory, where D comes later [right]",
    "06 done is never counted on [row: right at K = 4096]",
    "07 a load signals the barrier that its role waits for [its own line]",
    "07 both roles stop a K tile early [row: wrong by about one K tile's part]",
    "07 registers taken by the producer, too [the one of its kind]",
    "07 the consumer keeps its turn [07: it]",
    "07 the consumer takes 40 registers [the line of the inc]",
    "07 three warps of four multiply [map: a wgmma that 3 of the 4 warps have issued]",
    "08 empty counts an arrival more [row: never ends after four K tiles]",
    "08 the wait before the commit [the one of its kind]",
    "08a rows of tiles rounded down [its own line]",
    "09 both CTAs load the same half of B [09: every second block of columns]",
    "09 empty counts one CTA's consumer [row: wrong numbers, different each run]",
    "09 the scheduler counts CTAs for workers [the one of its kind]",
    "1 clear_accum is missing [01, map: accumulator-uninitialised]",
    "10 the named barrier counts the producer [row: hangs in the first epilogue]",
    "10 warpgroups side by side [10: the MMA]",
    "10b a plain store [the line of the store]",
    "t2 T.copy is left to choose [row: plain loads and stores]",
    "t2 nobody arrives [row: never ends]",
    "t2 the load's rows for its columns [the one of its kind]",
    "t4 a map without the swizzle of S [row: right elements in wrong places]",
    "t4 rows and columns exchanged [row: whole tiles of Y never written]",
    "t4 the load under elect_one [row: absent lanes]",
    "t5 no wait before a buffer is written [row: a later slice's numbers]",
    "2 every round overwrites [02, Predict, map]",
    "3 B cut by m [03: the diagonal is right]",
    "4 nobody arrives [04, Predict, map]",
    "5 the parity of step 4 [05 Predict]",
    "the tile's row",
}

EVERY_RUN: dict[str, set[str]] = {
    "run/emulator/test_emulated_solutions.py::test_solutions_are_right_on_any_schedule": {
        f"step{number:02}-tilelang"  # the solved notebooks' checks have the others
        for number in range(6, 12)
    },
    "run/emulator/test_emulated_solutions.py::test_wrong_kernels_get_their_finding": {
        "both_stages_on_one_parity cute",
        "early_release tilelang",
        "expect_bytes_short tilelang",
        "load_never_advances cute",
        "nested_elect cute",
        "no_proxy_fence cute",
        "same_half_loaded cute",
        "slice_of_the_cta cute",
        "swizzle_span tilelang",
    },
    "solutions/test_attention.py::test_the_card_of_a_planted_fault_is_true_and_at_the_line": {
        "a1 tilelang a1_no_rescale",
        "a1b cute a1b_early_V",
    },
    "solutions/test_attention.py::test_a_rung_is_right_where_queries_see_none_some_or_all_keys_of_a_tile": {
        "a1b_ring-tilelang",
        "a2b_overlap-cute",
    },
    "solutions/test_solutions.py::test_solution_shows_what_its_step_is_about": {
        f"step{number:02}-tilelang"  # as above
        for number in range(6, 11)
    },
    "solutions/test_solutions.py::test_every_instruction_of_a_solution_has_the_line_that_called_for_it": {
        "step01-tilelang",
        "step04-tilelang",
        "step04-cute",
        "step07-cute",
        "step10-tilelang",
        "step10-cute",
    },
    "grading/test_order.py::test_a_kernel_lacks_one_property_and_that_alone": {
        "A by plain loads",
        "the same in CuTe DSL",
        "two stages of four",
        "a mask of the CTA itself, CuTe DSL",
        "a third warpgroup that does nothing",
        "a ring of two in four buffers",
        "both consumers multiply the whole tile, each stores half",
    },
    "grading/test_order.py::test_a_kernel_lacks_the_idea_of_a_task": {
        "rows ahead",
        "one CTA sums all K tiles but one",
    },
    "grading/test_order.py::test_facts_are_of_causality_order_whatever_the_schedule": {"step10-cute"},
    "run/emulator/test_emulated_solutions.py::test_new_plans_are_right_at_every_edge": {
        "swapped, columns in eights, B by turns",
        "a shared A, two K tiles",
        "a shared A",
    },
    "grading/test_written_otherwise.py::test_a_right_kernel_keeps_its_marks": {
        "raw mbarriers",
        "three consumers",
    },
    "grading/test_left_out.py::test_what_the_compiler_put_back_is_not_the_authors": {
        "step 4 without the fence before the store",
        "step 4 without the barrier after the fence",
    },
    "solutions/test_t6.py::test_a_solution_is_right_at_any_length": {
        "size0-scores of heads, bf16-tilelang",
        "size3-scores of heads-cute",
    },
    "solutions/test_t6.py::test_a_row_of_d_is_as_many_boxes_as_its_swizzle_allows": {
        "96-2-32-tilelang",
        "128-3-64-cute",
    },
    "solutions/test_t6.py::test_the_card_of_a_planted_fault_is_true_and_at_the_line": {
        "t6 cute t6_batch_missing",
        "t6 cute t6_scale_missing",
        "t6 tilelang t6_heads_in_turn",
        "t6 tilelang t6_merged_rows",
    },
    "classroom/test_judge.py::test_a_pair_is_judged_by_both_of_its_programs": {
        "edit0-10-",
        "edit2-0-there is no control(rows, columns)",
    },
    "run/emulator/test_replay.py::test_each_multiplication_reads_the_tile_that_its_stage_holds": {"step09-6"},
    "run/emulator/test_replay.py::test_phases_end_once_for_each_fill_and_carry_all_bytes": {"step08"},
    "solutions/test_tasks.py::test_a_wrong_kernel_is_found_where_it_says": {
        "tilelang-task05a_bias_by_row",
        "cute-task05c_tiles_swapped",
        "cute-task10a_half_expected",
        "cute-task10c_read_in_flight",
    },
    # what a pinned compiler makes of a kernel: it changes with the compiler, which the weekly run sees
    "notebooks/test_t2.py": {
        "test_a_load_left_to_the_compiler_goes_through_registers_and_its_store_by_tma",
        "test_tma_copy_of_a_box_that_is_too_tall_raises",
        "test_whole_rows_that_wgmma_reads_stay_tensor_tma",
        "test_path_left_to_the_compiler_costs_four_points_of_ten",
        "test_which_boxes_flatten",
        "test_what_the_tiles_of_the_predictor_become",
        "test_what_the_text_says_of_the_recorded_ways",
        "test_what_the_text_says_of_what_a_profiler_counted",
    },
    "notebooks/test_t3.py": {
        "test_tilelang_puts_a_missing_proxy_fence_back",
        "test_what_a_store_wait_waits_for",
    },
    "notebooks/test_t3.py::test_tilelang_puts_a_missing_proxy_fence_back": {"step03"},
    "notebooks/test_t5.py": {
        "test_solution_has_four_stores_a_read_wait_for_each_and_one_for_the_last",
        "test_solution_takes_no_more_registers_than_step_5",
        "test_what_is_left_out_is_found",
        "test_check_asks_for_slices_and_a_read_wait",
    },
    "notebooks/test_t5.py::test_what_is_left_out_is_found": {"no wait (C)", "no fence (C)"},
    # every run holds each picture to its code; where that has not changed, words are where they were
    **{
        f"authoring/test_drawings.py::{name}": {
            "start_memory",
            "step04_data_path",
            "step05_overlap",
            "step06_panels",
            "step08_ring",
            "step09_cluster",
            "step10_tile",
            "t2_paths",
            "tma_swizzle_banks",
        }
        for name in ("test_words_lie_on_the_sheet_and_apart", "test_no_edge_or_line_goes_through_words")
    },
    "classroom/test_sandbox.py::test_it_is_ended_from_outside": {
        "time",
        "work",
        "work of children that are ignored",
        "memory",
        "memory, whose main threads have ended",
        "processes",
        "files in its folders",
        "files in memory",
        "closed streams",
    },
    "compile/test_cache.py::test_a_killed_compile_leaves_nothing": {"tilelang", "cute"},
    "grading/test_gemm.py::test_kernel_written_another_way_is_as_good": {"consumer first"},
    "compile/test_cute.py::test_endless_trace_is_ended": {"kernel", "loop of the host"},
    "compile/test_cute.py::test_the_chip_is_hopper_whatever_the_environment": {"cutlass imported before"},
    "test_readme.py::test_commands_run": {
        "make lab",
        "course check step04",
        "course level order",
        "course receipt step09",
        "course tensormap explain --dims 1024,409",
        "course tune step11 --show",
        "diff solutions/tilelang/step07_warp_spec",
        "mkdir -p build/handed_in/ada && cp solut",
        "source .venv/bin/activate",
    },
}
