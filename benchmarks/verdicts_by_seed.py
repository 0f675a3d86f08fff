"""How often the verdict changes with the seed: `python benchmarks/verdicts_by_seed.py [SEEDS]`.

Draws runs as the scripted agent does (solved or not, log-normal dollars) for two identical arms and
for two effects, without sandbox and graders, and lets `compare` and `decide` judge each seed.
"""

from __future__ import annotations

import random
import sys
from collections import Counter
from collections.abc import Sequence

from skillgate.core import ArmPair, Cell, Decision, Grade, GradeKind, Outcome, Policy, Run
from skillgate.stats.compare import compare
from skillgate.stats.verdict import decide
from skillgate.values import Usage

TASKS, GRADERS, PASSING_ANYWAY = 10, 8, 4
ARMS = ArmPair("base", "head")
CASES = {"identical": (0.6, 0.6), "head solves +20 points": (0.6, 0.8), "head solves -40 points": (0.6, 0.2)}


def draw(cell: Cell, solves: float, rng: random.Random) -> Run:
    passed = GRADERS if rng.random() < solves else PASSING_ANYWAY
    kind = GradeKind.FAIL_TO_PASS
    grades = tuple(Grade(grader=str(i), kind=kind, passed=i < passed) for i in range(GRADERS))
    usage = Usage(requests=1, input=1, usd_micros=round(80_000 * rng.lognormvariate(0, 0.15)))
    outcome = Outcome.PASSED if passed == GRADERS else Outcome.FAILED
    return Run(cell=cell, outcome=outcome, grades=grades, usage=usage)


def verdict(seed: int, repeats: int, solves: Sequence[float]) -> Decision:
    rng = random.Random(seed)
    tasks, chances = [f"s/{i}" for i in range(TASKS)], dict(zip(ARMS, solves, strict=True))
    cells = [Cell(task=t, arm=arm, repeat=r) for t in tasks for arm in ARMS for r in range(repeats)]
    runs = [draw(cell, chances[cell.arm], rng) for cell in cells]
    return decide(compare(runs, ARMS, cells, seed=seed), Policy()).decision


def main() -> None:
    seeds = int(sys.argv[1]) if len(sys.argv) > 1 else 1000
    print(f"{TASKS} tasks, {seeds} seeds, margin 10 points, cost budget +20 %; percent of the verdicts")
    print("| arms | repeats | merge | inconclusive | hold | block |\n|---|--:|--:|--:|--:|--:|")
    for name, solves in CASES.items():
        for repeats in (2, 3, 5):
            found = Counter(verdict(seed, repeats, solves) for seed in range(seeds))
            shown = (Decision.MERGE, Decision.INCONCLUSIVE, Decision.HOLD, Decision.BLOCK)
            print(
                f"| {name} | {repeats} | " + " | ".join(f"{100 * found[d] / seeds:.1f}" for d in shown) + " |"
            )


if __name__ == "__main__":
    main()
