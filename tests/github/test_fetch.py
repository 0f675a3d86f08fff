"""A fetched range against a clone of the same range: a gate must not see a difference."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from skillgate.core import GateReport
from skillgate.errors import SkillgateError
from skillgate.git import Repository
from skillgate.github.fetch import Fetched, fetch_range
from skillgate.github.pulls import Reader
from skillgate.github.supply import Limits
from skillgate.lint.sift import write_baseline
from tests.fakes.github_reading import GithubReading
from tests.fakes.ranges import LINES, Repo, added, changed, report, tree

# --- the same findings ------------------------------------------------------------------


def renamed(repo: Repo) -> None:
    repo.git("mv", "skills/one", "skills/uno")
    repo.skill("skills/uno", body=f"{LINES}\n\nAnother end.")


def deleted(repo: Repo) -> None:
    repo.git("rm", "-rq", "skills/one")


def linked_inside(repo: Repo) -> None:
    repo.link("skills/one/scripts/run.sh", "/etc/passwd")


def linked_skill_file(repo: Repo) -> None:
    repo.link("skills/one/SKILL.md", "../two/SKILL.md")


def linked_folder(repo: Repo) -> None:
    repo.git("rm", "-rq", "skills/one")
    repo.link("skills/one", "two")


def new_link_skill(repo: Repo) -> None:
    repo.link("skills/three/SKILL.md", "/etc/passwd")


def nested(repo: Repo) -> None:
    repo.skill("skills/one/inner")
    repo.write("skills/one/inner/extra.md", "more\n")


def below_an_unchanged_skill(repo: Repo) -> None:
    repo.skill("skills/two/deep/er")


def root_skill(repo: Repo) -> None:
    repo.skill(".")
    repo.write(".github/workflows/ci.yml", "on: push\n")


def programs(repo: Repo) -> None:
    (repo.folder / "skills/one/scripts/run.sh").chmod(0o755)


def misspelt(repo: Repo) -> None:
    repo.write("skills/three/skill.md", "text\n")
    repo.skill("skills/four")


def no_skill(repo: Repo) -> None:
    repo.write("README.md", "another\n")


def same_names(repo: Repo) -> None:
    """A rule that compares skills needs those that did not change as well."""
    repo.skill("skills/three", about="two")
    repo.write("skills/three/SKILL.md", (repo.folder / "skills/two/SKILL.md").read_bytes())


def nothing_left(repo: Repo) -> None:
    repo.git("rm", "-rq", ".")


CHANGES = (
    *(added, changed, renamed, deleted, linked_inside, linked_skill_file, linked_folder, new_link_skill),
    *(nested, below_an_unchanged_skill, root_skill, programs, misspelt, no_skill, same_names, nothing_left),
)


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.__name__)
def test_a_fetched_range_is_judged_as_a_clone_is(
    repo: Repo, compare: Callable[..., GateReport], change: Callable[[Repo], None]
) -> None:
    change(repo)
    repo.commit()
    compare()


# Which skill has the name of another one, a gate that was not shown the others cannot tell: a note says so.
WALKED = tuple(change for change in CHANGES if change is not same_names)


@pytest.mark.parametrize("most_entries", [1, 5])
@pytest.mark.parametrize("change", WALKED, ids=lambda change: change.__name__)
def test_so_is_one_whose_trees_github_does_not_list_whole(
    repo: Repo,
    api: GithubReading,
    compare: Callable[..., GateReport],
    change: Callable[[Repo], None],
    most_entries: int,
) -> None:
    change(repo)
    repo.commit()
    api.most_entries = most_entries
    compare()


def test_the_reports_that_are_compared_hold_findings(repo: Repo, compare: Callable[..., GateReport]) -> None:
    added(repo)
    same_names(repo)
    changed(repo)
    repo.commit()
    seen = compare()
    assert [one.skill for one in seen.reports] == ["skills/one", "skills/three"]
    assert all(one.findings for one in seen.reports)


def test_a_skill_with_a_submodule_is_judged_as_a_clone_is(
    repo: Repo, compare: Callable[..., GateReport], tmp_path: Path
) -> None:
    repo.entry("160000", "a" * 40, "skills/one/vendor")
    (one,) = compare().reports
    assert one.change.files == ("vendor",)


def test_a_base_that_moved_on_changes_nothing(repo: Repo, compare: Callable[..., GateReport]) -> None:
    start = repo.git("rev-parse", "HEAD")
    repo.skill("skills/two", body="Changed at the base.")
    repo.skill("skills/five")
    repo.write("skillgate.yml", "version: 1\nlint:\n  fail-on: none\n")
    base = repo.commit()
    repo.git("checkout", "-q", "-b", "topic", start)
    changed(repo)
    repo.commit()
    seen = compare(base, "topic")
    assert [one.skill for one in seen.reports] == ["skills/one"]
    assert seen.fail_on == "none"


def test_3000_files_cost_what_the_skills_among_them_cost(
    repo: Repo, api: GithubReading, compare: Callable[..., GateReport]
) -> None:
    for number in range(3000):
        repo.write(f"data/{number % 50}/{number}.txt", f"{number}\n")
    for number in range(5):
        repo.skill(f"data/{number}/skill-{number}")
    repo.commit()
    assert len(compare().reports) == 5
    # one.SKILL.md, two.SKILL.md; the files beside them did not change
    assert (api.asked("/git/blobs/"), api.asked("/git/trees/")) == (7, 2)


HOSTILE = (
    *(
        "new\nline",
        "tab\tand'quote\"",
        "$(touch pwned)`id`",
        "-rf",
        "--upload-pack=x",
        r"\303\251",
        "\u202egnp",
    ),
    *(
        "*",
        "?",
        "[a]",
        ":(top)",
        "%2e%2e",
        "ünï",
        "e\u0301",
        " ",
        "a b ",
        "\x01\x7f",
        "..x",
        ".gitx",
        "x" * 200,
    ),
)


def test_file_names_mean_nothing(repo: Repo, compare: Callable[..., GateReport], tmp_path: Path) -> None:
    for name in HOSTILE:
        repo.skill(f"skills/{name}")
        repo.write(f"skills/{name}/{name}", "content\n")
    repo.commit()
    assert {one.skill for one in compare().reports} == {f"skills/{name}" for name in HOSTILE}
    assert sorted(path.name for path in tmp_path.iterdir()) == ["fetched", "origin", "real", "seen"]


# --- what judges ----------------------------------------------------------------------------


def weaken(repo: Repo) -> None:
    repo.write("skillgate.yml", "version: 1\nlint: {fail-on: none, rules: {house-rule: off}}\n")
    repo.git("rm", "-rq", "house")


def test_what_judges_comes_from_the_base(judged: Repo, compare: Callable[..., GateReport]) -> None:
    changed(judged)
    weaken(judged)
    judged.commit()
    (one,) = (one for one in compare().reports if one.skill == "skills/one")
    assert "house-rule" in {finding.rule for finding in one.findings}


def test_what_the_base_does_not_have_comes_from_the_head(
    judged: Repo, compare: Callable[..., GateReport]
) -> None:
    changed(judged)
    judged.commit()
    assert compare("HEAD~2").notes  # the configuration is new there


@pytest.mark.parametrize("most_entries", [1, 4])
def test_what_judges_is_found_in_a_large_tree(
    judged: Repo, api: GithubReading, compare: Callable[..., GateReport], most_entries: int
) -> None:
    changed(judged)
    judged.commit()
    api.most_entries = most_entries
    compare()


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("skillgate.yml", "version: 1\nlinnt: {}\n"),
        ("skillgate.yml", b"\xff\xfe"),
        ("skillgate.yml", "version: 1\nlint: {baseline: nowhere.yml}\n"),
        ("skillgate.yml", "version: 1\nlint: {rule-files: [nowhere]}\n"),
        ("skillgate.yml", "version: 1\nlint: {rule-files: ['../..', '/etc', '.']}\n"),
    ],
)
def test_a_broken_configuration_is_for_the_gate_to_tell(
    repo: Repo, fetch: Callable[..., Fetched], tmp_path: Path, path: str, text: str | bytes
) -> None:
    repo.write(path, text)
    repo.commit()
    changed(repo)
    repo.commit()
    fetched = fetch()
    said = []
    for folder, base, head in (
        (repo.folder, "HEAD~1", "HEAD"),
        (tmp_path / "fetched", fetched.base, fetched.head),
    ):
        with pytest.raises(SkillgateError) as caught:
            report(folder, base, head, tmp_path / "out")
        said.append((type(caught.value), caught.value.message))
    assert said[0] == said[1]


def test_another_configuration_can_be_named(
    repo: Repo, fetch: Callable[..., Fetched], tmp_path: Path
) -> None:
    repo.write("ci/gate.yml", "version: 1\n")
    repo.write("skillgate.yml", "version: 1\n")
    repo.commit()
    changed(repo)
    repo.commit()
    fetched = fetch(config="ci/gate.yml")
    assert list(tree(tmp_path / "fetched", fetched.base)) == ["ci/gate.yml"]


def test_a_link_that_the_head_brings_judges_nothing(
    judged: Repo, fetch: Callable[..., Fetched], tmp_path: Path
) -> None:
    """A gate writes a suite out and reads it: a link in it could lead to any file of the machine."""
    judged.link("house/suite/tasks/leak/task.yml", "/proc/self/environ")
    changed(judged)
    judged.commit()
    fetched = fetch("HEAD~2")
    seen = tree(tmp_path / "fetched", fetched.head)
    assert "house/suite/suite.yml" in seen
    assert "house/suite/tasks/leak/task.yml" not in seen
    assert "house/rules/house-rule.yml" not in seen  # nor does the configuration that comes with it


@pytest.fixture
def given_up(repo: Repo) -> Repo:
    """Return a repository whose base has deleted, inside a skill, a judge that `topic` still has."""
    repo.skill("tools/pack")
    repo.write("tools/pack/known.json", write_baseline(()))
    repo.write("skillgate.yml", "version: 1\nlint: {baseline: tools/pack/known.json}\n")
    start = repo.commit()
    repo.git("rm", "-q", "tools/pack/known.json")
    repo.commit()
    repo.git("checkout", "-q", "-b", "topic", start)
    changed(repo)
    repo.commit()
    return repo


@pytest.mark.parametrize("most_entries", [1, 1000])
def test_a_skill_with_a_judge_that_the_base_gave_up_is_none_of_the_changed(
    given_up: Repo, api: GithubReading, compare: Callable[..., GateReport], most_entries: int
) -> None:
    api.most_entries = most_entries
    assert [one.skill for one in compare("main", "topic").reports] == ["skills/one"]


def test_a_file_is_not_fetched_without_the_skill_that_it_belongs_to(
    given_up: Repo, fetch: Callable[..., Fetched], tmp_path: Path
) -> None:
    fetched = fetch("main", "topic", limits=Limits(requests=10))
    paths = {path for path in tree(tmp_path / "fetched", fetched.head) if path.endswith(("SKILL.md", "json"))}
    assert paths == {"tools/pack/SKILL.md", "tools/pack/known.json", "skills/one/SKILL.md"}


def test_long_ids_are_ids_as_well(tmp_path: Path) -> None:
    folder = tmp_path / "origin"
    subprocess.run(["git", "init", "-q", "--object-format=sha256", str(folder)], check=True)
    repo = Repo(folder, is_new=False)
    repo.skill("skills/one")
    base = repo.commit()
    changed(repo)
    head = repo.commit()
    with GithubReading(folder) as api, closing(Reader(api.url, api.token, api.repository)) as reader:
        fetched = fetch_range(reader, tmp_path / "fetched", base, head)
    assert [len(name) for name in fetched[:3]] == [64, 64, 64]
    (one,) = report(tmp_path / "fetched", fetched.base, fetched.head, tmp_path / "out").reports
    assert one.change.files == ("scripts/run.sh",)


def test_what_is_kept_of_the_base_is_not_taken_from_the_head(
    repo: Repo, fetch: Callable[..., Fetched], tmp_path: Path
) -> None:
    repo.write("tools/script.yml", "base\n")
    repo.commit()
    repo.write("tools/script.yml", "head\n")
    repo.write("tools/new.yml", "new\n")
    repo.commit()
    fetched = fetch(keep=lambda path: path.startswith("tools"))
    seen = Repository(tmp_path / "fetched")
    assert seen.blobs(seen.tree(fetched.base)) == {"tools/script.yml": b"base\n"}
    assert "tools/new.yml" not in seen.tree(fetched.head)
