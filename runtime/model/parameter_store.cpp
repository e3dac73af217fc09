#include "model/parameter_store.h"

#include <fnmatch.h>

#include <algorithm>
#include <cstring>

#include "core/error.h"
#include "lf/plugin_sdk/tensor.hpp"
#include "weights/convert.h"

namespace lf {
namespace {

constexpr int64_t kAlignElements = 32;  // 64 bytes of bf16

int64_t aligned(int64_t elements) { return (elements + kAlignElements - 1) / kAlignElements * kAlignElements; }

bool matches(const std::string& pattern, const std::string& name) { return fnmatch(pattern.c_str(), name.c_str(), 0) == 0; }

}  // namespace

bool Freezing::all_frozen(uint32_t component) const {
  const std::vector<bool>& flags = frozen[component];
  return std::all_of(flags.begin(), flags.end(), [](bool f) { return f; });
}

Freezing freeze(const Description& description, const std::vector<std::string>& patterns) {
  Freezing freezing;
  for (const Component& component : description.components) {
    std::vector<bool>& flags = freezing.frozen.emplace_back(component.parameters.size(), false);
    for (size_t i = 0; i < flags.size(); ++i)
      flags[i] = (component.parameters[i].flags & (LF_PARAM_BUFFER | LF_PARAM_DEAD)) != 0;
  }
  for (const std::string& pattern : patterns) {
    bool any = false;
    for (size_t c = 0; c < description.components.size(); ++c) {
      const Component& component = description.components[c];
      const bool whole = matches(pattern, component.name);
      for (size_t i = 0; i < component.parameters.size(); ++i)
        if (whole || matches(pattern, component.parameters[i].info.name)) {
          freezing.frozen[c][i] = true;
          any = true;
        }
    }
    if (!any) {
      std::string components;
      for (const Component& component : description.components)
        components += fmt::format("{}{} ({}, ...)", components.empty() ? "" : ", ", component.name,
                                  component.parameters.empty() ? "no parameters" : component.parameters[0].info.name);
      fail(Exit::kConfig,
           "model.freeze: \"{}\" matches no parameter, so nothing would be frozen by it; it is a shell pattern over "
           "component and parameter names, such as those of: {}",
           pattern, components);
    }
  }
  // A tied parameter is frozen with the one that it is tied to.
  for (size_t c = 0; c < description.components.size(); ++c)
    for (size_t i = 0; i < description.components[c].parameters.size(); ++i) {
      const Parameter& parameter = description.components[c].parameters[i];
      if (parameter.tied())
        freezing.frozen[c][i] = freezing.frozen[parameter.tied_component][parameter.tied_param];
    }
  bool any_left = false;
  for (uint32_t c = 0; c < description.components.size(); ++c) any_left |= !freezing.all_frozen(c);
  if (!any_left) fail(Exit::kConfig, "model.freeze: everything is frozen, nothing is left to train; remove a pattern");
  return freezing;
}

ParameterStore::ParameterStore(const Description& description, const Freezing& freezing, const Device& device,
                               int32_t dtype)
    : dtype_(dtype), device_uid_(device.info().uid) {
  if (dtype != LF_DTYPE_F32 && dtype != LF_DTYPE_BF16) fail(Exit::kBug, "compute dtype {} is not offered", dtype);
  slot_of_.resize(description.components.size());
  for (uint32_t c = 0; c < description.components.size(); ++c) {
    const Component& component = description.components[c];
    first_unit_.push_back(units_.size());
    for (uint32_t u = 0; u < component.n_units; ++u) units_.push_back(UnitRange{c, u, 0, 0});
    slot_of_[c].resize(component.parameters.size());
    size_t i = 0;
    for (uint32_t u = 0; u < component.n_units; ++u) {
      UnitRange& range = units_[first_unit_[c] + u];
      range.begin = trained_elements_;
      for (; i < component.parameters.size() && component.parameters[i].unit == u; ++i) {
        const Parameter& parameter = component.parameters[i];
        if (parameter.tied()) {
          slot_of_[c][i] = slot_of_[parameter.tied_component][parameter.tied_param];
          continue;
        }
        const bool trained = !freezing.frozen[c][i];
        int64_t& end = trained ? trained_elements_ : frozen_elements_;
        slot_of_[c][i] = slots_.size();
        slots_.push_back(ParameterSlot{&parameter, c, static_cast<uint32_t>(i), trained, end, parameter.elements()});
        end = aligned(end + parameter.elements());
      }
      range.end = trained_elements_;
    }
  }
  const uint64_t item = static_cast<uint64_t>(sdk::item_bytes(dtype));
  master_ = Device::Memory(device, static_cast<uint64_t>(trained_elements_) * 4);
  gradients_ = Device::Memory(device, static_cast<uint64_t>(trained_elements_) * 4);
  if (dtype != LF_DTYPE_F32) compute_ = Device::Memory(device, static_cast<uint64_t>(trained_elements_) * item);
  frozen_ = Device::Memory(device, static_cast<uint64_t>(frozen_elements_) * item);
}

const ParameterSlot& ParameterStore::slot(uint32_t component, uint32_t index) const {
  return slots_[slot_of_[component][index]];
}

std::span<float> ParameterStore::master() const {
  return {reinterpret_cast<float*>(master_.data()), static_cast<size_t>(trained_elements_)};
}

std::span<float> ParameterStore::gradients() const {
  return {reinterpret_cast<float*>(gradients_.data()), static_cast<size_t>(trained_elements_)};
}

uint16_t* ParameterStore::compute_bf16() const { return reinterpret_cast<uint16_t*>(compute_.data()); }

lf_tensor ParameterStore::value_view(uint32_t component, uint32_t index) const {
  const ParameterSlot& slot = this->slot(component, index);
  std::byte* base = !slot.trained ? frozen_.data() : dtype_ == LF_DTYPE_F32 ? master_.data() : compute_.data();
  lf_tensor view = sdk::borrow(base + slot.offset * sdk::item_bytes(dtype_), dtype_, slot.parameter->info.shape);
  view.device_uid = device_uid_;
  return view;
}

lf_tensor ParameterStore::gradient_view(uint32_t component, uint32_t index) const {
  const ParameterSlot& slot = this->slot(component, index);
  if (!slot.trained) return sdk::with_header<lf_tensor>();
  lf_tensor view = sdk::borrow(gradients_.data() + slot.offset * 4, LF_DTYPE_F32, slot.parameter->info.shape);
  view.device_uid = device_uid_;
  return view;
}

void ParameterStore::refresh_compute() const {
  if (dtype_ == LF_DTYPE_F32) return;
  convert_f32_to_bf16(master().data(), compute_bf16(), static_cast<size_t>(trained_elements_));
}

uint64_t ParameterStore::bytes() const {
  return master_.bytes() + compute_.bytes() + gradients_.bytes() + frozen_.bytes();
}

std::vector<float> ParameterStore::values_f32(const ParameterSlot& slot) const {
  std::vector<float> values(static_cast<size_t>(slot.elements));
  if (slot.trained) {
    std::memcpy(values.data(), master().data() + slot.offset, values.size() * 4);
  } else if (dtype_ == LF_DTYPE_F32) {
    std::memcpy(values.data(), frozen_.data() + slot.offset * 4, values.size() * 4);
  } else {
    convert_bf16_to_f32(reinterpret_cast<const uint16_t*>(frozen_.data()) + slot.offset, values.data(), values.size());
  }
  return values;
}

void ParameterStore::set_values(const ParameterSlot& slot, std::span<const float> values) const {
  if (values.size() != static_cast<size_t>(slot.elements))
    fail(Exit::kBug, "{}: {} values for {} elements", slot.parameter->info.name, values.size(), slot.elements);
  if (slot.trained) {
    std::memcpy(master().data() + slot.offset, values.data(), values.size() * 4);
    if (dtype_ != LF_DTYPE_F32) convert_f32_to_bf16(values.data(), compute_bf16() + slot.offset, values.size());
  } else if (dtype_ == LF_DTYPE_F32) {
    std::memcpy(frozen_.data() + slot.offset * 4, values.data(), values.size() * 4);
  } else {
    convert_f32_to_bf16(values.data(), reinterpret_cast<uint16_t*>(frozen_.data()) + slot.offset, values.size());
  }
}

}  // namespace lf
