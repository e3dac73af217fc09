// An InternVL model as a composition of components.
#pragma once

#include <string>
#include <vector>

#include "components/intern_vit.h"
#include "components/language_decoder.h"
#include "family/model.h"
#include "internvl/config.h"
#include "internvl/processor/loss_weighting.h"

namespace lf::internvl {

enum ComponentIndex : uint32_t { kVision = 0, kLanguage = 1 };

// [model.options] of the job.
struct Options {
  components::BalanceLoss router_aux_loss = components::BalanceLoss::kNone;
  LossWeighting loss_weighting = LossWeighting::kToken;
  int64_t min_tiles = 0, max_tiles = 0;  // 0: as the model's files say
  bool share_tiles = false;              // max_tiles is for all pictures of a sample together
};
// options_json: an object.
Options parse_options(const std::string& options_json, const InternVlConfig& config, family::Findings& findings);

struct InternVl {
  InternVlConfig config;
  components::InternVitConfig vision;
  components::LanguageDecoderConfig language;
  std::vector<family::EdgeSpec> edges;  // "visual"
};

InternVl compose(InternVlConfig config, const Options& options);

}  // namespace lf::internvl
