"""Query parameter `isolation` of reads of records."""

from typing import Final

from raftlog.api.http.openapi.parts import string
from raftlog.api.http.server.endpoint import in_query
from raftlog.api.http.server.routing import Target, query_choice
from raftlog.types import Isolation

_NAMES: Final = {each.name.lower(): each for each in Isolation}
_DEFAULT: Final = Isolation.READ_COMMITTED.name.lower()
ISOLATION: Final = in_query(
    "isolation",
    string(enum=sorted(_NAMES)) | {"default": _DEFAULT},
    "Whether records of open and aborted transactions are hidden.",
)


def isolation_of(target: Target) -> Isolation:
    """Return the isolation in the query. Raises `HttpProblem` 400."""
    return _NAMES[query_choice(target, "isolation", _NAMES, _DEFAULT)]
