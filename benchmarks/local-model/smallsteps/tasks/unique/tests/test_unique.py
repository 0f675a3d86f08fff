import unittest

import style


class Unique(unittest.TestCase):
    def test_order(self):
        from smallsteps.unique import unique

        self.assertEqual(unique([2, 1, 2]), [2, 1])

    def test_lists(self):
        from smallsteps.unique import unique

        self.assertEqual(unique([[1], [1]]), [[1]])

    def test_refused(self):
        from smallsteps.unique import unique

        with self.assertRaises(ValueError):
            unique("aa")

    def test_described(self):
        self.assertTrue(style.is_described("unique"))

    def test_exported(self):
        self.assertTrue(style.is_exported("unique"))
