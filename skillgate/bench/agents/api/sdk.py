"""Anthropic's Messages, asked by its SDK, which is imported when the first run starts: it takes a second."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from skillgate.bench.agents.api.calls import (
    SILENCE_S,
    CallTrouble,
    Question,
    Said,
    Stop,
    trouble_of_status,
    wait_of,
)
from skillgate.bench.failure import Failure

if TYPE_CHECKING:
    from anthropic import APIStatusError

_STOPS = {
    "end_turn": Stop.END,
    "stop_sequence": Stop.END,
    "pause_turn": Stop.END,  # only tools that a server runs pause
    "tool_use": Stop.TOOLS,
    "max_tokens": Stop.CUT,
    "refusal": Stop.REFUSED,
    "model_context_window_exceeded": Stop.FULL,
}
_PARTS = {  # what may be sent back of each; the SDK adds members of its own
    "text": ("text",),
    "tool_use": ("id", "name", "input"),
    "thinking": ("thinking", "signature"),
    "redacted_thinking": ("data",),
}


class SdkWire:
    """Asks a Messages API at a base URL, with the token of the run instead of a key."""

    def __init__(self, base_url: str, token: str) -> None:
        from anthropic import Anthropic, DefaultHttpxClient

        self._client = Anthropic(
            api_key=token,  # with it the SDK looks for no other credential
            base_url=base_url,
            max_retries=0,
            timeout=SILENCE_S,
            http_client=DefaultHttpxClient(trust_env=False),
            open_telemetry=False,
        )

    def close(self) -> None:
        """Close the connections."""
        self._client.close()

    def ask(self, question: Question) -> Said:
        """Ask once. Raises: CallTrouble."""
        from anthropic import APIConnectionError, APIStatusError

        try:
            message = self._stream(question)
        except APIStatusError as problem:
            raise _trouble(problem) from None
        except APIConnectionError:
            raise CallTrouble(Failure.API_UNREACHABLE, "the meter did not answer", again=True) from None
        except Exception as problem:  # noqa: BLE001 - streams break with errors of the SDK's own libraries
            sentence = f"the answer broke ({type(problem).__name__})"
            raise CallTrouble(Failure.API_SERVER, sentence, again=True) from None
        if message.stop_reason is None:
            raise CallTrouble(Failure.API_SERVER, "the answer has no end", again=True)
        blocks = tuple(_part(block) for block in message.content if block.type in _PARTS)
        text = "".join(block["text"] for block in blocks if block["type"] == "text")
        return Said(_STOPS.get(message.stop_reason, Stop.END), text, blocks)

    def _stream(self, question: Question) -> Any:
        asked: dict[str, Any] = {"tools": list(question.tools)} if question.tools else {}
        if question.temperature is not None:
            asked["temperature"] = question.temperature
        with self._client.messages.stream(
            model=question.model,
            max_tokens=question.output,
            system=question.system,
            messages=clean(list(question.messages)),
            cache_control={"type": "ephemeral"},  # a turn reads all turns before it again
            **asked,
        ) as stream:
            return stream.get_final_message()


def clean(found: Any) -> Any:
    """Return a value whose texts can be sent: a model may write half of a pair of surrogates."""
    if isinstance(found, str):
        return found.encode("utf-8", "replace").decode()
    if isinstance(found, dict):
        return {clean(name): clean(value) for name, value in found.items()}
    return [clean(one) for one in found] if isinstance(found, list) else found


def _part(block: Any) -> dict[str, Any]:
    return {"type": block.type, **{name: clean(getattr(block, name)) for name in _PARTS[block.type]}}


def _trouble(problem: APIStatusError) -> CallTrouble:
    headers = problem.response.headers
    retry = str(headers.get("x-should-retry", ""))
    sentence = problem.api_message or problem.message
    return trouble_of_status(problem.status_code, sentence, retry, wait_of(headers))
