"""What stays in this process, and never leaves it in a deep copy or a pickle."""

import warnings
from typing import Any

from .._validation import callers_level


class Local:
    """Data of people, for this process only: deep copies and pickles are empty.

    No text shows them. A subclass is made without arguments if it is empty.

    Attributes
    ----------
    lost : bool
        Whether a copy or a pickle dropped the data and no warning has said so yet.
    """

    lost = False

    def warn_if_lost(self, message: str) -> None:
        """Warn once, if the data were lost."""
        if self.lost:
            self.lost = False
            warnings.warn(message, UserWarning, stacklevel=callers_level())

    def __reduce__(self) -> tuple[Any, ...]:
        return _dropped, (type(self),)

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"


def _dropped(kind: type[Local]) -> Local:
    """Stand in for data in copies and pickles."""
    found = kind()
    found.lost = True
    return found
