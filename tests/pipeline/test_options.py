"""Options of data sources: what is understood, and what the errors say."""

import pytest

from raftlog.errors import InvalidArgument
from raftlog.pipeline.options import PATTERN_CHARS_MAX, Options, TopicChoice, topic_choice

KNOWN = ("bootstrap", "topics", "topicsPattern", "minPartitions", "fetchMaxBytes", "failOnDataLoss")


def options(**given: str) -> Options:
    return Options("raftlog", given, KNOWN)


def test_names_are_read_in_any_case() -> None:
    assert options(BOOTSTRAP=" h:1 ").text("bootstrap") == "h:1"
    assert options(minpartitions="4").number("minPartitions", 1, 1, 10) == 4
    assert options().number("minPartitions", 0, 1, 10) == 0
    assert options().maybe_number("minPartitions", 1, 10) is None


def test_an_unknown_one_is_refused_with_the_nearest() -> None:
    with pytest.raises(InvalidArgument, match="no option topicpattern; did you mean topicsPattern"):
        options(topicpattern=".*")
    with pytest.raises(InvalidArgument, match="it knows bootstrap, fail"):
        options(zzz="1")


@pytest.mark.parametrize(
    ("name", "ours"),
    [
        ("subscribe", "topics"),
        ("subscribePattern", "topicsPattern"),
        ("assign", "topics"),
        ("kafka.bootstrap.servers", "bootstrap"),
    ],
)
def test_the_names_of_spark_s_source_for_kafka_are_understood_in_the_error(name: str, ours: str) -> None:
    with pytest.raises(InvalidArgument, match=f"no option {name.lower()}; did you mean {ours}\\?"):
        options(**{name: "x"})
    with pytest.raises(InvalidArgument, match="it knows path"):
        Options("raftlog-files", {name: "x"}, ("path",))


def test_what_spark_adds_is_let_through_and_what_a_source_says() -> None:
    Options("raftlog", {"checkpointLocation": "/c", "path": "/p", "writeId": "x"}, KNOWN, ["writeId"])
    with pytest.raises(InvalidArgument):
        Options("raftlog", {"writeId": "x"}, KNOWN)


@pytest.mark.parametrize("text", ["", "x", "0", "11", "1.5", "1e3", "9" * 5000, "²"])
def test_numbers_have_bounds(text: str) -> None:
    with pytest.raises(InvalidArgument, match="minPartitions"):
        options(minPartitions=text).number("minPartitions", 1, 1, 10)


@pytest.mark.parametrize(
    ("text", "size"), [("4096", 4096), ("8k", 8192), ("8 MiB", 8 << 20), ("1g", 1 << 30), ("2KB", 2048)]
)
def test_sizes_have_units(text: str, size: int) -> None:
    assert options(fetchMaxBytes=text).size("fetchMaxBytes", 1, 1, 1 << 30) == size


@pytest.mark.parametrize("text", ["8t", "-1", "k", "2g", "1.5m"])
def test_sizes_that_are_none(text: str) -> None:
    with pytest.raises(InvalidArgument, match="fetchMaxBytes"):
        options(fetchMaxBytes=text).size("fetchMaxBytes", 1, 1, 1 << 30)


def test_flags_and_choices() -> None:
    assert options(failOnDataLoss="False").flag("failOnDataLoss", True) is False
    assert options().flag("failOnDataLoss", True) is True
    with pytest.raises(InvalidArgument, match="true or false"):
        options(failOnDataLoss="yes").flag("failOnDataLoss", True)
    assert options(topics="SKIP").choice("topics", "fail", ("fail", "skip")) == "skip"
    with pytest.raises(InvalidArgument, match="fail, skip"):
        options(topics="other").choice("topics", "fail", ("fail", "skip"))


def test_topics_are_named_or_match() -> None:
    there = ["a", "ab", "b"]
    assert topic_choice(options(topics="b, a")).chosen(there) == ["a", "b"]
    assert topic_choice(options(topicsPattern="a|b")).chosen(there) == ["a", "b"]
    assert TopicChoice().chosen(there) == there
    assert topic_choice(options(), is_needed=False) == TopicChoice()


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({}, "which topics"),
        ({"topics": "a", "topicsPattern": "b"}, "exclude each other"),
        ({"topics": "a,,b"}, "each once"),
        ({"topics": "a,a"}, "each once"),
        ({"topicsPattern": "(a"}, "RE2"),
        ({"topicsPattern": "(?=a)"}, "RE2"),
        ({"topicsPattern": "a" * (PATTERN_CHARS_MAX + 1)}, "it may have"),
        ({"topics": " "}, "needs the option topics"),
    ],
)
def test_topics_that_are_none(given: dict[str, str], words: str) -> None:
    with pytest.raises(InvalidArgument, match=words):
        topic_choice(options(**given))
