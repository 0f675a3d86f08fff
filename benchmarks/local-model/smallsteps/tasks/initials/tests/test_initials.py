import unittest

import style


class Initials(unittest.TestCase):
    def test_two(self):
        from smallsteps.initials import initials

        self.assertEqual(initials("Ada Lovelace"), "A.L.")

    def test_spaces(self):
        from smallsteps.initials import initials

        self.assertEqual(initials("grace  brewster hopper"), "G.B.H.")

    def test_refused(self):
        from smallsteps.initials import initials

        with self.assertRaises(ValueError):
            initials("  ")

    def test_described(self):
        self.assertTrue(style.is_described("initials"))

    def test_exported(self):
        self.assertTrue(style.is_exported("initials"))
