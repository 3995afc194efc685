"""Here every process gets an interpreter of its own, as with whoever uses `raftlog.testing`."""

import subprocess

import pytest

from raftlog.testing import starting


@pytest.fixture(autouse=True)
def own_interpreters(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(starting, "start", subprocess.Popen)
