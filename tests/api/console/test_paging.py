"""Pages of lists: all rows once in order, whatever comes and goes; only bounded work for a page."""

import asyncio
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from raftlog.api.http.console import paging
from raftlog.api.http.console.paging import LIMIT_MAX, Page, PageRequest, parse_page, select_page
from raftlog.api.http.server.problems import HttpProblem
from raftlog.api.http.server.routing import Target
from raftlog.runtime import slices
from tests.loop_hold import LoopTurns


def target(**query: str) -> Target:
    return Target({}, (), query)


def select(rows: Any, page: PageRequest, text: str = "") -> Page[Any]:
    return asyncio.run(
        select_page(
            rows, page, lambda row: (row[0], row[1]), lambda row: row[0] >= 0, lambda row: page.has(str(row[1]))
        )
    )


@given(
    st.sets(st.tuples(st.integers(-3, 20), st.text("abÄ", max_size=3)), max_size=80),
    st.integers(1, 7),
    st.booleans(),
    st.sampled_from(["", "a", "ä", "B"]),
)
def test_pages_together_have_every_row_once_in_order(
    rows: set[tuple[int, str]], limit: int, is_descending: bool, text: str
) -> None:
    expected = sorted(
        (row for row in rows if row[0] >= 0 and text.casefold() in row[1].casefold()), reverse=is_descending
    )
    found, after = [], ""
    while True:
        query = {"limit": str(limit), "filter": text, "after": after}
        page = select(rows, parse_page(target(**query), is_descending=is_descending))
        assert page.matching == len(expected)
        assert page.total == sum(row[0] >= 0 for row in rows)
        assert len(page.rows) <= limit
        found += page.rows
        if page.next is None:
            break
        after = page.next
    assert found == expected


def test_rows_that_come_and_go_do_not_shift_the_next_page() -> None:
    rows = [(number, "x") for number in range(10)]
    first = select(rows, parse_page(target(limit="3")))
    assert [row[0] for row in first.rows] == [0, 1, 2]
    assert first.next is not None
    later = [row for row in rows if row[0] not in (1, 2)] + [(11, "x")]
    second = select(later, parse_page(target(limit="3", after=first.next)))
    assert [row[0] for row in second.rows] == [3, 4, 5]


def test_a_page_of_many_rows_keeps_only_a_few() -> None:
    """The pass reads a generator, so nothing but the rows of the page can be kept."""
    alive = highest = 0

    class Row(tuple[int, str]):
        def __new__(cls, number: int) -> "Row":
            nonlocal alive, highest
            alive += 1
            highest = max(highest, alive)
            return super().__new__(cls, (number, "x"))

        def __del__(self) -> None:
            nonlocal alive
            alive -= 1

    page = select((Row(number) for number in range(100_000, 0, -1)), parse_page(target(limit=str(LIMIT_MAX))))
    assert [row[0] for row in page.rows] == list(range(1, LIMIT_MAX + 1))
    assert highest < 5 * LIMIT_MAX


async def test_a_long_pass_lets_other_tasks_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slices, "SLICE_S", 0.0)
    async with LoopTurns() as turns:
        await select_page(
            ((number,) for number in range(10 * paging._SLICE)),
            PageRequest("", None, 10),
            lambda row: row,
            lambda _: True,
            lambda _: True,
        )
    assert turns.count >= 10


@pytest.mark.parametrize(
    "query",
    [
        {"limit": "0"},
        {"limit": str(LIMIT_MAX + 1)},
        {"limit": "x"},
        {"after": "%%%"},
        {"after": "bm8"},
        {"after": "eyJhIjoxfQ"},
        {"after": "W251bGxd"},
        {"after": "ä"},
        {"filter": "x" * 256},
    ],
)
def test_wrong_parameters_are_refused(query: dict[str, str]) -> None:
    with pytest.raises(HttpProblem):
        parse_page(target(**query))


def test_a_position_of_another_list_is_refused() -> None:
    page = parse_page(target(after="WyJhIiwxXQ"))  # ["a", 1]
    with pytest.raises(HttpProblem, match="is not the 'next'"):
        select([(1, "x")], page)
