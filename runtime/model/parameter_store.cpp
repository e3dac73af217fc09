#include "model/parameter_store.h"

#include <algorithm>
#include <cstring>

#include "core/problems.h"
#include "lf/plugin_sdk/tensor.hpp"
#include "model/selection.h"
#include "weights/convert.h"

namespace lf {
namespace {

constexpr int64_t kAlignElements = 32;  // 64 bytes of bf16

int64_t aligned(int64_t elements) { return (elements + kAlignElements - 1) / kAlignElements * kAlignElements; }

}  // namespace

bool Freezing::all_frozen(const Component& component) const {
  const auto first = frozen.begin() + static_cast<std::ptrdiff_t>(component.first_parameter);
  return component.adapters.empty() &&
         std::all_of(first, first + static_cast<std::ptrdiff_t>(component.n_parameters), [](bool f) { return f; });
}

Freezing freeze(const Description& description, const std::vector<std::string>& patterns,
                const std::vector<std::string>& also_train) {
  Freezing freezing;
  Problems problems;
  const bool adapted = !description.adapters.empty();
  for (const ParameterInfo& parameter : description.parameters)
    freezing.frozen.push_back((parameter.flags & (LF_PARAM_BUFFER | LF_PARAM_DEAD)) != 0 ||
                              (adapted && (parameter.flags & kParameterAdapter) == 0));
  for (const std::string& pattern : also_train) {
    const std::vector<size_t> found = selected_parameters(description, pattern);
    if (found.empty())
      problems.add(Exit::kConfig,
                   fmt::format("lora.also_train: \"{}\" matches no parameter; it is a shell pattern over the names of "
                               "components and parameters; near it are {}",
                               pattern, near_own_names(description, pattern)));
    for (const size_t p : found) {
      const ParameterInfo& parameter = description.parameters[p];
      for (const Adapter& adapter : description.adapters)
        if (adapter.parameter == p)
          fail(Exit::kConfig,
               "lora.also_train: \"{}\" matches {}, which has an adapter: its weight stays as it is; narrow this "
               "pattern "
               "or the targets",
               pattern, parameter.name);
      if ((parameter.flags & (LF_PARAM_BUFFER | LF_PARAM_DEAD)) == 0) freezing.frozen[p] = false;
    }
  }
  for (const std::string& pattern : patterns) {
    const std::vector<size_t> found = selected_parameters(description, pattern);
    for (const size_t p : found) freezing.frozen[p] = true;
    if (found.empty()) {
      problems.add(Exit::kConfig,
                   fmt::format("model.freeze: \"{}\" matches no parameter, so it would freeze nothing; it "
                               "is a shell pattern over the names of components and parameters; near "
                               "it are {}",
                               pattern, near_own_names(description, pattern)));
    }
  }
  const auto refuse_names_of_others = [&](const char* option, const std::vector<std::string>& named, bool frozen) {
    for (const std::string& pattern : named)
      for (const size_t p : selected_parameters(description, pattern))
        if (const int64_t to = description.parameters[p].tied_to;
            to >= 0 && freezing.frozen[static_cast<size_t>(to)] != frozen)
          problems.add(Exit::kConfig,
                       fmt::format("{}: \"{}\" matches {}, which is tied to {} and has no values of its own; name that "
                                   "too, or narrow the pattern",
                                   option, pattern, description.parameters[p].name,
                                   description.parameters[static_cast<size_t>(to)].name));
  };
  refuse_names_of_others("lora.also_train", also_train, false);
  refuse_names_of_others("model.freeze", patterns, true);
  problems.refuse_if_any();
  // A tied parameter is frozen with the one that it is tied to.
  for (size_t p = 0; p < description.parameters.size(); ++p)
    if (const int64_t to = description.parameters[p].tied_to; to >= 0) freezing.frozen[p] = freezing.frozen[to];
  if (std::all_of(freezing.frozen.begin(), freezing.frozen.end(), [](bool f) { return f; }))
    fail(Exit::kConfig, "model.freeze: everything is frozen, nothing is left to train; remove a pattern");
  return freezing;
}

ParameterStore::ParameterStore(const Description& description, const Freezing& freezing, const Device& device,
                               int32_t dtype, StatePlaces places)
    : description_(description), device_(device), dtype_(dtype), places_(places) {
  if (dtype != LF_DTYPE_F32 && dtype != LF_DTYPE_BF16) fail(Exit::kBug, "compute dtype {} is not offered", dtype);
  slot_of_.resize(description.parameters.size());
  for (uint32_t c = 0; c < description.components.size(); ++c) {
    const Component& component = description.components[c];
    first_unit_.push_back(units_.size());
    size_t p = component.first_parameter;
    const size_t end_of_component = p + component.n_parameters;
    auto adapter = component.adapters.begin();
    for (uint32_t unit = 0; unit < component.n_units; ++unit) {
      const int64_t begin = trained_elements_;
      const auto place = [&](size_t index) {
        const ParameterInfo& parameter = description.parameters[index];
        if (parameter.tied_to >= 0) {
          slot_of_[index] = slot_of_[static_cast<size_t>(parameter.tied_to)];
          return;
        }
        const bool is_trained = !freezing.frozen[index];
        int64_t& end = is_trained ? trained_elements_ : frozen_elements_;
        slot_of_[index] = slots_.size();
        slots_.push_back(ParameterSlot{index, units_.size(), is_trained, end, element_count(parameter)});
        end = aligned(end + slots_.back().elements);
      };
      for (; p < end_of_component && description.parameter_unit[p] == unit; ++p) place(p);
      for (; adapter != component.adapters.end() && description.parameter_unit[*adapter] == unit; ++adapter)
        place(*adapter);
      units_.push_back(UnitRange{c, unit, begin, trained_elements_});
    }
  }
  const auto item = static_cast<uint64_t>(sdk::item_bytes(dtype));
  const auto trained = static_cast<uint64_t>(trained_elements_);
  const int32_t kind = device.is_host() ? LF_MEMORY_MAIN : LF_MEMORY_PINNED_HOST;
  if (device.is_host()) places_ = {};
  if (!places_.on_device) {
    master_ = Device::Memory(device, trained * 4, kind);
    if (dtype != LF_DTYPE_F32) compute_ = Device::Memory(device, trained * item, kind);
  } else if (dtype != LF_DTYPE_F32) {
    device_master_ = Device::Memory(device, trained * 4);
  }
  if (!places_.on_device || places_.host_gradients) gradients_ = Device::Memory(device, trained * 4, kind);
  frozen_ = Device::Memory(device, static_cast<uint64_t>(frozen_elements_) * item);
  if (device.is_host()) return;
  device_values_ = Device::Memory(device, trained * item);
  device_gradients_ = Device::Memory(device, trained * 4);
}

std::span<float> ParameterStore::master() const {
  return {reinterpret_cast<float*>(master_.data()), master_.bytes() / 4};
}

std::span<float> ParameterStore::gradients() const {
  return {reinterpret_cast<float*>(gradients_.data()), gradients_.bytes() / 4};
}

std::byte* ParameterStore::device_master() const {
  if (!places_.on_device) return nullptr;
  return dtype_ == LF_DTYPE_F32 ? device_values_.data() : device_master_.data();
}

uint16_t* ParameterStore::compute_bf16() const { return reinterpret_cast<uint16_t*>(compute_.data()); }

lf_tensor ParameterStore::value_view(size_t parameter) const {
  const ParameterSlot& slot = this->slot(parameter);
  std::byte* base = !slot.trained ? frozen_.data() : device_.is_host() ? compute_values() : device_values_.data();
  lf_tensor view =
      sdk::borrow(base + slot.offset * sdk::item_bytes(dtype_), dtype_, description_.parameters[slot.parameter].shape);
  view.device_uid = device_.info().uid;
  return view;
}

lf_tensor ParameterStore::gradient_view(size_t parameter) const {
  const ParameterSlot& slot = this->slot(parameter);
  if (!slot.trained) return sdk::with_header<lf_tensor>();
  std::byte* base = device_.is_host() ? gradients_.data() : device_gradients_.data();
  lf_tensor view = sdk::borrow(base + slot.offset * 4, LF_DTYPE_F32, description_.parameters[slot.parameter].shape);
  view.device_uid = device_.info().uid;
  return view;
}

void ParameterStore::zero_gradients() const {
  gradients_.zero();
  if (device_gradients_.bytes() > 0) device_gradients_.zero();
}

void ParameterStore::publish() const {
  if (device_values_.bytes() > 0 && !places_.on_device)
    device_.upload(device_values_.data(), compute_values(), device_values_.bytes(), nullptr);
}

void ParameterStore::refresh_compute() const {
  if (places_.on_device) return;  // written with master
  if (dtype_ != LF_DTYPE_F32) convert(DType::kF32, master().data(), DType::kBf16, compute_bf16(), trained_elements_);
  publish();
}

void ParameterStore::fetch_gradients() const {
  if (device_gradients_.bytes() == 0) return;
  if (gradients_.bytes() == 0) fail(Exit::kBug, "the store has no gradients in the host's memory to fetch them into");
  device_.download(gradients_.data(), device_gradients_.data(), device_gradients_.bytes(), nullptr);
  device_.synchronize();
}

uint64_t ParameterStore::bytes() const {
  return master_.bytes() + compute_.bytes() + gradients_.bytes() + frozen_.bytes() + device_values_.bytes() +
         device_gradients_.bytes() + device_master_.bytes();
}

FloatRange ParameterStore::master_range(const ParameterSlot& slot) const {
  if (!places_.on_device) return host_range(master().data() + slot.offset, slot.elements);
  FloatRange range;
  range.elements = slot.elements;
  range.read = [this, slot](int64_t first, std::span<float> out) {
    device_.download_now(out.data(), device_master() + (slot.offset + first) * 4, out.size_bytes());
  };
  range.write = [this, slot](int64_t first, std::span<const float> in) { write_on_device(slot.offset + first, in); };
  return range;
}

void ParameterStore::write_on_device(int64_t at, std::span<const float> values) const {
  device_.upload_now(device_master() + at * 4, values.data(), values.size_bytes());
  if (dtype_ == LF_DTYPE_F32) return;
  std::vector<std::byte> rounded(values.size() * 2);
  convert(DType::kF32, values.data(), DType::kBf16, rounded.data(), static_cast<int64_t>(values.size()));
  device_.upload_now(device_values_.data() + at * 2, rounded.data(), rounded.size());
}

std::vector<float> ParameterStore::values_f32(const ParameterSlot& slot) const {
  std::vector<float> values(static_cast<size_t>(slot.elements));
  if (slot.trained) {
    master_range(slot).read(0, values);
    return values;
  }
  const auto bytes = static_cast<uint64_t>(slot.elements * sdk::item_bytes(dtype_));
  const std::byte* stored = frozen_.data() + slot.offset * sdk::item_bytes(dtype_);
  std::vector<std::byte> brought;
  if (!device_.is_host()) {
    brought.resize(bytes);
    device_.download_now(brought.data(), stored, bytes);
    stored = brought.data();
  }
  if (dtype_ == LF_DTYPE_F32)
    std::memcpy(values.data(), stored, bytes);
  else
    convert(DType::kBf16, stored, DType::kF32, values.data(), slot.elements);
  return values;
}

void ParameterStore::set_values(const ParameterSlot& slot, std::span<const float> values) const {
  if (values.size() != static_cast<size_t>(slot.elements))
    fail(Exit::kBug, "{}: {} values for {} elements", description_.parameters[slot.parameter].name, values.size(),
         slot.elements);
  if (slot.trained && places_.on_device) return write_on_device(slot.offset, values);
  if (slot.trained) {
    std::memcpy(master().data() + slot.offset, values.data(), values.size() * 4);
    if (dtype_ != LF_DTYPE_F32)
      convert(DType::kF32, values.data(), DType::kBf16, compute_bf16() + slot.offset, slot.elements);
    return;
  }
  const auto bytes = static_cast<uint64_t>(slot.elements * sdk::item_bytes(dtype_));
  std::byte* stored = frozen_.data() + slot.offset * sdk::item_bytes(dtype_);
  std::vector<std::byte> to_send(device_.is_host() ? 0 : bytes);
  std::byte* to = device_.is_host() ? stored : to_send.data();
  if (dtype_ == LF_DTYPE_F32)
    std::memcpy(to, values.data(), bytes);
  else
    convert(DType::kF32, values.data(), DType::kBf16, to, slot.elements);
  if (device_.is_host()) return;
  device_.upload_now(stored, to, bytes);
}

}  // namespace lf
