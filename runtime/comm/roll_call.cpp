#include "comm/roll_call.h"

#include <map>

#include <fmt/format.h>

namespace lf {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::milliseconds kLook{100};

}  // namespace

void StoredRoll::answer() noexcept {
  if (membership_->word_is_left(group_ + "/roll")) membership_->leave_word(answer_of(membership_->config().rank));
}

// A word that stands still may be of a rank that was stopped in the midst of its work.
std::string StoredRoll::long_work(const Pause& pause) {
  std::map<int, std::string> seen;
  for (int rank = 0; rank < membership_->config().size; ++rank)
    if (const std::string word = membership_->long_work_of(rank); !word.empty()) seen[rank] = word;
  const auto end = Clock::now() + kAnswers;
  while (!seen.empty() && Clock::now() < end && !pause(kLook))
    for (const auto& [rank, word] : seen)
      if (membership_->long_work_of(rank) != word) return fmt::format("rank {} is {}", rank, word);
  return "";
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
