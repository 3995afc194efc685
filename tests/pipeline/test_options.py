"""Options of data sources: accepted values, and messages of errors."""

import pytest

from raftlog.errors import InvalidArgument
from raftlog.pipeline.options import (
    FLAG,
    PATTERN_CHARS_MAX,
    SKIPS,
    Options,
    SourceOption,
    TopicChoice,
    number,
    size,
    topic_choice,
)

KNOWN = ("bootstrap", "topics", "topicsPattern", "minPartitions", "fetchMaxBytes", "failOnDataLoss")


def make_options(**given: str) -> Options:
    return Options("raftlog", given, KNOWN)


def test_option_names_ignore_case() -> None:
    assert make_options(BOOTSTRAP=" h:1 ").text("bootstrap") == "h:1"
    assert make_options(minpartitions="4").read("minPartitions", number(1, 10)) == 4


def test_fields_are_given_options_and_required_ones() -> None:
    table = {
        "bootstrap": SourceOption("bootstrap", SKIPS, is_needed=True),
        "minPartitions": SourceOption("splits", number(1, 10)),
        "failOnDataLoss": SourceOption("fails", FLAG),
    }
    assert make_options(bootstrap="skip", minpartitions="4").fields(table) == {"bootstrap": True, "splits": 4}
    with pytest.raises(InvalidArgument, match="needs the option bootstrap"):
        make_options(minPartitions="4").fields(table)


def test_an_unknown_option_is_refused_with_the_nearest_name() -> None:
    with pytest.raises(InvalidArgument, match="no option topicpattern; did you mean topicsPattern"):
        make_options(topicpattern=".*")
    with pytest.raises(InvalidArgument, match="it has bootstrap, fail"):
        make_options(zzz="1")


@pytest.mark.parametrize(
    ("name", "ours"),
    [
        ("subscribe", "topics"),
        ("subscribePattern", "topicsPattern"),
        ("assign", "topics"),
        ("kafka.bootstrap.servers", "bootstrap"),
    ],
)
def test_the_error_for_a_kafka_option_names_ours(name: str, ours: str) -> None:
    with pytest.raises(InvalidArgument, match=f"no option {name.lower()}; did you mean {ours}\\?"):
        make_options(**{name: "x"})
    with pytest.raises(InvalidArgument, match="it has path"):
        Options("raftlog-files", {name: "x"}, ("path",))


def test_options_added_by_spark_and_a_source_are_accepted() -> None:
    Options("raftlog", {"checkpointLocation": "/c", "path": "/p", "writeId": "x"}, KNOWN, ["writeId"])
    with pytest.raises(InvalidArgument):
        Options("raftlog", {"writeId": "x"}, KNOWN)


@pytest.mark.parametrize("text", ["", "x", "0", "11", "1.5", "1e3", "9" * 5000, "²"])
def test_numbers_outside_of_their_bounds_are_refused(text: str) -> None:
    with pytest.raises(InvalidArgument, match="minPartitions"):
        make_options(minPartitions=text).read("minPartitions", number(1, 10))


@pytest.mark.parametrize(
    ("text", "expected"), [("4096", 4096), ("8k", 8192), ("8 MiB", 8 << 20), ("1g", 1 << 30), ("2KB", 2048)]
)
def test_sizes_are_read_with_their_units(text: str, expected: int) -> None:
    assert make_options(fetchMaxBytes=text).read("fetchMaxBytes", size(1, 1 << 30)) == expected


@pytest.mark.parametrize("text", ["8t", "-1", "k", "2g", "1.5m"])
def test_invalid_sizes_are_refused(text: str) -> None:
    with pytest.raises(InvalidArgument, match="fetchMaxBytes"):
        make_options(fetchMaxBytes=text).read("fetchMaxBytes", size(1, 1 << 30))


def test_flags_and_choices_accept_only_their_values() -> None:
    assert make_options(failOnDataLoss="False").read("failOnDataLoss", FLAG) is False
    with pytest.raises(InvalidArgument, match="true or false"):
        make_options(failOnDataLoss="yes").read("failOnDataLoss", FLAG)
    assert make_options(topics="SKIP").read("topics", SKIPS) is True
    with pytest.raises(InvalidArgument, match="fail, skip"):
        make_options(topics="other").read("topics", SKIPS)


def test_topics_are_chosen_by_name_or_pattern() -> None:
    there = ["a", "ab", "b"]
    assert topic_choice(make_options(topics="b, a")).select(there) == ["a", "b"]
    assert topic_choice(make_options(topicsPattern="a|b")).select(there) == ["a", "b"]
    assert TopicChoice().select(there) == there
    assert topic_choice(make_options(), is_needed=False) == TopicChoice()


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({}, "no topics are chosen"),
        ({"topics": "a", "topicsPattern": "b"}, "exclude each other"),
        ({"topics": "a,,b"}, "each once"),
        ({"topics": "a,a"}, "each once"),
        ({"topicsPattern": "(a"}, "RE2"),
        ({"topicsPattern": "(?=a)"}, "RE2"),
        ({"topicsPattern": "a" * (PATTERN_CHARS_MAX + 1)}, "it may have"),
        ({"topics": " "}, "needs the option topics"),
    ],
)
def test_invalid_choices_of_topics_are_refused(given: dict[str, str], words: str) -> None:
    with pytest.raises(InvalidArgument, match=words):
        topic_choice(make_options(**given))
