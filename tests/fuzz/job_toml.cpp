// A job file.
#include "config/config.h"
#include "core/error.h"
#include "fuzz/target.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const lf::fuzz::MemoryFile file(lf::fuzz::text_of(data, size));
  try {
    const lf::ResolvedJob job = lf::resolve_job({.file = file.path(), .working_directory = "/"});
    const std::string printed = lf::print_config(job);
    const lf::fuzz::MemoryFile again(printed);
    if (lf::option_json(lf::resolve_job({.file = again.path(), .working_directory = "/"}).config, "data") !=
        lf::option_json(job.config, "data"))
      __builtin_trap();
  } catch (const lf::Error& error) {
    if (std::string_view(error.what()).empty()) __builtin_trap();
  }
  return 0;
}
