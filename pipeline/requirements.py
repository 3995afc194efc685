"""Requirements of the pipeline beyond raftlog: pyspark and pyarrow (the extra `pipeline`), and Java for Spark.

Called by `local_session`, at the start of `raftlog pipeline`, and at the first use of a name of the package, so that
users see which package to install instead of an ImportError or an error of a shell script.
Imports neither pyspark nor pyarrow."""

import os
import re
import shutil
import subprocess
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Final

from raftlog.pipeline.errors import MissingRequirement

PACKAGES: Final = {"pyspark": (4, 2), "pyarrow": (17, 0)}
"""Minimum version of each package."""
JAVA_MIN: Final = 17
_JAVA_SECONDS_MAX: Final = 30
"""Timeout of `java -version`."""
_INSTALL: Final = "in a clone of raftlog, run pip install '.[pipeline]'"
"""raftlog is in no package index: its name alone finds no distribution."""
_WHAT_TO_INSTALL: Final = (
    "install Java 17 or 21 (Debian and Ubuntu: apt install openjdk-17-jre-headless), or set JAVA_HOME to where it is"
)


def check_packages() -> None:
    """Raise `MissingRequirement` unless this interpreter has pyspark and pyarrow, in sufficient versions."""
    for name, first in PACKAGES.items():
        try:
            found = version(name)
        except PackageNotFoundError:
            raise MissingRequirement(f"{name} is not installed: {_INSTALL}") from None
        if tuple(int(part) for part in re.findall(r"\d+", found)[:2]) < first:
            needed = ".".join(map(str, first))
            raise MissingRequirement(
                f"{name} {found} is too old, {needed} is needed: {_INSTALL.replace('install', 'install --upgrade')}"
            )


def check_java() -> int:
    """Return the major version of the Java that Spark uses; raises `MissingRequirement`."""
    java = find_java()
    try:
        printed = subprocess.run(  # noqa: S603  # the program that Spark's own scripts are about to start
            [java, "-version"], capture_output=True, text=True, timeout=_JAVA_SECONDS_MAX, check=True
        )
    except (OSError, subprocess.SubprocessError) as error:
        raise MissingRequirement(f"{java} cannot be run ({error}): {_WHAT_TO_INSTALL}") from error
    major = major_version(printed.stderr)
    if major is None or major < JAVA_MIN:
        known = f"Java {major}" if major is not None else "of an unknown version"
        raise MissingRequirement(f"{java} is {known}, too old for Spark: {_WHAT_TO_INSTALL}")
    return major


def find_java() -> str:
    """Return the Java program that Spark's scripts use: that of JAVA_HOME, else the first on PATH."""
    home = os.environ.get("JAVA_HOME")
    if home:
        java = Path(home, "bin", "java")
        if not java.is_file():
            raise MissingRequirement(f"JAVA_HOME is {home}, and {java} does not exist: {_WHAT_TO_INSTALL}")
        return str(java)
    found = shutil.which("java")
    if found is None:
        raise MissingRequirement(f"Spark needs Java, and there is no java on PATH: {_WHAT_TO_INSTALL}")
    return found


def major_version(printed: str) -> int | None:
    """Parse the output of `java -version`: 17 for `openjdk version "17.0.15"`, 8 for `java version "1.8.0_402"`."""
    found = re.search(r'version "(?:1\.)?(\d+)', printed)
    return int(found[1]) if found else None
