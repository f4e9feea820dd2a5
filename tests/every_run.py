"""Of tests that are many of a kind, and long: the ones of each kind that every run has, by their parameters;
of a whole file the tests, by their names. `make thorough` has all.
"""

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
    },
    "grading/test_order.py::test_a_kernel_lacks_the_idea_of_a_task": {"rows ahead"},
    "grading/test_order.py::test_facts_are_of_causality_order_whatever_the_schedule": {"step10-cute"},
    "grading/test_written_otherwise.py::test_a_right_kernel_keeps_its_marks": {
        "raw mbarriers",
        "CUTLASS's scheduler and store pipeline",
    },
    "grading/test_left_out.py::test_what_the_compiler_put_back_is_not_the_authors": {
        "step 4 without the fence before the store",
        "step 4 without the barrier after the fence",
    },
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
        "memory",
        "processes",
        "files in its folders",
        "files in memory",
        "closed streams",
    },
    "compile/test_cache.py::test_a_killed_compile_leaves_nothing": {"tilelang", "cute"},
    "grading/test_mistakes_06_t5.py::test_the_card_of_a_copy_says_what_is_wrong": {
        "t2 T.copy is left to choose [row: plain loads and stores]",
        "t2 nobody arrives [row: never ends]",
        "t4 rows and columns exchanged [row: whole tiles of Y never written]",
        "t4 the load under elect_one [row: absent lanes]",
        "t4 a map without the swizzle of S [row: right elements in wrong places]",
        "t4 the load's sides exchanged [row: src and dst]",
        "t4 no mode grouped [row: stride at mode 1]",
        "t4 one side grouped [row: same size in the first rank]",
        "t4 the store's sides exchanged [row: src and dst]",
    },
    "grading/test_gemm.py::test_kernel_written_another_way_is_as_good": {"consumer first"},
    "compile/test_cute.py::test_endless_trace_is_ended": {"kernel", "loop of the host"},
    "compile/test_cute.py::test_the_chip_is_hopper_whatever_the_environment": {"cutlass imported before"},
    "test_readme.py::test_commands_run": {
        "make lab",
        ".venv/bin/course level order",
        "diff solutions/tilelang/step07_warp_spec",
        ".venv/bin/course check step04",
        "mkdir -p build/handed_in/ada && cp solut",
        ".venv/bin/course sync",
    },
}
