import matplotlib as mpl
import pytest

mpl.use("Agg")

from matplotlib import pyplot as plt


@pytest.fixture(autouse=True)
def clean_slate():
    """No display may change matplotlib's settings, and no test may leave a figure behind."""
    before = mpl.rcParams.copy()
    yield
    plt.close("all")
    assert mpl.rcParams == before
