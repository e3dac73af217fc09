"""layout.py lets members be appended and nothing else."""
import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from layout import judge  # noqa: E402

GOLDEN = """lf_table
     0    8  h: lf_hdr
     8    8  first: int32_t (*)(lf_err *)
lf_tensor
     0    8  h: lf_hdr
"""
APPENDED = GOLDEN.replace("lf_tensor", "    16    8  second: int32_t (*)(lf_err *)\nlf_tensor")


class Layout(unittest.TestCase):
    def test_the_same_layout_is_neither_wrong_nor_new(self):
        self.assertEqual(judge(GOLDEN, GOLDEN), ([], []))

    def test_an_appended_member_and_a_new_struct_are_told_as_such(self):
        self.assertEqual(judge(GOLDEN, APPENDED + "lf_more\n     0    8  h: lf_hdr\n"),
                         ([], ["lf_table: 1 appended", "lf_more: new"]))

    def test_a_moved_removed_renamed_or_retyped_member_is_wrong(self):
        for other in (APPENDED.replace("     8    8  first", "    24    8  first"),
                      GOLDEN.replace("     8    8  first: int32_t (*)(lf_err *)\n", ""),
                      GOLDEN.replace("first", "renamed"),
                      GOLDEN.replace("int32_t (*)(lf_err *)", "int32_t (*)(lf_str, lf_err *)")):
            wrong, _ = judge(GOLDEN, other)
            self.assertEqual(len(wrong), 1)
            self.assertIn("lf_table: expected member 1 as `8    8  first", wrong[0])

    def test_a_removed_struct_is_wrong(self):
        self.assertIn("lf_tensor: expected it to stay", judge(GOLDEN, GOLDEN.split("lf_tensor")[0])[0][0])

    def test_a_struct_that_travels_in_arrays_may_not_even_grow(self):
        wrong, _ = judge(GOLDEN, GOLDEN + "     8    8  more: uint64_t\n")
        self.assertIn("lf_tensor: expected no further member", wrong[0])


if __name__ == "__main__":
    unittest.main()
