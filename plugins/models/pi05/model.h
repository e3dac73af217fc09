// PI0.5 as a family: configuration, samples and blocks together.
#pragma once

#include <memory>

#include <nlohmann/json_fwd.hpp>

#include "family/model.h"

namespace lf::pi05 {

// As family::CreateModel.
std::unique_ptr<family::Model> create(const lf_host* host, const nlohmann::json& request);

}  // namespace lf::pi05
