"""Threads for syncs: in order, in parallel, to the end."""

import threading

from raftlog.storage.syncs.sync_threads import SyncThreads


def test_jobs_begin_in_their_order_and_are_all_done_at_the_end() -> None:
    threads, done = SyncThreads(1), []
    for number in range(100):
        threads.run(lambda number=number: done.append(number))
    threads.close(waits=True)
    assert done == list(range(100))


def test_one_that_hangs_holds_up_neither_the_others_nor_the_end() -> None:
    threads, hung, done = SyncThreads(2), threading.Event(), threading.Event()
    threads.run(lambda: hung.wait() and None)
    threads.run(done.set)
    assert done.wait(30)
    threads.close(waits=False)
    hung.set()
    threads.close(waits=True)
