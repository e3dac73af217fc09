// What samples cost, as `lfrun balance` is told it: --cost and --model.
#pragma once

#include <filesystem>
#include <string>

#include "balance/workload.h"

namespace lf {

// "8B", or "A,B,C": A * L^2 + B * L + C seconds for a sample of L tokens. Throws kUsage naming --cost.
WorkCost cost_of_option(const std::string& text);

// Of a Hugging Face config.json, or of the folder that has it. Throws lf::Error naming --model and the file.
WorkCost cost_of_model(std::filesystem::path path);

// Whether the user gave seconds ("A,B,C") instead of operations.
inline bool is_in_seconds(const WorkCost& cost) { return cost.quadratic + cost.linear > 0; }

}  // namespace lf
