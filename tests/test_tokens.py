"""Counts come from the shipped ranks, without a network, and only when they can matter."""

from __future__ import annotations

import gzip
import hashlib
import subprocess
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skillgate import tokens
from skillgate.skill import Files, parse
from skillgate.values import TokenWeight

SHA256 = "223921b76ee99bde995b7ff738513eef100fb51d18c93597a113bcffe865b2a7"


def test_the_shipped_ranks_are_the_published_ones() -> None:
    raw = gzip.decompress(tokens.RANKS.read_bytes())
    assert hashlib.sha256(raw).hexdigest() == SHA256
    assert [int(line.split()[1]) for line in raw.splitlines()] == list(range(100_256))
    assert SHA256 in tokens.RANKS.with_name("NOTICE.md").read_text(encoding="utf-8")


# Counts of the published tokenizer.
@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("", 0),
        ("hello world", 2),
        ("Use when a repository has no workflow.", 8),
        ("tiktoken is great!", 6),
        ("antidisestablishmentarianism", 6),
        ("2 + 2 = 4", 7),
        ("お誕生日おめでとう", 9),
        ("    indented\n\n\tcode  \n", 6),
    ],
)
def test_counts(text: str, count: int) -> None:
    assert tokens.count(text) == count


def test_special_tokens_count_as_text_and_half_surrogates_do_not_raise() -> None:
    assert tokens.count("<|endoftext|>") == 7
    assert tokens.count("\ud800") > 0


@settings(deadline=None)  # the machine may be busy
@given(st.text(max_size=60), st.integers(0, 30))
def test_counting_above_a_limit_agrees_with_counting(text: str, limit: int) -> None:
    exact = tokens.count(text)
    assert tokens.count_above(text, limit) == (exact if exact > limit else 0)


def test_small_texts_load_no_tokenizer() -> None:
    code = (
        "import sys\nfrom skillgate import tokens\nfrom skillgate.lint import engine\n"
        "assert tokens.count_above('x' * 5000, 5000) == 0\n"
        "heavy = ('tiktoken', 'docker', 'scipy', 'github', 'markdown_it')\n"
        "print([name for name in heavy if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_a_skill_weighs_listing_body_and_other_texts() -> None:
    text = "---\nname: demo\ndescription: hello world\n---\nhello world"
    files = Files.from_map(
        {"SKILL.md": text.encode(), "a.md": b"hello world", "b.py": b"hello", "c.png": b"hello"}
    )
    weight = tokens.weigh(parse(files, "demo"))
    assert weight == TokenWeight(listing=tokens.count("demo: hello world"), body=2, references=3)
    assert weight.total == weight.listing + 5


def test_the_pattern_is_that_of_the_library() -> None:
    published = pytest.importorskip("tiktoken_ext.openai_public")
    assert tokens.PATTERN in published.cl100k_base.__code__.co_consts
