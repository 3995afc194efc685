"""Sender of one lane: sends its batches and scans the log until the lane has no next step.

One batch of a lane is in flight at a time. If two attempts of a task run, only one of them can append a batch with a
given sequence, and the other gets an error in the answer. After an unknown outcome the same batch is sent again."""

import asyncio
import time

from raftlog.client import BrokerClient, Produced
from raftlog.errors import DuplicateSequence, OutcomeUnknown, ProducerFenced, Unavailable
from raftlog.pipeline.errors import InputChanged
from raftlog.pipeline.sink.lane import ANSWERED_BEFORE, Scan, SendBatch, SinkLane
from raftlog.pipeline.sink.log_scan import ScanResult, scan
from raftlog.pipeline.sink.settings import SinkSettings
from raftlog.records import build_columns
from raftlog.types import Offset

REQUEST_TIMEOUT_MS = 10_000
_NAMED_MAX = 5


class LaneSender:
    """Sender of the rows of one partition (lane); `slots` limits the number of batches that are built at a time.

    `lease_s`: seconds after a scan in which the partition surely still knows a producer that wrote before the scan, so
    that it detects a repeated first batch; after that, the log is scanned again before the first batch."""

    def __init__(
        self, client: BrokerClient, lane: SinkLane, settings: SinkSettings, lease_s: float, slots: asyncio.Semaphore
    ) -> None:
        """Prepare to send the batches of a lane.

        `slots` limits the batches in flight. If the first batch is sent more than `lease_s` seconds after the last look
        at the log, the log is scanned before."""
        self.lane = lane
        self.flush = False
        """Whether batches are sent even if they are not full; reset when the lane is empty."""
        self.task: asyncio.Task[None] | None = None
        """Task that calls `run`, None while there is nothing to do; set by the writer."""
        self._client, self._settings, self._lease_s, self._slots = client, settings, lease_s, slots
        self._outage = settings.outage(f"writing to {lane.place}")
        self._looked_s = time.monotonic()

    async def run(self) -> None:
        """Send and scan until there is no next step. Raises the error that ends the attempt."""
        try:
            while (do := self.lane.next(flush=self.flush)) is not None:
                if isinstance(do, Scan):
                    await self._scan(do)
                elif self.lane.sequence == 0 and time.monotonic() - self._looked_s > self._lease_s:
                    self.lane.scan_first()
                else:
                    await self._send(do)
        finally:
            self._outage.end()
        self.flush = False

    async def _scan(self, do: Scan) -> None:
        """Scan the log and pass the result to the lane."""
        began_s = time.monotonic()
        found, end, is_cut = await self._scan_log(do.start)
        if self.lane.on_scanned([batch for _, batch in found], end, is_cut=is_cut):
            self._outage.end()
        self._looked_s = began_s

    async def _scan_log(self, start: Offset) -> ScanResult:
        """Return the stored batches of this write from an offset on; retries as long as the settings permit."""
        place = self.lane.place
        # Reading well is no progress in writing: its outages are its own.
        outage = self._settings.outage(f"reading what {place} has of this write")
        return await scan(self._client, place, self.lane.identity, start, outage)

    async def _send(self, do: SendBatch) -> None:
        """Send a batch and pass the outcome to the lane; pause after transient errors. Raises `ProducerFenced`."""
        try:
            async with self._slots:
                produced = await self._produce(do)
        except ANSWERED_BEFORE as error:
            self.lane.on_refused(error)
            await self._outage.pause(error if isinstance(error, OutcomeUnknown) else Unavailable(str(error)))
        except (Unavailable, OutcomeUnknown) as error:
            await self._outage.pause(error)
        except ProducerFenced as error:
            raise ProducerFenced(
                f"{self.lane.place}: a later micro-batch of this query is being written, so this attempt is one that "
                f"the driver has given up ({error})"
            ) from None
        else:
            self.lane.on_sent(produced)
            if produced.is_duplicate:
                await self._outage.pause(DuplicateSequence(f"{self.lane.place} does not show yet what it has"))
            else:
                self._outage.end()

    async def _produce(self, do: SendBatch) -> Produced:
        """Send one request with a batch, and return its answer."""
        rows = do.rows
        body = build_columns(
            rows.values,
            rows.keys,
            rows.timestamps,
            rows.headers,
            self._settings.compression,
            producer_id=do.producer_id,
            producer_epoch=do.producer_epoch,
            base_sequence=do.sequence,
        )
        place = self.lane.place
        return await self._client.produce_batches(
            place.topic, place.partition, body, timeout_ms=min(REQUEST_TIMEOUT_MS, self._settings.delivery_timeout_ms)
        )

    async def check_no_surplus(self) -> None:
        """Raise `InputChanged` if the log has more records of this write than the task has rows."""
        lane = self.lane
        if not lane.held:
            return
        scanned = await self._scan_log(lane.start)
        offsets = [
            base + number
            for base, batch in scanned.found
            for number, digest in enumerate(batch.each_digest())
            if digest in lane.held
        ]
        named = ", ".join(map(str, offsets[:_NAMED_MAX])) + (", …" if len(offsets) > _NAMED_MAX else "")
        raise InputChanged(
            f"{lane.place}: an earlier attempt of this write stored {len(lane.held)} records that are not among its "
            f"rows any more (among those at offsets {named}). What is repeated has to be the same: the query is not "
            "deterministic, or its input was changed. The log takes nothing back; all rows of this attempt are written"
        )
