// Each deliberately wrong plugin fails the case that is about its fault, for the reason that it has; the same plugin
// without the fault passes every case.
#include <gmock/gmock.h>

#include "conformance/conformance.h"

namespace lf {
namespace {

using testing::AllOf;
using testing::HasSubstr;

std::filesystem::path built(const std::string& name) {
  return std::filesystem::path(LF_BUILD_DIR) / "tests/conformance/plugins" / (name + ".lfplugin.so");
}

// name: kind, or kind and fault ("device_copy_short").
KitReport report_on(const std::string& name, KitOptions options) {
  const size_t mark = name.find('_');
  const std::string kind = name.substr(0, mark);
  setenv("LF_WRONG", mark == name.npos ? "" : name.c_str() + mark + 1, 1);
  if (kind == "card") {  // over simulated cards, each piece of whose work takes its time
    setenv("LF_INNER", LF_BUILD_DIR "/plugins/kunlun.lfplugin.so", 1);
    setenv("LF_KUNLUN_HOME", LF_BUILD_DIR "/simulators/kunlun/shimmed", 1);
    setenv("LF_SIM_XPU_FAIL", mark == name.npos ? "work@*=delay:2" : "work@*=delay:20", 1);
  }
  if (name.starts_with("model"))
    options.case_folder = std::filesystem::path(LF_SOURCE_DIR) / "plugin_api/template/case";
  return run_conformance(judge_plugin(built("wrong_" + kind), {}), options);
}

struct Fault {
  std::string plugin;  // kind and LF_WRONG
  std::string test;    // the case that must fail
  std::string reason;  // in its detail
};

void PrintTo(const Fault& fault, std::ostream* out) { *out << fault.plugin; }

class WrongPlugins : public testing::TestWithParam<Fault> {};

TEST_P(WrongPlugins, fail_the_case_about_their_fault_for_the_right_reason) {
  const Fault& fault = GetParam();
  KitOptions options{.case_folder = {}, .only = fault.test};
  if (fault.reason.starts_with("did not return within 0.5 s")) options.case_limit = std::chrono::milliseconds(500);
  if (fault.reason.starts_with("did not return within 3 s")) options.case_limit = std::chrono::seconds(3);
  const KitReport report = report_on(fault.plugin, options);
  ASSERT_EQ(report.refusal, "");
  ASSERT_EQ(report.cases.size(), 1u);
  EXPECT_EQ(report.cases[0].outcome, Outcome::kFailed);
  EXPECT_THAT(report.cases[0].detail, HasSubstr(fault.reason));
}

const Fault kFaults[] = {
    {"device_double_free", "a_double_free_is_refused", "memory_free: expected a refusal, got success"},
    {"device_copy_short", "4096_bytes_come_back_as_they_went", "byte 4095 of 4096"},
    {"device_copy_crash", "65_bytes_come_back_as_they_went", "crashed in lf_device_api.copy (signal 11, SIGSEGV)"},
    {"device_info_whole", "info_writes_no_more_than_an_older_host_knows", "bytes written at most, as h.size says"},
    {"device_info_throws", "info_is_complete", "an exception left lf_device_api.info: no luck"},
    {"device_info_odd", "info_is_complete", "alignment: expected a power of two, got 48"},
    {"device_alloc_wrong_code", "2_to_the_62_bytes_are_out_of_memory", "memory_alloc: expected error 4, got 14"},
    {"device_alloc_silent", "an_unknown_kind_of_memory_is_refused", "expected a text in lf_err with error 2, got none"},
    {"device_stats_only_grow", "memory_stats_follow_allocations", "allocated_bytes: expected 0 after the free"},
    {"device_fill_too_far", "7_bytes_are_filled_with_127_and_no_neighbour", "byte 71 of 135"},
    {"device_synchronize_hangs", "copies_at_odd_offsets", "did not return within 0.5 s in lf_device_api.synchronize"},
    {"device_open_any", "an_ordinal_beyond_the_last_is_refused", "open: expected error 5 or 1, got success"},
    {"device_fill_missing", "required_functions_are_there", "expected lf_device_api.fill, got null"},
    {"device_thread", "stop_leaves_no_thread", "expected 1 threads after stop, got 2"},
    {"device_other_version", "the_version_is_that_of_the_manifest", "expected version 1 of the manifest, got 2"},
    {"device_other_major", "the_descriptor_is_for_this_abi", "expected a descriptor of ABI major 0, got 9"},
    {"device_any_interface", "an_unknown_interface_is_null", "get_interface(\"lf.telepathy/1\"): expected null"},
    {"device_reads_to_nul", "an_interface_id_needs_no_terminating_nul", "got null where the text goes on behind it"},
    {"device_two_tables", "a_table_is_the_same_at_every_call", "lf.device/1: expected one table, got two"},
    {"device_odd_table", "every_table_states_its_size", "lf.device/1: expected the size of a table"},
    {"device_start_fails", "start_and_stop_succeed", "lf_plugin.start: expected success, got error 1"},
    {"device_double_free", "a_free_of_foreign_memory_is_refused", "memory_free: expected a refusal, got success"},
    {"device_double_free", "a_free_inside_a_block_is_refused", "memory_free: expected a refusal, got success"},
    {"device_probe_one_more", "probe_answers_the_same_twice", "probe: expected 1 devices again, got another number"},
    {"device_close_few", "open_and_close_work_many_times", "close: expected success, got error 1"},
    {"device_open_one", "a_second_opening_does_not_disturb", "close: expected success, got error 1"},
    {"device_info_grows", "info_is_the_same_twice", "expected the same answer twice, got two"},
    {"device_info_states_queries", "every_stated_ability_has_its_function", "expected lf_device_api.event_query"},
    {"device_info_of_none", "a_null_device_is_refused", "info: expected a refusal, got success"},
    {"device_info_to_the_last_byte", "info_leaves_members_of_a_newer_host_alone", "expected a member of the future"},
    {"device_stats_to_the_last_byte", "memory_stats_leave_members", "expected a member of the future left at 0"},
    {"device_stats_whole", "memory_stats_write_no_more", "bytes written at most, as h.size says"},
    {"device_stats_of_success", "2_to_the_50_bytes_are_out_of_memory", "n_out_of_memory: expected more than 0"},
    {"device_bind_main_only", "another_thread_may_work", "bind_thread: expected success, got error 1"},
    {"device_health_in_words", "health_is_json", "health: expected JSON, got I am fine"},
    {"device_free_of_null_fails", "an_allocation_of_0_bytes", "memory_free: expected success, got error 1"},
    {"device_free_of_null_is_silent", "a_free_of_null_is_harmless", "expected a text in lf_err with error 1, got none"},
    {"device_alloc_within", "blocks_do_not_overlap", "two blocks of 257 bytes are 64 bytes apart"},
    {"device_alloc_askew", "4096_bytes_are_allocated_aligned_and_whole", "memory_alloc: expected alignment 64"},
    {"device_alloc_nothing_else", "pinned_host_memory_is_the_hosts", "crashed outside of any call (signal 11"},
    {"device_alloc_nothing_else", "fast_memory_works", "fill: expected success, got error 1"},
    {"device_alloc_one_at_a_time", "threads_may_allocate_at_once", "memory from 6 threads at once: wrong_device"},
    {"device_alloc_until_refused", "work_goes_on_after_errors", "memory_alloc: expected success, got error 1"},
    {"device_copy_short", "65_bytes_are_copied_within_the_device", "byte 64 of 65"},
    {"device_copy_something", "copies_and_fills_of_0_bytes_do_nothing", "a copy of 0 bytes: expected nothing written"},
    {"device_copy_of_null", "null_memory_is_refused", "copy: expected a refusal, got success"},
    {"device_copy_to_even", "copies_at_odd_offsets", "a copy to an odd offset"},
    {"card_stream_free_missing", "streams_and_events_come_whole", "stream_synchronize together, got some of them"},
    {"card_event_record_missing", "streams_and_events_come_whole", "event_synchronize together, got some of them"},
    {"card_few_frees", "streams_are_made_and_freed", "stream_free: expected success, got error 1"},
    {"card_few_streams", "257_streams_work", "streams, as max_streams says, got 100"},
    {"card_idle_refused", "an_idle_stream_synchronizes", "stream_synchronize: expected success, got error 1"},
    {"card_stream_synchronize_ignored", "work_on_a_stream_is_done_after_its", "after stream_synchronize"},
    {"card_order_swapped", "work_on_a_stream_keeps_its_order", "50 fills and copies on one stream"},
    {"card_order_swapped", "copies_and_fills_happen_in_order", "100 copies and fills behind one another"},
    {"card_upload_late", "copies_with_the_host_keep_a_streams_order", "to the device and back on one stream"},
    {"card_synchronize_ignored", "synchronize_waits_for_all_streams", "the first stream after synchronize"},
    {"card_freed_work_is_lost", "a_stream_may_be_freed_with_work_on_it", "work of a stream that was freed at once"},
    {"card_no_native", "a_stream_shows_its_native_handle", "stream_native: expected success, got error 1"},
    {"card_no_priority", "a_priority_works_where_it_is_stated", "expected a stream, as LF_DEVICE_STREAM_PRIORITY"},
    {"card_null_stream_freed", "a_null_stream_cannot_be_freed", "stream_free: expected a refusal, got success"},
    {"card_one_thread", "a_stream_may_be_used_from_another_thread", "fill: expected success, got error 1"},
    {"card_few_events", "500_events_are_recorded", "event_new: expected success, got error 1"},
    {"card_unrecorded_hangs", "waiting_for_an_unrecorded_event",
     "did not return within 3 s in lf_device_api.event_synchronize"},
    {"card_query_odd", "an_unrecorded_event_may_be_queried", "event_query: expected 0 or 1, got 7"},
    {"card_event_synchronize_ignored", "an_event_waits_for_what_was_before_it", "after event_synchronize"},
    {"card_query_never_done", "an_event_is_done_after_it_was_waited_for", "expected 1, got 0"},
    {"card_query_says_done", "an_event_that_says_it_is_done", "after event_query said that it is done"},
    {"card_wait_ignored", "stream_wait_orders_two_streams", "a copy behind stream_wait"},
    {"card_pending_event_crash", "an_event_may_be_freed_while_it_is_pending", "crashed in lf_device_api.event_free"},
    {"card_time_runs_back", "event_times_are_not_negative", "event_milliseconds: expected a time, got -1"},
    {"card_time_of_nothing", "times_of_unrecorded_events", "event_milliseconds: expected a refusal, got success"},
    {"card_null_event_freed", "null_events_are_refused", "event_free: expected a refusal, got success"},
    {"card_one_range", "profiler_ranges_nest", "range_pop: expected success, got error 1"},
    {"card_ids_equal", "ids_of_communicators_differ", "expected two different ids, got one twice"},
    {"card_gather_of_others", "collectives_of_one_rank_are_copies", "all_gather of one rank"},
    {"card_state_is_bad", "a_fresh_communicator_is_well", "state: expected success, got error 1"},
    {"card_abort_ignored", "after_abort_collectives_are_refused", "all_reduce: expected a refusal, got success"},
    {"card_abort_ignored", "abort_wakes_a_rank_whose_peer_is_dead",
     "did not return within 3 s in lf_collective_api.all_reduce or synchronize of another thread, after abort"},
    {"card_any_rank", "ranks_out_of_range_are_refused", "create: expected a refusal, got success"},
    {"card_any_type", "unknown_types_and_reductions", "all_reduce: expected a refusal, got success"},
    {"card_max_for_sum", "two_ranks_add_up", "all_reduce of two ranks"},
    {"card_not_in_place", "two_ranks_add_up", "all_reduce in place"},
    {"card_over_input", "two_ranks_add_up", "the input of all_reduce"},
    {"card_sum_for_max", "two_ranks_find_the_largest", "all_reduce of two ranks"},
    {"card_gather_of_last", "two_ranks_gather", "all_gather of two ranks"},
    {"card_scatter_of_own", "two_ranks_reduce_and_scatter", "reduce_scatter of two ranks"},
    {"card_receive_zeros", "one_rank_receives_what_the_other_sends", "what rank 0 sent"},
    {"card_broadcast_of_own", "two_ranks_have_what_one_broadcasts", "broadcast of rank 1"},
    {"card_no_gaps", "two_ranks_exchange_parts_of_all_sizes", "all_to_all of two ranks"},
    {"card_something_to_send", "two_ranks_exchange_where_one_has_nothing", "all_to_all: expected success, got error 1"},
    {"balancer_impure", "the_same_input_gives_the_same_plan", "expected the same plan for the same input"},
    {"balancer_same_order_twice", "many_samples_leave_no_place_empty", "expected each order of"},
    {"balancer_out_of_range", "a_single_sample_is_planned",
     "at replica 4, micro-batch 0; expected a place among 4 x 2"},
    {"balancer_all_to_one", "limits_are_never_exceeded", "above the limit of"},
    {"balancer_empty_crash", "a_step_of_no_samples", "crashed in lf_balancer_api.plan (signal 11, SIGSEGV)"},
    {"balancer_nan_crash", "seconds_that_are_not_a_number", "crashed in lf_balancer_api.plan (signal 6, SIGABRT)"},
    {"balancer_splits_ties", "tied_atoms_go_with_their_sample", "is apart from its sample"},
    {"balancer_writes_behind", "many_samples_leave_no_place_empty", "got one written behind them"},
    {"balancer_changes_input", "the_input_is_left_alone", "expected the input as it was, got it changed"},
    {"balancer_out_of_range", "one_rank_with_one_micro_batch_gets_everything", "expected a place among"},
    {"balancer_out_of_range", "one_rank_with_many_micro_batches", "expected a place among"},
    {"balancer_out_of_range", "fewer_samples_than_places", "expected a place among"},
    {"balancer_out_of_range", "as_many_samples_as_places", "expected a place among"},
    {"balancer_out_of_range", "equal_costs_are_planned", "expected a place among"},
    {"balancer_out_of_range", "costs_of_zero_are_planned", "expected a place among"},
    {"balancer_out_of_range", "a_long_tail_of_costs", "expected a place among"},
    {"balancer_out_of_range", "untied_atoms_have_places", "expected a place among"},
    {"balancer_out_of_range", "slower_replicas_are_planned_for", "expected a place among"},
    {"balancer_out_of_range", "objective_makespan", "expected a place among"},
    {"balancer_out_of_range", "objective_lockstep", "expected a place among"},
    {"balancer_out_of_range", "objective_two_stage", "expected a place among"},
    {"balancer_out_of_range", "objective_sum", "expected a place among"},
    {"balancer_all_to_one", "limits_that_the_arrival_just_keeps", "above the limit of"},
    {"balancer_ties_to_one", "limits_of_tied_parts", "above the limit of"},
    {"balancer_no_destroy", "required_functions_are_there", "expected create, destroy and plan, got a null"},
    {"balancer_needs_options", "no_options_are_fine", "create: expected success, got error 1"},
    {"balancer_by_instance", "two_instances_make_the_same_plan", "expected one plan from two instances, got two"},
    {"balancer_one_thread", "threads_make_the_same_plan_at_once", "plan from 4 threads at once: another plan"},
    {"balancer_burdens_by_arrival", "permuted_samples_are_balanced_as_well", "with the samples in another order"},
    {"balancer_unknown_objective_crash", "an_unknown_objective_does_no_harm", "crashed in lf_balancer_api.plan"},
    {"balancer_writes_behind_report", "the_report_of_an_older_host_is_not_overrun", "wrote behind the report"},
    {"balancer_reads_what_it_does_not_know", "the_input_of_a_newer_host_is_read", "the same plan with a longer input"},
    {"balancer_many_crash", "20000_samples_on_512_places", "crashed in lf_balancer_api.plan (signal 6, SIGABRT)"},
    {"balancer_infinity_crash", "infinite_seconds_do_no_harm", "crashed in lf_balancer_api.plan"},
    {"balancer_negative_crash", "negative_seconds_do_no_harm", "crashed in lf_balancer_api.plan"},
    {"balancer_huge_crash", "huge_seconds_do_no_harm", "crashed in lf_balancer_api.plan"},
    {"balancer_any_options", "unknown_options_are_refused", "create: expected a refusal, got success"},
    {"model_any_config", "bad_configs_are_refused", "create: expected a refusal, got success"},
    {"model_one_model", "two_models_live_side_by_side", "create: expected a model of its own"},
    {"model_flags_by_call", "a_model_describes_itself_alike", "expected the same description from two models"},
    {"model_odd_rows", "components_are_sound", "component language: unknown kind of rows 9"},
    {"model_over_cap", "arrays_are_filled_up_to_their_cap", "components: wrote more than cap 0"},
    {"model_unit_too_late", "parameters_are_in_the_order_of_units", "unit 2 is out of order or range"},
    {"model_one_parameter_name", "parameter_names_differ", "expected names of parameters that differ"},
    {"model_param_to_the_last_byte", "descriptions_leave_members_of_a_newer_host", "members of the future left at 0"},
    {"model_one_feature_name", "feature_names_are_as_many_as_features", "of component 0: expected 2, got 1"},
    {"model_features_negative", "features_are_numbers", "features: expected numbers from 0 on, got -1"},
    {"model_features_run_down", "features_are_the_same_every_time", "expected the same numbers twice, got others"},
    {"model_features_main_only", "features_may_be_asked_from_threads", "features from 4 threads at once: template_c"},
    {"model_bad_sample_is_a_bug", "bad_samples_are_data_errors", "expected LF_E_DATA, got error 14"},
    {"model_one_column_name", "columns_are_contiguous_tensors", "collate: expected names that differ"},
    {"model_column_with_gaps", "columns_are_contiguous_tensors", "expected it contiguous, got stride 2"},
    {"model_collate_counts", "collate_gives_the_same_bytes", "collate: column bytes differs between two calls"},
    {"model_cost_below_zero", "costs_are_numbers", "expected operations, got -1"},
    {"model_counts_dropped", "dropped_batches_do_not_count", "after a dropped micro-batch"},
    {"model_bias_forgotten", "every_parameter_gets_a_gradient", "head.bias got no gradient"},
    {"model_first_counts_more", "the_order_of_samples_does_not_matter", "loss_sum with the samples reversed"},
    {"model_frozen_differs", "with_everything_frozen_the_loss", "loss_sum with everything frozen"},
    {"model_recompute_differs", "inner_recomputation_changes_nothing", "loss_sum with recomputation"},
    {"model_recompute_differs", "whole_recomputation_changes_nothing", "loss_sum with recomputation"},
    {"model_any_type", "unknown_compute_types_are_refused", "stage_new: expected a refusal, got success"},
    {"model_any_stage", "stages_out_of_range_are_refused", "stage_new: expected a refusal, got success"},
    {"model_any_batch", "an_unknown_micro_batch_is_refused", "backward: expected a refusal, got success"},
    {"model_loss_is_a_mean", "samples_packed_equal_samples_one_by_one", "loss_sum one by one"},
    {"model_weight_is_rows", "the_loss_is_a_sum_with_its_count", "loss_weight: expected"},
    {"model_forward_crash", "gradients_are_added_to", "crashed in lf_model_api.forward (signal 11, SIGSEGV)"},
    {"model_noise", "the_same_batch_gives_the_same_bits", "loss_sum: expected the same bits twice"},
    {"model_changes_values", "forward_changes_neither", "the values of head.bias were changed"},
    {"model_overwrites", "gradients_are_added_to", "the gradient of head.weight differs"},
    {"model_ignores_scale", "loss_scale_scales", "the gradient of"},
    {"model_half_missing", "gradients_are_the_slope", "head.weight: along random directions"},
    {"model_too_large", "gradients_are_the_slope", "head.bias: the loss rises by"},
    {"model_writes_frozen", "frozen_parameters_stay", "crashed in lf_model_api.backward (signal 11, SIGSEGV)"},
    {"model_ignores_max_rows", "max_rows_cuts_a_sample", "features with max_rows"},
    {"model_mean_times_weight", "a_sample_without_a_supervised_row", "expected a loss of 0 of weight 0, got "},
    {"model_one_name_twice", "file_names_round_trip", "two parts are saved as embed.weight"},
    {"model_shape_apart", "file_names_round_trip", "parameter head.bias: its parts cover 256 of 255"},
    {"model_param_whole", "descriptions_write_no_more_than_an_older_host", "bytes written at most, as h.size says"},
    {"model_any_index", "wrong_indices_are_refused", "param: expected a refusal, got success"},
    {"model_any_device", "a_stage_on_an_unknown_device", "stage_new: expected error 2, got success"},
    {"model_samples_leak", "samples_packed_equal_samples_one_by_one", "loss_"},
    {"model_no_drop", "required_functions_are_there", "expected lf_model_api.drop, got null"},
    {"model_states_stages", "every_stated_ability_has_its_function", "LF_MODEL_STAGES is stated; expected boundary"},
};

std::string name_of(const testing::TestParamInfo<Fault>& info) {
  return info.param.plugin + "_" + std::to_string(info.index);
}

INSTANTIATE_TEST_SUITE_P(Faults, WrongPlugins, testing::ValuesIn(kFaults), name_of);

TEST(RightPlugins, the_same_plugins_without_a_fault_pass_every_case) {
  for (const char* kind : {"device", "card", "balancer", "model"}) {
    const KitReport report = report_on(kind, {});
    EXPECT_EQ(report.refusal, "");
    EXPECT_GT(report.count(Outcome::kPassed), 30u);
    EXPECT_EQ(report.count(Outcome::kFailed), 0u)
        << report_text(judge_plugin(built("wrong_" + std::string(kind)), {}), report, false);
  }
}

TEST(HangingPlugins, one_that_hangs_again_and_again_is_given_up_and_does_not_conform) {
  const KitReport report = report_on("device_synchronize_hangs",
                                     {.case_folder = {}, .case_limit = std::chrono::milliseconds(500), .only = {}});
  EXPECT_EQ(report.refusal, "");
  EXPECT_EQ(report.count(Outcome::kFailed), 3u);
  EXPECT_GT(report.count(Outcome::kNotTried), 40u);
  EXPECT_EQ(report.cases.back().outcome, Outcome::kNotTried);
  EXPECT_FALSE(report.passed());
  const Candidate candidate = judge_plugin(built("wrong_device"), {});
  EXPECT_THAT(
      report_text(candidate, report, false),
      AllOf(HasSubstr("does not conform: "), HasSubstr(" cases were not tried, as 3 before them did not return")));
  EXPECT_THAT(report_json(candidate, report), HasSubstr("\"outcome\": \"not tried\""));
}

TEST(RightPlugins, a_report_for_machines_names_the_file_its_hash_and_every_case) {
  const Candidate candidate = judge_plugin(built("wrong_balancer"), {});
  const KitReport report = report_on("balancer", {.case_folder = {}, .only = "no_options"});
  const std::string json = report_json(candidate, report);
  EXPECT_THAT(json, HasSubstr("\"passed\": true"));
  EXPECT_THAT(json, HasSubstr("\"name\": \"no_options_are_fine\""));
  EXPECT_THAT(json, testing::ContainsRegex("\"sha256\": \"[0-9a-f]{64}\""));
}

TEST(RightPlugins, a_refused_file_is_told_and_nothing_is_tried) {
  Candidate candidate = judge_plugin(built("absent"), {});
  const KitReport report = run_conformance(candidate, {});
  EXPECT_THAT(report.refusal, HasSubstr("No such file"));
  EXPECT_TRUE(report.cases.empty());
  EXPECT_FALSE(report.passed());
}

}  // namespace
}  // namespace lf
