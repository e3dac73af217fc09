// lf_plugin_costs FOLDER REPEATS: one line of JSON. FOLDER holds the plugins to read, cpu.lfplugin.so among them.
//
// Calls are timed in CPU time of this thread, since other work on the machine must not count, and each figure is the
// median of REPEATS rounds, which alternate between what is compared.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <functional>
#include <vector>

#include "core/error.h"
#include "lf/plugin_api/device.h"
#include "lf/plugin_sdk/guard.hpp"
#include "not_inlined.h"
#include "plugins/plugins.h"
#include "plugins/sha256.h"

namespace {

double cpu_seconds() {
  timespec now{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

double median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + static_cast<long>(values.size() / 2), values.end());
  return values[values.size() / 2];
}

constexpr int kCalls = 2'000'000;

double nanoseconds(const std::function<void()>& rounds) {
  const double begin = cpu_seconds();
  rounds();
  return 1e9 * (cpu_seconds() - begin) / kCalls;
}

int run(const char* folder, int repeats) {
  lf::PluginSet plugins({folder}, {}, /*probing=*/false);
  const auto* api = plugins.load(lf::PluginKind::kDevice, "cpu").interface<lf_device_api>(LF_DEVICE_INTERFACE);
  lf_err err = lf::sdk::make_err();
  lf_device device = nullptr;
  lf_event event = nullptr;
  lf::sdk::check(api->open(0, &device, &err), err);
  lf::sdk::check(api->event_new(device, 0, &event, &err), err);
  int32_t done = 0, wrong = 0;

  std::vector<double> plain, table, whole, refused, listing;
  for (int round = 0; round < repeats; ++round) {
    plain.push_back(nanoseconds([&] {
      for (int i = 0; i < kCalls; ++i) wrong |= lf_not_inlined(event, &done, &err);
    }));
    table.push_back(nanoseconds([&] {  // null check, guard and try block of the plugin are in it
      for (int i = 0; i < kCalls; ++i) wrong |= api->event_query(event, &done, &err);
    }));
    whole.push_back(nanoseconds([&] {  // as the runtime calls: is it there, a fresh lf_err, throw on failure
      for (int i = 0; i < kCalls; ++i) {
        lf_err fresh = lf::sdk::make_err();
        if (LF_HAS(api, event_query)) lf::sdk::check(api->event_query(event, &done, &fresh), fresh);
      }
    }));
    const double begin = cpu_seconds();
    constexpr int kRefusals = 20'000;  // an exception inside, a code and a text outside
    for (int i = 0; i < kRefusals; ++i) wrong |= api->event_query(nullptr, &done, &err) == LF_OK;
    refused.push_back(1e9 * (cpu_seconds() - begin) / kRefusals);
    const double before = cpu_seconds();
    constexpr int kListings = 20;
    size_t found = 0;
    for (int i = 0; i < kListings; ++i) found = lf::list_plugins({folder}, {}).size();
    listing.push_back(1e3 * (cpu_seconds() - before) / kListings);
    wrong |= found == 0;
  }
  std::printf(
      "{\"direct_ns\": %.2f, \"table_ns\": %.2f, \"call_ns\": %.2f, \"refusal_ns\": %.0f, \"list_ms\": %.3f, "
      "\"plugins\": %zu}\n",
      median(plain), median(table), median(whole), median(refused), median(listing), plugins.candidates().size());
  return wrong;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) return static_cast<int>(lf::Exit::kUsage);
  try {
    return run(argv[1], std::atoi(argv[2]));
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
