import subprocess

import pytest

from raftlog.testing import process_start


@pytest.fixture
def own_interpreters(monkeypatch: pytest.MonkeyPatch) -> None:
    """Start every process with its own interpreter, as for users of `raftlog.testing`."""
    monkeypatch.setattr(process_start, "start", subprocess.Popen)
