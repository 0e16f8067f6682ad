"""Events under short names, for tests of accounting."""

from dp_accounting import dp_event

from sktensordp.privacy.accounting import _events

Composed = dp_event.ComposedDpEvent
Repeated = dp_event.SelfComposedDpEvent
Gaussian = dp_event.GaussianDpEvent
Laplace = dp_event.LaplaceDpEvent
Integers = dp_event.DiscreteLaplaceDpEvent
Sampled = dp_event.PoissonSampledDpEvent
Nothing = dp_event.NoOpDpEvent
NonPrivate = dp_event.NonPrivateDpEvent
Pure = _events.PureDpEvent
Table = _events.TableDpEvent
Response = _events.RandomizedResponseDpEvent
Lattice = _events.LatticeLaplaceDpEvent
Revealing = _events.RevealingDpEvent
Residual = _events.SamplerResidualDpEvent
Parallel = _events.ParallelDpEvent
Choice = _events.SelectionDpEvent
Group = _events.GroupDpEvent
Shuffled = _events.ShuffledDpEvent
