// A model family for tests: what a sample is worth stands in its text, e.g. "rows=120 weight=40 images=2
// bad_when_decoded".
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <string>

#include "lf/plugin_api/model.h"

namespace lf {

// Two components: "vision", one atom per image, of 10 rows; "language", one atom per sample. A sample of more than
// max_rows can be cut to it unless it says "uncuttable". Words that make it fail: bad_features, bad_when_decoded
// (LF_E_DATA), broken_features, broken_collate (LF_E_BUG), wrong_rows. One that says a_row_each_epoch grows by one.
//
// collate gives "sample" (i64 [n]: ids in order) and "source_row" (i64 [rows]).
struct FakeModel {
  std::atomic<int64_t> live_tensors = 0, features_calls = 0, collate_calls = 0;
  std::function<void()> before_collate;  // on the loader's thread that collates

  static const lf_model_api& table();
  lf_model handle() { return reinterpret_cast<lf_model>(this); }
};

}  // namespace lf
