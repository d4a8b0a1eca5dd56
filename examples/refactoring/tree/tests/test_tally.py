import unittest

from tally.tools import by_category, cents, parse, report, spelled

LINES = """
# March
2024-03-01 food 12.50 lunch
2024-03-02 books 20.00
2024-03-02 food 3.05
"""


class Tally(unittest.TestCase):
    def test_lines_are_parsed(self):
        self.assertEqual(parse(LINES)[0], ("2024-03-01", "food", 1250, "lunch"))
        self.assertEqual(by_category(parse(LINES)), {"food": 1555, "books": 2000})

    def test_amounts_are_exact(self):
        self.assertEqual(cents("0.29"), 29)
        self.assertEqual(spelled(1205), "12.05")
        with self.assertRaises(ValueError):
            cents("much")

    def test_the_report_is_sorted(self):
        self.assertEqual(report(LINES).splitlines()[0], "books          20.00")
        self.assertEqual(report(LINES).splitlines()[-1], "total          35.55")


if __name__ == "__main__":
    unittest.main()
