import unittest

import style


class Clamp(unittest.TestCase):
    def test_inside(self):
        from smallsteps.clamp import clamp

        self.assertEqual(clamp(2, 1, 3), 2)

    def test_outside(self):
        from smallsteps.clamp import clamp

        self.assertEqual([clamp(5, 1, 3), clamp(0, 1, 3)], [3, 1])

    def test_refused(self):
        from smallsteps.clamp import clamp

        with self.assertRaises(ValueError):
            clamp(1, 3, 2)

    def test_described(self):
        self.assertTrue(style.is_described("clamp"))

    def test_exported(self):
        self.assertTrue(style.is_exported("clamp"))
