"""Threads for syncs: start order, parallelism, and shutdown."""

import asyncio
import threading

import pytest

from raftlog.storage.syncs.sync_threads import SyncThreads


def test_jobs_start_in_order_and_all_end_before_the_close() -> None:
    threads, done = SyncThreads(1), []
    for number in range(100):
        threads.run(lambda number=number: done.append(number))
    threads.close(waits=True)
    assert done == list(range(100))


def test_a_hanging_job_delays_neither_others_nor_the_close() -> None:
    threads, hung, done = SyncThreads(2), threading.Event(), threading.Event()
    threads.run(lambda: hung.wait() and None)
    threads.run(done.set)
    assert done.wait(30)
    threads.close(waits=False)
    hung.set()
    threads.close(waits=True)


async def test_nothing_is_left_of_a_wait_for_a_hanging_job_but_a_daemon_thread() -> None:
    """The end of the loop waits for the threads of its own pool, and the process for those that are no daemons."""
    threads, hung, done = SyncThreads(1), threading.Event(), threading.Event()
    before = set(threading.enumerate())
    threads.run(lambda: hung.wait() and done.set())
    threads.close(waits=False)
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(threads.wait_closed(), 0.02)
    assert all(thread.daemon for thread in set(threading.enumerate()) - before)
    hung.set()
    await asyncio.wait_for(threads.wait_closed(), 30)
    assert done.is_set()
