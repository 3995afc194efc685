"""Command lines of Java programs; the jars of a program are in one folder, and its warnings go to stderr."""

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from clients.packages import INSTALLED, program

_LOG4J: Final = """log4j.rootLogger=WARN, stderr
log4j.appender.stderr=org.apache.log4j.ConsoleAppender
log4j.appender.stderr.Target=System.err
log4j.appender.stderr.layout=org.apache.log4j.PatternLayout
log4j.appender.stderr.layout.ConversionPattern=[%d] %p %m (%c)%n
"""
SHORT: Final = ("-Xmx256m", "-XX:TieredStopAtLevel=1")
"""Flags for programs that run only for seconds, which start in half the time with them."""
LOADING: Final = ("-Xms512m", "-Xmx1g", "-XX:+UseG1GC")
"""Flags for load generators."""


def java(
    libraries: Path, main: str, *arguments: str, flags: Sequence[str] = SHORT, classes: Path | None = None
) -> list[str]:
    """Return the command line that runs a class."""
    config = INSTALLED / "log4j.properties"
    if not config.exists():
        config.write_text(_LOG4J)
    path = f"{libraries}/*" if classes is None else f"{classes}:{libraries}/*"
    return [program("java"), *flags, f"-Dlog4j.configuration=file:{config}", "-cp", path, main, *arguments]
