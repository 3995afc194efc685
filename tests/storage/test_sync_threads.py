"""Threads for syncs: start order, parallelism, and shutdown."""

import threading

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
