from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import closing

import pytest
from werkzeug.datastructures import Headers

from skillgate.github.client import Change, Client, NotPosted, Posted
from tests.fakes.github_api import FORBIDDEN, SECONDARY, GithubApi, Reply, error

MARKER = "<!-- skillgate:report:v1 id=default -->"
OLD, NEW = f"{MARKER}\n### merge\n", f"{MARKER}\n### block\n"
SHA = "a" * 40
COMMENTS = "/repos/acme/skills/issues/7/comments"


@pytest.fixture
def api() -> Iterator[GithubApi]:
    with GithubApi() as running:
        yield running
    assert running.violations == []


def _client(api: GithubApi, waits: list[float] | None = None) -> closing[Client]:
    return closing(
        Client(api.url, api.token, api.repository, sleep=(waits if waits is not None else []).append)
    )


def _url(comment: int) -> str:
    return f"https://github.com/acme/skills/pull/7#issuecomment-{comment}"


def test_a_comment_is_created_then_edited_then_left_alone(api: GithubApi) -> None:
    with _client(api) as client:
        answers = [client.put_comment(7, body) for body in (OLD, NEW, NEW)]
    assert answers == [
        Posted(change=Change.CREATED, url=_url(1)),
        Posted(change=Change.EDITED, url=_url(1)),
        Posted(change=Change.UNCHANGED, url=_url(1)),
    ]
    assert api.bodies == [NEW]
    assert [line.split("?")[0] for line in api.log] == [
        *("GET /user", f"GET {COMMENTS}", f"POST {COMMENTS}"),
        *("GET /user", f"GET {COMMENTS}", "PATCH /repos/acme/skills/issues/comments/1"),
        *("GET /user", f"GET {COMMENTS}"),
    ]


def test_line_ends_as_github_stores_them_are_no_change(api: GithubApi) -> None:
    api.say(7, NEW.strip().replace("\n", "\r\n"), "github-actions[bot]")
    with _client(api) as client:
        assert client.put_comment(7, NEW) == Posted(change=Change.UNCHANGED, url=_url(1))


def test_our_comment_is_found_behind_several_pages(api: GithubApi) -> None:
    for count in range(250):
        api.say(7, f"comment {count}")
    ours = api.say(7, OLD, "github-actions[bot]")
    api.say(7, "thanks")
    with _client(api) as client:
        assert client.put_comment(7, NEW) == Posted(change=Change.EDITED, url=_url(ours))
    assert [line for line in api.log if "comments?" in line] == [
        f"GET {COMMENTS}?per_page=100",
        f"GET {COMMENTS}?page=2&per_page=100",
        f"GET {COMMENTS}?page=3&per_page=100",
    ]


@pytest.mark.parametrize(
    ("login", "body"),
    [
        pytest.param("mallory", OLD, id="a stranger's comment with our marker"),
        pytest.param("other-app[bot]", OLD, id="another app's comment with our marker"),
        pytest.param("github-actions[bot]", f"see\n{OLD}", id="the marker is not the first line"),
        pytest.param("github-actions[bot]", OLD.replace("default", "docs"), id="another comment-id"),
        pytest.param("github-actions[bot]", OLD.replace("default", "default-2"), id="a longer comment-id"),
    ],
)
def test_a_comment_that_is_not_ours_stays_as_it_is(api: GithubApi, login: str, body: str) -> None:
    api.say(7, body, login)
    with _client(api) as client:
        assert client.put_comment(7, NEW) == Posted(change=Change.CREATED, url=_url(2))
    assert api.bodies == [body, NEW]


def test_with_the_token_of_a_user_the_comment_is_that_users() -> None:
    with GithubApi(viewer="maintainer") as api:
        api.say(7, OLD, "github-actions[bot]")
        with _client(api) as client:
            assert client.put_comment(7, OLD).change is Change.CREATED  # type: ignore[union-attr]  # Posted
            assert client.put_comment(7, NEW) == Posted(change=Change.EDITED, url=_url(2))
    assert api.violations == []


def test_a_comment_deleted_meanwhile_is_created_again(api: GithubApi) -> None:
    api.say(7, OLD, "github-actions[bot]")
    api.plan("PATCH ", error(404, "Not Found"))
    with _client(api) as client:
        assert client.put_comment(7, NEW) == Posted(change=Change.CREATED, url=_url(2))


def test_without_create_only_an_old_comment_is_edited(api: GithubApi) -> None:
    with _client(api) as client:
        assert client.put_comment(7, NEW, create=False) == Posted(change=Change.NOT_NEEDED)
        api.say(7, OLD, "github-actions[bot]")
        assert client.put_comment(7, NEW, create=False) == Posted(change=Change.EDITED, url=_url(1))
    assert api.bodies == [NEW]


@pytest.mark.parametrize(
    ("accepted", "permission"),
    [
        ("issues=write; pull_requests=write", "pull-requests: write"),
        ("issues=write", "issues: write"),
        ("", "pull-requests: write"),
    ],
)
def test_a_missing_permission_is_named_with_the_lines_to_add(
    api: GithubApi, accepted: str, permission: str
) -> None:
    api.plan(
        "POST ", error(403, FORBIDDEN, **({"x_accepted_github_permissions": accepted} if accepted else {}))
    )
    waits: list[float] = []
    with _client(api, waits) as client:
        answer = client.put_comment(7, NEW)
    assert answer == NotPosted(
        problem=f"GitHub answered 403: {FORBIDDEN}; the token lacks `{permission}`",
        hint=f"Add to the job in the workflow:\npermissions:\n  contents: read\n  {permission}",
    )
    assert waits == []


@pytest.mark.parametrize(
    ("reply", "waited"),
    [
        pytest.param(error(403, SECONDARY, Retry_After="3"), [3.0], id="secondary limit"),
        pytest.param(error(403, SECONDARY), [60.0], id="secondary limit without Retry-After"),
        pytest.param(error(429, "Too many requests", Retry_After="1"), [1.0], id="429"),
        pytest.param(error(502, "Server Error"), [2.0], id="server error"),
    ],
)
def test_what_passes_is_waited_for(api: GithubApi, reply: Reply, waited: list[float]) -> None:
    api.plan("POST ", reply)
    waits: list[float] = []
    with _client(api, waits) as client:
        assert client.put_comment(7, NEW) == Posted(change=Change.CREATED, url=_url(1))
    assert waits == waited


def test_a_post_that_succeeded_behind_a_server_error_is_not_repeated(api: GithubApi) -> None:
    """GitHub may answer 502 although the comment exists: reading again finds it."""
    api.say(7, NEW, "github-actions[bot]")
    api.plan(f"GET {COMMENTS}", Reply(200, []))
    api.plan("POST ", error(502, "Server Error"))
    with _client(api) as client:
        assert client.put_comment(7, NEW) == Posted(change=Change.UNCHANGED, url=_url(1))


@pytest.mark.parametrize(
    ("replies", "waited", "answer"),
    [
        pytest.param(
            [error(403, SECONDARY, Retry_After="3600")],
            [],
            NotPosted(problem=f"GitHub answered 403: {SECONDARY}", hint="Run the job again later."),
            id="Retry-After above the ceiling",
        ),
        pytest.param(
            [error(503, "Unavailable")] * 3,
            [2.0, 4.0],
            NotPosted(problem="GitHub answered 503: Unavailable", hint="Run the job again later."),
            id="a dead service",
        ),
        pytest.param(
            [error(403, "Unable to create comment because issue is locked.")],
            [],
            NotPosted(problem="GitHub answered 403: Unable to create comment because issue is locked."),
            id="locked",
        ),
    ],
)
def test_what_does_not_pass_is_given_up(
    api: GithubApi, replies: list[Reply], waited: list[float], answer: NotPosted
) -> None:
    api.plan("POST ", *replies)
    waits: list[float] = []
    with _client(api, waits) as client:
        assert client.put_comment(7, NEW) == answer
    assert waits == waited
    assert api.bodies == []


def test_a_rate_limit_on_asking_who_we_are_is_waited_for(api: GithubApi) -> None:
    api.plan("GET /user", error(403, SECONDARY, Retry_After="5"))
    waits: list[float] = []
    with _client(api, waits) as client:
        assert client.put_comment(7, NEW) == Posted(change=Change.CREATED, url=_url(1))
    assert waits == [5.0]


def test_a_body_above_the_limit_of_github_is_not_posted(api: GithubApi) -> None:
    with _client(api) as client:
        assert client.put_comment(7, MARKER + "\n" + "x" * 65_536) == NotPosted(
            problem="GitHub answered 422: Validation Failed"
        )


def test_a_wrong_token_says_so(api: GithubApi) -> None:
    with closing(Client(api.url, "wrong", api.repository, sleep=[].append)) as client:
        assert client.put_comment(7, NEW) == NotPosted(
            problem="GitHub answered 401: Bad credentials", hint="Pass a valid `github-token`."
        )


def test_no_connection_is_no_exception() -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        port = unused.getsockname()[1]
    waits: list[float] = []
    with closing(Client(f"http://127.0.0.1:{port}", "t", "acme/skills", sleep=waits.append)) as client:
        assert client.put_comment(7, NEW) == NotPosted(
            problem="GitHub could not be reached (ConnectionError)", hint="Run the job again later."
        )
    assert waits == [2.0, 4.0]


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        ({"id": 1}, "TypeError"),
        ([{"id": "x", "user": {"login": 4}}], "BadAttributeException"),
    ],
)
def test_an_answer_that_is_not_githubs_is_no_exception(body: object, problem: str) -> None:
    with GithubApi() as api:  # whose answers here are wrong on purpose: its violations do not count
        api.plan(f"GET {COMMENTS}", Reply(200, body))
        with _client(api) as client:
            assert client.put_comment(7, NEW) == NotPosted(
                problem=f"GitHub's answer makes no sense ({problem})", hint="Run the job again later."
            )
            api.plan("POST ", Reply(201, {}))
            assert client.post_status(SHA, context="c", state="success", description="d", target_url="u") == (
                NotPosted(
                    problem="GitHub's answer makes no sense (KeyError)", hint="Run the job again later."
                )
            )


def test_an_enterprise_server_has_its_api_under_a_path() -> None:
    with GithubApi(prefix="/api/v3") as api:
        for count in range(101):
            api.say(7, f"comment {count}")
        api.say(7, OLD, "github-actions[bot]")
        with _client(api) as client:
            assert client.put_comment(7, NEW) == Posted(change=Change.EDITED, url=_url(102))
            assert isinstance(
                client.post_status(SHA, context="c", state="success", description="d", target_url="u"), Posted
            )
    assert (api.violations, len(api.statuses)) == ([], 1)


def test_a_status_is_set_on_exactly_this_commit(api: GithubApi) -> None:
    with _client(api) as client:
        answer = client.post_status(
            SHA,
            context="skillgate",
            state="failure",
            description="block:\n" + "x" * 200,
            target_url="https://example.org/1",
        )
    assert answer == Posted(change=Change.CREATED, url=f"{api.url}/repos/acme/skills/statuses/{SHA}")
    assert api.statuses == [
        {
            "sha": SHA,
            "state": "failure",
            "context": "skillgate",
            "description": "block: " + "x" * 132 + "…",
            "target_url": "https://example.org/1",
        }
    ]
    assert len(api.statuses[0]["description"]) == 140


def test_a_status_without_permission_names_it(api: GithubApi) -> None:
    api.plan("POST ", error(403, FORBIDDEN, x_accepted_github_permissions="statuses=write"))
    with _client(api) as client:
        answer = client.post_status(
            SHA, context="skillgate", state="success", description="merge", target_url="u"
        )
    assert answer == NotPosted(
        problem=f"GitHub answered 403: {FORBIDDEN}; the token lacks `statuses: write`",
        hint="Add to the job in the workflow:\npermissions:\n  contents: read\n  statuses: write",
    )


@pytest.mark.parametrize(
    ("method", "target", "body"),
    [
        pytest.param("GET", "/repos/acme/skills/nothing", b"", id="an unknown path"),
        pytest.param("POST", COMMENTS, b"{}", id="a body without its field"),
        pytest.param("GET", f"{COMMENTS}?per_page=many", b"", id="a parameter of the wrong type"),
    ],
)
def test_the_double_notices_a_request_that_github_does_not_describe(
    method: str, target: str, body: bytes
) -> None:
    with GithubApi() as api:
        api.answer(method, target, Headers(), body)
        assert len(api.violations) == 1


def test_the_double_notices_an_answer_that_github_would_not_give() -> None:
    with GithubApi() as api:
        api.plan("GET /user", Reply(200, {"login": "x"}))
        api.plan("POST ", Reply(201, {"id": 1}))
        with _client(api) as client:
            client.put_comment(7, NEW)
        assert [violation.split(":")[0] for violation in api.violations] == [
            "response 200 to GET /user",
            f"response 201 to POST {COMMENTS}",
        ]
