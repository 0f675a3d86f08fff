import unittest

import style


class Runs(unittest.TestCase):
    def test_two(self):
        from smallsteps.runs import runs

        self.assertEqual(runs("aab"), [("a", 2), ("b", 1)])

    def test_again(self):
        from smallsteps.runs import runs

        self.assertEqual(runs("aba"), [("a", 1), ("b", 1), ("a", 1)])

    def test_refused(self):
        from smallsteps.runs import runs

        with self.assertRaises(ValueError):
            runs("")

    def test_described(self):
        self.assertTrue(style.is_described("runs"))

    def test_exported(self):
        self.assertTrue(style.is_exported("runs"))
