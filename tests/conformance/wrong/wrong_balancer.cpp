// The balancer template with one thing wrong, chosen by the variable LF_WRONG; the conformance kit must say which.
#define lf_plugin_entry good_plugin_entry
#include "balancer.cpp"  // of plugin_api/template/cpp
#undef lf_plugin_entry

#include <cmath>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <map>
#include <set>
#include <string_view>
#include <utility>

#include <unistd.h>

namespace {

std::string_view variable(const char* name) {
  const char* value = std::getenv(name);
  return value != nullptr ? value : "";
}

const std::string_view kWrong = variable("LF_WRONG"), kRank = variable("RANK");

lf_balancer first_made = nullptr;

uint64_t atoms_of(const lf_balance_input* input) {
  uint64_t n = 0;
  for (uint32_t p = 0; p < input->n_parts; ++p) n += input->parts[p].n_atoms;
  return n;
}

lf_assignment* of_last_part(const lf_balance_input* input, lf_assignment* out) {
  return out + atoms_of(input) - input->parts[input->n_parts - 1].n_atoms;
}

// Two samples of one place in another order.
void swap_two(const lf_balance_input* input, lf_assignment* out) {
  lf_assignment* own = of_last_part(input, out);
  for (uint64_t i = 1; i < input->parts[input->n_parts - 1].n_atoms; ++i)
    if (own[i].replica == own[0].replica && own[i].micro_batch == own[0].micro_batch) {
      std::swap(own[i].order, own[0].order);
      return;
    }
}

// Replica 0 gets what replica 1 had, but for one sample of each micro-batch.
void burden_the_first(const lf_balance_input* input, lf_assignment* out) {
  lf_assignment* own = of_last_part(input, out);
  std::map<std::pair<int32_t, int32_t>, int32_t> orders;
  std::set<int32_t> left;
  for (uint64_t i = 0; i < input->parts[input->n_parts - 1].n_atoms; ++i) {
    if (own[i].replica == 1 && !left.insert(own[i].micro_batch).second) own[i].replica = 0;
    own[i].order = orders[{own[i].replica, own[i].micro_batch}]++;
  }
}

int32_t wrong_plan(lf_balancer balancer, const lf_balance_input* input, lf_assignment* out, lf_balance_report* report,
                   lf_err* err) {
  const int32_t code = lf::sdk::entry<plan>(balancer, input, out, report, err);
  const uint64_t n = atoms_of(input);
  const lf_balance_part& last = input->parts[input->n_parts - 1];
  static uint64_t calls = 0;
  ++calls;
  if (kWrong == "impure" && calls % 4 < 2 && last.n_atoms > 1 && last.replicas > 1) swap_two(input, out);
  if (kWrong == "by_instance" && balancer != first_made) swap_two(input, out);
  if (kWrong == "reads_what_it_does_not_know" && input->h.size > sizeof *input) swap_two(input, out);
  if (kWrong == "one_thread" && gettid() != getpid()) swap_two(input, out);
  if (kWrong == "burdens_by_arrival" && last.n_atoms > 1 && last.seconds[0] < 0.6) burden_the_first(input, out);
  if (kWrong == "unknown_objective_crash" && input->objective > LF_OBJECTIVE_SUM) abort();
  if (kWrong == "writes_behind_report") std::memset(report + 1, 1, 8);
  if (kWrong == "many_crash" && n > 10'000) abort();
  if (kWrong == "infinity_crash" && last.n_atoms > 0 && std::isinf(last.seconds[0])) abort();
  if (kWrong == "negative_crash" && last.n_atoms > 0 && last.seconds[0] < 0) abort();
  if (kWrong == "huge_crash" && last.n_atoms > 0 && last.seconds[0] > 1e200) abort();
  if (kWrong == "same_order_twice" && n > 1) out[n - 1].order = out[0].order;
  if (kWrong == "out_of_range" && n > 0) out[0].replica = last.replicas;
  if (kWrong == "all_to_one" || kWrong == "tight")
    for (uint64_t i = 0; i < last.n_atoms && last.row_limit > 0; ++i)
      out[n - last.n_atoms + i] = {0, 0, static_cast<int32_t>(i), 0};
  if (kWrong == "ties_to_one") {
    lf_assignment* next = out;
    for (uint32_t p = 0; p < input->n_parts; ++p)
      for (uint64_t i = 0; i < input->parts[p].n_atoms; ++i) *next++ = {0, 0, static_cast<int32_t>(i), 0};
  }
  if (kWrong == "empty_crash" && n == 0) raise(SIGSEGV);
  if (kWrong == "crash_on_rank_1" && kRank == "1") abort();
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

int32_t create_and_note(const lf_host* host, lf_str options, lf_balancer* out, lf_err* err) {
  static char handles[8];
  static int made = 0;
  const int32_t code = kTable.create(host, options, out, err);
  *out = reinterpret_cast<lf_balancer>(&handles[made++ % 8]);
  if (first_made == nullptr) first_made = *out;
  return code;
}

// Not for the kit: what a crash in the midst of a command says of its plugin (tests/end_to_end/plugins_test.py).
int32_t create_crashing(const lf_host*, lf_str, lf_balancer*, lf_err*) {
  int* volatile nowhere = reinterpret_cast<int*>(uintptr_t{16});
  *nowhere = 1;
  return LF_OK;
}

int32_t create_with_options(const lf_host* host, lf_str options, lf_balancer* out, lf_err* err) {
  if (options.size > 0) return kTable.create(host, options, out, err);
  lf::sdk::set_error(err, LF_E_INVALID, "wrong_balancer: expected options, got none");
  return LF_E_INVALID;
}

const lf_balancer_api kWrongTable = [] {
  lf_balancer_api api = kTable;
  api.plan = wrong_plan;
  if (kWrong == "any_options") api.create = create_any;
  if (kWrong == "needs_options") api.create = create_with_options;
  if (kWrong == "by_instance") api.create = create_and_note;
  if (kWrong == "create_crash") api.create = create_crashing;
  if (kWrong == "no_destroy") api.destroy = nullptr;
  return api;
}();

const lf::sdk::Interface kWrongInterfaces[] = {{LF_BALANCER_INTERFACE, &kWrongTable}};
const lf_plugin kWrongPlugin = lf::sdk::make_plugin<kWrongInterfaces>(LF_KIND_BALANCER, "template_cpp", "1");

}  // namespace

extern "C" LF_EXPORT const lf_plugin* lf_plugin_entry(uint32_t, uint32_t) { return &kWrongPlugin; }
