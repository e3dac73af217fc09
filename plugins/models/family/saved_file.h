// What is saved beside the weights of a trained model.
#pragma once

#include <string>

namespace lf::family {

struct SavedFile {
  std::string name;   // in the model's directory
  std::string bytes;  // all of it
};

}  // namespace lf::family
