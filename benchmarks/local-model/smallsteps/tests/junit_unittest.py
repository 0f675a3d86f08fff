"""Run unittest cases of this folder against the repository in the current folder; write JUnit XML.

Usage: python3 -IB "$TESTS/junit_unittest.py" MODULE[.CLASS]... FILE.xml

A case is named `Class.test`. `-I` keeps the environment, the home folder and a `sitecustomize` of
the repository out. The repository comes last on sys.path: its `sizes` is the one that is tested, its
`unittest.py` or `json.py` is not used, by whichever module and however late it is imported. The file
is written last: a repository that ends the process early has no passed case.
"""

from __future__ import annotations

import sys
import traceback
import unittest
from pathlib import Path
from xml.etree import ElementTree

HERE = Path(__file__).resolve().parent


class Recorder(unittest.TestResult):
    """Remembers the cases in the order they ran, and what went wrong in each."""

    def __init__(self) -> None:
        super().__init__()
        self.problems: dict[str, list[tuple[str, str]]] = {}

    def startTest(self, test: unittest.TestCase) -> None:
        super().startTest(test)
        self.problems[name_of(test)] = []

    def addError(self, test, err) -> None:
        self.note(test, "error", err)

    def addFailure(self, test, err) -> None:
        self.note(test, "failure", err)

    def addSubTest(self, test, subtest, err) -> None:
        if err is not None:
            self.note(test, "failure", err)

    def addSkip(self, test, reason: str) -> None:
        self.problems.setdefault(name_of(test), []).append(("skipped", reason))

    def note(self, test, kind: str, err) -> None:
        text = f"{err[0].__name__}: {err[1]}\n{''.join(traceback.format_tb(err[2], limit=-3))}"
        self.problems.setdefault(name_of(test), []).append((kind, text))


def name_of(test) -> str:
    return ".".join(test.id().split(".")[-2:])


def write(problems: dict[str, list[tuple[str, str]]], path: Path) -> None:
    suite = ElementTree.Element("testsuite", name="unittest", tests=str(len(problems)))
    for name, found in problems.items():
        classname, _, method = name.rpartition(".")
        case = ElementTree.SubElement(suite, "testcase", classname=classname, name=method)
        for kind, text in found:
            printable = "".join(char if char.isprintable() or char == "\n" else repr(char) for char in text)
            ElementTree.SubElement(case, kind, message=printable.partition("\n")[0]).text = printable
    ElementTree.ElementTree(suite).write(path, encoding="utf-8", xml_declaration=True)


def main(targets: list[str], path: Path) -> int:
    sys.path.insert(0, str(HERE))
    sys.path.append(str(Path.cwd()))
    recorder = Recorder()
    unittest.defaultTestLoader.loadTestsFromNames(targets).run(recorder)
    write(recorder.problems, path)
    for name, found in recorder.problems.items():
        print("ok  " if not found else "FAIL", name)
        for _, text in found:
            print(text)
    return 0 if recorder.problems and not any(recorder.problems.values()) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:-1], Path(sys.argv[-1])))
