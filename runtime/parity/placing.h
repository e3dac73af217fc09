// Outputs of a packed micro-batch, back where the case's inputs have them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "load/load.h"
#include "parity/numbers.h"

namespace lf {

// A column of i64; empty where there is none.
std::vector<int64_t> integers(const MicroBatch& batch, const std::string& name);

// Outputs back in the shape of the case's inputs: value by value where collate says where each belongs, else row by
// row where it says that, else as they are.
Array place_back(Array made, const MicroBatch& batch, const std::string& name, const std::vector<int64_t>& shape);

}  // namespace lf
