// lf_conformance_kit: the conformance kit as the SDK ships it, without lfrun.
#include <cstdio>
#include <cstring>
#include <exception>

#include "conformance/conformance.h"
#include "core/error.h"
#include "core/standard_descriptors.h"

namespace {

constexpr const char* kUsage =
    "usage: lf_conformance_kit [--case FOLDER] [--only TEXT] [--all] [--json] FILE.lfplugin.so...\n"
    "Tries what each plugin promises (lf/plugin_api), every case in a process of its own. Exit 1 where one fails.\n";

int run(int argc, char** argv) {
  lf::KitOptions options;
  bool all = false, json = false, passed = true, any = false;
  for (int i = 1; i < argc; ++i) {
    const auto is = [&](const char* word) { return std::strcmp(argv[i], word) == 0; };
    if (is("--case") && i + 1 < argc) {
      options.case_folder = argv[++i];
    } else if (is("--only") && i + 1 < argc) {
      options.only = argv[++i];
    } else if (is("--all")) {
      all = true;
    } else if (is("--json")) {
      json = true;
    } else if (argv[i][0] == '-') {
      std::fputs(kUsage, is("--help") ? stdout : stderr);
      return is("--help") ? 0 : static_cast<int>(lf::Exit::kUsage);
    } else {
      any = true;
      const lf::Candidate candidate = lf::judge_plugin(argv[i], {.torch_build = LF_CORE_TORCH_BUILD});
      const lf::KitReport report = lf::run_conformance(candidate, options);
      passed = passed && report.passed();
      std::fputs((json ? report_json(candidate, report) : report_text(candidate, report, all)).c_str(), stdout);
      std::fflush(stdout);
    }
  }
  if (!any) std::fputs(kUsage, stderr);
  return !any ? static_cast<int>(lf::Exit::kUsage) : passed ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  lf::fill_standard_descriptors();
  try {
    return run(argc, argv);
  } catch (const lf::Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return static_cast<int>(error.exit());
  } catch (const std::exception& error) {
    std::fprintf(stderr, "lf_conformance_kit: %s\n", error.what());
    return static_cast<int>(lf::Exit::kBug);
  }
}
