"""Damaged, lost or outdated files of brokers; for nemeses and scenarios.

The product's promise for each of them is in docs/how-to/troubleshoot.md."""

from jepsen.damage.files import SURVIVABLE, FileKind
from jepsen.damage.injection import delete, flip_bits, truncate, wipe
from jepsen.damage.snapshot import Snapshot

__all__ = ["SURVIVABLE", "FileKind", "Snapshot", "delete", "flip_bits", "truncate", "wipe"]
