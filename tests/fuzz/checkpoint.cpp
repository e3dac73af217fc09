// manifest.json and trainer.json of a checkpoint. The manifest is given the checksum that fits it: one who writes it
// can.
#include "checkpoint/hash.h"
#include "checkpoint/manifest.h"
#include "checkpoint/trainer_state.h"
#include "core/error.h"
#include "fuzz/target.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string text(lf::fuzz::text_of(data, size));
  const std::string sealed = text + ",\n \"xxh3_128_of_all_above\": \"" + lf::hash_hex(text) + "\"\n}\n";
  for (const std::string& manifest_text : {text, sealed}) {
    try {
      const lf::CheckpointManifest manifest = lf::parse_manifest("ckpt", manifest_text);
      for (const auto& [name, file] : manifest.files)
        if (name.empty() || name.find('/') != name.npos || name == "..") __builtin_trap();
    } catch (const lf::Error& error) {
      lf::fuzz::check_message(error.what());
    }
  }
  try {
    lf::parse_trainer_state("ckpt", text);
  } catch (const lf::Error& error) {
    lf::fuzz::check_message(error.what());
  }
  return 0;
}
