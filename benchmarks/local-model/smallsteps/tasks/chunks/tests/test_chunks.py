import unittest

import style


class Chunks(unittest.TestCase):
    def test_rest(self):
        from smallsteps.chunks import chunks

        self.assertEqual(chunks([1, 2, 3], 2), [[1, 2], [3]])

    def test_empty(self):
        from smallsteps.chunks import chunks

        self.assertEqual(chunks([], 2), [])

    def test_refused(self):
        from smallsteps.chunks import chunks

        with self.assertRaises(ValueError):
            chunks([1], 0)

    def test_described(self):
        self.assertTrue(style.is_described("chunks"))

    def test_exported(self):
        self.assertTrue(style.is_exported("chunks"))
