import unittest

import style


class Median(unittest.TestCase):
    def test_odd(self):
        from smallsteps.median import median

        self.assertEqual(median([3, 1, 2]), 2)

    def test_even(self):
        from smallsteps.median import median

        self.assertEqual(median([4, 1, 2, 3]), 2.5)

    def test_refused(self):
        from smallsteps.median import median

        with self.assertRaises(ValueError):
            median([])

    def test_described(self):
        self.assertTrue(style.is_described("median"))

    def test_exported(self):
        self.assertTrue(style.is_exported("median"))
