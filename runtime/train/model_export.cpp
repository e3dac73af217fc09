#include "train/model_export.h"

#include <filesystem>
#include <string>
#include <vector>

#include "core/log.h"
#include "train/saved_files.h"
#include "weights/opening.h"

namespace lf {

void export_models(const TrainedRun& run) {
  const ParameterStore& store = *run.state.store;
  const auto take_average = [&] { copy_average(run.state); };
  const std::vector<ExtraFile> extra = saved_files(run.session);
  const auto write = [&](const std::filesystem::path& model) {
    run.source.export_model(store, run.config.checkpoint.export_dtype, run.session.model_config,
                            tokenizer_folder(run.config), extra, model);
  };
  const bool instead = run.state.average != nullptr && run.config.ema.export_as == "instead";
  if (instead) take_average();
  if (!run.session.model->description().adapters.empty()) {
    run.source.export_adapters(store, run.config, run.session.model_config, extra, run.directory.path() / "adapter");
    log::info("adapters, for peft: {}", (run.directory.path() / "adapter").string());
  }
  if (!run.config.checkpoint.export_model) return;
  write(run.directory.model());
  log::info("model directory{}: {}", instead ? ", of the moving average" : "", run.directory.model().string());
  if (instead && std::filesystem::remove_all(run.directory.averaged_model()) > 0)
    log::warning("removed {}: ema.export = \"instead\" writes none, and this one was of an export before",
                 run.directory.averaged_model().string());
  if (run.state.average != nullptr && !instead) {
    take_average();
    write(run.directory.averaged_model());
    log::info("of the moving average: {}", run.directory.averaged_model().string());
  }
  if (const std::string command = opening_command(run.session.model_config, run.directory.model()); !command.empty())
    log::info("open it with: {}", command);
}

}  // namespace lf
