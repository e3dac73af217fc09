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

constexpr std::string_view kHelp = R"(
A model plugin against numbers of the reference implementation: outputs, losses, every gradient, five AdamW steps.

DIR holds config.json, model.safetensors and a folder for each case, all of which run unless CASE names some:
  CASE/inputs.safetensors       the family's fields of one batch
  CASE/expected.safetensors     loss, loss_count, outputs, grad.NAME, adamw.loss, adamw.grad_norm; what is not in it is
                                not compared; without the file what comes out is written and nothing is compared
  adapter/                      optional: a directory of adapters over the model, as peft saves it
  meta.json                     optional: settings of AdamW, parameters without a gradient (default: lr 1e-3, betas
                                0.9 and 0.95, decay 0.1 on everything, norm clipped at 1)
tools/reference_case.py records such a folder of what transformers opens. What came out goes to CASE/actual.safetensors.

  --dtype TYPE          what the model computes in; bf16 has wider tolerances and no trajectory
  --config FILE         another config.json of DIR
  --family ID           the model plugin; default: the one that takes the config
  --device ID           the device plugin; default: LF_DEVICE, else cpu
  --op-fallback WORD    what an operator does that the device lacks
  --out DIR             where actual.safetensors goes instead

Tolerances in fp32: outputs 2e-5, losses 1e-5, a gradient 1e-4 of its largest element, the trajectory 2e-4, relative.
Exit codes: 0 all hold; 1 some do not; 64 usage; 65 a file is damaged; 66 a file is missing; 78 no plugin takes it.
)";

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
  for (const std::string& argument : arguments)
    if (argument.empty())
      fail(Exit::kUsage, "lfrun parity: got an empty text; is a variable of the shell not set? {}", kUsage);
  try {
    options::variables_map values;
    options::store(options::command_line_parser(std::vector<std::string>(arguments.begin(), arguments.end()))
                       .options(known)
                       .positional(positional)
                       .run(),
                   values);
    if (values.count("help") != 0) {
      fmt::print("{}\n{}", kUsage, kHelp);
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
