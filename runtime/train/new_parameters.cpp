#include "train/new_parameters.h"

#include <algorithm>

#include <fmt/ranges.h>

#include "core/amount.h"
#include "core/error.h"
#include "model/patterns.h"
#include "model/selection.h"
#include "weights/names.h"

namespace lf {
namespace {

constexpr size_t kMostLines = 8;

std::vector<size_t> named_by(const Description& description, const std::string& pattern) {
  std::vector<size_t> found = selected_parameters(description, pattern);
  for (const Component& component : description.components)
    for (size_t p = component.first_parameter; p < component.first_parameter + component.n_parameters; ++p) {
      const std::vector<ParameterPart>& parts = description.parameters[p].parts;
      if (std::all_of(parts.begin(), parts.end(),
                      [&](const ParameterPart& part) { return matches(pattern, part.name); }))
        found.push_back(p);
    }
  return found;
}

}  // namespace

std::vector<bool> named_new(const Description& description, const ModelSection& model) {
  std::vector<bool> named(description.own_parameters().size());
  for (const std::string& pattern : model.new_parameters) {
    const std::vector<size_t> found = named_by(description, pattern);
    if (found.empty())
      fail(Exit::kConfig,
           "model.new_parameters: \"{}\" matches no parameter, so nothing would begin anew; it is a shell pattern over "
           "the names of components, parameters and their tensors; near it are {}",
           pattern, near_own_names(description, pattern));
    for (const size_t p : found) named[p] = true;
  }
  return named;
}

void require_new(const Description& description, const ModelSection& model, const LoadPlan& plan) {
  for (const std::string& pattern : model.new_parameters) {
    const std::vector<size_t> found = named_by(description, pattern);
    if (std::none_of(found.begin(), found.end(), [&](size_t p) { return plan.is_absent(p); }))
      fail(Exit::kConfig,
           "model.new_parameters: \"{}\": expected parameters that {} lacks, but it holds all that this matches, such "
           "as "
           "{}; values that are there are always read: remove the pattern",
           pattern, plan.directory().path().string(), description.parameters[found.front()].name);
  }
}

std::string new_parameters_text(const LoadPlan& plan, uint64_t seed) {
  std::vector<std::string> names;
  int64_t elements = 0;
  for (size_t p = 0; p < plan.table().size(); ++p) {
    if (!plan.is_absent(p) || plan.table()[p].tied_to >= 0) continue;
    names.push_back(plan.table()[p].name);
    elements += element_count(plan.table()[p]);
  }
  if (names.empty()) return {};
  std::vector<std::string> lines = summarize_names(names);
  const bool more = lines.size() > kMostLines;
  if (more) lines.resize(kMostLines);
  return fmt::format("{} of {} elements that {} does not hold, initialised by seed {}: {}{}",
                     counted(names.size(), "parameter"), count_text(elements), plan.directory().path().string(), seed,
                     fmt::join(lines, ", "), more ? ", ..." : "");
}

}  // namespace lf
