#include "pi05/data/parquet_file.h"

#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "refusal.h"
#include "support/scratch_folder.h"
#include "tables.h"

namespace lf::robot {
namespace {

using test::refusal;
using testing::ElementsAre;
using testing::HasSubstr;

class ParquetFileTest : public testing::Test {
 protected:
  std::string write(const std::vector<std::string>& names, const std::vector<std::shared_ptr<arrow::Array>>& columns,
                    int64_t rows_per_group = 2) {
    const std::filesystem::path path = scratch_.path() / "a.parquet";
    test::write_table(path, test::table(names, columns), rows_per_group);
    return path.string();
  }
  test::ScratchFolder scratch_;
};

TEST_F(ParquetFileTest, columns_are_read_over_row_groups_in_every_layout_of_numbers) {
  arrow::ListBuilder lists(arrow::default_memory_pool(), std::make_shared<arrow::DoubleBuilder>());
  for (const double value : {1.0, 2.0, 3.0}) {
    test::expect_ok(lists.Append());
    auto& inner = static_cast<arrow::DoubleBuilder&>(*lists.value_builder());
    test::expect_ok(inner.AppendValues({value, value + 0.5}));
  }
  const std::vector<uint8_t> flags = {1, 0, 1};
  arrow::BooleanBuilder booleans;
  test::expect_ok(booleans.AppendValues(flags));
  const ParquetFile file(
      write({"fixed", "list", "number", "flag", "text"},
            {test::rows_of({1, 2, 3, 4, 5, 6}, 2), test::taken(lists.Finish()), test::integers({7, 8, 1LL << 40}),
             test::taken(booleans.Finish()), test::texts({"", "a b", "ü"})}));
  EXPECT_EQ(file.rows(), 3);
  EXPECT_THAT(file.columns(), ElementsAre("fixed", "list", "number", "flag", "text"));
  EXPECT_EQ(file.floats("fixed").width, 2);
  EXPECT_THAT(file.floats("fixed").values, ElementsAre(1, 2, 3, 4, 5, 6));
  EXPECT_THAT(file.doubles("list").values, ElementsAre(1, 1.5, 2, 2.5, 3, 3.5));
  EXPECT_THAT(file.integers("number").values, ElementsAre(7, 8, 1LL << 40));
  EXPECT_THAT(file.floats("flag").values, ElementsAre(1, 0, 1));
  EXPECT_THAT(file.texts("text"), ElementsAre("", "a b", "ü"));
}

TEST_F(ParquetFileTest, what_a_column_is_not_is_named_with_file_and_row) {
  arrow::FloatBuilder holes;
  test::expect_ok(holes.AppendValues({1, 2}));
  test::expect_ok(holes.AppendNull());
  arrow::ListBuilder ragged(arrow::default_memory_pool(), std::make_shared<arrow::FloatBuilder>());
  for (const int n : {2, 2, 3}) {
    test::expect_ok(ragged.Append());
    test::expect_ok(static_cast<arrow::FloatBuilder&>(*ragged.value_builder()).AppendValues(std::vector<float>(n, 0)));
  }
  const std::string path =
      write({"holes", "ragged", "text", "real"}, {test::taken(holes.Finish()), test::taken(ragged.Finish()),
                                                  test::texts({"a", "b", "c"}), test::floats({1, 2, 3})});
  const ParquetFile file(path);
  EXPECT_EQ(refusal([&] { file.floats("none"); }),
            "data: " + path + ": expected a column \"none\", got holes, ragged, text, real");
  EXPECT_EQ(refusal([&] { file.floats("holes"); }),
            "data: " + path + ": column \"holes\": expected numbers in row 2, got null");
  EXPECT_EQ(refusal([&] { file.floats("ragged"); }),
            "data: " + path + ": column \"ragged\": expected 2 numbers in row 2, got 3");
  EXPECT_EQ(refusal([&] { file.floats("text"); }), "data: " + path + ": column \"text\": expected numbers, got string");
  EXPECT_EQ(refusal([&] { file.integers("real"); }),
            "data: " + path + ": column \"real\": expected integers, got float");
  EXPECT_EQ(refusal([&] { file.texts("real"); }), "data: " + path + ": column \"real\": expected texts, got float");
}

TEST_F(ParquetFileTest, files_that_are_no_parquet_are_refused_by_their_path) {
  const std::string absent = (scratch_.path() / "none.parquet").string();
  EXPECT_THAT(refusal([&] { ParquetFile file(absent); }), HasSubstr("data: " + absent));
  const std::string other = (scratch_.path() / "other.parquet").string();
  std::ofstream(other) << "PAR1 but nothing else follows, PAR1";
  EXPECT_THAT(refusal([&] { ParquetFile file(other); }), HasSubstr("data: " + other));
  const std::string whole = write({"a"}, {test::integers(std::vector<int64_t>(1000, 3))}, 1000);
  std::filesystem::resize_file(whole, std::filesystem::file_size(whole) / 2);
  EXPECT_THAT(refusal([&] { ParquetFile file(whole); }), HasSubstr("data: " + whole));
}

}  // namespace
}  // namespace lf::robot
