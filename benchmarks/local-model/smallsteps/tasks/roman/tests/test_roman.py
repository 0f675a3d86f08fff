import unittest

import style


class Roman(unittest.TestCase):
    def test_small(self):
        from smallsteps.roman import roman

        self.assertEqual([roman(4), roman(9), roman(14)], ["IV", "IX", "XIV"])

    def test_large(self):
        from smallsteps.roman import roman

        self.assertEqual([roman(1994), roman(3999)], ["MCMXCIV", "MMMCMXCIX"])

    def test_refused(self):
        from smallsteps.roman import roman

        with self.assertRaises(ValueError):
            roman(0)

    def test_described(self):
        self.assertTrue(style.is_described("roman"))

    def test_exported(self):
        self.assertTrue(style.is_exported("roman"))
