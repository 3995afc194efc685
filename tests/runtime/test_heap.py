"""Python's garbage collector in a broker: objects of the start are frozen, and its garbage is freed."""

import gc
import weakref
from collections.abc import Iterator

import pytest

from raftlog.runtime.heap import Collections


class Node:
    """Object that can be part of a cycle."""

    def __init__(self) -> None:
        self.next: Node | None = None


@pytest.fixture
def collections() -> Iterator[Collections]:
    collections = Collections()
    collections.begin()
    yield collections
    collections.end()


def test_objects_of_the_start_are_frozen_and_its_garbage_is_freed(collections: Collections) -> None:
    gc.disable()
    try:
        living, garbage = Node(), Node()
        garbage.next = garbage
        gone = weakref.ref(garbage)
        del garbage
        assert gone() is not None
        collections.settle()
    finally:
        gc.enable()
    assert gone() is None
    assert all(each is not living for each in gc.get_objects())
