"""Installation of the tests' system packages: by apt as root, otherwise a list of missing ones and exit."""

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from raftlog.pipeline.errors import MissingRequirement
from raftlog.pipeline.requirements import check_java

PROGRAMS = {
    "/usr/include/stdio.h": "libc6-dev",
    "cc": "gcc",
    "chromedriver": "chromium-driver",
    "chromium": "chromium",
    "faketime": "faketime",  # beside the library that is meant
    "kcat": "kcat",
    "java": "openjdk-17-jre-headless",
    "openssl": "openssl",
    "strace": "strace",
    "systemd-analyze": "systemd",
}
"""Program, or a file → Debian package."""
PROGRAMS_OF_ROOT = {"fusermount3": "fuse3", "mkfs.ext4": "e2fsprogs"}
"""Programs of tests that mount file systems of their own, which needs root."""
PROMETHEUS = Path(__file__).parent.parent / ".venv/prometheus"
"""Directory of Debian's package, unpacked: its installation would start a server that listens on all addresses."""


def prometheus_program(name: str) -> str:
    """Return the path of `prometheus` or `promtool`: an installed one, else the unpacked one."""
    return shutil.which(name) or str(PROMETHEUS / "usr/bin" / name)


def main() -> int:
    is_root = os.geteuid() == 0
    programs = PROGRAMS | PROGRAMS_OF_ROOT if is_root else PROGRAMS
    missing = sorted({package for program, package in programs.items() if not _is_installed(program)})
    if missing:
        apt = shutil.which("apt-get")
        if apt is None or not is_root:
            needed = f"The tests need these system packages: {' '.join(missing)}. Install them and try again."
            print(needed, file=sys.stderr)
            return 1
        subprocess.run([apt, "update", "-qq"], check=True)
        subprocess.run([apt, "install", "-y", "-qq", *missing], check=True)
    if not _is_installed(prometheus_program("promtool")) and not _unpack_prometheus():
        print("The tests need Debian's package prometheus. Install it, or apt-get, and try again.", file=sys.stderr)
        return 1
    try:
        check_java()
    except MissingRequirement as error:
        print(f"The tests of the pipeline run Spark. {error}", file=sys.stderr)
        return 1
    return 0


def _unpack_prometheus() -> bool:
    """Download and unpack the package; return whether that worked."""
    with tempfile.TemporaryDirectory() as directory:
        try:
            if os.geteuid() == 0:
                subprocess.run(["apt-get", "update", "-qq"], check=True)
            download = ["apt-get", "-o", "APT::Sandbox::User=root", "-qq", "download", "prometheus"]
            subprocess.run(download, cwd=directory, check=True)
            [package] = Path(directory).glob("*.deb")
            subprocess.run(["dpkg-deb", "--extract", package, PROMETHEUS], check=True)
        except (OSError, subprocess.CalledProcessError):
            return False
    return True


def _is_installed(program: str) -> bool:
    """Return whether a program is installed; Java may be only in JAVA_HOME."""
    if program.startswith("/"):
        return os.path.exists(program)
    return shutil.which(program) is not None or (program == "java" and "JAVA_HOME" in os.environ)


if __name__ == "__main__":
    sys.exit(main())
