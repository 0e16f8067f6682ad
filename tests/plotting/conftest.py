"""Figures are drawn without a window, and closed after each test."""

import pytest

plt = pytest.importorskip("matplotlib.pyplot")


@pytest.fixture(autouse=True)
def close_figures():
    plt.switch_backend("Agg")
    yield
    plt.close("all")


@pytest.fixture
def legend():
    """Texts of a legend, its lines joined."""

    def texts(display):
        found = display.ax_.get_legend().get_texts()
        return [text.get_text().replace("\n", " ") for text in found]

    return texts
