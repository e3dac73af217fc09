// Finding a C++ function in a library by its plain name, for vendors whose headers forgot extern "C".
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace lf::kunlun {

// Names of the functions that an ELF64 library exports. Throws LF_E_UNSUPPORTED for anything that is not one, however
// damaged.
std::vector<std::string> exported_functions(const std::filesystem::path& library);

// True for the mangled name of a function `plain` at namespace scope, of any namespace (Itanium C++ ABI, 5.1):
// "_Z14bkcl_init_rank..." or "_ZN5baidu3xpu14bkcl_init_rankE...".
bool names_function(std::string_view mangled, std::string_view plain);

// The one exported function of that name; nothing where there is none. Throws LF_E_UNSUPPORTED, naming both, where two
// could be meant.
std::optional<std::string> find_mangled(const std::vector<std::string>& exported, std::string_view plain);

}  // namespace lf::kunlun
