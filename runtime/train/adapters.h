// The adapters of a job: asked for by patterns, or by a directory that they start from; and what becomes of them.
#pragma once

#include <vector>

#include "config/job.h"
#include "model/adapters.h"
#include "model/parameter_store.h"
#include "weights/adapter_directory.h"

namespace lf {

// What [lora] gives this model; empty where it asks for none. Throws kConfig, and what AdapterDirectory::open throws.
std::vector<AdapterRequest> requested_adapters(const JobConfig& config, const Description& description);

// Adds scale · B A of every adapter of a parameter (of a stack, of every expert) to its values, f32 [its shape]. Not
// for the training thread: it uses LibTorch's threads.
void merge_adapters(const ParameterStore& store, size_t parameter, std::vector<float>& values);

// Adapters and what is trained beside them, as a directory for peft and, where config.json is of diffusers, for its
// pipelines.
AdapterExport adapter_export(const ParameterStore& store, const JobConfig& config, const std::string& model_config);

// Values of A or B of an adapter, which the directory must hold, into `values`, f32 [its shape].
void take_adapter(const AdapterDirectory& directory, const ParameterInfo& parameter, std::vector<float>& values);

// Throws kBadData where the directory holds other values for a head than for the table whose adapter it shares.
void require_shared(const AdapterDirectory& directory, const Description& description);

// Values of a parameter that the directory holds whole (modules_to_save), into `values`, f32 [its shape]; false where
// it holds none of it.
bool take_whole(const AdapterDirectory& directory, const ParameterInfo& parameter, std::vector<float>& values);

}  // namespace lf
