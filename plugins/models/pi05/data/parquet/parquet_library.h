// liblfparquet.so: everything that needs Apache Arrow. A library of its own, opened at the first LeRobot directory:
// Arrow brings 60 MB of code, and stays out of the scope in which LibTorch's symbols are looked up.
#pragma once

#include <cstdint>

#include "lf/plugin_api/abi.h"
#include "lf/plugin_api/tensor.h"

namespace lf::robot {

// Both sides are of one build, but exceptions and C++ types stay out of it all the same. A file may be read by several
// threads at once. Every failure is LF_E_DATA beginning with the file's path.
struct ParquetTable {
  int32_t (*open)(const char* path, void** file, lf_err* err);
  void (*close)(void* file);
  int64_t (*rows)(void* file);
  // Names of the columns, each ended by a NUL.
  int32_t (*columns)(void* file, lf_sink names, lf_err* err);
  // dtype: LF_DTYPE_F32, F64 or I64. [rows, width]: each row is one number, or a list of `width` numbers, the same for
  // all rows. Reals are not made integers. Nulls are refused.
  int32_t (*numbers)(void* file, const char* column, int32_t dtype, lf_tensor* out, lf_err* err);
  // Each ended by a NUL.
  int32_t (*texts)(void* file, const char* column, lf_sink out, lf_err* err);
  // The encoded picture of one row of a column {bytes, path}.
  int32_t (*picture)(void* file, const char* column, int64_t row, lf_sink bytes, lf_err* err);
};

constexpr const char* kParquetEntryName = "lf_parquet_table";
extern "C" LF_EXPORT const ParquetTable* lf_parquet_table();

}  // namespace lf::robot
