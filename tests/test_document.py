from __future__ import annotations

import pytest

from skillgate.document import decode
from skillgate.errors import ConfigError, SuiteError
from skillgate.values import Struct


class Inner(Struct, kw_only=True, rename="kebab"):
    max_size: int = 1


class Outer(Struct, kw_only=True):
    name: str = ""
    parts: tuple[Inner, ...] = ()
    table: dict[str, Inner] = {}


@pytest.mark.parametrize(
    ("text", "message", "hint"),
    [
        ("name: [", "f.yml:1: expected the node content, but found '<stream end>'", "Correct the YAML."),
        ("nam: x", "f.yml:1: unknown key `nam`", "Did you mean `name`?"),
        (
            "name: x\nparts:\n- max-size: 1\n- maxsize: 2",
            "f.yml:4: unknown key `maxsize`",
            "Did you mean `max-size`?",
        ),
        (
            "table:\n  a: {max-size: 1}\n  b:\n    zzz: 1",
            "f.yml:4: unknown key `zzz`",
            "Known here: max-size.",
        ),
        ("name: x\nname: y", "f.yml:2: the key `name` stands here twice", "Correct the YAML."),
        (
            "\nparts:\n- {max-size: many}",
            "f.yml:3: `parts[0].max-size`: expected `int`, got `str`",
            "Correct the value.",
        ),
        ("- 1", "f.yml:1: expected `object`, got `array`", "Correct the value."),
    ],
)
def test_an_error_names_the_line_and_what_to_write(text: str, message: str, hint: str) -> None:
    with pytest.raises(ConfigError) as caught:
        decode(text, Outer, "f.yml")
    assert (caught.value.message, caught.value.hint) == (message, hint)


def test_the_empty_document_is_all_defaults() -> None:
    assert decode("", Outer, "f.yml") == Outer()


def test_a_value_is_read_with_its_nested_structs() -> None:
    text = "name: x\nparts: [{max-size: 2}]\ntable: {a: {}}"
    assert decode(text, Outer, "f.yml") == Outer(name="x", parts=(Inner(max_size=2),), table={"a": Inner()})


@pytest.mark.parametrize(
    "text",
    [
        "&a [*a]",
        "a: &a [x, x, x, x, x, x, x, x, x, x]\n"
        + "\n".join(
            f"{chr(98 + i)}: &{chr(98 + i)} [{', '.join(['*' + chr(97 + i)] * 10)}]" for i in range(8)
        ),
    ],
)
def test_a_bomb_is_refused_before_it_is_expanded(text: str) -> None:
    with pytest.raises(SuiteError, match="expands to more than"):
        decode(text, Outer, "f.yml", SuiteError)


def test_nesting_beyond_the_stack_is_an_error_not_a_crash() -> None:
    with pytest.raises(ConfigError, match=r"f\.yml:1: "):
        decode("[" * 50_000, Outer, "f.yml")


@pytest.mark.parametrize("text", ["a: \x00", "\ud800: x", "!!python/object:os.system {}", "a: 2024-99-99"])
def test_no_text_crashes_it(text: str) -> None:
    with pytest.raises(ConfigError, match=r"^f\.yml:1: "):
        decode(text, Outer, "f.yml")
