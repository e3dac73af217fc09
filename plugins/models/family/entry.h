// The ABI's table for a model family written against model.h. A plugin's only file that sees the border is then
//
//   LF_PLUGIN_MANIFEST(R"({...})");
//   const lf_model_api kTable = lf::family::model_table<&create>();
//   const lf::sdk::Interface kInterfaces[] = {{LF_MODEL_INTERFACE, &kTable}};
//   const lf_plugin kPlugin = lf::sdk::make_plugin<kInterfaces>(LF_KIND_MODEL, "id", "0.1.0");
//   extern "C" const lf_plugin* lf_plugin_entry(uint32_t, uint32_t) { return &kPlugin; }
#pragma once

#include <memory>

#include <nlohmann/json_fwd.hpp>

#include "family/model.h"
#include "lf/plugin_api/model_files.h"
#include "lf/plugin_sdk/guard.hpp"

namespace lf::family {

// request: as lf_model_api.create gets it. Throws sdk::Failure. `host` outlives the model.
using CreateModel = std::unique_ptr<Model> (*)(const lf_host* host, const nlohmann::json& request);

// Everything but create.
lf_model_api common_table() noexcept;
int32_t create_model(CreateModel create, const lf_host* host, lf_str request, lf_model* out, lf_err* err) noexcept;

// Of families whose Model has saved_files.
lf_model_files_api model_files_table() noexcept;

template <CreateModel kCreate>
lf_model_api model_table() noexcept {
  lf_model_api table = common_table();
  table.create = [](const lf_host* host, lf_str request, lf_model* out, lf_err* err) -> int32_t {
    return create_model(kCreate, host, request, out, err);
  };
  return table;
}

}  // namespace lf::family
