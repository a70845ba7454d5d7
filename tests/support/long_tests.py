"""Tests of more than about a second are marked `long` and run at night, so that a change is tested in minutes.

A line of a file is a test function, or cases of one by a pattern in which `*` is any text. Cases whose line begins with
`+` run with every change nevertheless: what only they cover. What is left out has shorter relatives in the same file.
"""

from __future__ import annotations

import functools
import re
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]

LONG = {
    "command_line/test_command_line.py": """
        test_largest_batch
    """,
    "command_line/test_command_line_processes.py": """
        test_a_process_removes_its_file
        test_monitor_shows_what_a_process_counts
        test_run_of_a_module_that_is_killed
        test_the_option_for_one_thread
        test_the_package_for_cmake
    """,
    "documentation/test_documentation.py": """
        test_page[tutorial.md]
        test_page[fit_a_model.md]
        test_page[program_the_tiles.md]
        test_page[find_what_is_slow.md]
    """,
    "documentation/test_examples.py": """
        test_cnn_learns
        test_four_ipus_train_like_one
        test_gpt_learns_on_four_ipus_and_writes_with_a_cache
        test_vertex_of_ones_own
        test_decompositions_on_tiles
    """,
    "documentation/test_graphcore_documentation.py": """
        test_ipus_are_made_before_the_first_use
        test_manual_of_keras
    """,
    "documentation/test_notebooks.py": """
        test_notebook[will_my_model_fit]
        test_notebook[program_the_tiles]
    """,
    "engine/test_loop_code.py": """
        test_random_loops*
        + test_random_loops[*1*]
    """,
    "fit/test_advice.py": """
        test_each_remedy_fits_when_it_is_followed[language model]
        test_each_remedy_fits_when_it_is_followed[blocks in a scan]
        test_each_remedy_fits_when_it_is_followed[blocks]
        test_each_remedy_fits_when_it_is_followed[batch is width]
        test_each_remedy_fits_when_it_is_followed[convolutions]
        test_each_remedy_fits_when_it_is_followed[dropout]
        test_each_remedy_fits_when_it_is_followed[labels by index]
        test_each_remedy_fits_when_it_is_followed[a sequence]
    """,
    "fit/test_checkpoint_advice.py": """
        test_a_program_without_parts[<lambda>]
        test_memory_is_that_of_a_step_with_checkpoint[layers]
        test_memory_is_that_of_a_step_with_checkpoint[attention]
        test_values_stay
        + test_values_stay[a scan of layers]
        + test_values_stay[loops in layers]
    """,
    "fit/test_constant_memory.py": """
        test_no_more_copies_than_jax_makes_on_its_own
        + test_no_more_copies_than_jax_makes_on_its_own[f32]
        + test_no_more_copies_than_jax_makes_on_its_own[in a loop]
    """,
    "fit/test_fit_option.py": """
        test_repeated_blocks_say_what_they_cost
    """,
    "fit/test_out_of_memory.py": """
        test_half_precision_is_advised_to_wide_types_only
        test_the_advised_batch_fits
        test_the_advised_ipus_and_axes_fit
        test_what_every_ipu_holds_whole_is_to_be_cut
    """,
    "frameworks/test_features_libraries.py": """
        test_flax_convolutional_network_with_optax
        test_flax_transformer_block_with_dropout
    """,
    "frameworks/test_framework_training.py": """
        test_equinox_shared_layer
        test_flax_linen_keeps_running_statistics
        test_flax_linen_shared_module
        test_keras_trains_as_its_own_loop
    """,
    "frameworks/test_garden.py": """
        test_a_program_prints_losses_counters_and_throughput
        test_a_step_in_half_precision_is_that_of_the_cpu[resnet50-training]
        test_four_ipus_compute_what_four_cpus_do
        test_two_steps_are_those_of_the_cpu
        + test_two_steps_are_those_of_the_cpu[vae-training]
        + test_two_steps_are_those_of_the_cpu[gpt2-decoding]
        + test_two_steps_are_those_of_the_cpu[*-inference]
    """,
    "frameworks/test_graphcore_manager.py": """
        test_equinox
        test_keras
        test_precision_inside_control_flow_and_gradients[float16]
    """,
    "frameworks/test_graphcore_multi_ipu.py": """
        test_a_model_that_does_not_fit_one_ipu_is_cut
        test_optimized_for_several_ipus_without_devices
    """,
    "frameworks/test_keras_fit.py": """
        test_fit_is_as_on_the_cpu
        + test_fit_is_as_on_the_cpu[8-256]
    """,
    "frameworks/test_manager_training.py": """
        test_training_recomputes_what_does_not_fit
    """,
    "frameworks/test_onnx.py": """
        test_operators[AB]
    """,
    "frameworks/test_zoo.py": """
        test_model_agrees_with_its_framework[flax: CNN 28x28 b8, training, float32, 1 IPU]
        test_model_agrees_with_its_framework[JAX: tiny GPT*]
        test_model_agrees_with_its_framework[JAX: tiny BERT*]
        test_model_agrees_with_its_framework[Keras: CNN 28x28 b8, training, float32, 1 IPU]
    """,
    "frontend/test_malformed_programs.py": """
        test_damaged_programs_of_several_parts[partitioned]
        test_numbers_of_text
    """,
    "jax_features/test_pallas_cores.py": """
        test_a_core_map_of_one_core_runs_whichever_is_imported_first
    """,
    "mapping/test_matmul_planning.py": """
        test_large_products_take_little_host_memory
        + test_large_products_take_little_host_memory[16384-dot_general at]
    """,
    "multi_ipu/test_multi_collectives.py": """
        test_types_as_codelets
    """,
    "multi_ipu/test_multi_linking.py": """
        test_programs_in_turns
        + test_programs_in_turns[linked]
    """,
    "multi_ipu/test_multi_process.py": """
        test_a_process_that_does_not_come
        test_a_recoverable_process_outlives_the_other
        test_copies_between_processes
        test_different_programs_are_noticed
        test_script_of_the_documentation
        test_the_other_process_fails
        test_without_the_transport
    """,
    "multi_ipu/test_multi_runtime.py": """
        test_blocks_of_the_documentation
    """,
    "multi_ipu/test_pipeline.py": """
        test_training_and_evaluation_in_turns
        test_values_gradients_and_training_are_those_of_the_model
        + test_values_gradients_and_training_are_those_of_the_model[grouped-recompute]
        + test_values_gradients_and_training_are_those_of_the_model[sequential-keep]
    """,
    "multi_ipu/test_replicated_pipeline.py": """
        test_both_modes[tile]
        test_values_gradients_and_training_are_those_of_the_model
        + test_values_gradients_and_training_are_those_of_the_model[interleaved-keep]
    """,
    "multi_ipu/test_splitting.py": """
        test_a_manager_trains_in_stages_what_does_not_fit_one_ipu
        test_stages_are_the_whole[mask]
    """,
    "operations/test_features_algorithms.py": """
        test_svd[shape0-True-*]
        + test_svd[shape0-True-float32-*]
        test_svd_of_odd_matrices[DIVIDE_AND_CONQUER]
        test_svd_of_odd_matrices[POLAR]
        test_svd_of_odd_matrices[JACOBI]
    """,
    "operations/test_features_eig.py": """
        test_gradients
        test_random_matrices[shape5-*]
        test_random_matrices[shape6-*]
        test_random_matrices[shape7-*]
        + test_random_matrices[shape6-float32]
    """,
    "operations/test_features_linalg.py": """
        test_batches_of_no_matrices[eigh-shape1]
        test_decompositions_as_codelets[40]
        test_eigh_of_any_size[300]
        test_eigh_of_any_size[64]
        test_eigh_of_hard_spectra
        test_reductions_in_several_stages[complex128]
    """,
    "operations/test_large_sorts.py": """
        test_half_of_the_memory_fits
        + test_half_of_the_memory_fits[f16]
        + test_half_of_the_memory_fits[argmax*]
    """,
    "operations/test_lookup_sizes.py": """
        test_lookups_of_half_the_memory_fit
        + test_lookups_of_half_the_memory_fit[*-float32-4]
        + test_lookups_of_half_the_memory_fit[0.1-float32-1]
        test_values_of_scatters_in_rounds[1-*-codelets]
        test_values_of_scatters_in_rounds[1-*-tile]
        test_values_of_scatters_in_rounds[4-float16-codelets]
    """,
    "operations/test_many_matrices.py": """
        test_one_matrix_more
        + test_one_matrix_more[inv-20]
        + test_one_matrix_more[eigvalsh-4]
        test_shared_by_workers[18-3-fast]
    """,
    "operations/test_properties.py": """
        test_concatenate_and_pad
        test_convolution
        test_elementwise
        test_gather_scatter
        test_reductions
        test_sort
    """,
    "operations/test_random_programs.py": """
        test_random_programs_of_several_ipus
    """,
    "operations/test_sort_small_floats.py": """
        test_every_op_orders_as_the_cpu[*-fast8]
        test_every_op_orders_as_the_cpu[*-tile1472]
    """,
    "operations/test_sort_sub_byte.py": """
        test_every_op_orders_by_value[*fast8*]
        test_every_op_orders_by_value[*tile1472*]
    """,
    "operations/test_sparse_systems.py": """
        test_lowering_of_sparse_systems_follows_a_late_import
    """,
    "operations/test_special_values.py": """
        test_lines[*-fast8]
        test_every_combination[convert-fast8]
        test_every_combination[compare-fast8]
    """,
    "operations/test_stochastic_rounding.py": """
        test_results_are_neighbours_without_bias[tile]
    """,
    "passes/test_long_rows.py": """
        test_rows_of_half_an_ipu
    """,
    "passes/test_order_statistics.py": """
        test_half_of_the_memory_fits
    """,
    "passes/test_outlining.py": """
        test_programs_that_fit_only_with_functions_compile
        test_values[*-train]
        + test_values[fast8-train]
    """,
    "passes/test_row_loops.py": """
        test_equal_to_the_whole[exp1-*]
        test_random_numbers_of_a_loop_for_each[<lambda>1]
    """,
    "passes/test_window_reductions.py": """
        test_one_element
    """,
    "pjrt/test_clients.py": """
        test_a_client_in_rust_trains
        test_tile_programs_without_python
    """,
    "pjrt/test_config.py": """
        test_kernels_are_held_to_an_instruction_set_and_threads[environment0-]
        test_the_warning_comes_where_no_platform_is_made
        + test_the_warning_comes_where_no_platform_is_made[jax_ipu.report*
    """,
    "pjrt/test_fork.py": """
        test_a_child_reads_drops_and_deletes_what_it_inherited[os._exit(0)]
        test_a_child_that_uses_the_device_gets_an_error_that_names_spawn
        + test_a_child_that_uses_the_device_gets_an_error_that_names_spawn[a compiled program]
        test_a_child_waits_for_nothing_that_was_pending_at_the_fork
    """,
    "pjrt/test_interrupt.py": """
        test_a_signal_handler_that_does_not_raise_ends_nothing
        test_an_interrupted_wait_ends_the_run
        + test_an_interrupted_wait_ends_the_run[np.asarray]
        + test_an_interrupted_wait_ends_the_run[callback]
        test_in_tile_execution
        test_runs_of_other_threads_go_on
    """,
    "pjrt/test_pjrt_execution.py": """
        test_a_caller_that_waits_runs_the_program_itself
        test_callback_of_a_client_that_was_replaced_ends_before_the_process
    """,
    "pjrt/test_plugin.py": """
        test_default_platform
        + test_default_platform[environment1-ipu]
        + test_default_platform[environment2-cpu]
        test_exit_code
        + test_exit_code[donate and leave]
        + test_exit_code[many threads]
        + test_exit_code[clear backends]
        + test_exit_code[failed compile]
    """,
    "project/test_jax_suite.py": """
        test_a_file_that_cannot_be_imported_is_a_failure
        test_a_process_that_crashes_after_its_tests_is_a_failure
        test_a_report_keeps_the_rows_of_files_that_were_not_run
        test_a_test_that_the_cpu_does_not_have_counts_under_the_own_name
        test_columns_have_results_and_reasons_of_their_own
        test_each_way_to_end_costs_one_test
        test_results_without_the_cpu_are_not_reported
    """,
    "project/test_stablehlo_suite.py": """
        test_unlisted_failures_and_listed_passes_are_errors
    """,
    "reports/test_benchmarks.py": """
        test_a_program_can_be_traced_and_passes_its_state_on[CNN step, batch 32, 32x32x3]
    """,
    "reports/test_poplibs_plans.py": """
        test_the_page_has_the_cycles_of_today[f16 4096 *]
        test_the_page_has_the_cycles_of_today[f16 8192 *]
        + test_the_page_has_the_cycles_of_today[f16 8192 8192 8192 0.6]
    """,
    "reports/test_program_dump.py": """
        test_flags_of_the_process_and_programs_from_the_cache
    """,
    "reports/test_report_browser.py": """
        test_synthetic_reports
        test_real_reports[others]
        test_report_of_a_pipeline
        test_comparisons
    """,
    "reports/test_report_layers.py": """
        test_modules_are_layers[flax_report-paths0]
    """,
    "state/test_linked_programs.py": """
        test_programs_in_turns
        + test_programs_in_turns[linked]
    """,
    "state/test_pjrt_donation.py": """
        test_states_change_places_in_the_tile_engine
    """,
    "state/test_pjrt_residency.py": """
        test_in_the_tile_engine
        test_what_does_not_fit_beside_the_temporaries_is_streamed[200000-100000-0]
    """,
    "tiles/test_tiles.py": """
        test_stored_programs_run_only_codelets_that_the_process_has_compiled
    """,
}


@functools.cache
def _patterns(file: str) -> tuple[list[re.Pattern[str]], list[re.Pattern[str]]]:
    """Returns the patterns of what is long and of what runs nevertheless; a name without brackets is all its cases."""
    long, kept = [], []
    for line in map(str.strip, LONG[file].strip().splitlines()):
        name = line.removeprefix("+ ")
        pattern = ".*".join(map(re.escape, name.split("*")))
        (kept if line.startswith("+ ") else long).append(re.compile(pattern if "[" in name else pattern + r"(\[.*)?"))
    return long, kept


def is_long(file: str, name: str) -> bool:
    """Whether a test of a file below tests/ is left out unless asked for with `-m long`."""
    if file not in LONG:
        return False
    long, kept = _patterns(file)
    return any(p.fullmatch(name) for p in long) and not any(p.fullmatch(name) for p in kept)


def mark(items: list[pytest.Item]) -> None:
    """Marks the collected tests that are long."""
    for item in items:
        if item.path.is_relative_to(TESTS) and is_long(item.path.relative_to(TESTS).as_posix(), item.name):
            item.add_marker(pytest.mark.long)
