#include "model/host_copies.h"

#include <algorithm>

#include "lf/plugin_sdk/tensor.hpp"

namespace lf {

HostCopies::HostCopies(const ParameterStore& store, const Device& device)
    : store_(store),
      device_(device),
      item_bytes_(sdk::item_bytes(store.dtype())),
      values_(static_cast<size_t>(store.trained_elements() * item_bytes_)),
      gradients_(static_cast<size_t>(store.trained_elements())) {
  int64_t frozen = 0;
  for (const ParameterSlot& slot : store.slots())
    if (!slot.trained) frozen = std::max(frozen, slot.offset + slot.elements);
  frozen_.resize(static_cast<size_t>(frozen * item_bytes_));
}

std::byte* HostCopies::value_at(const ParameterSlot& slot) {
  return (slot.trained ? values_ : frozen_).data() + slot.offset * item_bytes_;
}

lf_tensor HostCopies::value_view(size_t parameter) {
  lf_tensor view = store_.value_view(parameter);
  view.data = value_at(store_.slot(parameter));
  view.device_uid = 0;
  return view;
}

lf_tensor HostCopies::gradient_view(size_t parameter) {
  lf_tensor view = store_.gradient_view(parameter);
  if (!sdk::present(view)) return view;
  view.data = gradients_.data() + store_.slot(parameter).offset;
  view.device_uid = 0;
  return view;
}

void HostCopies::fetch_values() {
  device_.download_now(values_.data(), store_.device_values(), values_.size());
  if (frozen_are_there_) return;
  for (const ParameterSlot& slot : store_.slots())
    if (!slot.trained)
      device_.download_now(value_at(slot), static_cast<const std::byte*>(store_.value_view(slot.parameter).data),
                           static_cast<uint64_t>(slot.elements * item_bytes_));
  frozen_are_there_ = true;
}

void HostCopies::fetch_gradients() {
  device_.download_now(gradients_.data(), store_.device_gradients(), gradients_.size() * sizeof(float));
}

void HostCopies::send_gradients(size_t unit_index) const {
  const UnitRange& unit = store_.units()[unit_index];
  device_.upload_now(store_.device_gradients() + unit.begin * 4, gradients_.data() + unit.begin,
                     static_cast<uint64_t>(unit.end - unit.begin) * 4);
}

}  // namespace lf
