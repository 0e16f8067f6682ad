"""A torch module as a task."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .._extras import imported

if TYPE_CHECKING:
    from torch import Tensor
    from torch.nn import Module


@dataclass(frozen=True)
class TorchTask:
    """Makes a torch module the task of an encoder, with automatic gradients.

    Attributes
    ----------
    module : torch.nn.Module
        Maps samples of shape (n_samples, n_features) to logits of shape (n_samples,
        n_outputs). If it has dropout or batch normalisation, pass it in evaluation
        mode.
    link : {"identity", "logistic", "softmax"}
        Function that turns logits into outputs. The loss is the squared error for
        "identity", and the cross-entropy for the others.
    """

    module: Module
    link: str

    def _tensor(self, array: ArrayLike) -> Tensor:
        torch = imported("torch", "torch")
        like = next(self.module.parameters(), torch.zeros((), dtype=torch.float64))
        return torch.as_tensor(np.array(array), dtype=like.dtype, device=like.device)

    def outputs(self, X: ArrayLike) -> NDArray[np.float64]:
        """Outputs f(x), of shape (n_samples, n_outputs)."""
        torch = imported("torch", "torch")
        with torch.no_grad():
            logits = self.module(self._tensor(X))
            if self.link == "logistic":
                logits = torch.sigmoid(logits)
            elif self.link == "softmax":
                logits = torch.softmax(logits, dim=1)
        return logits.cpu().numpy().astype(float)

    def value_and_gradient(
        self, X_hat: ArrayLike, targets: ArrayLike
    ) -> tuple[float, NDArray[np.float64]]:
        """Mean loss of estimates, and its gradient of shape (n_samples, n_features)."""
        torch = imported("torch", "torch")
        from torch.nn import functional

        rows, expected = self._tensor(X_hat).requires_grad_(), self._tensor(targets)
        logits = self.module(rows)
        if self.link == "identity":
            total = torch.square(logits - expected).sum()
        elif self.link == "logistic":
            total = functional.binary_cross_entropy_with_logits(
                logits, expected, reduction="sum"
            )
        else:
            total = -(expected * functional.log_softmax(logits, dim=1)).sum()
        (gradient,) = torch.autograd.grad(total / len(rows), rows)
        return total.item() / len(rows), gradient.cpu().numpy().astype(float)
