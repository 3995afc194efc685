"""Histories of fault tests that are too large for one process, judged on Spark as `raftlog.checkers` judges them.

Public: `judge_history`, `judge_histories`, `HistoryVerdict`, `HistoryAnomaly`, and which kinds are looked for
(`JUDGED`, `NOT_JUDGED`). Of the rest of raftlog only `checkers`, `errors` and `types` come in here.
"""

from raftlog.pipeline.histories.judging import judge_histories, judge_history
from raftlog.pipeline.histories.verdict import JUDGED, NOT_JUDGED, HistoryAnomaly, HistoryVerdict

__all__ = ["JUDGED", "NOT_JUDGED", "HistoryAnomaly", "HistoryVerdict", "judge_histories", "judge_history"]
