"""What the plots show: a part around the cursor, no peak lost, and the cursor itself."""

from __future__ import annotations

import numpy as np

from siha_ros.viewer.curves import PLOT_AHEAD, PLOT_POINTS, PLOT_SECONDS, plotted, with_cursor
from siha_ros.viewer.scene_state import History


def history(count, step, error=True):
    time = 100 + step * np.arange(count)
    value = np.zeros(count)
    value[count // 2] = 7.0
    return History(time, value.copy() if error else None, value.copy(), value.copy(), np.zeros(count, dtype=np.int64))


def test_a_short_memory_is_shown_whole_in_seconds_after_the_origin():
    cut = plotted(history(11, 1.0), shown=104.0, origin=98.0)
    np.testing.assert_allclose(cut.time, np.arange(2, 13))
    assert plotted(history(11, 1.0, error=False), 104.0, 98.0).error is None


def test_of_a_long_one_the_part_around_the_cursor_is_shown():
    cut = plotted(history(1001, 1.0), shown=600.0, origin=100.0)
    assert cut.time[-1] == 500 + PLOT_AHEAD
    assert cut.time[0] == 500 + PLOT_AHEAD - PLOT_SECONDS
    assert plotted(history(1001, 1.0), shown=100.0, origin=100.0).time[-1] == PLOT_SECONDS
    assert plotted(history(1001, 1.0), shown=1100.0, origin=100.0).time[-1] == 1000


def test_thinning_keeps_peaks():
    cut = plotted(history(5001, 0.01), shown=150.0, origin=100.0)
    assert len(cut.time) <= PLOT_POINTS + 1
    assert cut.error.max() == cut.position_95.max() == 7.0


def test_the_cursor_stands_upright_between_the_points():
    time, line, upright = with_cursor(np.array([0.0, 1.0, 2.0]), [np.array([0.0, 4.0, 6.0])], at=1.5)
    np.testing.assert_allclose(time, [0, 1, 1.5, 1.5, 1.5, 2])
    np.testing.assert_allclose(line, [0, 4, 5, 5, 5, 6])
    np.testing.assert_allclose(upright, [0, 0, 0, 6, 0, 0])


def test_what_is_not_known_does_not_empty_the_plot():
    _, line, upright = with_cursor(np.array([0.0, 1.0]), [np.array([np.nan, 4.0])], at=1.0)
    np.testing.assert_allclose(line, [0, 4, 4, 4, 4])
    assert np.isfinite(upright).all()
