// A Qwen-VL model as a composition of components.
#pragma once

#include <string>
#include <vector>

#include "components/language_decoder.h"
#include "components/vision_tower.h"
#include "family/model.h"
#include "qwen_vl/config.h"

namespace lf::qwen_vl {

enum ComponentIndex : uint32_t { kVision = 0, kLanguage = 1 };

// [model.options] of the job.
struct Options {
  components::BalanceLoss router_aux_loss = components::BalanceLoss::kNone;
};
// options_json: an object.
Options parse_options(const std::string& options_json, const QwenVlConfig& config, family::Findings& findings);

struct QwenVl {
  QwenVlConfig config;
  components::VisionTowerConfig vision;
  components::LanguageDecoderConfig language;
  std::vector<family::EdgeSpec> edges;  // "visual", then "deepstack.k"
};

QwenVl compose(QwenVlConfig config, const Options& options);
// The tower and its edges alone; `language` is left as it is made.
QwenVl compose_tower(QwenVlConfig config);

}  // namespace lf::qwen_vl
