"""Encoders that keep what a task needs and randomise only that.

A sample is encoded and randomised where it was recorded, which is local privacy, and
decoded where it is used. Encoder and decoder are learned on public data, or on data of
people who consent; what is learned is not private towards them.
"""

from ._benchmarks import PrivacyAgnosticEncoder, TaskAgnosticEncoder
from ._task_aware import TaskAwareEncoder
from ._torch_task import TorchTask

__all__ = [
    "PrivacyAgnosticEncoder",
    "TaskAgnosticEncoder",
    "TaskAwareEncoder",
    "TorchTask",
]
