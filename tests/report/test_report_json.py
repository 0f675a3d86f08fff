"""report.json: what is written can be read, what cannot be read says why, every renderer takes it."""

from __future__ import annotations

import json as stdlib_json
import math
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from skillgate.core import GateReport, Interval
from skillgate.errors import ReportError
from skillgate.report import annotations, findings, json, markdown, text

HINT = "Give the report.json of a gate, unchanged."


def strategy(info: Any) -> st.SearchStrategy[Any]:
    """Build any value of a type that msgspec can describe, from its own constraints."""
    inspect = msgspec.inspect
    match info:
        case inspect.StructType():
            fields = {f.name: strategy(f.type) for f in info.fields if f.name != "schema"}
            built = st.fixed_dictionaries(fields).filter(lambda values: is_valid(info.cls, values))
            return built.map(lambda values: info.cls(**values))
        case inspect.NamedTupleType():
            return st.tuples(*(strategy(field.type) for field in info.fields)).map(lambda v: info.cls(*v))
        case inspect.VarTupleType():
            return st.lists(strategy(info.item_type), max_size=2).map(tuple)
        case inspect.DictType():
            return st.dictionaries(strategy(info.key_type), strategy(info.value_type), max_size=2)
        case inspect.UnionType():
            return st.one_of(*(strategy(member) for member in info.types))
        case inspect.EnumType():
            return st.sampled_from(info.cls)
        case inspect.FloatType():
            low, high = (
                info.ge if info.ge is not None else info.gt,
                info.le if info.le is not None else info.lt,
            )
            return st.floats(
                low,
                high,
                allow_nan=False,
                allow_infinity=False,
                exclude_min=info.gt is not None,
                exclude_max=info.lt is not None,
            )
        case inspect.IntType():
            return st.integers(info.ge or 0, 10**12)
        case inspect.BoolType():
            return st.booleans()
        case inspect.NoneType():
            return st.none()
        case inspect.StrType():
            return st.text(max_size=12)
    raise AssertionError(info)


def is_valid(kind: type, values: dict[str, Any]) -> bool:
    return kind is not Interval or (values["low"] < values["high"])


REPORTS = strategy(msgspec.inspect.type_info(GateReport))
LESS = settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])


@LESS
@given(REPORTS)
def test_round_trip(report: GateReport) -> None:
    written = json.dump(report)
    assert json.load(written, "report.json") == report
    assert json.dump(json.load(written, "report.json")) == written


@LESS
@given(REPORTS)
def test_every_renderer_takes_every_report(report: GateReport) -> None:
    assert len(markdown.render(report)) <= markdown.BUDGET
    assert text.render(report, width=80)
    found = [finding for part in report.reports for finding in part.findings]
    assert findings.render_text(found, {}, findings.Counts(1))
    assert annotations.render(found).count("\n") == len(found)


def test_golden(samples, golden) -> None:
    golden("not-run.json", json.dump(samples.not_run()))
    whole = samples.scripted()
    skill = whole.reports[0]
    small = msgspec.structs.replace(
        skill,
        runs=skill.runs[:1],
        comparisons=skill.comparisons[:1],
        plan=msgspec.structs.replace(skill.plan, cells=skill.plan.cells[:2]),
    )
    golden("scripted.json", json.dump(msgspec.structs.replace(whole, reports=(small,))))


def test_every_sample_round_trips(sample_name: str, samples) -> None:
    report = samples.ALL[sample_name]()
    assert json.load(json.dump(report), "report.json") == report


def test_versions_are_sorted_and_fields_are_not(samples) -> None:
    report = samples.nothing()
    turned = msgspec.structs.replace(report, versions=dict(reversed(report.versions.items())))
    assert json.dump(turned) == json.dump(report)
    assert list(stdlib_json.loads(json.dump(report)))[:3] == ["schema", "base", "head"]


def test_lone_surrogates_survive_and_the_text_is_utf_8(samples) -> None:
    """A file name that is not UTF-8 reaches us with surrogates."""
    report = msgspec.structs.replace(samples.nothing(), base="caf\udce9 →")
    written = json.dump(report)
    assert '"base": "caf\\udce9 →"' in written.encode("utf-8").decode("utf-8")
    assert json.load(written, "report.json") == report


def edit(samples, **changes: object) -> str:
    return stdlib_json.dumps(stdlib_json.loads(json.dump(samples.merge())) | changes)


def test_errors_name_path_and_place(samples) -> None:
    whole = stdlib_json.loads(json.dump(samples.merge()))
    whole["reports"][0]["plan"]["seed"] = "seven"
    with pytest.raises(ReportError) as caught:
        json.load(stdlib_json.dumps(whole), "out/report.json")
    assert caught.value.message == "out/report.json: reports[0].plan.seed: expected `int`, got `str`"
    assert caught.value.hint == HINT


@pytest.mark.parametrize(
    ("written", "message"),
    [
        ('{"schema": 1,\n  oops}', "r.json:2: not JSON: Expecting property name enclosed in double quotes"),
        ("", "r.json:1: not JSON: Expecting value"),
        ("[]", "r.json: not a report of skillgate: it has no `schema`"),
        ("{}", "r.json: not a report of skillgate: it has no `schema`"),
        ('{"schema": 1}', "r.json: object missing required field `base`"),
        ('{"schema": 1, "base": NaN}', "r.json: not JSON: NaN is not a number"),
    ],
)
def test_broken_reports(written: str, message: str) -> None:
    with pytest.raises(ReportError) as caught:
        json.load(written, "r.json")
    assert (caught.value.message, caught.value.hint) == (message, HINT)


def test_nested_too_deeply() -> None:
    with pytest.raises(ReportError, match=r"r\.json: not JSON: "):
        json.load("[" * 100_000, "r.json")


def test_unknown_fields_and_impossible_values_are_refused(samples) -> None:
    with pytest.raises(ReportError, match="unknown field `extra`"):
        json.load(edit(samples, extra=1), "r.json")
    with pytest.raises(ReportError, match="fail_on: invalid enum value"):
        json.load(edit(samples, fail_on="sometimes"), "r.json")


@pytest.mark.parametrize("schema", [0, 2, "1", None, [1]])
def test_another_schema_is_refused(schema: object, samples) -> None:
    with pytest.raises(ReportError) as caught:
        json.load(edit(samples, schema=schema), "r.json")
    assert caught.value.message == f"r.json: schema {schema!r}, this version reads 1"
    assert "or run the gate again" in caught.value.hint


def test_another_schema_inside_is_refused(samples) -> None:
    whole = stdlib_json.loads(json.dump(samples.merge()))
    whole["reports"][0]["schema"] = 3
    with pytest.raises(ReportError, match="schema 3, this version reads 1"):
        json.load(stdlib_json.dumps(whole), "r.json")


def test_not_a_number_is_never_written() -> None:
    with pytest.raises(ValueError, match="not JSON compliant"):
        json.write({"delta": math.nan})
