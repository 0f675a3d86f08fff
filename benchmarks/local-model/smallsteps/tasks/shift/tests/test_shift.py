import unittest

import style


class Shift(unittest.TestCase):
    def test_around(self):
        from smallsteps.shift import shift

        self.assertEqual(shift("abc xyz", 3), "def abc")

    def test_kept(self):
        from smallsteps.shift import shift

        self.assertEqual(shift("Zoo! \u00e9", 1), "App! \u00e9")

    def test_refused(self):
        from smallsteps.shift import shift

        with self.assertRaises(ValueError):
            shift("a", -1)

    def test_described(self):
        self.assertTrue(style.is_described("shift"))

    def test_exported(self):
        self.assertTrue(style.is_exported("shift"))
