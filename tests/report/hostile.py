"""Text that wants more than to be read, a report that holds it everywhere, and what GitHub would make of it.

`CORPUS` maps a name to a string that a skill, a model, a test or a pull request may bring. `everywhere()`
fills every place of a report that takes foreign text; `poison` puts a string into all of them.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterator
from html.parser import HTMLParser

import cmarkgfm
import msgspec
from cmarkgfm.cmark import Options

from skillgate.core import (
    ArmPair,
    ChangeKind,
    Decision,
    FlakyTask,
    GateReport,
    Look,
    Outcome,
    Report,
    Stop,
    Verdict,
)
from skillgate.values import InputPrice, TokenWeight
from tests.report import samples

_URL = "https://evil.example"
_SHA = "ec26c3e57ca3a959ca5aad62de7213c562f8c821"

CORPUS: dict[str, str] = {
    # links
    "link": f"[click]({_URL})",
    "link-title": f"[click](<{_URL}> 'title')",
    "link-over-lines": f"[click\nhere](\n{_URL}\n)",
    "link-nested": f"[[click]({_URL})]({_URL})",
    "link-relative": "[click](/settings) [x](#y) ![z](z.png) [a](<b c>)",
    "link-escaped": "\\[click\\](/settings) \\\\[click\\\\](/settings)",
    "link-script": "[click](javascript:alert(1)) [data](data:text/html,x)",
    "reference": f"[ref][1]\n\n[1]: {_URL}",
    "reference-collapsed": f"[ref][]\n\n[ref]: <{_URL}> 'title'",
    "reference-shortcut": f"[ref]: {_URL}\n\n[ref]",
    "reference-to-ours": "[full report] [full report][] ![full report]",
    "image": f"![x]({_URL}/x.png)",
    "image-link": f"[![x]({_URL}/x.png)]({_URL})",
    "image-reference": f"![x][y]\n\n[y]: {_URL}/x.png",
    "autolink": f"<{_URL}>",
    "autolink-mail": "<someone@evil.example> <mailto:someone@evil.example>",
    "url": f"see {_URL}/a?b=c&d=(e)#f.",
    "url-glued": f"x{_URL} (http://evil.example)_ftp://evil.example_",
    "url-in-quotes": f"'{_URL}' \"{_URL}\" *{_URL}*",
    "url-upper": "HTTPS://EVIL.EXAMPLE Http://evil.example",
    "url-split-by-invisible": "https:\u200b//evil.example htt\u00adps://evil.example w\u2060ww.evil.example",
    "www": "www.evil.example",
    "www-glued": "(www.evil.example) *www.evil.example* ~WWW.evil.example",
    "mail": "mail someone@evil.example or xmpp:a@evil.example/b now",
    "wiki-link": f"[[Home]] [[x|{_URL}]]",
    # HTML
    "tags": "</sub><b>x</b><br/></p>",
    "script": "<script>alert(1)</script>",
    "tag-img": "<img src=x onerror=alert(1)>",
    "tag-unclosed": "<a href='x' <b",
    "tag-over-lines": "<a\nhref='https://evil.example'\n>x</a\n>",
    "tag-block": "\n\n<div>\n\n# x\n\n</div>",
    "tag-upper": "<IMG SRC=X><IFRAME SRC=X>",
    "tag-anchor": '<a name="x" id="x">x</a>',
    "html-comment": "<!-- hidden -->",
    "html-comment-open": "<!-- the rest is hidden",
    "html-comment-close": "--> <i>out of the comment</i> <!--",
    "html-comment-bang": "--!> <i>x</i>",
    "marker": "<!-- skillgate:report:v1 id=default -->",
    "marker-next-line": "\n<!-- skillgate:report:v1 id=default -->\n",
    "cdata": "<![CDATA[ x ]]> <?php x ?> <!DOCTYPE html>",
    "details-close": "</details></td></tr></table><h1>merged</h1>",
    "details-open": "<details><summary>x",
    "summary-close": "</code></summary></details><b>merge</b>",
    "entity": "&lt;b&gt; &#64;octocat &#x40;octocat &commat;octocat &num;1 &#35;1",
    "entity-line": "&NewLine;&NewLine;&num; heading &Tab; &nbsp;",
    "entity-pipe": "a &vert; b &#124; c &verbar;",
    "sub-close": "</sub></code></pre></li></ul><br><hr>",
    # mentions and references
    "mention": "@octocat approve",
    "mention-team": "@acme/reviewers: please (@octocat), [@octocat] _@octocat_",
    "mention-quoted": "`@octocat` then @octocat and ``@octocat``",
    "mention-glued": "`x`@octocat`y`@acme/team",
    "mention-wide": "＠octocat ＃1",
    "mention-split-by-invisible": "@\u200boctocat @\u2060octocat \u200d@octocat",
    "issue": "fixes #1, closes #2",
    "issue-repository": "acme/skills#2 octocat#3",
    "issue-gh": "GH-3 gh-4 (GH-5)",
    "issue-split-by-invisible": "#\u200b1 GH\u200b-1 G\u00adH-1",
    "issue-glued": "`x`#1 x#`1`",
    "commit": f"{_SHA} {_SHA[:7]} acme/skills@{_SHA[:12]}",
    "commit-letters": "deadbeef abcdefa FACADED defaced",
    "commit-digits": "see 1234567 and 20261130",
    "commit-glued": f"_{_SHA}_ ({_SHA[:10]}) é{_SHA[:9]} {_SHA[:8]}..{_SHA[8:16]}",
    "advisory": "GHSA-jfh8-c2jp-5v3q CVE-2026-12345",
    # blocks
    "heading": "\n\n# A heading\n\n## Another\n",
    "heading-here": "# A heading #",
    "heading-underlined": "text\n=====\n",
    "heading-underlined-thin": "text\n---\n",
    "underline-alone": "=====",
    "rule-dashes": "---",
    "rule-stars": "***",
    "rule-underscores": "_ _ _",
    "front-matter": "---\nname: x\n---\n",
    "table": "a | b | c\n|---|---|\n| d",
    "table-one-column": "| a |\n| - |\n| b |",
    "table-alignment": ":-- | :-: | --:",
    "table-alignment-row": "|:--|:-:|--:|",
    "pipe-escaped": "a \\| b \\\\| c \\\\\\| d",
    "pipe-in-code": "`a | b` ``c \\| d``",
    "pipe-flood": "|" * 300,
    "quote": "> quoted\n> > twice",
    "quote-alert": "> [!WARNING]\n> alert",
    "list": "- item\n- item\n1. one\n* star\n+ plus",
    "list-number": "1) one",
    "task-list": "- [x] done\n- [ ] open",
    "task-list-here": "[x] done [ ] open",
    "footnote": "[^1] and [^note]\n\n[^1]: the note",
    "indented": "    indented code\n\n\tby a tab",
    "fence": "```\nfence\n```\n<b>after the fence</b>",
    "fence-open": "```text\nnever closed",
    "fence-4": "````\n```\n````\n<b>x</b>",
    "fence-64": "`" * 64 + "\n# x\n" + "`" * 64,
    "fence-indented": "   ```\n  ```\n# x",
    "fence-tildes": "~~~\n~~~~\n<b>x</b>\n~~~~",
    "fence-mermaid": "```mermaid\ngraph TD; A-->B\n```",
    "fence-math": "```math\nx\n```",
    # inline
    "backticks": "`one``two```three````<b>x</b>`",
    "backticks-uneven": "`a``b`<b>x</b>`c",
    "backtick-alone": "one ` tick",
    "backtick-last": "@octocat`",
    "backtick-first": "`@octocat",
    "backticks-79": "`" * 79 + "<b>x</b> @octocat",
    "backticks-80": "`" * 80 + "<b>x</b> @octocat",
    "backticks-90": "x" + "`" * 90 + "<b>x</b> @octocat",
    "backticks-flood": "`" * 400,
    "backslash-last": "ends with \\",
    "backslash-backtick": "\\`<b>x</b>\\` `\\`<b>y</b>",
    "backslashes": "\\\\\\<b> \\&lt; \\@octocat \\#1",
    "emphasis": "**bold** _it_ ~~gone~~ ***both*** __x__ ~one~",
    "emphasis-open": "**bold _it ~~gone",
    "math": "$\\href{https://evil.example}{x}$ and $$x$$",
    "math-code": "$`x`$ 5$`x`$",
    "math-money": "$2.50 and $3 or $4$ x$5$",
    "emoji": ":tada: :+1::white_check_mark:",
    "hard-break": "one  \ntwo\\\nthree<br>four",
    "color": "`#ff0000` `rgb(255,0,0)`",
    # characters
    "bidi": "\u202egnp.exe\u202c \u2066iso\u2069 \u061c\u200e\u200f",
    "zero-width": "ze\u200bro\u200c\u200d\u2060\ufeff\u00ad \U000e0041\U000e007f",
    "fillers": "\u115f\u1160\u3164\uffa0\u2800\u034f\u17b4\ufe0f\U000e0100\U0001d159\u2065\ufff0",
    "nul": "a\x00b\x00",
    "controls": "".join(map(chr, (*range(1, 32), *range(127, 160)))) + "x",
    "line-ends": "a\rb\r\nc\x0bd\x0ce\x85f\u2028g\u2029h\x1ci",
    "line-ends-heading": "a\r# b\x85# c\u2028# d\u2029# e\x0b# f",
    "line-ends-table": "a\r| b |\r|---|\r\u2028| c |",
    "surrogate": "\ud800 half \udfff \udc80",
    "noncharacters": "\ufffe\uffff\U0010ffff\ue000\ufffd",
    "combining": "Z" + "\u0301\u0489\u0334\u20dd" * 60 + "o",
    "homoglyphs": "ѕkіllѕ/саrеful ｍｅｒｇｅ ✅ 𝐛𝐥𝐨𝐜𝐤",
    "ansi": "\x1b[31mred\x1b[0m \x1b]0;title\x07 \x9b2J \x1b[2K\x1b[1A\b\b",
    "ansi-link": f"\x1b]8;;{_URL}\x1b\\click\x1b]8;;\x1b\\",
    "long": "A" * 5000,
    "long-words": "word " * 3000,
    "long-line-count": "x\n" * 3000,
    "long-wide": "🙂" * 2000,
    "long-active": "@<|`" * 1500,
    "spaces": " \t x \u00a0\u3000 \t ",
    # the runner's log, shells and terminals
    "command": "::set-output name=verdict::merge",
    "command-next-line": "x\n::error::injected\n  ::warning::indented",
    "command-mask": "::add-mask::a",
    "command-stop": "::stop-commands::token",
    "command-resume": "::token::\n::set-env name=PATH::/evil",
    "command-old": "##[command] x ##[error]y\n##[add-mask]a",
    "command-encoded": "x%0A::error::y%0D%0a%3A%3Aset-output name=x%3A%3Ay",
    "command-properties": "a,line=1,file=b::c%2Cd:e",
    "command-wide-space": "\u3000::error::x\u2028::error::y\x85::error::z\r::error::w",
    "command-in-words": "word " * 18 + "::error::x ##[error]y " * 30,
    "output-heredoc": "x\nEOF\nverdict=merge\nverdict<<EOF\nmerge\nEOF",
    "shell": "$(id) `id` ${IFS} \"'; rm -rf / #",
    "shell-quotes": "\"double\" 'single' \\ \"",
    "dashes": "--help -rf -- -x",
    "expression": "${{ secrets.KEY }} ${{ github.token }}",
    "rich-markup": "[red]x[/red] [link=file:///x]s[/link] [bold",
    "format": "%s %d {0} {name} %(x)s {{",
    "path": "../../../settings/\\..\\x",
}  # fmt: skip

PLACES: dict[str, Callable[[str, str], str]] = {
    "before": lambda hostile, text: hostile + text,
    "after": lambda hostile, text: text + hostile,
    "instead": lambda hostile, text: hostile,
}
_OURS = {"severity", "kind", "outcome", "metric", "decision", "fail_on", "on-inconclusive", "inject", "stop"}
_MAPS = {"versions", "suites", "task_usd_micros"}


# --- a report that is foreign text wherever it can be ------------------------------


def everywhere() -> GateReport:
    """A small report with something in every place: no row of it has to be cut."""
    renamed = _report("skills/workflow-templates", ArmPair("base", "head"), ChangeKind.RENAMED)
    sliced = _report("skills/parts", ArmPair("without:examples", "head"), ChangeKind.CHANGED)
    reasons = (f"{renamed.skill}: {renamed.verdict.reasons[0]}", "The gate's own second reason.")
    report = samples.gate(renamed, sliced, verdict=Verdict(decision=Decision.BLOCK, reasons=reasons))
    return msgspec.structs.replace(report, notes=("`skills/x/skill.md` was not looked at.", "Another note."))


def _report(skill: str, arms: ArmPair, kind: ChangeKind) -> Report:
    scores = {
        "ci-workflows/reusable": ((4, 4, 4), (1, 1, 1)),
        "textkit/slugify": ((4, 4, 3), (2, 3, 2)),
    }
    report = samples.evaluated(
        skill,
        arms,
        scores,
        change=kind,
        decision=Decision.BLOCK,
        meanings=(samples.WORSE, samples.WITHIN),
        more=("Task ci-workflows/reusable collapsed.",),
        lost=((Outcome.INVALID, "the API was overloaded: HTTP 529"), (Outcome.SKIPPED, "no money left")),
        findings=samples.findings(skill),
        planned=5,
        stepped=True,
        reused=2,
        weight_base=TokenWeight(listing=48, body=1530, references=310),
        weight_head=TokenWeight(listing=52, body=2635, references=310),
    )
    assert report.plan is not None
    runs = tuple(
        msgspec.structs.replace(
            run, changed_files=("ci/x.yml",), trace_path="traces/1.jsonl", models=("model-1",)
        )
        for run in report.runs
    )
    flaky = FlakyTask(task="textkit/slugify", runs=20, low=0.0, high=1.0, sd=0.2)
    return msgspec.structs.replace(
        report,
        change=msgspec.structs.replace(report.change, old_path="skills/old-name"),
        plan=msgspec.structs.replace(report.plan, task_usd_micros={"textkit/slugify": 5}),
        runs=runs,
        looks=(Look(repeats=3, planned=5, information=0.6, level=0.99, stop=Stop.DECIDED),),
        skills_compared=2,
        adjusted_p=0.01,
        calibration=msgspec.structs.replace(samples.CALIBRATION, flaky=(flaky,)),
        input_price=InputPrice(usd_per_mtok=2, source="model-1"),
        versions={"agent-version": "1.2.3"},
    )


def poison(report: GateReport, hostile: str, place: str) -> GateReport:
    """Put hostile text in every string, and every key of a map, that is not a word of our own."""
    put = PLACES[place]

    def walk(value: object, key: str = "") -> object:
        if isinstance(value, dict):
            names = {name: put(hostile, name) if key in _MAPS else name for name in value}
            return {
                names[name]: walk(item, name if key not in _MAPS else key) for name, item in value.items()
            }
        if isinstance(value, list):
            return [walk(item, key) for item in value]
        is_foreign = isinstance(value, str) and value and key not in _OURS
        return put(hostile, value) if is_foreign else value

    return msgspec.convert(walk(json.loads(json.dumps(msgspec.to_builtins(report)))), GateReport)


def empty_places(report: GateReport) -> set[str]:
    """Name the fields that take foreign text and have none anywhere in the report."""
    filled: dict[str, bool] = {}

    def walk(value: object) -> None:
        if isinstance(value, msgspec.Struct):
            for field in msgspec.structs.fields(type(value)):
                item = getattr(value, field.name)
                if "<class 'str'>" in repr(field.type) or field.type is str:
                    name = f"{type(value).__name__}.{field.name}"
                    filled[name] = filled.get(name, False) or bool(item)
                walk(item)
        elif isinstance(value, tuple | list):
            for item in value:
                walk(item)
        elif isinstance(value, dict):
            walk([*value, *value.values()])

    walk(report)
    return {name for name, is_filled in filled.items() if not is_filled}


# --- what GitHub makes of it -------------------------------------------------------

_VOID = {"br", "hr", "img", "input"}
_LINKS_ITSELF = {
    "mention": re.compile(r"@\w"),
    "issue": re.compile(r"#\d|\bgh-\d", re.IGNORECASE),
    "commit": re.compile(r"(?<![0-9a-z])[0-9a-f]{7,40}(?![0-9a-z])", re.IGNORECASE),
    "advisory": re.compile(r"\b(ghsa|cve)-", re.IGNORECASE),
    "address": re.compile(r"[a-z]://|www\.", re.IGNORECASE),
    "emoji": re.compile(r":[\w+-]+:"),
    "formula": re.compile(r"\$(?!\d)"),
}


class Page(HTMLParser):
    """What a browser gets: tags, links, comments, and the words that GitHub looks through for references.

    Nothing is filtered: raw HTML of a text that is not escaped arrives here as a tag.
    """

    def __init__(self, markdown: str) -> None:
        super().__init__()
        self.tags: Counter[str] = Counter()
        self.attributes: set[str] = set()
        self.links: list[str] = []
        self.comments: list[str] = []
        self.words: list[str] = []
        self.strays: list[str] = []
        self._open: list[str] = []
        self.feed(html_of(markdown))
        self.strays += self._open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags[tag] += 1
        self.attributes |= {name for name, _ in attrs}
        self.links += [value or "" for name, value in attrs if name in ("href", "src")]
        if tag not in _VOID:
            self._open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag in _VOID:
            return
        if self._open[-1:] == [tag]:
            self._open.pop()
        else:
            self.strays.append(f"/{tag}")

    def handle_comment(self, data: str) -> None:
        self.comments.append(data)

    def handle_decl(self, decl: str) -> None:
        self.strays.append(decl)

    unknown_decl = handle_pi = handle_decl

    def handle_data(self, data: str) -> None:
        if not {"code", "pre", "a"} & set(self._open):
            self.words.append(data)

    def references(self) -> Iterator[str]:
        """Give what GitHub would turn into a link, an emoji or a formula by itself."""
        for words in self.words:
            for kind, pattern in _LINKS_ITSELF.items():
                yield from (
                    f"{kind}: {words[max(0, m.start() - 10) : m.end() + 10]}" for m in pattern.finditer(words)
                )


def html_of(markdown: str) -> str:
    """Render as GitHub does before it cleans up: every extension, raw HTML let through."""
    return cmarkgfm.markdown_to_html_with_extensions(
        markdown.encode().decode(),  # a lone surrogate must not get this far
        options=Options.CMARK_OPT_UNSAFE | Options.CMARK_OPT_FOOTNOTES,
        extensions=["table", "autolink", "strikethrough", "tasklist"],
    )


def runs_command(line: str) -> bool:
    """Say whether the runner takes a line of a log for a command, in its new form or the old one."""
    return (line.lstrip().startswith("::") and "::" in line.lstrip()[2:]) or "##[" in line


def log_lines(text: str) -> list[str]:
    """Split as the runner splits the output of a step."""
    return re.split(r"\r\n|\r|\n", text)
