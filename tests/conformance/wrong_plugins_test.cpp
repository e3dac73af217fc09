// Each deliberately wrong plugin fails the case that is about its fault, for the reason that it has; the same plugin
// without the fault passes every case.
#include <gmock/gmock.h>

#include "conformance/conformance.h"

namespace lf {
namespace {

using testing::HasSubstr;

std::filesystem::path built(const std::string& name) {
  return std::filesystem::path(LF_BUILD_DIR) / "tests/conformance/plugins" / (name + ".lfplugin.so");
}

// name: kind, or kind and fault ("device_copy_short").
KitReport report_on(const std::string& name, KitOptions options) {
  const size_t mark = name.find('_');
  const std::string kind = name.substr(0, mark);
  setenv("LF_WRONG", mark == name.npos ? "" : name.c_str() + mark + 1, 1);
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
  if (fault.plugin == "device_synchronize_hangs") options.case_limit = std::chrono::milliseconds(500);
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
    {"balancer_any_options", "unknown_options_are_refused", "create: expected a refusal, got success"},
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
    {"model_one_name_twice", "file_names_round_trip", "two parts are saved as embed.weight"},
    {"model_shape_apart", "file_names_round_trip", "parameter head.bias: its parts cover 256 of 255"},
    {"model_param_whole", "descriptions_write_no_more_than_an_older_host", "bytes written at most, as h.size says"},
    {"model_any_index", "wrong_indices_are_refused", "param: expected a refusal, got success"},
    {"model_samples_leak", "samples_packed_equal_samples_one_by_one", "loss_"},
    {"model_no_drop", "required_functions_are_there", "expected lf_model_api.drop, got null"},
    {"model_states_stages", "every_stated_ability_has_its_function", "LF_MODEL_STAGES is stated; expected boundary"},
};

std::string name_of(const testing::TestParamInfo<Fault>& info) {
  return info.param.plugin + "_" + std::to_string(info.index);
}

INSTANTIATE_TEST_SUITE_P(Faults, WrongPlugins, testing::ValuesIn(kFaults), name_of);

TEST(RightPlugins, the_same_plugins_without_a_fault_pass_every_case) {
  for (const char* kind : {"device", "balancer", "model"}) {
    const KitReport report = report_on(kind, {});
    EXPECT_EQ(report.refusal, "");
    EXPECT_GT(report.count(Outcome::kPassed), 30u);
    EXPECT_EQ(report.count(Outcome::kFailed), 0u)
        << report_text(judge_plugin(built("wrong_" + std::string(kind)), {}), report, false);
  }
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
