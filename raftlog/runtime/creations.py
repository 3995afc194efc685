"""Many groups made together, while the loop goes on: two syncs for all of a batch, then their `created` marks.

    directories and staged meta files → synced → meta files placed, first rolls → synced → marks journaled, groups begin

Work is cut into slices of a few groups, so that no turn of the loop takes long. A crash before the marks are durable
leaves directories that hold at most a first roll, which are made again. Nothing of a batch that failed counts.
"""

import asyncio
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

from raftlog.runtime.creation import Making
from raftlog.runtime.journal.operations import GroupKey
from raftlog.storage.roll import Roll
from raftlog.storage.segmented_log import SyncTargets

if TYPE_CHECKING:  # the driver owns this
    from raftlog.runtime.driver import Driver

_BATCH: Final = 256
"""Groups that share their syncs."""
_SLICE: Final = 8
"""Groups that begin to work in one turn of the loop."""
_FILES_SLICE: Final = 2
"""Groups whose files are made in one turn: new inodes take from a tenth of a millisecond to more than one."""

Creation = tuple[Roll, str | None]
"""The first roll of a group, the same everywhere, and the name of its directory if it is not the group's id."""


class Creations:
    """Those of a driver."""

    def __init__(self, driver: "Driver") -> None:
        self._driver = driver
        self._under_way: dict[GroupKey, None] = {}

    def is_under_way(self, key: GroupKey) -> bool:
        return key in self._under_way

    async def create(self, creations: Sequence[Creation]) -> None:
        """Make all of them, batch by batch; raises like `Driver.create_group`, and earlier batches stay."""
        for at in range(0, len(creations), _BATCH):
            await self._create_batch(creations[at : at + _BATCH])

    async def _create_batch(self, batch: Sequence[Creation]) -> None:
        makings: list[Making] = []
        begun = 0
        try:
            for roll, name in batch:
                makings.append(self._making(roll, name))
            await self._stage(makings, Making.begin)
            await self._stage(makings, Making.go_on)
            while begun < len(makings):
                self._begin(makings[begun : begun + _SLICE])
                begun += _SLICE
                await self._let_others()
        finally:
            for making in makings[begun:]:
                making.abandon()
            for making in makings:
                self._under_way.pop(making.group_id.bytes, None)

    def _making(self, roll: Roll, name: str | None) -> Making:
        driver = self._driver
        path = f"{driver.data_dir}/{name or roll.group_id}"
        driver.check_creation(path, roll.group_id)
        self._under_way[roll.group_id.bytes] = None
        return Making(driver.disk, path, roll.group_id, roll)

    async def _stage(self, makings: Sequence[Making], work: Callable[[Making], SyncTargets]) -> None:
        """Do one stage of all, and sync what it touched."""
        driver = self._driver
        targets = SyncTargets([], [])
        for number, making in enumerate(makings, 1):
            with driver.making(making.path):
                files, directories = work(making)
            targets.files.extend(files)
            targets.directories.extend(directories)
            if number % _FILES_SLICE == 0:
                await self._let_others()
        try:
            await driver.persister.sync(targets.files, list(dict.fromkeys(targets.directories)))
        except OSError as error:
            raise driver.failure or error from None
        self._check()

    def _begin(self, makings: Sequence[Making]) -> None:
        """Journal the marks, and let the groups work."""
        driver = self._driver
        driver.begin_created([(making, *making.finish(driver.config.recent_bytes_max)) for making in makings])

    async def _let_others(self) -> None:
        await asyncio.sleep(0)
        self._check()

    def _check(self) -> None:
        if self._driver.failure is not None:
            raise self._driver.failure
