"""Writer of numbered lines at a fixed rate, for programs that read a file or stdin."""

import threading
from collections.abc import Callable
from typing import Final

from clients.checks import CheckFailed

_TURN_S: Final = 0.05


class NumberedLines:
    """Thread that passes numbered lines, made by `line(number)`, to `write` until `stop`."""

    def __init__(self, write: Callable[[str], None], line: Callable[[int], str], per_s: int) -> None:
        self._write, self._line, self._per_turn = write, line, round(per_s * _TURN_S)
        self.count = 0
        """Number of lines written so far, which is also the number of the next line."""
        self._problem: CheckFailed | OSError | None = None
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        """Write numbered lines at a fixed rate until the end, or until the program fails."""
        try:
            while not self._ending.wait(_TURN_S):
                self._write("".join(f"{self._line(self.count + number)}\n" for number in range(self._per_turn)))
                self.count += self._per_turn
        except (CheckFailed, OSError) as error:
            self._problem = error

    def stop(self) -> int:
        """End the thread; return the number of lines. Raises `CheckFailed` if an error ended it before."""
        self._ending.set()
        self._thread.join()
        if self._problem is not None:
            raise CheckFailed(f"writing lines ended: {self._problem}") from self._problem
        return self.count
