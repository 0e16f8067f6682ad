"""The five papers as printed, and estimators that only serve comparisons with them.

Each class named ``Published...`` states the guarantee that really holds next to the
claim of its paper, and warns with ``UnsoundClaimWarning`` if the claim is false.
``BiScaler(None)``, the published bi-scaling, warns with ``PrivacyLeakWarning`` instead.
"""

from ._biscaler import BiScaler
from ._cheng_2022 import (
    PublishedPrivacyAgnosticEncoder,
    PublishedTaskAgnosticEncoder,
    PublishedTaskAwareEncoder,
)
from ._matrix_variate import MatrixVariateGaussian, PublishedMatrixVariateGaussian
from ._privacy_agnostic import PrivacyAgnosticEncoder
from ._wei_2022 import PublishedCPCompletion, PublishedTuckerCompletion
from ._yang_2021 import (
    PublishedIndependentDirectionalNoise,
    PublishedTensorVariateGaussian,
    PublishedUnimodalDirectionalNoise,
)
from ._yang_2023 import PublishedMatrixGaussian
from ._yuan_2025 import PublishedTensorRandomizedResponse

__all__ = [
    "BiScaler",
    "MatrixVariateGaussian",
    "PrivacyAgnosticEncoder",
    "PublishedCPCompletion",
    "PublishedIndependentDirectionalNoise",
    "PublishedMatrixGaussian",
    "PublishedMatrixVariateGaussian",
    "PublishedPrivacyAgnosticEncoder",
    "PublishedTaskAgnosticEncoder",
    "PublishedTaskAwareEncoder",
    "PublishedTensorRandomizedResponse",
    "PublishedTensorVariateGaussian",
    "PublishedTuckerCompletion",
    "PublishedUnimodalDirectionalNoise",
]
