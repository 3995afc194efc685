"""The page of a run, drawn from a small history with planted anomalies, and the overview of a suite."""

import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import orjson
import pytest
from click.testing import CliRunner

from jepsen.checkers import write_lines
from jepsen.checkers.record_status import STATUSES
from jepsen.report import INDEX, page_request, write_page
from jepsen.report.command import report
from jepsen.report.frame import Band, Frame, assign_lanes, label_of
from jepsen.report.record_plots import LOOKS
from jepsen.runner.verdict import check_file
from raftlog.errors import InvalidArgument
from tests.checkers.written_history import WrittenHistory

SCRIPT = "<script>alert('1')</script>"
VOID = {"meta", "br", "link", "img", "input", "hr"}


class Page(HTMLParser):
    """Parsed page; checks that every element is closed by its own end tag."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.ids: list[str] = []
        self.links: list[str] = []
        self.labels: list[str] = []
        self.text = ""
        self._open: list[str] = []
        self._raw = False
        self.feed(html)
        self.close()
        assert self._open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_startendtag(tag, attrs)
        if tag not in VOID:
            self._open.append(tag)
        self._raw = tag == "style"

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        for name, value in attrs:
            assert value is None or "javascript" not in value
            if name == "id":
                self.ids.append(value or "")
            elif name in ("href", "src", "xlink:href"):
                self.links.append(value or "")
            elif name == "aria-label":
                self.labels.append(value or "")

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag
        self._raw = False

    def handle_data(self, data: str) -> None:
        self.text += "" if self._raw else data


def draw_page(folder: Path) -> Page:
    assert write_page(folder) is None
    return Page((folder / INDEX).read_text())


def make_planted_history() -> WrittenHistory:
    """Return a history with a lost write, a duplicate, a refusal, two unknown outcomes, a fault, a lagging consumer."""
    story = WrittenHistory()
    story.assign(9, 0)
    for number in range(4):
        story.send(1, 70 + number, number)
    story.recorder.nemesis("kill node 1 begins (ended with -9)")
    story.recorder.info(story.begin_send(1, 80), "DeadlineExceeded: no answer")
    story.recorder.fail(story.begin_send(2, 81), f"Unavailable: {SCRIPT}")
    story.begin_send(3, 82)
    story.poll(9, (0, 70), (2, 72), (3, 73), (4, 80), (5, 70))
    story.list_offsets(5, 0, 6)
    return story


@pytest.fixture
def run(tmp_path: Path) -> Path:
    return make_run_folder(tmp_path)


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Page:
    """Draw the page once for all tests that only read it."""
    return draw_page(make_run_folder(tmp_path_factory.mktemp("run")))


def make_run_folder(parent: Path) -> Path:
    """Create a folder like those of `jepsen.runner`."""
    folder = parent / "20260101T000000-log-kill-seed7"
    (folder / "logs").mkdir(parents=True)
    (folder / "logs" / "node-1.log").write_text("Traceback\n")
    (folder / "history.jsonl").write_bytes(b"".join(write_lines(make_planted_history().ops)))
    checked = check_file(folder / "history.jsonl", drained=True)
    happened = {"kind": "kill", "what": "kill node 1", "begin_s": 8.0, "end_s": 10.0, "served_s": 11.5}
    fault = {**happened, "proof": f"node 1 ended with -9 {SCRIPT}"}
    figures = {"worst_partition": "t/0", "worst_partition_s": 3.25, "acknowledged": 1, "refused": 2, "unknown": 3}
    results: dict[str, Any] = {
        "verdict": "invalid",
        "doubts": [f"nothing was polled {SCRIPT}"],
        "explanation": "It was asked for.\n\nThe second paragraph.",
        "anomalies": checked.findings.counts,
        "findings": [finding.as_json() for finding in checked.findings.worst_first()],
        "options": {"workload": "log", "faults": ["kill", "cut"], "seconds": 14.0, "seed": 7},
        "command": "python -m jepsen test --seed 7",
        "commit": "abc123",
        "load_begin_s": 1.0,
        "operations": checked.operations,
        "acknowledged_records": 4,
        "worst_lag_s": 5.0,
        "faults": [{"fault": fault, "without_write_s": 2.75, **figures}],
        "quiet": {
            "seconds": 3.0,
            "sends": 4,
            "succeeded": 4,
            "share": 1.0,
            "kinds": {"poll": {"operations": 400, "succeeded": 399, "share": 0.9975}},
            "failures": [
                {"at_s": 1.5, "kind": "poll", "process": 9, "outcome": "fail", "error": "Overloaded: x", "took_s": None}
            ],
        },
        "offered": {"per_s": 512.4, "faults_s": 6.0, "in_faults_per_s": 480.0},
        "recovered_s": 0.25,
        "complaints": {"node-1": {"count": 3, "first": [f"Traceback {SCRIPT}"]}},
    }
    (folder / "results.json").write_bytes(orjson.dumps(results))
    (folder / "timeline.json").write_bytes(orjson.dumps({"drawn": [], "happened": [fault]}))
    return folder


def test_the_page_shows_the_findings_and_their_proofs(page: Page) -> None:
    assert "python -m jepsen test --seed 7" in page.text
    assert "abc123" in page.text
    assert "The second paragraph." in page.text
    for kind in ("lost-write", "duplicate"):
        assert f"1 {kind}" in page.text
    lost = next(op for op in make_planted_history().ops if op.type == "ok" and "71 at" in str(op))
    assert str(lost) in page.text, "the entry"
    assert f'"time":{lost.time_ns}' in page.text, "and its line"
    assert page.text.index("value 71 was acknowledged") < page.text.index("value 70 stands at offsets 0 and 5")
    assert {"history.jsonl", "results.json", "timeline.json", "report.txt", "logs/node-1.log"} <= set(page.links)
    assert "2.75 s" in page.text
    for figure in ("99.750 %", "Overloaded: x", "512 operations/s", "480 operations/s"):
        assert figure in page.text
    assert page.labels[1].startswith("Operations a second")
    assert page.labels[2].startswith("1 lost, 1 duplicate, 2 ok, 1 unknown, is there, 1 unknown, is not, 1 refused.")
    headings = ("Faults", "Throughput", "Status of each record", "Latency", "Records by offset", "Consumers' lag")
    assert [page.text.count(f"\n{heading}\n") + page.text.count(heading) > 0 for heading in headings] == [True] * 6
    assert len(page.labels) == len(headings), "each plot says in words what it shows"


def test_the_page_loads_nothing_and_escapes_all_text(page: Page) -> None:
    assert SCRIPT in page.text, "it is shown"
    assert "script" not in page.tags
    outside = [link for link in page.links if not link.startswith(("#", "data:image/png;base64,"))]
    assert not [link for link in outside if re.match(r"[a-z]+:|//", link)]
    assert len(set(page.ids)) == len(page.ids)
    assert {link[1:] for link in page.links if link.startswith("#")} <= set(page.ids)


def test_the_same_folder_gives_the_same_page(run: Path) -> None:
    write_page(run)
    before = (run / INDEX).read_bytes()
    done = CliRunner().invoke(report, [str(run)])
    assert (done.exit_code, done.output) == (0, f"{run / INDEX}\n")
    assert (run / INDEX).read_bytes() == before


def test_a_folder_of_an_older_release_is_drawn_with_its_fields(run: Path) -> None:
    results = orjson.loads((run / "results.json").read_bytes())
    kept = ("verdict", "doubts", "anomalies", "findings", "options", "command", "commit")
    before = {name: results[name] for name in kept}
    before["quiet"] = {"seconds": 3.0, "sends": 41, "succeeded": 40, "share": 40 / 41}
    (run / "results.json").write_bytes(orjson.dumps(before))
    assert "97.56 %" in draw_page(run).text
    (run / "timeline.json").unlink()
    (run / "history.jsonl").unlink()
    page = draw_page(run)
    assert "lost-write" in page.text
    assert page.labels == []


def test_without_the_libraries_one_line_names_the_missing_package(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(page_request.importlib.util, "find_spec", lambda name: None if name == "matplotlib" else name)
    assert write_page(run) == "the page of the run needs matplotlib: pip install 'raftlog[dev]'"
    assert not (run / INDEX).exists()


def test_another_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidArgument, match=r"no results\.json"):
        write_page(tmp_path)
    (tmp_path / "results.json").write_text("{}")
    with pytest.raises(InvalidArgument, match="no verdict"):
        write_page(tmp_path)
    (tmp_path / "suite.json").write_text("[3]")
    done = CliRunner().invoke(report, [str(tmp_path)])
    assert done.exit_code == 2
    assert "no list of runs" in done.output


def test_results_of_other_types_are_refused(run: Path) -> None:
    (run / "timeline.json").write_text('{"happened": [1]}')
    done = CliRunner().invoke(report, [str(run)])
    assert done.exit_code == 2
    assert f"{run} could not be drawn" in done.output.replace("\n", "")


def test_the_overview_of_a_suite_links_its_runs(run: Path) -> None:
    (run / INDEX).touch()
    entry = {"number": 1, "title": "leader killed", "verdict": "valid", "seconds": 31.0, "anomalies": {}}
    found = {"lost-write": 3}
    suite = [
        {**entry, "folder": run.name},
        {**entry, "number": 2, "verdict": "invalid", "title": SCRIPT, "anomalies": found, "folder": "gone"},
        {**entry, "number": 3, "folder": "../../etc", "verdict": "unknown", "doubts": ["nothing was polled"]},
    ]
    (run.parent / "suite.json").write_bytes(orjson.dumps(suite))
    page = draw_page(run.parent)
    assert page.links == [f"{run.name}/index.html"]
    assert SCRIPT in page.text
    assert "3 lost-write" in page.text
    assert "nothing was polled" in page.text
    assert "3 runs in 93 s" in page.text
    assert page.text.split()[0] == "invalid:", "the worst verdict is the suite's"


@pytest.mark.parametrize(
    ("kind", "what", "label"),
    [
        ("kill", "kill node 1", "1"),
        ("kill", "kill nodes 3, 1", "3, 1"),
        ("cut", "cut, halves: 1→3, 3→1", "halves"),
        ("cut", "cut, isolated of gossip only: 1→3, 3→1", "isolated of gossip only"),
        ("clock", "clock, jump: nodes 2, 3", "jump 2, 3"),
        ("members", "order to move, node 3, partition 2", "move 3"),
        ("stall", "stall node 2", "2"),
    ],
)
def test_a_band_has_a_short_label(kind: str, what: str, label: str) -> None:
    assert label_of(kind, what) == label


def make_band(begin_s: float, served_s: float) -> Band:
    return Band("kill", "1", begin_s, served_s, served_s, "")


def test_simultaneous_faults_of_one_kind_have_separate_lanes() -> None:
    bands = [make_band(0, 4), make_band(1, 2), make_band(2, 3), make_band(5, 6)]
    assert [lane for lane, _ in assign_lanes(bands)] == [0, 1, 1, 0]


def test_every_status_has_a_colour_of_its_own() -> None:
    assert set(LOOKS) == set(STATUSES)
    assert len({look.colour for look in LOOKS.values()}) == len(STATUSES)


def test_bins_are_whole_seconds_that_cover_everything() -> None:
    frame = Frame(-1.5, 1000.2, 900.0, (), ())
    edges = frame.edges()
    assert 0.0 in edges
    assert edges[0] <= -1.5
    assert edges[-1] >= 1000.2
    assert frame.bin_s == 5.0
    assert len(edges) <= 243
