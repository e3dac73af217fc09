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

// A target selects by shell patterns over the names of components, of parameters and of the file tensors that they
// join, as files or the class have them, with or without ".weight". Parts of fused parameters have an adapter each.
// Throws kConfig, naming the option, the pattern and near names, where one selects no linear map or a map is selected
// by two groups. In the order of the parameters.
std::vector<AdapterRequest> adapter_requests(const Description& description, const LoraSection& lora);

// Adds the adapters' parameters: A uniform in +-1/sqrt(in), B zero (as peft begins), named after the map's tensor
// ("model.layers.0.self_attn.q_proj.lora_A.weight"); their one part is named as peft saves it
// ("base_model.model." and the class's name).
void add_adapters(Description& description, const std::vector<AdapterRequest>& requests);

}  // namespace lf
