"""Report of records that were deleted before they were read: an error or a warning."""

import logging

from raftlog.pipeline.errors import DataLost

_log = logging.getLogger("raftlog.pipeline")


def report_loss(text: str, fail_on_data_loss: bool) -> None:
    """Raise `DataLost` with this text, or without `fail_on_data_loss` only log it as a warning."""
    if fail_on_data_loss:
        raise DataLost(f"{text}; to continue with the rest, set the option failOnDataLoss to false")
    _log.warning("%s; reading continues with the rest (failOnDataLoss=false)", text)
