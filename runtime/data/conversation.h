// A conversation between its source format and the canonical form of docs/samples.md.
#pragma once

#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "data/media_root.h"

namespace lf {

// What is wrong with a sample, and where in it: "messages[2].content". Caught where file and line are known.
class FieldError : public std::runtime_error {
 public:
  FieldError(const std::string& field, const std::string& reason)
      : std::runtime_error(field.empty() ? reason : field + ": " + reason) {}
};

enum class ItemKind { kText, kImage, kVideo };

struct Item {
  ItemKind kind = ItemKind::kText;
  std::string text = {};  // of a text
  std::string path = {};  // of an image or a video; empty with frames empty: the next of the sample's list
  std::vector<std::string> frames = {};  // of a video given as pictures
  double fps = 0;                        // of a video, in (0, 1000]; 0: not given
  bool literal = false;                  // of a text: "<image>" in it is text
};

struct Message {
  std::string role = {};  // as the source calls it, until finish() maps it
  std::optional<bool> train = {};
  std::vector<Item> items = {};
  std::string field = {};  // where it stands: "conversations[3]"
};

struct Conversation {
  std::string id;
  std::vector<Message> messages;
  std::vector<Item> images, videos;  // of the sample, for its markers in order
};

// Puts the sample's media where their markers stand. Throws FieldError where the counts differ.
void place_media(Conversation& conversation);

// Roles are known and alternate, nothing is empty, media paths are what `media` allows. Makes paths absolute and
// settles `train` of every message; train_all: every message is trained unless it says otherwise.
void check_conversation(Conversation& conversation, const MediaPlaces& media, bool train_all);

std::string canonical_json(const Conversation& conversation);

}  // namespace lf
