"""Identity of a writer: producer id and epoch of one Spark partition of one write, computed without requests.

    producer id       2⁶² | 62 bits of SHA-256 of the write, the Spark partition, the block of epochs, the generation
    producer epoch    the write's epoch modulo 2¹⁵, so a newer micro-batch fences writers of an older one

Every attempt of a task computes the same id and epoch. The controller assigns ids from 0 on and never reaches 2⁶².
Pure."""

import hashlib
from functools import lru_cache
from typing import Final, NamedTuple

GENERATIONS_MAX: Final = 8
"""Maximum number of generations; a new one begins after a partition expired the producer (idle for a day)."""
_OWN_IDS: Final = 1 << 62
_EPOCHS: Final = 1 << 15


class WriteIdentity(NamedTuple):
    """Identity of a write; `write_id` is the id of a streaming query or the name of a batch write.

    `epoch` is the micro-batch, 0 in a batch."""

    write_id: str
    spark_partition: int
    epoch: int

    def producer_id(self, generation: int = 0) -> int:
        """Return the producer id of a generation; brokers never assign such ids."""
        return _producer_id(self.write_id, self.spark_partition, self.epoch // _EPOCHS, generation)

    @property
    def producer_epoch(self) -> int:
        """The producer epoch: the write's epoch within its block of 2¹⁵."""
        return self.epoch % _EPOCHS

    def generations(self) -> dict[int, int]:
        """Return the generations by producer id."""
        return {self.producer_id(generation): generation for generation in range(GENERATIONS_MAX)}


@lru_cache(maxsize=1024)
def _producer_id(write_id: str, spark_partition: int, block: int, generation: int) -> int:
    """Return a hash of the identity as a producer id, with the bit that only computed producer ids have."""
    text = f"{spark_partition}/{block}/{generation}/{write_id}"
    return _OWN_IDS | int.from_bytes(hashlib.sha256(text.encode()).digest()[:8]) >> 2
