// What a family saves beside the weights that were trained.
#pragma once

#include <vector>

#include "train/session.h"
#include "weights/export.h"

namespace lf {

// As the model's plugin says (lf.model_files/1); none where it does not. Main thread. Where the plugin cannot say,
// which must not cost the weights, a warning tells why and what is then missing or stale in the directory.
std::vector<ExtraFile> saved_files(const Session& session);

}  // namespace lf
