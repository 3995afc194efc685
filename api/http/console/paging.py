"""Pages of lists: rows that the caller may see, that pass the filter, in order, after the last row of the page before.

    work of a page     one pass over all rows, in slices of the event loop; only `limit` + 1 rows are kept and sorted
    position           the key of the last row, as opaque text: rows may come and go between two requests

The pass is cheap because rows are outlines from memory. Values that need requests to other brokers are read only for
the rows of the page. Called by the handlers of the console."""

from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Callable, Generator, Iterable, Sequence
from heapq import nlargest, nsmallest
from typing import Any, Final, Generic, NamedTuple, TypeAlias, TypeVar

import orjson

from raftlog.api.codes import BAD_REQUEST
from raftlog.api.http.openapi.parts import Json, integer, string
from raftlog.api.http.server.endpoint import in_query
from raftlog.api.http.server.problems import HttpProblem
from raftlog.api.http.server.routing import Target, query_int
from raftlog.runtime.slices import run_in_slices

T = TypeVar("T")
RowKey: TypeAlias = tuple[str | int, ...]
"""Key by which rows are sorted; no two rows have the same."""

LIMIT_DEFAULT: Final = 50
LIMIT_MAX: Final = 200
FILTER_LENGTH_MAX: Final = 255
_SLICE: Final = 256
"""Rows after which the event loop may continue with other tasks."""
_KEPT_MAX: Final = 2 * LIMIT_MAX
FILTER: Final = in_query("filter", string(maxLength=FILTER_LENGTH_MAX), "Only rows with this text, in any case.")
AFTER: Final = in_query("after", string(), "The value of `next` in the page before.")
LIMIT: Final = in_query("limit", integer(1, LIMIT_MAX) | {"default": LIMIT_DEFAULT}, "Maximum number of rows.")
PAGE_QUERY: Final[Sequence[str | Json]] = (FILTER, AFTER, LIMIT, "timeout")
"""Parameters of every list."""


class PageRequest(NamedTuple):
    """Page of a list that a request asks for. `after`: key of the last row before it; None for the first page."""

    text: str
    after: RowKey | None
    limit: int
    is_descending: bool = False

    def has(self, *texts: str) -> bool:
        """Return whether one of these texts contains the text of the filter."""
        return not self.text or any(self.text in each.casefold() for each in texts)


class Page(NamedTuple, Generic[T]):
    """Rows of a page. `total`: rows that the caller may see; `matching`: those that pass the filter."""

    rows: list[T]
    total: int
    matching: int
    next: str | None

    @property
    def bounds(self) -> dict[str, Any]:
        """Fields that an answer has in addition to its rows: total, matching, next."""
        return {"total": self.total, "matching": self.matching, "next": self.next}


def choose_sort(*names: str) -> Json:
    """Return the query parameter `sort` with these field names; a hyphen before a name sorts in descending order."""
    choices = [each for name in names for each in (name, f"-{name}")]
    return in_query("sort", string(enum=choices, default=names[0]), "Field to sort by; with `-` in descending order.")


def sort_field(target: Target, *names: str) -> tuple[str, bool]:
    """Return the field to sort by, and whether the order is descending. Raises `HttpProblem` 400."""
    text = target.query.get("sort", names[0])
    field = text.removeprefix("-")
    if field not in names or text.count("-") > 1:
        raise HttpProblem(BAD_REQUEST, f"the list cannot be sorted by {text!a:.60}; it can by {', '.join(names)}")
    return field, text.startswith("-")


def parse_page(target: Target, *, is_descending: bool = False) -> PageRequest:
    """Parse the query parameters `filter`, `after` and `limit`. Raises `HttpProblem` 400."""
    text = target.query.get("filter", "")
    if len(text) > FILTER_LENGTH_MAX:
        raise HttpProblem(BAD_REQUEST, f"the filter has more than {FILTER_LENGTH_MAX} characters")
    after = target.query.get("after", "")
    limit = query_int(target, "limit", LIMIT_DEFAULT, 1, LIMIT_MAX)
    return PageRequest(text.casefold(), _decode_key(after) if after else None, limit, is_descending)


async def select_page(
    rows: Iterable[T],
    page: PageRequest,
    key: Callable[[T], RowKey],
    is_visible: Callable[[T], bool],
    is_matching: Callable[[T], bool],
) -> Page[T]:
    """Return a page of `rows`, which may come in any order. Raises `HttpProblem` 400 if `after` is of another list."""
    return await run_in_slices(_select(rows, page, key, is_visible, is_matching))


def _select(
    rows: Iterable[T],
    page: PageRequest,
    key: Callable[[T], RowKey],
    is_visible: Callable[[T], bool],
    is_matching: Callable[[T], bool],
) -> Generator[None, None, Page[T]]:
    """Return the page of the rows that are visible and match; yield after each slice, so that other tasks run."""
    choose = nlargest if page.is_descending else nsmallest
    kept: list[tuple[RowKey, T]] = []
    total = matching = 0
    wanted = page.limit + 1
    for number, row in enumerate(rows, 1):
        if number % _SLICE == 0:
            yield
        if not is_visible(row):
            continue
        total += 1
        if not is_matching(row):
            continue
        matching += 1
        place = key(row)
        if matching == 1 and page.after is not None and list(map(type, place)) != list(map(type, page.after)):
            raise _position_error()
        if page.after is None or (place < page.after if page.is_descending else place > page.after):
            kept.append((place, row))
            if len(kept) >= wanted + _KEPT_MAX:
                kept = choose(wanted, kept, key=_first)
    kept = choose(wanted, kept, key=_first)
    has_more = len(kept) > page.limit
    shown = kept[: page.limit]
    return Page([row for _, row in shown], total, matching, _encode_key(shown[-1][0]) if has_more else None)


def _first(pair: tuple[RowKey, Any]) -> RowKey:
    """Return the sort key of a pair of key and row."""
    return pair[0]


def _encode_key(key: RowKey) -> str:
    """Return a sort key as text for the query of the next page."""
    return urlsafe_b64encode(orjson.dumps(key)).decode().rstrip("=")


def _decode_key(text: str) -> RowKey:
    """Return the sort key in a page position of a request. Raises `HttpProblem` 400."""
    try:
        found = orjson.loads(urlsafe_b64decode(text + "=" * (-len(text) % 4)))
    except ValueError:
        raise _position_error() from None
    if not isinstance(found, list) or not all(type(each) in (str, int) for each in found):
        raise _position_error()
    return tuple(found)


def _position_error() -> HttpProblem:
    """Return the error for a page position that cannot be decoded."""
    return HttpProblem(BAD_REQUEST, "the query parameter 'after' is not the 'next' of a page of this list")
