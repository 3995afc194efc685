"""Reaction to records that were deleted before they were read: an error, or a warning and the remaining records."""

import logging

from raftlog.pipeline.errors import DataLost

_log = logging.getLogger("raftlog.pipeline")


def report_loss(what: str, fail_on_data_loss: bool) -> None:
    """Raise `DataLost`, or only log a warning without `fail_on_data_loss`."""
    if fail_on_data_loss:
        raise DataLost(f"{what}; to go on with what is left, set the option failOnDataLoss to false")
    _log.warning("%s; reading goes on with what is left (failOnDataLoss=false)", what)
