#pragma once

#include <c10/core/StorageImpl.h>

namespace lf::kunlun {

// Grows (or shrinks) device storage and keeps what it holds.
void resize_storage(c10::StorageImpl& storage, size_t bytes);

}  // namespace lf::kunlun
