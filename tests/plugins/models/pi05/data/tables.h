// Parquet files of a test's own.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include <arrow/api.h>
#include <arrow/io/file.h>
#include <parquet/arrow/reader.h>
#include <parquet/arrow/writer.h>

namespace lf::test {

inline void expect_ok(const arrow::Status& status) {
  if (!status.ok()) throw std::runtime_error(status.ToString());
}

template <typename T>
T taken(arrow::Result<T> result) {
  expect_ok(result.status());
  return std::move(result).ValueUnsafe();
}

inline std::shared_ptr<arrow::Table> read_table(const std::filesystem::path& path) {
  auto reader = taken(
      parquet::arrow::OpenFile(taken(arrow::io::ReadableFile::Open(path.string())), arrow::default_memory_pool()));
  std::shared_ptr<arrow::Table> table;
  expect_ok(reader->ReadTable(&table));
  return taken(table->CombineChunks());
}

// rows_per_group: of the file's row groups.
inline void write_table(const std::filesystem::path& path, const std::shared_ptr<arrow::Table>& table,
                        int64_t rows_per_group = 1 << 20) {
  std::filesystem::create_directories(path.parent_path());
  auto out = taken(arrow::io::FileOutputStream::Open(path.string()));
  expect_ok(parquet::arrow::WriteTable(*table, arrow::default_memory_pool(), out, rows_per_group));
  expect_ok(out->Close());
}

template <typename Builder, typename T>
std::shared_ptr<arrow::Array> column(const std::vector<T>& values) {
  Builder builder;
  expect_ok(builder.AppendValues(values));
  return taken(builder.Finish());
}

inline std::shared_ptr<arrow::Array> floats(const std::vector<float>& values) {
  return column<arrow::FloatBuilder>(values);
}
inline std::shared_ptr<arrow::Array> integers(const std::vector<int64_t>& values) {
  return column<arrow::Int64Builder>(values);
}
inline std::shared_ptr<arrow::Array> texts(const std::vector<std::string>& values) {
  return column<arrow::StringBuilder>(values);
}

// values: [rows, width], as lists of a fixed length.
inline std::shared_ptr<arrow::Array> rows_of(const std::vector<float>& values, int32_t width) {
  return taken(arrow::FixedSizeListArray::FromArrays(floats(values), width));
}

inline std::shared_ptr<arrow::Table> table(const std::vector<std::string>& names,
                                           const std::vector<std::shared_ptr<arrow::Array>>& columns) {
  std::vector<std::shared_ptr<arrow::Field>> fields;
  for (size_t i = 0; i < names.size(); ++i) fields.push_back(arrow::field(names[i], columns[i]->type()));
  return arrow::Table::Make(arrow::schema(fields), columns);
}

inline std::shared_ptr<arrow::Table> with_column(const std::shared_ptr<arrow::Table>& table, const std::string& name,
                                                 const std::shared_ptr<arrow::Array>& values) {
  const int at = table->schema()->GetFieldIndex(name);
  return taken(table->SetColumn(at, arrow::field(name, values->type()), std::make_shared<arrow::ChunkedArray>(values)));
}

// The numbers of a column of lists or of single numbers, one row after another.
inline std::vector<float> floats_of(const arrow::Table& table, const std::string& name) {
  std::shared_ptr<arrow::Array> array = table.GetColumnByName(name)->chunk(0);
  if (const auto* list = dynamic_cast<const arrow::FixedSizeListArray*>(array.get())) array = taken(list->Flatten());
  if (const auto* list = dynamic_cast<const arrow::ListArray*>(array.get())) array = taken(list->Flatten());
  const auto& typed = static_cast<const arrow::FloatArray&>(*array);
  return {typed.raw_values(), typed.raw_values() + typed.length()};
}

inline std::vector<int64_t> integers_of(const arrow::Table& table, const std::string& name) {
  const auto& typed = static_cast<const arrow::Int64Array&>(*table.GetColumnByName(name)->chunk(0));
  return {typed.raw_values(), typed.raw_values() + typed.length()};
}

}  // namespace lf::test
