#include "text/pre_tokenizer.h"

#include <algorithm>

namespace lf::text {
namespace {

struct Piece {
  size_t begin, end;
  bool matched;
};

// Pieces after `cut` was applied to the alternating matched and unmatched ones. Same results as the `tokenizers`
// library.
std::vector<Piece> regroup(const std::vector<Piece>& pieces, Cut cut) {
  std::vector<Piece> out;
  switch (cut) {
    case Cut::kIsolated:
      return pieces;
    case Cut::kRemoved:
      std::copy_if(pieces.begin(), pieces.end(), std::back_inserter(out), [](const Piece& p) { return !p.matched; });
      return out;
    case Cut::kContiguous:
      for (const Piece& piece : pieces) {
        if (!out.empty() && out.back().matched == piece.matched) {
          out.back().end = piece.end;
        } else {
          out.push_back(piece);
        }
      }
      return out;
    case Cut::kWithPrevious: {
      bool after_match = false;
      for (const Piece& piece : pieces) {
        if (piece.matched && !after_match && !out.empty()) {
          out.back().end = piece.end;
        } else {
          out.push_back(piece);
        }
        after_match = piece.matched;
      }
      return out;
    }
    case Cut::kWithNext: {
      bool before_match = false;
      for (auto piece = pieces.rbegin(); piece != pieces.rend(); ++piece) {
        if (piece->matched && !before_match && !out.empty()) {
          out.back().begin = piece->begin;
        } else {
          out.push_back(*piece);
        }
        before_match = piece->matched;
      }
      std::reverse(out.begin(), out.end());
      return out;
    }
  }
  return out;
}

}  // namespace

void PreTokenizer::add_split(Pattern pattern, Cut cut, bool invert) {
  Stage stage;
  stage.pattern.push_back(std::move(pattern));
  stage.cut = cut;
  stage.invert = invert;
  stages_.push_back(std::move(stage));
}

void PreTokenizer::add_prefix_space() { stages_.emplace_back(); }

void PreTokenizer::split(std::string_view text, Pattern::Scratch& scratch,
                         const std::function<void(std::string_view)>& word) const {
  run(0, text, scratch, word);
}

void PreTokenizer::run(size_t index, std::string_view text, Pattern::Scratch& scratch,
                       const std::function<void(std::string_view)>& word) const {
  if (text.empty()) return;
  if (index == stages_.size()) return word(text);
  const Stage& stage = stages_[index];
  if (stage.pattern.empty()) {
    if (text.front() == ' ') return run(index + 1, text, scratch, word);
    const std::string spaced = ' ' + std::string(text);
    return run(index + 1, spaced, scratch, word);
  }
  const Pattern& pattern = stage.pattern.front();
  if (stage.cut == Cut::kIsolated) {  // the common one, without a list
    for (size_t at = 0; at < text.size();) {
      const auto match = pattern.find(text, at, scratch);
      const size_t begin = match ? match->begin : text.size();
      if (begin > at) run(index + 1, text.substr(at, begin - at), scratch, word);
      if (!match) break;
      run(index + 1, text.substr(begin, match->end - begin), scratch, word);
      at = match->end;
    }
    return;
  }
  std::vector<Piece> pieces;
  for (size_t at = 0; at < text.size();) {
    const auto match = pattern.find(text, at, scratch);
    const size_t begin = match ? match->begin : text.size();
    if (begin > at) pieces.push_back({at, begin, stage.invert});
    if (!match) break;
    pieces.push_back({begin, match->end, !stage.invert});
    at = match->end;
  }
  for (const Piece& piece : regroup(pieces, stage.cut))
    run(index + 1, text.substr(piece.begin, piece.end - piece.begin), scratch, word);
}

}  // namespace lf::text
