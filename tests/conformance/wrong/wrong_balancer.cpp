// The balancer template with one thing wrong, chosen by the variable LF_WRONG; the conformance kit must say which.
#define lf_plugin_entry good_plugin_entry
#include "balancer.cpp"  // of plugin_api/template/cpp
#undef lf_plugin_entry

#include <csignal>
#include <cstdlib>
#include <string_view>

namespace {

const std::string_view kWrong = std::getenv("LF_WRONG") != nullptr ? std::getenv("LF_WRONG") : "";

uint64_t atoms_of(const lf_balance_input* input) {
  uint64_t n = 0;
  for (uint32_t p = 0; p < input->n_parts; ++p) n += input->parts[p].n_atoms;
  return n;
}

int32_t wrong_plan(lf_balancer balancer, const lf_balance_input* input, lf_assignment* out, lf_balance_report* report,
                   lf_err* err) {
  const int32_t code = plan(balancer, input, out, report, err);
  const uint64_t n = atoms_of(input);
  const lf_balance_part& last = input->parts[input->n_parts - 1];
  static uint64_t calls = 0;
  ++calls;
  if (kWrong == "impure" && calls % 4 < 2 && last.n_atoms > 1 && last.replicas > 1) {
    lf_assignment* own = out + n - last.n_atoms;  // two samples of one place in another order
    for (uint64_t i = 1; i < last.n_atoms; ++i)
      if (own[i].replica == own[0].replica && own[i].micro_batch == own[0].micro_batch) {
        std::swap(own[i].order, own[0].order);
        break;
      }
  }
  if (kWrong == "same_order_twice" && n > 1) out[n - 1].order = out[0].order;
  if (kWrong == "out_of_range" && n > 0) out[0].replica = last.replicas;
  if (kWrong == "all_to_one" || kWrong == "tight")
    for (uint64_t i = 0; i < last.n_atoms && last.row_limit > 0; ++i)
      out[n - last.n_atoms + i] = {0, 0, static_cast<int32_t>(i), 0};
  if (kWrong == "empty_crash" && n == 0) raise(SIGSEGV);
  if (kWrong == "nan_crash" && last.n_atoms > 0 && last.seconds[0] != last.seconds[0]) abort();
  if (kWrong == "splits_ties" && input->n_parts > 1 && input->parts[0].n_atoms > 0 && last.replicas > 1) {
    uint64_t at = 0;  // the first part's atoms all to places of their own
    for (; at < input->parts[0].n_atoms; ++at) out[at] = {1, 0, static_cast<int32_t>(at), 0};
  }
  if (kWrong == "writes_behind") out[n] = {0, 0, 0, 0};
  if (kWrong == "changes_input" && last.n_atoms > 0) const_cast<double*>(last.seconds)[0] += 1;
  return code;
}

int32_t create_any(const lf_host*, lf_str, lf_balancer* out, lf_err*) {
  *out = nullptr;
  return LF_OK;
}

const lf_balancer_api kWrongTable = [] {
  lf_balancer_api api = kTable;
  api.plan = wrong_plan;
  if (kWrong == "any_options") api.create = create_any;
  return api;
}();

const lf::sdk::Interface kWrongInterfaces[] = {{LF_BALANCER_INTERFACE, &kWrongTable}};
const lf_plugin kWrongPlugin = lf::sdk::make_plugin<kWrongInterfaces>(LF_KIND_BALANCER, "template_cpp", "1");

}  // namespace

extern "C" LF_EXPORT const lf_plugin* lf_plugin_entry(uint32_t, uint32_t) { return &kWrongPlugin; }
