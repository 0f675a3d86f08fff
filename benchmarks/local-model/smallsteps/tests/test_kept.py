"""What every task must leave as it was."""

import unittest


class Kept(unittest.TestCase):
    def test_double(self):
        from smallsteps.double import double

        self.assertEqual(double(4), 8)
