"""Spark's tests are imported only on request: the import of pyspark takes a second in each worker."""

from pathlib import Path

import pytest

SPARK = Path(__file__).with_name("spark")


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    return True if collection_path == SPARK and "not spark" in config.option.markexpr else None
