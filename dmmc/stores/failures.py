"""What is wrong with a store: whether it may pass, and how it is said."""

from collections.abc import Iterator

from dmmc.stores.urls import Remote

PASSING = (408, 425, 429)
"""Answers of a server, beside those from 500 on, after which it is worth asking again."""
BROKEN = ("ClientPayloadError", "IncompleteReadError", "RequestTimeout")
"""Kinds, or codes, of answers that ended too early; libraries give some of them the number 400."""
LONGEST = 200
"""Characters of what a store says."""


def passes(error: BaseException) -> bool:
    """Whether it is worth asking again: not where a store has refused, or was asked wrongly."""
    if isinstance(error, FileNotFoundError | PermissionError | NotImplementedError):
        return False
    if any(isinstance(one, TimeoutError) or _is_broken(one) for one in _list_causes(error)):
        return True
    status = find_status(error)
    if status is not None and (status >= 500 or status in PASSING):
        return True
    if status is not None and 400 <= status < 500:
        return False
    if is_refusal(error) or any("Validation" in type(one).__name__ for one in _list_causes(error)):
        return False
    return isinstance(error, OSError) or not isinstance(error, TypeError | ValueError | LookupError | AttributeError)


def _is_broken(error: BaseException) -> bool:
    response = getattr(error, "response", None)
    code = response.get("Error", {}).get("Code") if isinstance(response, dict) else None
    return type(error).__name__ in BROKEN or code in BROKEN


def is_refusal(error: BaseException) -> bool:
    """Whether a store has answered that it lets nobody in, or not with these credentials."""
    if isinstance(error, PermissionError) or find_status(error) in (401, 403):
        return True
    names = " ".join(type(one).__name__ for one in _list_causes(error))
    return "Credential" in names or "Authentication" in names


def find_status(error: BaseException) -> int | None:
    """The number of an answer over HTTP, wherever a library keeps it."""
    for one in _list_causes(error):
        response = getattr(one, "response", None)
        if isinstance(response, dict):
            found = response.get("ResponseMetadata", {}).get("HTTPStatusCode")
            if isinstance(found, int):
                return found
        for name in ("status", "status_code", "code"):
            found = getattr(one, name, None)
            if isinstance(found, int) and 400 <= found < 600:
                return found
    return None


def tell(error: BaseException, place: Remote) -> str:
    """What a store said, in some words without secrets."""
    status = find_status(error)
    text = place.hide(" ".join(str(error).split()))[:LONGEST].rstrip(".")
    kind = type(error).__name__ if status is None else str(status)
    return f"{kind}: {text}" if text else kind


def _list_causes(error: BaseException | None) -> Iterator[BaseException]:
    """An error and what it came from."""
    for _ in range(10):
        if error is None:
            return
        yield error
        error = error.__cause__ or error.__context__
