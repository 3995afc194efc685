import subprocess

import pytest

from raftlog.testing import starting


@pytest.fixture
def own_interpreters(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every process gets an interpreter of its own, as with whoever uses `raftlog.testing`."""
    monkeypatch.setattr(starting, "start", subprocess.Popen)
