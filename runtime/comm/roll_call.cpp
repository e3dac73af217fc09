#include "comm/roll_call.h"

namespace lf {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::milliseconds kLook{100};

}  // namespace

void StoredRoll::answer() noexcept {
  if (membership_->word_is_left(group_ + "/roll")) membership_->leave_word(answer_of(membership_->config().rank));
}

std::vector<int> StoredRoll::silent_ranks(const Pause& pause) {
  membership_->leave_word(answer_of(membership_->config().rank));
  membership_->leave_word(group_ + "/roll");
  std::vector<int> silent;
  const auto end = Clock::now() + kAnswers;
  do {
    silent.clear();
    for (int rank = 0; rank < membership_->config().size; ++rank)
      if (!membership_->word_is_left(answer_of(rank))) silent.push_back(rank);
  } while (!silent.empty() && Clock::now() < end && !pause(kLook));
  return silent;
}

}  // namespace lf
