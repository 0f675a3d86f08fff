"""Text -> cl100k_base tokens; the only tokenizer import, loaded when the first count is needed.

The ranks travel in the package (data/), so nothing is fetched. They are those of one public tokenizer:
the count of the model under test differs.
"""

from __future__ import annotations

import binascii
import gzip
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from skillgate.skill import Skill
from skillgate.values import TokenWeight

if TYPE_CHECKING:
    from tiktoken import Encoding

RANKS = Path(__file__).with_name("data") / "cl100k_base.tiktoken.gz"
PATTERN = (
    r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}+| ?[^\s\p{L}\p{N}]++[\r\n]*+"
    r"|\s++$|\s*[\r\n]|\s+(?!\S)|\s"
)  # as tiktoken_ext.openai_public


@cache
def _encoding() -> Encoding:
    from tiktoken import Encoding  # with the ranks 0.1 s: only for a command that counts

    words = gzip.decompress(
        RANKS.read_bytes()
    ).split()  # "<token in base64> <rank>" per line, ranks in order from 0
    ranks = {binascii.a2b_base64(word): rank for rank, word in enumerate(words[::2])}
    return Encoding("cl100k_base", pat_str=PATTERN, mergeable_ranks=ranks, special_tokens={})


def count(text: str) -> int:
    """Count the tokens; what looks like a special token is counted as text."""
    return len(_encoding().encode_ordinary(text)) if text else 0


def count_above(text: str, limit: int) -> int:
    """Count only if it can matter: return 0 for a text of at most `limit` tokens.

    A token is at least one byte, so a text of `limit` bytes needs no tokenizer.
    """
    if len(text) <= limit and len(text.encode("utf-8", "replace")) <= limit:
        return 0
    exact = count(text)
    return exact if exact > limit else 0


def listing(skill: Skill) -> str:
    """Return what a client lists of a skill on every request."""
    return f"{skill.name or ''}: {skill.description or ''}"


def weigh(skill: Skill) -> TokenWeight:
    """Count the listing text, the body of SKILL.md and all other text files of the folder."""
    references = sum(count(source.text) for source in skill.sources[1:])
    return TokenWeight(listing=count(listing(skill)), body=count(skill.body), references=references)
