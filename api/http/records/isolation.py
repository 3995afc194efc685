"""Query parameter `isolation` of reads of records."""

from typing import Final

from raftlog.api.codes import BAD_REQUEST
from raftlog.api.http.openapi.parts import string
from raftlog.api.http.server.endpoint import in_query
from raftlog.api.http.server.problems import HttpProblem
from raftlog.api.http.server.routing import Target
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
    name = target.query.get("isolation", _DEFAULT)
    found = _NAMES.get(name)
    if found is None:
        raise HttpProblem(BAD_REQUEST, f"the query parameter 'isolation' is {name!r}; it can be {', '.join(_NAMES)}")
    return found
