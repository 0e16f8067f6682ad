"""Events under short names, for tests of accounting."""

from dp_accounting import dp_event

from sktensordp.privacy import SamplerResidualDpEvent
from tests.support import seams

Composed = dp_event.ComposedDpEvent
Repeated = dp_event.SelfComposedDpEvent
Gaussian = dp_event.GaussianDpEvent
Laplace = dp_event.LaplaceDpEvent
Integers = dp_event.DiscreteLaplaceDpEvent
Sampled = dp_event.PoissonSampledDpEvent
Nothing = dp_event.NoOpDpEvent
NonPrivate = dp_event.NonPrivateDpEvent
Pure = seams.PureDpEvent
Table = seams.TableDpEvent
Response = seams.RandomizedResponseDpEvent
Lattice = seams.LatticeLaplaceDpEvent
Revealing = seams.RevealingDpEvent
Residual = SamplerResidualDpEvent
Parallel = seams.ParallelDpEvent
Choice = seams.SelectionDpEvent
Group = seams.GroupDpEvent
Shuffled = seams.ShuffledDpEvent
