"""Installation of the tests' system packages: by apt as root, otherwise a list of missing ones and exit."""

import os
import shutil
import subprocess
import sys

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
    "promtool": "prometheus",
    "strace": "strace",
    "systemd-analyze": "systemd",
}
"""Program, or a file → Debian package."""
PROGRAMS_OF_ROOT = {"fusermount3": "fuse3", "mkfs.ext4": "e2fsprogs"}
"""Programs of tests that mount file systems of their own, which needs root."""


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
    try:
        check_java()
    except MissingRequirement as error:
        print(f"The tests of the pipeline run Spark. {error}", file=sys.stderr)
        return 1
    return 0


def _is_installed(program: str) -> bool:
    """Return whether a program is installed; Java may be only in JAVA_HOME."""
    if program.startswith("/"):
        return os.path.exists(program)
    return shutil.which(program) is not None or (program == "java" and "JAVA_HOME" in os.environ)


if __name__ == "__main__":
    sys.exit(main())
