"""Text -> the number of tokens that a model itself counts, asked over the network; no fallback here."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from skillgate.errors import PrerequisiteError

if TYPE_CHECKING:
    from anthropic import Anthropic

TIMEOUT_S = 30.0
_FRAME = "a"  # one token: what else is counted with it frames the message


def is_countable(model: str) -> bool:
    """Say whether there is an API that counts for this model."""
    return model.startswith("claude-")


def model_counter(model: str, key: str, base_url: str | None = None) -> Callable[[str], int]:
    """Return what counts a text as the model does.

    Raises: PrerequisiteError, now or on a later count, when the API does not answer or refuses.
    """
    from anthropic import Anthropic  # here, as it costs a second that no other command need pay

    client = Anthropic(api_key=key, base_url=base_url, timeout=TIMEOUT_S)
    frame = _count(client, model, _FRAME) - 1
    return lambda text: _count(client, model, text) - frame if text.strip() else 0


def _count(client: Anthropic, model: str, text: str) -> int:
    from anthropic import APIError, APIStatusError

    try:
        content = text.encode("utf-8", "replace").decode("utf-8")
        answer = client.messages.count_tokens(model=model, messages=[{"role": "user", "content": content}])
    except APIStatusError as problem:
        why = f"the API refuses to count for `{model}` (HTTP {problem.status_code})"
        raise PrerequisiteError(why, "Check ANTHROPIC_API_KEY and the name of the model.") from None
    except APIError as problem:
        why = f"the API does not count for `{model}` ({problem.message.rstrip('.')})"
        raise PrerequisiteError(why, "Check the network and ANTHROPIC_BASE_URL.") from None
    return answer.input_tokens
