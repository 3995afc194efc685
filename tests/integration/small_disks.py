"""Small file systems for brokers: ext4 images of a few dozen MiB, mounted at a node's data directory."""

import fcntl
import os
import shutil
import struct
import subprocess
from collections.abc import Collection, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from raftlog.testing import Cluster

MIB = 1 << 20
_EXT4_IOC_SHUTDOWN = 0x8004587D
_WITHOUT_FLUSHING_THE_JOURNAL = 2


class SmallDisk:
    """Small mounted file system; the file that fills it lies outside of the broker's directory."""

    def __init__(self, mount: Path, image: Path) -> None:
        self.data_dir = mount / "data"
        self._mount, self._image = mount, image
        self._ballast = mount / "ballast"

    @property
    def free_bytes(self) -> int:
        return shutil.disk_usage(self._mount).free

    def fill(self, leave_bytes: int = 0) -> None:
        """Fill the file system until `leave_bytes` are left, or less than a block."""
        with open(self._ballast, "ab") as ballast:
            while (grow := self.free_bytes - leave_bytes) > 0:
                size = ballast.seek(0, os.SEEK_END)
                try:
                    os.posix_fallocate(ballast.fileno(), size, grow)
                except OSError:  # the file system needs some of it for itself
                    if grow <= 4096:
                        return
                    os.posix_fallocate(ballast.fileno(), size, grow // 2)

    def free(self) -> None:
        """Remove the file that fills the file system."""
        self._ballast.unlink(missing_ok=True)

    def cut_power(self) -> None:
        """Stop the file system at once: data that it has not written to its image is lost, and every access fails.

        The image then is as after a loss of power (EXT4_IOC_SHUTDOWN); `mount_again` mounts it."""
        descriptor = os.open(self._mount, os.O_RDONLY)
        try:
            fcntl.ioctl(descriptor, _EXT4_IOC_SHUTDOWN, struct.pack("I", _WITHOUT_FLUSHING_THE_JOURNAL))
        finally:
            os.close(descriptor)

    def remount(self) -> None:
        """Unmount the image and mount it again, with ext4's own recovery; no file on it may be open."""
        subprocess.run(["umount", str(self._mount)], check=True, timeout=30)
        subprocess.run(["mount", "-o", "loop", str(self._image), str(self._mount)], check=True, timeout=30)


@contextmanager
def small_disk(mount: Path, size_bytes: int) -> Iterator[SmallDisk]:
    """Mount a small file system; skip the test where nothing can be mounted."""
    if os.geteuid() != 0:
        pytest.skip("mounting a file system needs root")
    if shutil.which("mkfs.ext4") is None:
        pytest.skip("mkfs.ext4 is not installed (e2fsprogs)")
    image = mount.with_name(f"{mount.name}.image")
    with open(image, "wb") as file:
        file.truncate(size_bytes)
    # Without reserved blocks: a broker that runs as root could use them, and would never meet a full disk.
    subprocess.run(["mkfs.ext4", "-q", "-m", "0", str(image)], check=True, timeout=30)
    mount.mkdir(parents=True)
    command = ["mount", "-o", "loop", str(image), str(mount)]
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=30)
    if done.returncode:
        image.unlink()
        pytest.skip(f"a loop mount is not allowed here: {done.stderr.strip()}")
    try:
        yield SmallDisk(mount, image)
    finally:
        subprocess.run(["umount", "--lazy", str(mount)], check=True, timeout=30)
        image.unlink()


@contextmanager
def cluster_on_small_disks(
    directory: Path, size_bytes: int, *flags: str, nodes: Collection[int] = (1, 2, 3)
) -> Iterator[tuple[Cluster, dict[int, SmallDisk]]]:
    """Provide three brokers, `nodes` of them each on a small disk of its own."""
    with ExitStack() as stack:
        disks = {number: stack.enter_context(small_disk(directory / f"mount-{number}", size_bytes)) for number in nodes}
        for number, disk in disks.items():
            (directory / "cluster").mkdir(exist_ok=True)
            (directory / "cluster" / str(number)).symlink_to(disk.data_dir)
            disk.data_dir.mkdir()
        yield stack.enter_context(Cluster(3, data_dir=directory / "cluster", serve_flags=flags)), disks
