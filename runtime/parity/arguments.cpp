#include "parity/arguments.h"

#include <string_view>

#include <boost/program_options.hpp>

#include "core/error.h"

namespace lf {
namespace {

namespace options = boost::program_options;

constexpr std::string_view kUsage =
    "usage: lfrun parity DIR [CASE...] [--dtype fp32|bf16] [--config FILE] [--family ID] [--device ID] "
    "[--op-fallback error|warn] [--out DIR]";

}  // namespace

std::optional<ParityArguments> read_parity_arguments(std::span<const std::string> arguments) {
  ParityArguments settings;
  options::options_description known("lfrun parity DIR");
  known.add_options()("help", "")("dir", options::value(&settings.directory))("case", options::value(&settings.cases))(
      "dtype", options::value(&settings.dtype))("config", options::value(&settings.config))(
      "family", options::value(&settings.family))("device", options::value(&settings.device))(
      "op-fallback", options::value(&settings.op_fallback))("out", options::value(&settings.out));
  options::positional_options_description positional;
  positional.add("dir", 1).add("case", -1);
  try {
    options::variables_map values;
    options::store(options::command_line_parser(std::vector<std::string>(arguments.begin(), arguments.end()))
                       .options(known)
                       .positional(positional)
                       .run(),
                   values);
    if (values.count("help") != 0) {
      fmt::print("{}\n", kUsage);
      return std::nullopt;
    }
    if (values.count("dir") == 0) throw options::error("expected the folder of the cases, DIR");
    options::notify(values);
  } catch (const options::error& error) {
    fail(Exit::kUsage, "lfrun parity: {}; {}", error.what(), kUsage);
  }
  if (settings.dtype != "fp32" && settings.dtype != "bf16")
    fail(Exit::kUsage, "lfrun parity: --dtype is fp32 or bf16, got {}", settings.dtype);
  if (settings.op_fallback != "error" && settings.op_fallback != "warn")
    fail(Exit::kUsage, "lfrun parity: --op-fallback is error or warn, got {}", settings.op_fallback);
  return settings;
}

}  // namespace lf
