// The words after `lfrun parity`.
#pragma once

#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace lf {

struct ParityArguments {
  std::filesystem::path directory, out;
  std::string config = "config.json", dtype = "fp32", family, device = "cpu", op_fallback = "error";
  std::vector<std::string> cases;
  bool bf16() const { return dtype == "bf16"; }
};

// Throws kUsage; nothing where only help was wanted, which is printed.
std::optional<ParityArguments> read_parity_arguments(std::span<const std::string> arguments);

}  // namespace lf
