"""Encoders that keep what a task needs and randomise only that.

This is local privacy: a sample is encoded and randomised where it was recorded, and
decoded where it is used. Encoder and decoder are learned from public data or from
people who consent, who are not protected.
"""

from ._client import EncoderClient
from ._task_agnostic import TaskAgnosticEncoder
from ._task_aware import TaskAwareEncoder
from ._torch_task import TorchTask

__all__ = [
    "EncoderClient",
    "TaskAgnosticEncoder",
    "TaskAwareEncoder",
    "TorchTask",
]
