// A conversation as a token sequence: the family's ChatML, written out natively (no template language is interpreted).
//
// Every message is <|im_start|>role\n content <|im_end|>\n. A picture of n tiles is <img>, n times the tokens of a tile
// of <IMG_CONTEXT>, </img>. A video of n frames is "Frame1: " and the first frame's picture, a line end, "Frame2: " ...
//   kOriginal      the authors' template internvl2_5 (InternVL 2.5, 3 and 3.5): a conversation without a system message
//                  gets theirs. InternLM2's tokenizer puts its <s> before all.
//   kTransformers  the template of the "-hf" checkpoints: no system message of its own; a line end after every picture
//                  and every video, but where a text with its own follows ("<image>\n" of ShareGPT data)
// Sources: OpenGVLab/InternVL conversation.py and dataset.py (preprocess_internvl2_5); transformers 5.24
// processing_internvl.py; the template in its convert_internvl_weights_to_hf.py.
//
// What is learnt, and what a sample's text may spell, is: an answer's text and its <|im_end|>; a
// text never becomes a structural token, but for the family's grounding marks (<ref>, <box>, <quad>).
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "family/conversation.h"
#include "family/sequence.h"
#include "internvl/config.h"
#include "text/tokenizer.h"

namespace lf::internvl {

enum class ChatStyle { kOriginal, kTransformers };

class Chat {
 public:
  // `tokenizer` and `config` outlive it. Throws sdk::Failure LF_E_INVALID where the tokenizer lacks the family's tokens
  // or numbers them otherwise than the model.
  Chat(const text::Tokenizer& tokenizer, const InternVlConfig& config, ChatStyle style);

  // `vision`: one for each picture and video of the messages, in order; moved into the sequence. [any thread]
  family::Sequence encode(const std::vector<family::Message>& messages, std::vector<family::VisionInput> vision) const;

 private:
  const text::Tokenizer& tokenizer_;
  const InternVlConfig& config_;
  ChatStyle style_;
  text::TokenId im_start_, im_end_, img_, img_end_, context_;
  std::optional<text::TokenId> begin_;  // InternLM2's <s>
  std::vector<text::TokenId> marks_;
};

}  // namespace lf::internvl
