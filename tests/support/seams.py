"""The private names of the package that tests use, and where they are.

Tests import them from here, as if this module defined them:

    from tests.support.seams import NoiseStreams, noise_lattice

After a module has moved or has another name, change its line in `PLACES`; no test
changes. A name is looked up when a test asks for it, so what is missing stops only the
tests that use it. A module that tests need as a whole, to replace something in it, has
a name, too: that of its folder and its own. Add what a new test needs, and remove what
none uses; `tests/test_seams.py` compares. What is public is imported from where it is
public.
"""

from importlib import import_module

# Modules below the package, with what tests use of each.
PLACES = {
    # The package itself
    "_build as sktensordp_build": "build",
    "_client": "make_client",
    "_extras": "imported",
    "_noise_only": (
        "counts_are_noise errors_exceed estimates_are_noise moments_are_noise "
        "sums_are_noise totals_are_noise"
    ),
    "_random as sktensordp_random": "NoiseStreams ReleaseCounter SentStreams",
    "_sklearn_compat": "effective_n_threads",
    "_validation": "callers_level check_coordinates check_shape MALFORMED malformed",
    "_waiting as sktensordp_waiting": "",
    # audit
    "audit._attacks": "attacks Bits",
    "audit._bounds": (
        "certified_bound _critical_sum curve_bound_of_guesses epsilon_of_mu Gaussian "
        "_LEAST_Z lower_epsilon_of_guesses _p_value Pure quick_bound"
    ),
    "audit._customers": "Customers",
    "audit._guesses": "guessed",
    "audit._single_values": "Labels Ratings",
    # base
    "base": "counted_by counting_for",
    # completion
    "completion._base as completion_base": "",
    "completion._dask as completion_dask": "partitioned_entries",
    "completion._domain": "declared_domain Domain",
    "completion._entries": "Entries",
    "completion._fitted as completion_fitted": "",
    "completion._grid": (
        "best_n_points expected_rounding point_probabilities rounded_at_random"
    ),
    "completion._likely_mistakes": "warn_of_edge warn_of_repeats",
    "completion._local as completion_local": "LocalUsers",
    "completion._problem": "Problem",
    "completion._ranking as completion_ranking": "best_of",
    "completion._scales": "cells_of family log_priors scale_scores",
    "completion._synthetic as completion_synthetic": "",
    "completion._values as completion_values": (
        "domain_lattice EntryRandomizer plan_entry_randomizer"
    ),
    # completion.measurements
    "completion.measurements._expectation": "Expectation Variances",
    "completion.measurements._gradient as measurements_gradient": (
        "_Blocks _Descent GradientPerturbation"
    ),
    "completion.measurements._measurement": "ReleasedMean",
    "completion.measurements._residual_variance": (
        "_least _most_likely _on_grid _reconciled _restated _squared_distances"
    ),
    "completion.measurements._statistics as measurements_statistics": (
        "StatisticsPerturbation"
    ),
    "completion.measurements._sums": (
        "plan_sums_randomizer SumsPerturbation SumsRandomizer ValueQuestion"
    ),
    # completion.measurements.units
    "completion.measurements.units._block_totals": "BlockTotals moments_of",
    "completion.measurements.units._cooccurrence as units_cooccurrence": (
        "ItemSums number_of_items plan_noise release_sums"
    ),
    "completion.measurements.units._expected": "_shares",
    "completion.measurements.units._first as units_first": "LOG_RANGE USUAL_LOG",
    "completion.measurements.units._item_model": "ItemModel",
    "completion.measurements.units._population": "bins_of N_BINS Population",
    "completion.measurements.units._questions": "BlockQuestion UnitTotals",
    "completion.measurements.units._rounds as units_rounds": "",
    "completion.measurements.units._units as units_units": "UnitPerturbation",
    "completion.measurements.units._unprotected_weights as unprotected_weights": "",
    # counts
    "counts._plan as counts_plan": "plan_tables Workload",
    "counts._rows": "Reader Records",
    "counts._sums": "CountsQuestion TableSums",
    # datasets
    "datasets._cells as datasets_cells": "draw_cells",
    "datasets._files as datasets_files": "",
    "datasets._ratings": "_draw_values",
    # encoding
    "encoding._channels": "BallChannel code_channel cosines SphereChannel",
    "encoding._code_noise": "BallNoise code_noise",
    "encoding._knorm": "knorm_lattice KNormLattice",
    "encoding._learned": "learned_encoder make_trainer",
    "encoding._linear": (
        "clipped_code linear_problem LinearProblem noise_shares scaled_basis "
        "unclipped_code"
    ),
    "encoding._maps": "CodeMap MapShape",
    "encoding._search": "best_clip loss_and_gradient refined search_scaling",
    "encoding._task_models": "task_of",
    "encoding._tasks": "check_gradient linearised NetworkTask",
    "encoding._training": "Model Trainer",
    "encoding._whitening": "whitening",
    # io
    "io._classes": "class_of TABLE",
    # measure
    "measure._centred": "add_products centred_weights",
    "measure._messages": "message read_message",
    "measure._noise_shares": "_LEAST_SCALE _RHO _ROUNDING",
    "measure._noisy_sums as measure_noisy_sums": "",
    "measure._parties": "_signed",
    "measure._products as measure_products": "",
    "measure._releases": "TOLERANCE",
    "measure._requests": "read_request",
    "measure._selection as measure_selection": "",
    "measure._sums as measure_sums": "BELOW_ONE without_long",
    # mechanisms
    "mechanisms._base": "ReleasingTransformer",
    "mechanisms._gaussian_noise": "event_for_any_length",
    "mechanisms._levels": (
        "design_levels _largest_in_budget LevelDesign _theorem_budget"
    ),
    "mechanisms._matrix_mechanism": "optimal_strategy Strategy",
    "mechanisms._mean as mechanisms_mean": "",
    "mechanisms._privunit": "calibrated_cap",
    "mechanisms._responses as mechanisms_responses": "",
    # model_selection
    "model_selection._groups": "Rows Split use_counts Users",
    "model_selection._scores": "row_score STEPS",
    # moments
    "moments._base as moments_base": "MomentsEstimator SampleReleases",
    "moments._means": "FAR MOST_STEPS released_mean",
    "moments._norm as moments_norm": "bin_counts found_bound scores_of",
    "moments._pca as moments_pca": "",
    "moments._regression as moments_regression": "",
    "moments._requests as moments_requests": "",
    "moments._samples": "Samples",
    "moments._spectrum": "shares_of_modes Spectrum",
    "moments._sums as moments_sums": (
        "BASIS_BITS CAPACITY Chunk LARGEST_CORE LARGEST_SAMPLE Question whole_basis"
    ),
    # noise
    "noise._cap as noise_cap": "CapSampler _dots _draws_in_cap",
    "noise._discrete as noise_discrete": "",
    "noise._lattice as noise_lattice": "_dense_uniform _LEAST_STEPS",
    "noise._piecewise": "hybrid_distribution HYBRID_FROM HybridDistribution subsets",
    # papers
    "papers._algorithm_one": (
        "_adam l1_diameter LogisticMap published_encoder Training"
    ),
    "papers._declared_box": "StandardBox",
    "papers._descent": "descend",
    "papers._matrix_variate": "matrix_variate_bound",
    "papers._wei_2022 as papers_wei_2022": "",
    "papers._yang_2021": "published_bound published_variances zeta",
    # plotting
    "plotting._curves": "difference_notes is_true",
    "plotting._factors": "column_names components_by_name",
    "plotting._style": "CLAIMED_LINE REFERENCE_STYLES shade STYLES",
    # privacy
    "privacy.__main__": "main",
    "privacy._conditions": "VOCABULARY",
    "privacy._guarantee": "CALLERS_RELATION _UNITS",
    "privacy._html": "_HOLDS _NOTHING",
    "privacy._planned as privacy_planned": "guarantee_of_candidate",
    "privacy._report": "guarantee_of_fits",
    "privacy._stateless": "_IGNORE_Y ignores_y _READ_NOTHING reads_nothing",
    # privacy.accounting
    "privacy.accounting._curves": (
        "compose_events compositions_of curve_of event_delta event_epsilon"
    ),
    "privacy.accounting._events as accounting_events": (
        "GroupDpEvent LatticeLaplaceDpEvent ParallelDpEvent PureDpEvent "
        "RandomizedResponseDpEvent RevealingDpEvent "
        "SelectionDpEvent ShuffledDpEvent TableDpEvent"
    ),
    "privacy.accounting._gaussian": "gaussian_delta_above gaussian_epsilon",
    "privacy.accounting._group_curve": "GroupCurve",
    "privacy.accounting._pld": "pure_epsilon",
    "privacy.accounting._randomized_response": (
        "LevelDistribution optimal_composition_delta"
    ),
    "privacy.accounting._renyi": "event_renyi",
    "privacy.accounting._repetitions": (
        "negative_binomial poisson RepetitionDistribution"
    ),
    "privacy.accounting._shuffled_bits as accounting_shuffled_bits": "ShuffledBits",
    "privacy.accounting._shuffling": (
        "blanket_divergence BlanketPair delta_of_clones shuffled_renyi ShuffledCurve"
    ),
    # privacy.budgets
    "privacy.budgets._budget as budgets_budget": "",
    "privacy.budgets._clones": "on_its_own",
    "privacy.budgets._file as budgets_file": "FileLedger",
    "privacy.budgets._filter as budgets_filter": (
        "AdaptiveFilter _largest_renyi _squared_mu Totals"
    ),
    "privacy.budgets._ledger as budgets_ledger": "Ledger Record",
    "privacy.budgets._open as budgets_open": "OPEN",
    "privacy.budgets._reserved": "current_reservation run_reserved",
    "privacy.budgets._stored": "guarantee_from_json guarantee_to_json _types",
    # privacy.calibration
    "privacy.calibration._gaussian": (
        "box_mu diagonal_bound floored least_cost_variances water_filling"
    ),
    "privacy.calibration._privunit": "cap_log_odds privunit_design",
    "privacy.calibration._sensitivity": "declared_set SensitivitySet",
    "privacy.calibration._table": "level_table LevelTable _within_budget",
    # recommend
    "recommend._scoring": "ranking_scores",
    # tensor
    "tensor._chain": "path_eigenvalues solve_chain",
    "tensor._choices as tensor_choices": "Choices",
    "tensor._cp_rows as tensor_cp_rows": (
        "Fit started with_terms with_terms_that_stand_out"
    ),
    "tensor._leading_terms": "leading_terms leading_vectors LocalMatrix",
    "tensor._normal_equations": "sums",
    "tensor._observations as tensor_observations": "places_of",
    "tensor._priors": (
        "BIAS_VARIANCE E_FOLDS INTERACTION_VARIANCE OWN_BIAS_VARIANCE RESIDUAL_VARIANCE"
    ),
    "tensor._rows as tensor_rows": (
        "as_sums packed row_moments row_weighting solve_mode unpacked update_prior"
    ),
    "tensor._shared_rows as tensor_shared_rows": (
        "biases_from_sums drifted expected_counts row_information rows_from_information"
    ),
    "tensor._sums": "_most_likely_variances _Prior shared_entries",
    "tensor._threads as tensor_threads": "",
    "tensor._tucker as tensor_tucker": "",
    "tensor._unit_entries as tensor_unit_entries": "UnitEntries",
    "tensor._unit_rows": "rows_of_units",
    # tensor.kernels
    "tensor.kernels._drawn": "draw_items",
    "tensor.kernels._stacks": "factorise invert solve STACK",
}


# By its name, in which module something is, and what it is there; a whole module is "".
NAMES = {}
for _line, _names in PLACES.items():
    _place, _, _whole = _line.partition(" as ")
    NAMES |= {name: (_place, name) for name in _names.split()}
    NAMES |= {_whole: (_place, "")} if _whole else {}


def __getattr__(name):
    if name not in NAMES:
        raise AttributeError(f"{__name__} has no {name}.")
    place, attribute = NAMES[name]
    found = import_module(f"sktensordp.{place}")
    if attribute and not hasattr(found, attribute):
        # An AttributeError would not say where it is missing.
        raise ImportError(f"sktensordp.{place} has no {attribute}.")
    return getattr(found, attribute) if attribute else found
