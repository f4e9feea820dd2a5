"""Of tests that are many of a kind, and long: the ones of each kind that every run has. `make thorough` has
all. An empty set leaves the whole test to it.
"""

EVERY_RUN: dict[str, set[str]] = {
    "grading/test_order.py::test_a_kernel_lacks_one_property_and_that_alone": {
        "A by plain loads",
        "the same in CuTe DSL",
        "loads after it multiplied",
        "D stored by all four warps",
        "two stages of four",
        "no group in flight for all its wait_group 1",
        "a mask of the CTA itself, CuTe DSL",
        "a third warpgroup that does nothing",
    },
    "grading/test_order.py::test_a_kernel_lacks_the_idea_of_a_task": {"rows ahead"},
    "grading/test_order.py::test_facts_are_of_causality_order_whatever_the_schedule": {"step10-cute"},
    "grading/test_order.py::test_a_store_waited_for_after_the_next_slice_is_filled_was_in_flight": {
        "cute-edits1"
    },
    "grading/test_order.py::test_a_scheduler_that_forgets_tiles_where_there_are_more_than_clusters": set(),
    "grading/test_written_otherwise.py::test_a_right_kernel_keeps_its_marks": {
        "raw mbarriers",
        "a macro for the load",
        "CUTLASS's scheduler and store pipeline",
    },
    "grading/test_written_otherwise.py::test_it_keeps_them_in_the_whole_check": {"T.Pipelined"},
    "grading/test_left_out.py::test_what_the_compiler_put_back_is_not_the_authors": {
        "step 4 without the fence before the store",
        "step 4 without the barrier after the fence",
        "step 7 with the wait after the barrier",
    },
    "solutions/test_tasks.py::test_a_wrong_kernel_is_found_where_it_says": {
        "tilelang-task05a_bias_by_row",
        "tilelang-task08b_empty_not_awaited",
        "cute-task05c_tiles_swapped",
        "cute-task08b_not_divided",
        "cute-task10a_half_expected",
        "cute-task10b_stored_not_added",
        "cute-task10c_read_in_flight",
    },
    "notebooks/test_case_12.py::test_copies_left_open_may_get_a_layout_that_is_none": {"200"},
    "notebooks/test_case_13.py::test_tilelang_puts_a_missing_proxy_fence_back": {"step03"},
    "notebooks/test_case_15.py::test_what_is_left_out_is_found": {"no wait", "no wait (C)", "no fence (C)"},
    "notebooks/test_case_15.py::test_measured_variants_are_what_they_say_and_right": {
        "step08, D staged whole, waited for at once-stores1-0-waiting1"
    },
    "notebooks/test_browser.py::test_a_quiz_goes_on_after_a_restart_and_a_bug_is_found": set(),
    "notebooks/test_browser.py::test_a_drill_is_answered_by_mouse_and_by_keyboard": set(),
    "authoring/test_site.py::test_pages_are_read_by_everybody": {"dark"},
    "classroom/test_attacks.py::test_who_wrote_a_barrier_is_read_from_what_was_handed_in": set(),
    "classroom/test_judge.py::test_a_kernel_for_the_tables_sizes_is_another_at_the_drawn_ones": set(),
    "compile/test_cache.py::test_a_killed_compile_leaves_nothing": {"tilelang", "cute"},
    "test_readme.py::test_commands_run": {
        "make lab",
        ".venv/bin/course level order",
        "diff solutions/tilelang/step07_warp_spec",
        ".venv/bin/course check step04",
        "mkdir -p build/handed_in/ada && cp solut",
        "mkdir -p build/class/source && cp -r not",
        ".venv/bin/course sync",
    },
}
