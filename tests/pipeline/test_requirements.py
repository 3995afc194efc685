"""Missing Java or packages are reported with install instructions; Spark is imported only by its extra."""

import subprocess
import sys
from importlib.metadata import PackageNotFoundError
from pathlib import Path

import pytest

from raftlog.pipeline import requirements
from raftlog.pipeline.errors import MissingRequirement
from raftlog.pipeline.requirements import check_java, check_packages, find_java, major_version

WITHOUT_THE_EXTRA = """
import importlib.metadata, sys
from raftlog.pipeline import requirements
def version(name): raise importlib.metadata.PackageNotFoundError(name)
requirements.version = version
sys.modules["pyspark"] = sys.modules["pyarrow"] = sys.modules["py4j"] = None
"""


def make_java(directory: Path, text: str) -> Path:
    """Create a `java` that prints this text as its version; return the Java home."""
    java = directory / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text(f"#!/bin/sh\necho '{text}' >&2\n")
    java.chmod(0o755)
    return directory


@pytest.mark.parametrize(
    ("told", "major"),
    [
        ('openjdk version "17.0.15" 2025-04-15', 17),
        ('openjdk version "21" 2023-09-19', 21),
        ('java version "1.8.0_402"', 8),
        ("no version at all", None),
    ],
)
def test_the_major_version_is_parsed_from_javas_output(told: str, major: int | None) -> None:
    assert major_version(told) == major


def test_java_home_takes_precedence_over_the_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = make_java(tmp_path / "home", 'openjdk version "21.0.1"')
    path = make_java(tmp_path / "path", 'openjdk version "17.0.1"')
    monkeypatch.setenv("PATH", f"{path}/bin:/bin")
    monkeypatch.delenv("JAVA_HOME", raising=False)
    assert check_java() == 17
    monkeypatch.setenv("JAVA_HOME", str(home))
    assert check_java() == 21
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(MissingRequirement, match=r"JAVA_HOME is .* does not exist: install Java 17 or 21"):
        find_java()


def test_an_unsupported_java_is_reported_with_its_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", str(make_java(tmp_path / "old", 'openjdk version "11.0.2" 2019-01-15')))
    with pytest.raises(MissingRequirement, match="java is Java 11, too old for Spark: install Java 17 or 21"):
        check_java()
    monkeypatch.delenv("JAVA_HOME")
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(MissingRequirement, match="there is no java on PATH: install Java 17 or 21"):
        check_java()


def test_missing_and_outdated_packages_are_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    check_packages()
    versions = {"pyspark": "4.1.2", "pyarrow": "26.0.1"}
    monkeypatch.setattr(requirements, "version", versions.__getitem__)
    with pytest.raises(MissingRequirement, match=r"pyspark 4\.1\.2 is too old, 4\.2 is needed"):
        check_packages()
    versions["pyspark"] = "4.10.0"
    check_packages()

    def raise_not_found(name: str) -> str:
        raise PackageNotFoundError(name)

    monkeypatch.setattr(requirements, "version", raise_not_found)
    with pytest.raises(MissingRequirement, match=r"pip install '\.\[pipeline\]'"):
        check_packages()


def test_without_the_extra_the_command_names_the_package(tmp_path: Path) -> None:
    code = (
        f"{WITHOUT_THE_EXTRA}\nfrom raftlog.cli import main\nsys.argv = ['raftlog', 'pipeline', *sys.argv[1:]]\nmain()"
    )
    helped = subprocess.run(
        [sys.executable, "-c", code, "archive", "--help"], capture_output=True, timeout=60, check=False
    )
    assert helped.returncode == 0, helped.stderr.decode()
    done = subprocess.run(
        [sys.executable, "-c", code, "compact", str(tmp_path)], capture_output=True, timeout=60, check=False
    )
    assert (done.returncode, done.stdout) == (1, b"")
    assert done.stderr.decode() == (
        "error: pyspark is not installed: in a clone of raftlog, run pip install '.[pipeline]'\n"
    )


def test_spark_is_imported_only_when_it_is_used() -> None:
    code = (
        "import sys, importlib, raftlog.pipeline\nfrom raftlog.cli.pipeline.verbs import VERBS\n"
        "for verb in VERBS.values(): importlib.import_module(verb.module)\n"
        "print([name for name in ('pyspark', 'pyarrow', 'py4j') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, timeout=60, check=True)
    assert done.stdout.decode() == "[]\n"
