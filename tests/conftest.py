"""Options of the test run."""


def pytest_addoption(parser):
    parser.addoption(
        "--audit-trials",
        type=int,
        default=300,
        help="fits on each of two neighbours, for every audit of tests/statistical",
    )
