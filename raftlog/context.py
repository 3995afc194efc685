"""Context managers whose block ends with `close`."""

from abc import ABC, abstractmethod
from typing import Self


class ClosedAtExit(ABC):
    """Base of objects that a `with` block closes at its end, also after an exception."""

    __slots__ = ()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *raised: object) -> None:
        self.close()

    @abstractmethod
    def close(self) -> None:
        """Release all resources; a second call does nothing."""


class AsyncClosedAtExit(ABC):
    """Base of objects that an `async with` block closes at its end, also after an exception."""

    __slots__ = ()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *raised: object) -> None:
        await self.close()

    @abstractmethod
    async def close(self) -> None:
        """Release all resources; a second call does nothing."""
