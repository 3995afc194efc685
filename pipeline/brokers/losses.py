"""What happens when records that were to be read are not there any more: an error, or a warning and what is left."""

import logging

from raftlog.pipeline.errors import DataLost

_log = logging.getLogger("raftlog.pipeline")


def report_loss(what: str, fail_on_data_loss: bool) -> None:
    """Raises `DataLost`, unless the reader said that it wants to go on."""
    if fail_on_data_loss:
        raise DataLost(f"{what}; to go on with what is left, set the option failOnDataLoss to false")
    _log.warning("%s; reading goes on with what is left (failOnDataLoss=false)", what)
