// The instruction and the state as text. Pure. Source: openpi, models/tokenizer.py (PaligemmaTokenizer.tokenize) and
// lerobot 0.6.1, policies/pi05/processor_pi05.py.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "text/tokenizer.h"

namespace lf::robot {

// Which of 256 bins of [-1, 1] a number lies in: numpy.digitize(x, linspace(-1, 1, 257)[:-1]) - 1. Values beyond are
// not clipped to the range but to the outermost bins' numbers: -1 below, 255 above.
int64_t state_bin(float value);

// "Task: {task}, State: 12 200 ...;\nAction: ", or without a state "{task}\n". Of the task, white space around it goes
// (Python's), and underscores and line ends become blanks.
std::string prompt_text(std::string_view task, std::span<const float> normalized_state);
std::string prompt_text(std::string_view task);

// With the tokenizer's <bos> before it, where it has one. What the text spells of other special tokens stays text.
std::vector<text::TokenId> prompt_tokens(const text::Tokenizer& tokenizer, std::string_view text);

}  // namespace lf::robot
