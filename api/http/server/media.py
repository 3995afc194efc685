"""Content types: format of a request's body, and format of the answer that `Accept` prefers."""

from enum import Enum

from raftlog.api.codes import NOT_ACCEPTABLE, WRONG_CONTENT_TYPE
from raftlog.api.http.server.problems import HttpProblem


class Format(Enum):
    """Format of keys and values in a body."""

    JSON = "application/vnd.kafka.json.v2+json"
    """Any JSON value; stored as compact JSON text."""
    BINARY = "application/vnd.kafka.binary.v2+json"
    """Base64 strings."""
    BATCHES = "application/vnd.raftlog.batches"
    """Record batches v2, one after another, as they are stored."""
    NDJSON = "application/x-ndjson"
    """A JSON record on each line, any number of lines."""
    OCTETS = "application/octet-stream"
    """The value of one record, unchanged; only in requests."""


JSON_TYPE = "application/json"
_BY_CONTENT_TYPE = {one.value: one for one in Format} | {JSON_TYPE: Format.JSON}
_EXACT = {name: one for name, one in _BY_CONTENT_TYPE.items() if one is not Format.OCTETS}
_BY_ACCEPT = {
    **_EXACT,
    "*/*": Format.JSON,
    "application/*": Format.JSON,
    "application/vnd.kafka.v2+json": Format.JSON,
}


def media_type(header: str | None) -> str:
    """Return the media type of a `Content-Type`, in lower case and without parameters."""
    return (header or "").partition(";")[0].strip().lower()


def content_format(header: str | None) -> Format:
    """Return the format that `Content-Type` names; raises `HttpProblem` 415."""
    found = _BY_CONTENT_TYPE.get(header or "")
    if found is None and header:
        found = _BY_CONTENT_TYPE.get(media_type(header))
    if found is None:
        raise _wrong_type_error(header, ", ".join(_BY_CONTENT_TYPE))
    return found


def require_json(header: str | None) -> None:
    """Raise `HttpProblem` 415 unless `Content-Type` is JSON.

    A browser sends a body without a type, or as text, for any page; before it sends JSON it makes a preflight
    request."""
    kind = media_type(header)
    if kind != JSON_TYPE and not (kind.startswith("application/") and kind.endswith("+json")):
        raise _wrong_type_error(header, f"{JSON_TYPE}, or application/…+json")


def _wrong_type_error(header: str | None, possible: str) -> HttpProblem:
    """Return the error for a missing or wrong Content-Type; `possible` names the right ones."""
    what = f"Content-Type {header!r} is not possible here" if header else "the body has no Content-Type"
    return HttpProblem(WRONG_CONTENT_TYPE, f"{what}; it can be {possible}")


def accepted_format(header: str | None) -> tuple[Format, str]:
    """Return the format that `Accept` prefers, and the content type of the answer; raises `HttpProblem` 406."""
    if not header:
        return Format.JSON, JSON_TYPE
    for name in _sort_by_preference(header):
        found = _BY_ACCEPT.get(name)
        if found is not None:
            return found, name if name in _EXACT else JSON_TYPE
    raise HttpProblem(NOT_ACCEPTABLE, f"Accept {header!r} is not possible here; it can be " + ", ".join(_EXACT))


def accepted_embedded(header: str | None) -> dict[Format, str]:
    """Return the formats that `Accept` allows, JSON or binary, each with the content type of the answer.

    Raises `HttpProblem` 406 when it allows neither."""
    embedded = (Format.BINARY, Format.JSON)
    names = _sort_by_preference(header) if header else ["*/*"]
    is_general = any(_BY_ACCEPT.get(name) is Format.JSON and name != Format.JSON.value for name in names)
    found: dict[Format, str] = {}
    for format_ in embedded:
        if format_.value in names:
            found[format_] = format_.value
        elif is_general:
            found[format_] = JSON_TYPE
    if not found:
        possible = ", ".join((*(each.value for each in embedded), JSON_TYPE))
        raise HttpProblem(NOT_ACCEPTABLE, f"Accept {header!r} is not possible here; it can be {possible}")
    return found


def _sort_by_preference(header: str) -> list[str]:
    """Return the media types of `Accept` by falling quality, without excluded ones (`q=0`)."""
    weighted: list[tuple[float, int, str]] = []
    for part in header.split(","):
        name, *parameters = (piece.strip().lower() for piece in part.split(";"))
        quality = 1.0
        for parameter in parameters:
            if parameter.startswith("q="):
                try:
                    quality = float(parameter[2:])
                except ValueError:
                    quality = 0.0
        if quality > 0:
            weighted.append((-quality, len(weighted), name))
    return [name for _, _, name in sorted(weighted)]
