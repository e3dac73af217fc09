#include "train/first_loss.h"

#include <cmath>

#include <fmt/format.h>

namespace lf {
namespace {

constexpr double kShareOfGuessing = 0.9;  // weights just drawn begin within a few percent of ln V

}  // namespace

std::string doubt_of_loaded_weights(const Description& description, const StepSums& first, double weight) {
  int64_t vocabulary = 0;
  for (const Output& output : description.outputs)
    if (output.name == "logits") vocabulary = output.columns;
  if (vocabulary < 2 || weight <= 0) return {};
  double sum = first.loss_sum;
  for (size_t k = 0; k < description.aux_names.size(); ++k)
    if (description.aux_names[k] == "ce_loss") sum = first.aux[k];
  const double loss = sum / weight, guessing = std::log(static_cast<double>(vocabulary));
  if (!(loss > kShareOfGuessing * guessing)) return {};  // one that is not finite is the optimizer's to tell
  return fmt::format(
      "the first loss, {:.3f}, is that of a guess among the vocabulary's {} tokens (ln = {:.3f}), though weights were "
      "loaded: if the model was trained before, they are misread or not its own; compare it by lfrun parity",
      loss, vocabulary, guessing);
}

}  // namespace lf
