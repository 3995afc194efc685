"""Map of the scenarios of transactions to the tests that cover them; every named test exists.

Scenarios F45 to F53, and those of other systems: KAFKA and PR are Apache Kafka's, numbers Redpanda's, reports Jepsen's.
TV2 is not offered (decision 33), so its scenarios are covered by the test that it is not."""

import ast
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import pytest

TESTS: Final = Path(__file__).resolve().parents[1]
_COORDINATOR: Final = "transactions/test_coordinator.py"
_REPLICA: Final = "replica/test_transactions.py"
_RANDOM: Final = "replica/test_random_transactions.py::test_readers_get_committed_records_and_no_others"
_COMPACTION: Final = "storage/test_compacting_transactions.py"
_CLEANING: Final = "replica/test_transactions_cleaning.py"
_GROUPS: Final = "groups/test_transactions.py"
_HANDLERS: Final = "kafka/transactions/test_handlers.py"
_ORDER: Final = "kafka/transactions/test_connection_order.py"
_CLIENTS: Final = "kafka/clients/test_transactions.py"
_CHECKERS: Final = "checkers/test_transactions.py"
_SIMULATION: Final = "simulation/brokers/test_transactions.py::test_transactions_run_every_operation"
_TV2: Final = f"{_HANDLERS}::test_the_second_version_of_transactions_is_not_offered"

SCENARIOS: Final[Mapping[str, tuple[str, ...]]] = {
    "F45: retry after a trim, a change of leader, a snapshot": (
        "replica/test_producers.py::test_the_producer_table_is_stored_after_every_roll",
        f"{_REPLICA}::test_a_new_leader_knows_the_transactions_that_have_ended",
    ),
    "F46: sequence used again after an abort": (
        f"{_REPLICA}::test_f46_sequences_that_begin_anew_after_an_abort_are_new_records",
        _RANDOM,
    ),
    "F47: the coordinator of a group dies": (
        "brokers/test_group_transactions.py::test_a_transaction_outlives_its_groups_coordinator",
        "brokers/test_group_coordinators.py::test_static_instances_survive_a_change_of_the_coordinator",
    ),
    "F48: zombie with an old generation": (
        "groups/test_generations.py::test_f48_a_member_that_stalled_past_its_session_cannot_commit",
        f"{_GROUPS}::test_members_commit_in_their_generation_and_commits_without_a_member_are_accepted",
    ),
    "F49: lost answer to a commit": (
        f"{_COORDINATOR}::test_an_end_can_be_repeated_and_not_reversed",
        f"{_GROUPS}::test_a_repeated_marker_is_answered_once_the_first_one_is_committed",
    ),
    "F50: late EndTxn, Bufstream report: torn, lost, aborted data visible": (
        f"{_HANDLERS}::test_a_late_request_on_an_older_connection_ends_nothing",
        f"{_ORDER}::test_a_connection_older_than_a_new_coordinator_is_refused",
        f"{_REPLICA}::test_a_marker_that_comes_again_does_not_end_the_next_transaction",
        f"{_GROUPS}::test_a_marker_that_comes_again_does_not_end_the_next_transaction",
    ),
    "F51: the coordinator changes between AddPartitions and Produce": (
        f"{_COORDINATOR}::test_f51_the_successor_confirms_partitions_that_were_added_before",
        f"{_COORDINATOR}::test_a_successor_starts_the_timeout_again",
        f"{_REPLICA}::test_a_marker_breaks_the_guard_of_a_question",
        f"{_REPLICA}::test_the_answer_of_a_deposed_coordinator_does_not_count",
    ),
    "F52: the producer dies": (
        f"{_HANDLERS}::test_f52_readers_continue_after_the_timeout_of_a_dead_producer",
        f"{_REPLICA}::test_a_fetch_of_committed_records_waits_for_the_end_of_the_transaction",
    ),
    "F53: consume, transform, produce": (
        f"{_CLIENTS}::test_each_input_is_processed_once",
        f"{_HANDLERS}::test_late_offsets_on_an_older_connection_do_not_join_the_next_transaction",
        f"{_CHECKERS}::test_a_chain_consumes_each_record_once",
        _SIMULATION,
    ),
    "retry after Complete, after a change of the producer id (KAFKA-18660, 20090, 19367)": (
        f"{_COORDINATOR}::test_an_end_can_be_repeated_and_not_reversed",
        f"{_COORDINATOR}::test_a_repeated_end_is_confirmed",
        f"{_COORDINATOR}::test_a_new_producer_id_follows_the_last_epoch",
    ),
    "InitProducerId while Ongoing, or while the log is unavailable (KAFKA-9666, 14880)": (
        f"{_COORDINATOR}::test_a_new_producer_aborts_and_fences_the_old_one",
        f"{_COORDINATOR}::test_a_producer_that_is_not_stored_replaces_none",
    ),
    "empty commit and abort (KAFKA-18401, 18464)": (
        f"{_COORDINATOR}::test_an_end_can_be_repeated_and_not_reversed",
        f"{_REPLICA}::test_a_marker_without_a_transaction_fences_its_epoch",
        _TV2,
    ),
    "the next transaction races the markers of the last (KAFKA-18575)": (
        f"{_COORDINATOR}::test_requests_wait_for_the_markers_of_the_last_transaction",
        f"{_GROUPS}::test_a_commit_whose_transaction_ended_while_it_was_verified_is_refused",
        f"{_CLIENTS}::test_committed_transactions_are_read_and_aborted_ones_are_not",
    ),
    "TV1 to TV2 with a transaction under way (KAFKA-18227)": (_TV2,),
    "begun, no data, the client is gone (#18317)": (
        f"{_COORDINATOR}::test_a_transaction_times_out_by_the_monotonic_clock",
        f"{_HANDLERS}::test_f52_readers_continue_after_the_timeout_of_a_dead_producer",
    ),
    "a marker after the producer expired (KAFKA-9144)": (
        f"{_REPLICA}::test_a_marker_after_its_producer_expired_is_written",
        f"{_GROUPS}::test_the_last_marker_of_a_producer_expires_after_its_transactions",
    ),
    "a higher epoch meets an open lower one (PR#3232)": (
        f"{_REPLICA}::test_epochs_fence_producers_and_coordinators",
        f"{_GROUPS}::test_a_higher_epoch_waits_for_the_end_of_the_lower_one",
    ),
    "compaction over several segments, in part (KAFKA-8351, 13727)": (
        f"{_COMPACTION}::test_readers_of_committed_records_see_the_same_before_and_after",
        f"{_COMPACTION}::test_markers_outlive_their_records_as_long_as_tombstones",
        f"{_CLEANING}::test_compaction_waits_for_an_open_transaction",
    ),
    "the coordinator dies after Prepare (#17827)": (
        f"{_COORDINATOR}::test_the_successor_writes_the_markers_of_a_stored_decision",
        f"{_CLIENTS}::test_a_transaction_survives_its_coordinators_broker",
    ),
    "the coordinator's clock goes back (kafkajs#302)": (
        f"{_COORDINATOR}::test_a_transaction_times_out_by_the_monotonic_clock",
    ),
    "a group stays unstable (#6423, #5543, KAFKA-17507)": (
        f"{_GROUPS}::test_offsets_are_pending_until_the_marker",
        f"{_HANDLERS}::test_offsets_are_committed_with_the_transaction",
    ),
    "duplicates, inconsistent offsets, G1a, G0, G1c (Redpanda 21.10: #3039, #3003, #3036)": (
        _RANDOM,
        f"{_CHECKERS}::test_an_aborted_read_is_found_in_a_transaction_too_and_in_either_order",
        f"{_CHECKERS}::test_writes_against_the_order_of_both_transactions_are_a_cycle_although_they_overlap",
        "jepsen/test_transactions.py::test_bugs_of_transactions_are_detected",
        _SIMULATION,
    ),
    "stuck clients, zero offsets, acknowledged loss while healthy (Bufstream 0.1.0)": (
        f"{_CLIENTS}::test_committed_transactions_are_read_and_aborted_ones_are_not",
        f"{_CLIENTS}::test_a_zombie_is_fenced",
        f"{_COORDINATOR}::test_markers_are_sent_until_they_are_written",
        _SIMULATION,
    ),
    "the last stable offset falls, or is above an open transaction (PR#10671, PR#28360)": (
        f"{_REPLICA}::test_the_last_stable_offset_is_unknown_until_the_producers_are_read",
        f"{_REPLICA}::test_an_open_transaction_survives_rolls_restarts_and_new_leaders",
        _RANDOM,
    ),
    "a deleted topic counts as marked (#3544)": (
        f"{_COORDINATOR}::test_markers_are_sent_until_they_are_written",
        f"{_GROUPS}::test_pending_offsets_of_deleted_topics_vanish",
    ),
}


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_a_scenario_has_tests(scenario: str) -> None:
    for name in SCENARIOS[scenario]:
        file, _, test = name.partition("::")
        functions = ast.walk(ast.parse((TESTS / file).read_text(encoding="utf-8")))
        assert any(
            isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef) and each.name == test for each in functions
        ), name
