// Which linear maps of a model get adapters: what [lora] asks for, against what the model has.
#pragma once

#include <string>
#include <vector>

#include "config/job.h"
#include "model/description.h"

namespace lf {

// The name of a module: a tensor's without ".weight".
std::string module_name(const std::string& tensor);
// What the class that opens the files calls the tensor of a part.
const std::string& class_tensor(const ParameterPart& part);
// And what it calls a parameter that is no file's own: joined of several, or tied to another.
const std::string& class_parameter(const ParameterInfo& parameter);

// A target selects by shell patterns over the names of components, of parameters and of the file tensors that they
// join, as files or the class have them, with or without ".weight". Parts of fused parameters have an adapter each,
// stacks of experts one. Tables, heads and experts are selected by their own names alone, not by their component's, and
// experts by patterns with "experts" in them; parameters that are tied share one adapter, whichever is named. Throws
// kConfig, naming the option, the pattern and near names, where one selects no linear map or a map is selected by two
// groups. In the order of the parameters.
std::vector<AdapterRequest> adapter_requests(const Description& description, const LoraSection& lora);

// Adds the adapters' parameters: A uniform in +-1/sqrt(in), B zero (as peft begins; A of a table normal), named after
// the map's tensor ("model.layers.0.self_attn.q_proj.lora_A.weight"); their one part is named as peft saves it
// ("base_model.model." and the class's name; of a table, lora_embedding_A is B turned over, and lora_embedding_B is A).
// What is tied to an adapted parameter gets an adapter whose parameters are tied to that one's.
void add_adapters(Description& description, const std::vector<AdapterRequest>& requests);

// What the plugin is to be told of `requests`, those of tied parameters among them.
std::vector<AdapterRequest> with_tied(const Description& description, const std::vector<AdapterRequest>& requests);

}  // namespace lf
