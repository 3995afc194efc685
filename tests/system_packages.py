"""Install what tests need beyond Python packages: through apt as root, otherwise name what is missing and stop."""

import os
import shutil
import subprocess
import sys

PROGRAMS = {"openssl": "openssl", "strace": "strace"}
"""Program → Debian package."""
PROGRAMS_OF_ROOT = {"mkfs.ext4": "e2fsprogs"}
"""Those of tests that mount small disks, which only root can do."""


def main() -> int:
    is_root = os.geteuid() == 0
    programs = PROGRAMS | PROGRAMS_OF_ROOT if is_root else PROGRAMS
    missing = sorted({package for program, package in programs.items() if shutil.which(program) is None})
    if not missing:
        return 0
    apt = shutil.which("apt-get")
    if apt is None or not is_root:
        print(
            f"The tests need these system packages: {' '.join(missing)}. Install them and try again.", file=sys.stderr
        )
        return 1
    subprocess.run([apt, "update", "-qq"], check=True)
    subprocess.run([apt, "install", "-y", "-qq", *missing], check=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
