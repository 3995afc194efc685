"""Load of 100 records a second by librdkafka with defaults; prints the longest time between two answers.

Runs in an environment with confluent-kafka alone: `librdkafka_gap.py TOPIC SECONDS`, the brokers in `BOOTSTRAP`."""

import json
import os
import sys
import time
from importlib import import_module

PER_S = 100


class Answers:
    """Counts of delivery reports, and the longest time between two of them."""

    def __init__(self) -> None:
        self.answered = self.failed = 0
        self.longest_s = 0.0
        self._last = time.perf_counter()

    def record(self, error: object, message: object) -> None:
        """Record one delivery report."""
        self.answered += 1
        if error is not None:
            self.failed += 1
            return
        now = time.perf_counter()
        self.longest_s = max(self.longest_s, now - self._last)
        self._last = now


def main(topic: str, seconds: int) -> None:
    """Run the load, and print its result as JSON."""
    producer = import_module("confluent_kafka").Producer({"bootstrap.servers": os.environ["BOOTSTRAP"]})
    producer.produce(topic, b"x" * 100)
    producer.flush()
    print("started", flush=True)
    answers = Answers()
    begin = time.perf_counter()
    for number in range(seconds * PER_S):
        while (left := begin + number / PER_S - time.perf_counter()) > 0:
            producer.poll(left)
        producer.produce(topic, b"x" * 100, on_delivery=answers.record)
        producer.poll(0)
    producer.flush()
    print(json.dumps({"gap_ms": answers.longest_s * 1000, "failed": answers.failed}))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
