"""Content of a disk: files and directory entries, each with a volatile and a durable state.

`SimulatedDisk` adds paths, handles and syncs.

A file is a `bytearray` of the content that reads return, plus an overlay of the pages whose durable copy differs
from it:

    page not in `undo`              clean: durable == volatile
    page in `undo` and `dirty`      unsynced: the next sync makes it durable, a power loss may or may not
    page in `undo`, not in `dirty`  lost by a failed sync: counts as clean, so later syncs skip it

Every write gets a new generation, so that a sync which completes late never replaces a newer copy by an older one. A
hole is never dirty: extending a file with zeros costs no pages.

Directory operations wait in one journal, in order. Iteration follows insertion order, never a hash."""

from collections.abc import Iterator
from random import Random
from typing import Final, NamedTuple, TypeAlias

PAGE_BYTES: Final = 4096
ZERO_PAGE: Final = bytes(PAGE_BYTES)


class PageCopy(NamedTuple):
    """Copy of a whole page after the write of that generation."""

    generation: int
    content: bytes


class Capture(NamedTuple):
    """Unsynced pages and size of one file when a sync was submitted, which the sync makes durable."""

    inode: "Inode"
    generation: int
    size: int
    pages: dict[int, PageCopy]


def flip_coin(random: Random) -> bool:
    """Return true or false at random, with equal chances."""
    return random.random() < 0.5


class Inode:
    """Content of a file, written and durable, without its name."""

    def __init__(self) -> None:
        self.content = bytearray()
        self.durable_size = 0
        self.undo: dict[int, PageCopy] = {}  # durable copies, with the generation they are at least as new as
        self.dirty: dict[int, int] = {}  # page -> generation of its last write
        self.previous: dict[int, bytes] = {}  # the durable copy before the present one, for stale sectors
        self.unreadable: dict[int, int] = {}  # page -> errno
        self.lock_holder: object | None = None
        self._generation = 0
        self._size_generation = 0
        self._durable_size_generation = 0

    def page(self, page: int) -> bytes:
        """Return the page as reads return it, padded with zeros."""
        start = page * PAGE_BYTES
        if start >= len(self.content):
            return ZERO_PAGE
        return bytes(memoryview(self.content)[start : start + PAGE_BYTES]).ljust(PAGE_BYTES, b"\0")

    def write(self, position: int, data: bytes) -> None:
        """Write data at a position; a hole before it is filled with zeros."""
        if not data:
            return
        end = position + len(data)
        self._touch(range(position // PAGE_BYTES, pages_in(end)))
        if end > len(self.content):
            self._size_generation = self._generation
            self.content.extend(bytes(max(0, position - len(self.content))))
        self.content[position:end] = data

    def truncate(self, size: int) -> None:
        """Cut the content, or extend it with zeros."""
        before = len(self.content)
        if size == before:
            return
        self._touch(range(size // PAGE_BYTES, pages_in(before)) if size < before else range(0))
        self._size_generation = self._generation
        if size < before:
            del self.content[size:]
        else:
            self.content.extend(bytes(size - before))

    def _touch(self, pages: range) -> None:
        """Mark pages as dirty before they change, and keep their durable copies."""
        for page in pages:
            if page not in self.undo:
                self.undo[page] = PageCopy(self._generation, self.page(page))
            self.dirty[page] = self._generation + 1
            self.unreadable.pop(page, None)
        self._generation += 1

    # Syncs

    def capture(self) -> Capture:
        """Return the unsynced pages and the size as they are now, for a sync."""
        pages = {page: PageCopy(written, self.page(page)) for page, written in self.dirty.items()}
        return Capture(self, self._generation, len(self.content), pages)

    def persist(self, capture: Capture, random: Random) -> None:
        """Make the captured state durable after a successful sync, and later writes at random."""
        self._persist_size(capture, random)
        for page, written in list(self.dirty.items()):
            captured = capture.pages.get(page)
            # A page cut off since the capture goes with the size: durable as captured if the larger size is.
            cut_off = len(self.content) <= page * PAGE_BYTES < self.durable_size
            if (captured and captured.generation == written) or (not cut_off and flip_coin(random)):
                self._make_page_durable(page)
            elif captured and captured.generation > self.undo[page].generation:
                self.undo[page] = captured
        self._cut_undo_at_durable_size()

    def _persist_size(self, capture: Capture, random: Random) -> None:
        """Make the captured size durable; if the size has changed since then, at random the present size."""
        if self._size_generation <= capture.generation or flip_coin(random):
            self.durable_size, self._durable_size_generation = len(self.content), self._generation
        elif capture.generation > self._durable_size_generation:
            self.durable_size, self._durable_size_generation = capture.size, capture.generation

    def _make_page_durable(self, page: int) -> None:
        """Make the present page durable."""
        del self.dirty[page]
        self.previous[page] = self.undo.pop(page).content

    def _cut_undo_at_durable_size(self) -> None:
        """Cut the durable copies at the durable size, beyond which reads return zeros."""
        for page, (generation, content) in list(self.undo.items()):
            start = page * PAGE_BYTES
            inside = self.durable_size - start
            if inside <= 0 and start >= len(self.content):
                del self.undo[page]
                self.dirty.pop(page, None)
            elif inside < PAGE_BYTES:
                self.undo[page] = PageCopy(generation, content[: max(0, inside)].ljust(PAGE_BYTES, b"\0"))

    def lose_writeback(self, capture: Capture, random: Random) -> None:
        """Mark the captured pages of a failed sync as clean, as the kernel does, and later writes at random.

        Only a new write can save them."""
        for page, written in list(self.dirty.items()):
            captured = capture.pages.get(page)
            if (captured and captured.generation == written) or flip_coin(random):
                del self.dirty[page]
                # No sync under way may still count the lost copy as its own.
                self.undo[page] = PageCopy(self._generation, self.undo[page].content)

    # Power loss and damage

    def lose_power(self, random: Random, torn: bool) -> None:
        """Keep each unsynced page or not, at random; without `torn`, keep all of them or none."""
        whole = flip_coin(random)
        written = len(self.content)
        size = self._surviving_size(random) if torn else (written if whole else self.durable_size)
        self._resize(size)
        for page, (_, durable) in self.undo.items():
            start = page * PAGE_BYTES
            kept = flip_coin(random) if torn else whole
            if kept and page in self.dirty and start < written:
                self.previous[page] = durable
            elif start < size:
                end = min(start + PAGE_BYTES, size)
                self.content[start:end] = durable[: end - start]
        self.undo.clear()
        self.dirty.clear()
        self.durable_size = size
        self._drop_unreadable_beyond_end()

    def _surviving_size(self, random: Random) -> int:
        """Return the durable or the written size; a file that grew may also have grown by some of its pages."""
        durable, written = self.durable_size, len(self.content)
        if durable >= written:
            return random.choice((durable, written))
        border = PAGE_BYTES * random.randint(durable // PAGE_BYTES, written // PAGE_BYTES)
        return random.choice((durable, written, max(durable, border)))

    def _resize(self, size: int) -> None:
        """Cut the content, or extend it with zeros, without marking pages as dirty."""
        del self.content[size:]
        self.content.extend(bytes(size - len(self.content)))

    def _drop_unreadable_beyond_end(self) -> None:
        """Make pages beyond the end readable again."""
        for page in list(self.unreadable):
            if page * PAGE_BYTES >= len(self.content):
                del self.unreadable[page]

    def damage_page(self, page: int, content: bytes) -> None:
        """Replace the bytes of a page on the disk: reads return them at once, and a power loss keeps them."""
        start = page * PAGE_BYTES
        end = min(start + PAGE_BYTES, len(self.content))
        self.content[start:end] = content[: end - start]
        if page in self.undo:
            self.undo[page] = PageCopy(self.undo[page].generation, content)
            self._cut_undo_at_durable_size()

    def damage_bit(self, position: int, bit: int) -> None:
        """Flip a bit in the content that reads return and, if the page has an older durable copy, in that copy too."""
        self.content[position] ^= 1 << bit
        page, at = divmod(position, PAGE_BYTES)
        if page in self.undo and position < self.durable_size:
            copy = bytearray(self.undo[page].content)
            copy[at] ^= 1 << bit
            self.undo[page] = PageCopy(self.undo[page].generation, bytes(copy))


class Directory:
    """Directory entries by name: as calls see them, and as durable on the disk."""

    def __init__(self) -> None:
        self.entries: dict[str, Node] = {}
        self.durable: dict[str, Node] = {}

    def restart(self) -> None:
        """Restore the durable entries, here and below."""
        self.entries = dict(self.durable)
        for node in self.entries.values():
            if isinstance(node, Directory):
                node.restart()


Node: TypeAlias = Inode | Directory
Change: TypeAlias = tuple[Directory, str, Node | None]
"""Directory, name, and the new node of this name; None removes the name."""


def pages_in(size: int) -> int:
    """Return the number of pages of a file of this size."""
    return -(-size // PAGE_BYTES)


def set_entry(entries: dict[str, Node], name: str, node: Node | None) -> None:
    """Set the node of a name as the newest entry; None removes the name."""
    entries.pop(name, None)
    if node is not None:
        entries[name] = node


class Operation:
    """Changes of entries that become durable together; a rename across directories has two."""

    def __init__(self, sequence: int, changes: tuple[Change, ...]) -> None:
        self.sequence, self.changes = sequence, changes
        self.directories = list(dict.fromkeys(directory for directory, _, _ in changes))
        self.unsynced = list(self.directories)
        self.names = {(directory, name) for directory, name, _ in changes}  # never iterated

    def make_durable(self) -> None:
        """Apply the changes to the durable entries."""
        for directory, name, node in self.changes:
            set_entry(directory.durable, name, node)


class DirectoryJournal:
    """Creations, renames and removals of files that are not durable yet, oldest first."""

    def __init__(self) -> None:
        self.sequence = 0
        self._operations: list[Operation] = []

    def apply(self, *changes: Change) -> None:
        """Apply the changes to the entries as one operation, which is not durable yet."""
        for directory, name, node in changes:
            set_entry(directory.entries, name, node)
        self.sequence += 1
        self._operations.append(Operation(self.sequence, changes))

    def sync(self, directory: Directory, sequence: int, random: Random) -> None:
        """Make the directory's operations up to `sequence` durable, and at random some later ones."""
        ready = set()
        for operation in self._operations_of(directory):
            if operation.sequence > sequence and flip_coin(random):
                break
            if directory in operation.unsynced:
                operation.unsynced.remove(directory)
            if not operation.unsynced:
                ready.add(operation.sequence)
        self._commit(ready)

    def _operations_of(self, directory: Directory) -> Iterator[Operation]:
        """Return the operations that change the directory, oldest first."""
        return (operation for operation in self._operations if directory in operation.directories)

    def _commit(self, ready: set[int]) -> None:
        """Make operations durable, together with all earlier ones of the same names."""
        names: set[tuple[Directory, str]] = set()
        chosen, kept = [], []
        for operation in reversed(self._operations):
            if operation.sequence in ready or not names.isdisjoint(operation.names):
                names |= operation.names
                chosen.append(operation)
            else:
                kept.append(operation)
        for operation in reversed(chosen):
            operation.make_durable()
        self._operations = kept[::-1]

    def lose_power(self, random: Random) -> None:
        """Keep a random prefix of each directory's operations; a rename across two is kept in both or neither."""
        counts: dict[Directory, int] = {}
        for operation in self._operations:
            for directory in operation.directories:
                counts[directory] = counts.get(directory, 0) + 1
        left = {directory: random.randint(0, count) for directory, count in counts.items()}
        for operation in self._operations:
            kept = all(left[directory] > 0 for directory in operation.directories)
            if kept:
                operation.make_durable()
            for directory in operation.directories:
                left[directory] = left[directory] - 1 if kept else 0
        self._operations.clear()


def walk(directory: Directory, path: str = "", *, durable: bool = False) -> Iterator[tuple[str, Node]]:
    """Yield the path and node of every file and directory below a directory, sorted by name.

    With `durable`, those of the durable entries."""
    entries = directory.durable if durable else directory.entries
    for name in sorted(entries):
        node = entries[name]
        yield f"{path}/{name}", node
        if isinstance(node, Directory):
            yield from walk(node, f"{path}/{name}", durable=durable)
