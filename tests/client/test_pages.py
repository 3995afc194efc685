"""Every example of the client's documentation runs as a program with a real broker."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

PAGES = sorted((Path(__file__).parents[2] / "docs" / "client").glob("*.md"))
EXAMPLES = [
    pytest.param(example, id=f"{page.stem}-{number}")
    for page in PAGES
    for number, example in enumerate(re.findall(r"```python\n(.*?)```", page.read_text(), re.DOTALL))
]


@pytest.mark.parametrize("example", EXAMPLES)
def test_a_documented_example_runs(example: str, broker_process: str, tmp_path: Path) -> None:
    own_topics = example.replace('"orders', f'"{tmp_path.name}-orders')  # the examples share one broker
    program = tmp_path / "example.py"
    program.write_text(own_topics.replace("127.0.0.1:8082", broker_process))
    ended = subprocess.run([sys.executable, program], capture_output=True, text=True, timeout=60, check=False)
    assert ended.returncode == 0, ended.stderr
