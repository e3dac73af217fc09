"""layout.py lets members be appended, constants.py lets constants be added, and neither lets anything else."""
import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from constants import judge as judge_constants  # noqa: E402
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


class Constants(unittest.TestCase):
    GOLDEN = "LF_E_TIMEOUT = 9\nLF_MODEL_INTERFACE = lf.model/1\n"

    def test_new_constants_are_told_as_such(self):
        self.assertEqual(judge_constants(self.GOLDEN, self.GOLDEN), ([], []))
        self.assertEqual(judge_constants(self.GOLDEN, self.GOLDEN + "LF_E_MORE = 99\n"), ([], ["LF_E_MORE"]))

    def test_a_changed_renamed_or_removed_constant_is_wrong(self):
        for other in (self.GOLDEN.replace("= 9", "= 10"), self.GOLDEN.replace("LF_E_TIMEOUT", "LF_E_LATE"),
                      self.GOLDEN.replace("LF_E_TIMEOUT = 9\n", "")):
            wrong, _ = judge_constants(self.GOLDEN, other)
            self.assertEqual(len(wrong), 1)
            self.assertIn("LF_E_TIMEOUT: expected 9, got ", wrong[0])
        self.assertEqual(judge_constants(self.GOLDEN, self.GOLDEN.replace("model/1", "model/2"))[0],
                         ["LF_MODEL_INTERFACE: expected lf.model/1, got lf.model/2"])


if __name__ == "__main__":
    unittest.main()
