"""The wire of Gemini: generateContent, streamed as events or not, and the free count of tokens. Pure.

The model is in the path. Every piece of a stream has the usage so far; the one that says why the
answer ended has the last. `promptTokenCount` includes what was cached; thoughts are charged as output.
"""

from __future__ import annotations

import json
import re
from typing import Any

from skillgate.bench.failure import Failure
from skillgate.bench.meter.body import Body
from skillgate.bench.meter.dialect import (
    ADDED_TOKENS,
    DEFAULT_OUTPUT,
    Answer,
    Ask,
    Json,
    Reading,
    Route,
    Service,
    Trouble,
    count_of,
    deny,
    malformed,
    numbers,
    objects,
    only,
    say,
)
from skillgate.prices import Tokens

_PATH = re.compile(
    r"/v1beta/models/([a-z0-9][a-z0-9._-]{0,99}):(generateContent|streamGenerateContent|countTokens)"
)
_PROMPT = frozenset({"contents", "systemInstruction", "toolConfig", "tools"})
_KNOWN = _PROMPT | {"generationConfig", "labels", "safetySettings"}
_CONTENT = frozenset({"parts", "role"})
_PARTS = frozenset({"functionCall", "functionResponse", "text", "thought", "thoughtSignature"})
_RESPONSE = frozenset({"id", "name", "response", "scheduling", "willContinue"})
_GENERATION = frozenset(
    [
        "candidateCount",
        "frequencyPenalty",
        "logprobs",
        "maxOutputTokens",
        "presencePenalty",
        "responseJsonSchema",
        "responseLogprobs",
        "responseMimeType",
        "responseModalities",
        "responseSchema",
        "seed",
        "stopSequences",
        "temperature",
        "thinkingConfig",
        "topK",
        "topP",
    ]
)
_ERRORS = {
    Trouble.TOKEN: (401, "UNAUTHENTICATED"),
    Trouble.PATH: (404, "NOT_FOUND"),
    Trouble.MALFORMED: (400, "INVALID_ARGUMENT"),
    Trouble.TOO_LARGE: (413, "INVALID_ARGUMENT"),
    Trouble.STOP: (429, "RESOURCE_EXHAUSTED"),
    Trouble.UNREACHABLE: (503, "UNAVAILABLE"),
    Trouble.TIMEOUT: (504, "DEADLINE_EXCEEDED"),
}
# Gemini CLI 0.61 asks once when the text has a limit of 0; after other texts with 429 it asks for minutes.
_NO_MORE = " (limit: 0)"
_QUOTA = {
    "@type": "type.googleapis.com/google.rpc.QuotaFailure",
    "violations": [{"quotaId": "SkillgateBudgetPerDay"}],
}
_FAULTS = {
    400: None,
    401: Failure.API_AUTH,
    402: Failure.API_CREDIT,
    403: Failure.API_AUTH,
    429: Failure.API_RATE_LIMIT,
    503: Failure.API_OVERLOADED,
    529: Failure.API_OVERLOADED,
}


class Gemini:
    """Google's generateContent."""

    credentials = ("x-goog-api-key", "authorization")
    marks = (b'"usageMetadata"', b'"error"', b'"finishReason"', b'"blockReason"')

    def route(self, method: str, path: str) -> Route | None:
        """Return what a path is for, None when it is not served."""
        found = _PATH.fullmatch(path)
        if method != "POST" or found is None:
            return None
        model, verb = found.groups()
        service = Service.COUNT if verb == "countTokens" else Service.CALL
        return Route(path, service, frozenset({"alt", "key"}), model, verb == "streamGenerateContent")

    def key_headers(self, key: str) -> dict[str, str]:
        """Return the headers that carry a key."""
        return {"x-goog-api-key": key}

    def ask(self, route: Route, body: Body) -> Ask:
        """Read what a call wants. Raises: Denied."""
        members = body.members
        only(members, _KNOWN, "the body")
        _check_contents(members)
        for tool in objects(members.get("tools"), "`tools`"):
            only(tool, frozenset({"functionDeclarations"}), "`tools`")
        generation = _generation(members)
        only(generation, _GENERATION, "`generationConfig`")
        if generation.get("candidateCount") not in (None, 1):
            raise deny("more than one answer at once is not metered; leave `candidateCount` out")
        if generation.get("responseModalities") not in (None, [], ["TEXT"]):
            raise deny("only answers of text are metered; leave `responseModalities` out")
        output = count_of(generation, "maxOutputTokens")
        return Ask(
            model=route.model or "",
            output=DEFAULT_OUTPUT if output is None else output,
            streams=bool(route.streams),
            added=ADDED_TOKENS,
        )

    def changes(self, body: Body, ask: Ask, output: int) -> dict[str, Any]:
        """Return the members to change so that the answer has at most `output` tokens."""
        generation = _generation(body.members)
        given = count_of(generation, "maxOutputTokens")
        if given is not None and given <= output:
            return {}
        changed = {**generation, "maxOutputTokens": output}
        thinking = generation.get("thinkingConfig")
        budget = (
            count_of(thinking, "thinkingBudget")
            if _has_budget(thinking) and isinstance(thinking, dict)
            else None
        )
        if budget is not None and budget >= output and isinstance(thinking, dict):
            changed["thinkingConfig"] = {**thinking, "thinkingBudget": max(0, output - 1)}
        return {"generationConfig": changed}

    def prompt_members(self, route: Route) -> frozenset[str]:
        """Return the members that decide how long the prompt is."""
        return _PROMPT

    def count(self, route: Route, body: Body) -> tuple[Route, bytes] | None:
        """Return the free request that counts a call's prompt."""
        path = f"/v1beta/models/{route.model}:countTokens"
        asked = {name: value for name, value in body.members.items() if name in _PROMPT}
        whole = {"generateContentRequest": {"model": f"models/{route.model}", **asked}}
        return Route(path, Service.COUNT), json.dumps(whole).encode()

    def counted(self, answer: Json) -> int | None:
        """Return the number in the answer to a count."""
        found = numbers(answer, "totalTokens")
        return found[0] if found and found[0] else None

    def read(self, reading: Reading, event: Json) -> None:
        """Take what a whole answer, or an event of a stream, says of usage, model and faults."""
        error = event.get("error")
        if isinstance(error, dict):
            code = error.get("code")
            reading.fault = self.fault(code if isinstance(code, int) else 500, event) or Failure.API_SERVER
            return
        reading.model = str(event.get("modelVersion") or reading.model)
        _read_usage(reading, event.get("usageMetadata"))
        candidates = event.get("candidates")
        ended = isinstance(candidates, list) and any(
            isinstance(one, dict) and one.get("finishReason") for one in candidates
        )
        feedback = event.get("promptFeedback")
        reading.ended |= ended or (isinstance(feedback, dict) and bool(feedback.get("blockReason")))
        reading.done = reading.ended and reading.tokens.prompt > 0

    def fault(self, status: int, error: Json) -> Failure | None:
        """Return what an upstream's error means; None for what the client did wrong."""
        if status == 400 and "API_KEY_INVALID" in str(error.get("error")):
            return Failure.API_AUTH
        return _FAULTS.get(status, Failure.API_SERVER if status >= 500 else None)

    def answer(self, trouble: Trouble, sentence: str, path: str = "") -> Answer:
        """Return an answer of the proxy's own in the shape that clients of a path know."""
        code, status = _ERRORS[trouble]
        error: dict[str, Any] = {"code": code, "message": sentence, "status": status}
        if trouble is Trouble.STOP:
            error |= {"message": sentence + _NO_MORE, "details": [_QUOTA]}
        return say(code, {"error": error})


def _check_contents(members: Json) -> None:
    contents = objects(members.get("contents"), "`contents`")
    system = members.get("systemInstruction")
    for content in contents + objects([system] if system is not None else None, "`systemInstruction`"):
        only(content, _CONTENT, "`contents`")
        for part in objects(content.get("parts"), "`parts`"):
            only(part, _PARTS, "a part")
            response = part.get("functionResponse")
            if response is not None:
                only(objects([response], "`functionResponse`")[0], _RESPONSE, "`functionResponse`")


def _generation(members: Json) -> dict[str, Any]:
    found = members.get("generationConfig")
    if found is not None and not isinstance(found, dict):
        raise malformed("`generationConfig` is no object")
    return found or {}


def _has_budget(thinking: object) -> bool:
    """Say whether there is a budget; -1 leaves it to the model."""
    return isinstance(thinking, dict) and thinking.get("thinkingBudget") not in (None, -1)


def _read_usage(reading: Reading, usage: object) -> None:
    found = numbers(
        usage,
        "promptTokenCount",
        "cachedContentTokenCount",
        "candidatesTokenCount",
        "thoughtsTokenCount",
        "toolUsePromptTokenCount",
    )
    if found is None or not isinstance(usage, dict):
        return
    prompt, cached, answered, thought, by_tools = found
    cached = min(cached, prompt)
    reading.tokens = Tokens(prompt - cached + by_tools, answered + thought, cached)
    if usage.get("trafficType") not in (None, "ON_DEMAND") or by_tools:
        reading.odd = "the answer was charged for tools of the server, or by another service tier"
