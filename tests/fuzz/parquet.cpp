// A Parquet file: whatever is in it, columns have as many rows as the file says, and failures name the file.
#include "fuzz/target.h"
#include "lf/plugin_sdk/guard.hpp"
#include "pi05/data/parquet_file.h"

namespace {

void expect_refusal(const lf::sdk::Failure& failure, const std::string& path) {
  lf::fuzz::check_message(failure.what());
  if (failure.code() == LF_E_DATA && !std::string_view(failure.what()).starts_with(path)) __builtin_trap();
}

template <typename Read>
void try_to(const std::string& path, Read&& read) {
  try {
    read();
  } catch (const lf::sdk::Failure& failure) {
    expect_refusal(failure, path);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const lf::fuzz::MemoryFile bytes(lf::fuzz::text_of(data, size));
  const std::string path = bytes.path();
  try_to(path, [&] {
    const lf::robot::ParquetFile file(path);
    for (const std::string& column : file.columns()) {
      try_to(path, [&] {
        const auto floats = file.floats(column);
        if (floats.rows != file.rows() || static_cast<int64_t>(floats.values.size()) != floats.rows * floats.width)
          __builtin_trap();
      });
      try_to(path, [&] { file.integers(column); });
      try_to(path, [&] { file.texts(column); });
      try_to(path, [&] { file.picture(column, file.rows() - 1); });
    }
  });
  return 0;
}
