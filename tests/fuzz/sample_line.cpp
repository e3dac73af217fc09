// A line of a data set: what it accepts becomes canonical JSON whose media lie below the folder.
#include "data/sample_line.h"

#include <filesystem>

#include <nlohmann/json.hpp>

#include "fuzz/target.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const lf::MediaRoot kRoot("/nowhere/media");
  std::string text(lf::fuzz::text_of(data, size));
  text.resize(size + lf::SampleLine::kPadding, '\0');
  text.resize(size);
  for (const lf::SourceFormat format : {lf::SourceFormat::kMessages, lf::SourceFormat::kShareGpt}) {
    try {
      const lf::SampleLine line(text, "file:1");
      line.format();
      const auto sample = nlohmann::json::parse(line.canonical(format, kRoot, true));
      const auto check_path = [](const std::string& path) {
        if (!path.starts_with("/nowhere/media")) __builtin_trap();
        for (const auto& part : std::filesystem::path(path))
          if (part == "..") __builtin_trap();
      };
      for (const auto& message : sample.at("messages"))
        for (const auto& item : message.at("content")) {
          if (item.contains("path")) check_path(item["path"]);
          if (item.contains("frames"))
            for (const auto& frame : item["frames"]) check_path(frame);
          if (item.contains("fps") && !(item["fps"].get<double>() > 0)) __builtin_trap();
        }
    } catch (const lf::BadSample& bad) {
      lf::fuzz::check_message(bad.what());
    }
  }
  return 0;
}
