"""The estimator of bodies on a made-up body: what is seen stays, what is lost goes on without a jump, frames turn
along.
"""

from __future__ import annotations

import copy
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from siha_ros.body_baselines import ridge_estimators
from siha_ros.body_estimator import BodyEstimator, halves, unlike
from siha_ros.bundle_info import describe
from siha_ros.estimator import load_estimator
from siha_ros.model.body_frame import BodyFrame, BodyTemplate
from siha_ros.model.body_linear import CarryKernel, LinearPath, ResidualCarry, WindowRidge
from siha_ros.model.bundle import (
    Bundle,
    BundleConfig,
    BundleError,
    ErrorTable,
    Ranges,
    Training,
    load_bundle,
    save_bundle,
)
from siha_ros.model.frame import Scale
from siha_ros.model.hidden_state import PAPER_ALPHAS, HiddenStatePredictor, HSPConfig
from siha_ros.model.nri import NRI, NRIConfig
from siha_ros.model.ridge import fit_limb_ridge
from siha_ros.resources import bundle_path
from siha_ros.window.types import Status, Window

NAMES = ["pelvis", "chest", "head", "lelbow", "lhand", "relbow", "rhand", "lfoot", "neck"]
LIMBS = {"left_arm": ["lelbow", "lhand"], "right_arm": ["relbow", "rhand"], "left_leg": ["lfoot"]}
CORE = np.array([0, 1, 2, 8])
FRAMES, DT, HORIZON = 12, 1 / 30, 5
REST = np.array(
    [
        [0, 0, 1.0],
        [0.03, 0, 1.3],
        [0.02, 0, 1.6],
        [0, 0.3, 1.2],
        [0.1, 0.4, 1.0],
        [0, -0.3, 1.2],
        [0.1, -0.4, 1.0],
        [0, 0.1, 0],
        [0.03, 0, 1.45],
    ]
)


def walk(frames, seed, bias=0.0):
    """Positions [9, frames, 3] (m) walking along +x at 1 m/s: arms and feet swing together; `bias` moves the left
    hand.
    """
    rng = np.random.default_rng(seed)
    phase = rng.uniform(0, 2 * np.pi) + 2 * np.pi * 0.9 * np.arange(frames) * DT
    size = rng.uniform(0.1, 0.3)
    positions = np.repeat(REST[:, None], frames, 1) + np.arange(frames)[:, None] * DT * np.array([1.0, 0, 0])
    for joint, share, lag in ((3, 0.5, 0.0), (4, 1.0, 0.3), (5, -0.5, 0.0), (6, -1.0, 0.3), (7, -1.2, 0.1)):
        positions[joint, :, 0] += share * size * np.sin(phase - lag)
        positions[joint, :, 2] += 0.2 * share * size * np.cos(2 * (phase - lag))
    positions[4] += np.array([0, bias, 0])
    return positions


def cut(positions, end):
    return positions[:, end - FRAMES + 1 : end + 1]


@pytest.fixture(scope="module")
def bundle():
    torch.manual_seed(0)
    windows = np.concatenate(
        [np.stack([cut(walk(60, seed), end) for end in range(FRAMES, 60, 3)]) for seed in range(40)]
    )
    template = BodyTemplate.of(windows, np.zeros(len(windows)), CORE)
    everyone = np.ones(len(NAMES), bool)
    body = template.fit(windows, everyone).to_body(windows)
    nothing = WindowRidge(np.eye(2), *(np.zeros(0) for _ in range(3)))
    path = LinearPath(template, nothing, nothing, np.zeros(0), np.zeros(0))
    relative, centre = path.relative(body, everyone)
    ridges_over = []
    for frames in (FRAMES, 8):
        basis = np.linalg.qr(np.vander(np.linspace(-1, 1, frames), 7))[0]
        ridge = replace(nothing, basis=basis, penalty=np.full(len(NAMES), 1e-6))
        x = ridge.features(relative[:, :, -frames:], centre[:, -frames:])
        values, vectors = np.linalg.eigh((x - x.mean(0)).T @ (x - x.mean(0)))
        factor = np.sqrt(np.maximum(values, 0))[:, None] * vectors.T
        ridges_over.append(replace(ridge, mean=x.mean(0), factor=factor))
    flat = relative[:, :, -1].reshape(len(body), -1)
    axes = np.linalg.svd(flat - flat.mean(0), full_matrices=False)[2][:3] / 0.1
    path = LinearPath(template, *ridges_over, flat.mean(0), axes)
    rows = {limb: np.array([NAMES.index(joint) for joint in joints]) for limb, joints in LIMBS.items()}
    ridges = {
        f"{name}.{limb}.{key}": tensor
        for name, lags in (("ridge_frame", ((0,),)), ("ridge_window", ((0, 3),)))
        for limb, hidden in rows.items()
        for key, tensor in fit_limb_ridge(body, body[:50], hidden, CORE, lags, (1e-6,), DT)[0].tensors().items()
    }
    table = ErrorTable([0.05, 1.0], [0.01, 0.02], [0.02, 0.05])
    twice = ErrorTable([0.05], [0.02], [0.06])
    errors = {f"{name}{end}": table for name in NAMES for end in ("", "_unseen", "_forecast")}
    errors |= {
        "fallback": ErrorTable([0.1, 1.1], [0.1, 0.2], [0.3, 0.5]),
        "fallback_unseen": ErrorTable([0.1], [0.4], [1.1]),
        "fallback_forecast": ErrorTable([0.1], [0.06], [0.2]),
    }
    errors |= {f"{name}_two": twice for name in NAMES}
    hsp = HSPConfig(FRAMES, 6, hidden=2, width=16, identities=len(NAMES))
    config = BundleConfig(
        format=1, name="body", system="body", purpose="test", count=len(NAMES), agent_names=NAMES, limbs=LIMBS, dims=3,
        dt=DT, window=FRAMES, horizon=HORIZON, frame="body", velocity="backward_difference", scale=Scale(2.0, 4.0),
        edge_types=["none", "interaction"], max_hidden=0, hidden_sets=list(LIMBS), rounds=2,
        ranges=Ranges([9, 9], [30.0, 1000.0], speed=8.0, extent=3.0), errors=errors,
        training=Training("", "", 0, [], {}, {}, "", {}), metrics={},
    )  # fmt: skip
    kernel = ResidualCarry(CarryKernel(1.0, 0.2, 2.0, 0.2, 0.2, 0.01, 0.05, 1e-4)).tensor()
    share = torch.tensor([[[0.0, 1.0, 3.0], [0.0, 0.0, 0.0]]] * len(LIMBS))
    arrays = {
        "linear": path.tensors(),
        "carry": dict.fromkeys((*LIMBS, "core"), kernel),
        "refinement": {"gain": torch.full((6,), 0.01), "share": share},
        "ridge": ridges,
    }
    networks = {
        "nri": NRI(NRIConfig(FRAMES, 6, encoder_width=16, decoder_width=16, output_gain=0.01)),
        "hsp_sa": HiddenStatePredictor(hsp),
        "hsp_sg": HiddenStatePredictor(replace(hsp, alphas=list(PAPER_ALPHAS))),
    }
    return Bundle(Path("body"), config, {name: network.eval() for name, network in networks.items()}, arrays)


@pytest.fixture
def estimator(bundle):
    return BodyEstimator(bundle, torch.device("cpu"))


def window(positions, end, lost_at=None, lost=("lelbow", "lhand"), names=NAMES):
    """The window of a walk that ends at frame `end`; the joints `lost` are seen up to frame `lost_at` (None: for
    ever).
    """
    order = [NAMES.index(name) for name in names]
    frames = np.arange(end - FRAMES + 1, end + 1)
    observed = np.ones((len(NAMES), FRAMES), bool)
    gone = np.isin(names, lost)
    last = np.full(len(NAMES), frames[-1] * DT)
    if lost_at is not None:
        observed[gone] = frames <= lost_at
        last[gone] = min(lost_at, frames[-1]) * DT if lost_at >= 0 else np.nan
    seen = np.where(observed[..., None], cut(positions, end)[order], np.nan)
    newest = np.round(np.nan_to_num(last, nan=0) / DT).astype(int)
    there = np.where(np.isfinite(last)[:, None], positions[order, newest], np.nan)
    nowhere = np.full((len(NAMES), 3), np.nan)
    return Window(
        names=list(names), times=frames * DT, positions=seen, velocities=np.full_like(seen, np.nan), observed=observed,
        confidence=observed.astype(np.float32), reason=[""] * len(NAMES), last_seen=last, last_position=there,
        status=np.where(observed[:, -1], Status.VISIBLE, Status.HIDDEN).astype(np.int8), last_velocity=nowhere,
    )  # fmt: skip


def error(estimate, positions, end, joint="lhand"):
    """Distance (m) between estimate and truth in the newest frame."""
    return float(
        np.linalg.norm(estimate.positions[estimate.names.index(joint), -1] - positions[NAMES.index(joint), end])
    )


def test_a_limb_never_seen_is_recovered_and_everything_is_finite(estimator):
    positions = walk(60, 100)
    given = window(positions, 40, lost_at=-1)
    estimate = estimator.estimate(given)
    assert error(estimate, positions, 40) < 0.01 and error(estimate, positions, 40, "lelbow") < 0.01
    np.testing.assert_array_equal(estimate.positions[given.observed], given.positions[given.observed])
    forecast = estimate.forecast
    assert forecast.positions.shape == (9, HORIZON, 3) and forecast.times[0] == pytest.approx(41 * DT)
    for array in (estimate.positions, estimate.velocities, estimate.covariance, estimate.position_95,
    estimate.adjacency,
                  forecast.positions, forecast.velocities, forecast.covariance):  # fmt: skip
        assert np.isfinite(array).all()
    np.testing.assert_allclose(estimate.adjacency.sum(-1), 1 - np.eye(9), atol=1e-6)
    assert estimate.reason[NAMES.index("lhand")].startswith("never seen") and estimate.reason[0] == ""


def test_the_estimate_moves_and_turns_with_the_body(estimator):
    positions = walk(60, 101)
    motion = BodyFrame(np.array(2.2), np.array([5.0, -3.0, 0.4]))
    plain = estimator.estimate(window(positions, 40, lost_at=30))
    turned = estimator.estimate(window(motion.to_world(positions), 40, lost_at=30))
    np.testing.assert_allclose(turned.positions, motion.to_world(plain.positions), atol=1e-4)
    np.testing.assert_allclose(turned.forecast.positions, motion.to_world(plain.forecast.positions), atol=1e-4)
    np.testing.assert_allclose(turned.forecast.velocities, motion.turn_to_world(plain.forecast.velocities), atol=1e-4)


def test_what_the_linear_path_gets_wrong_is_carried_from_the_moment_of_loss(estimator):
    positions = walk(90, 102, bias=0.05)
    assert error(estimator.estimate(window(positions, 40, lost_at=-1)), positions, 40) > 0.04
    previous = None
    for end in range(20, 41, 4):
        previous = estimator.estimate(window(positions, end), previous)
    just_lost = estimator.estimate(window(positions, 41, lost_at=40), previous)
    assert error(just_lost, positions, 41) < 0.005
    previous = just_lost
    for end in range(43, 80, 2):  # long after the window in which it was last seen
        previous = estimator.estimate(window(positions, end, lost_at=40), previous)
    assert error(previous, positions, 79) < 0.02


def test_a_joint_of_the_core_is_carried_too(estimator):
    positions = walk(90, 115)
    positions[2, :, 1] += 0.05  # the head is held to the left
    assert error(estimator.estimate(window(positions, 40, -1, lost=("head",))), positions, 40, "head") > 0.04
    previous = estimator.estimate(window(positions, 40))
    for end in range(41, 80, 2):
        previous = estimator.estimate(window(positions, end, lost_at=40, lost=("head",)), previous)
        if end == 41:
            assert error(previous, positions, 41, "head") < 0.005
    assert error(previous, positions, 79, "head") < 0.02


def test_a_limb_that_comes_back_in_part_keeps_what_is_seen(estimator):
    positions = walk(60, 103, bias=0.05)
    given = window(positions, 40)
    given.observed[[3, 4], :6] = False
    given.positions[[3, 4], :6] = np.nan
    estimate = estimator.estimate(given)
    gap = np.linalg.norm(estimate.positions[4, :6] - cut(positions, 40)[4, :6], axis=-1)
    assert gap.max() < 0.015  # without the carry it is 0.05


def test_a_single_joint_of_a_limb_uses_the_others(estimator):
    positions = walk(60, 104)
    estimate = estimator.estimate(window(positions, 40, lost_at=-1, lost=("lhand",)))
    assert error(estimate, positions, 40) < 0.01
    np.testing.assert_array_equal(estimate.positions[3], cut(positions, 40)[3])


def test_what_bridges_a_short_gap_is_not_taken_for_seen(estimator):
    """A straight line that leads away, since a last sample three frames ago."""
    positions = walk(400, 5)
    bridged = window(positions, 300)
    joint = bridged.names.index("lhand")
    bridged.last_seen[joint] -= 2.5 * bridged.dt
    bridged.positions[joint, -3:] += 0.3
    estimate = estimator.estimate(bridged)
    assert estimate.observed[joint].tolist() == [True] * (len(bridged.times) - 3) + [False] * 3
    assert error(estimate, positions, 300) < 0.05


def test_names_come_in_any_order(estimator):
    positions = walk(60, 105)
    names = NAMES[::-1]
    plain, other = (estimator.estimate(window(positions, 40, 30, names=order)) for order in (NAMES, names))
    np.testing.assert_allclose(other.positions, plain.positions[::-1], atol=1e-9)
    np.testing.assert_allclose(other.adjacency, plain.adjacency[::-1, ::-1], atol=1e-6)


@pytest.mark.parametrize(
    ("lost", "why"),
    [
        (("lhand", "rhand", "lfoot"), "joints of 3 limbs hidden, the bundle knows up to 2"),
        (("pelvis", "neck"), "fewer than 3 joints of the core seen"),
    ],
)
def test_what_it_was_not_made_for_is_said_and_extrapolated(estimator, lost, why):
    positions = walk(60, 106)
    estimate = estimator.estimate(window(positions, 40, lost_at=37, lost=lost))
    row = NAMES.index(lost[0])
    assert why in estimate.reason[row] and np.isfinite(estimate.positions).all()
    assert set(estimate.reason) == {estimate.reason[row]}


def test_an_unfit_window_is_said_though_nobody_is_hidden(estimator):
    positions = walk(60, 106)
    positions[6, 35:] += 1.0
    reason = estimator.estimate(window(positions, 40)).reason
    assert reason == [reason[0]] * len(NAMES) and reason[0].startswith("extrapolated: a joint moves at ")


def test_three_limbs_keep_their_place_for_longer_than_a_window(estimator):
    positions = walk(120, 113)
    lost = ("lelbow", "lhand", "rhand", "lfoot")
    previous = None
    for end in range(30, 100, 3):
        previous = estimator.estimate(window(positions, end, lost_at=40, lost=lost), previous)
    centre = positions[[NAMES.index(name) for name in NAMES if name not in lost]].mean(0)
    for name in lost:
        row = NAMES.index(name)
        expected = positions[row, 40] + centre[99] - centre[40]
        np.testing.assert_allclose(previous.positions[row, -1], expected, atol=1e-9)


def test_the_fallback_goes_on_from_where_the_linear_path_was(estimator):
    """A hand that was never seen; then a third limb goes, and with it what the bundle knows."""
    positions = walk(120, 114)
    before = estimator.estimate(window(positions, 60, lost_at=-1))
    given = window(positions, 63, lost_at=-1)
    for limb in ("relbow", "lfoot"):
        given.observed[NAMES.index(limb), -2:] = False
    given.positions[~given.observed] = np.nan
    after = estimator.estimate(given, before)
    assert after.reason[0].startswith("extrapolated: joints of 3 limbs")
    centre = positions[[0, 1, 2, 6, 8]].mean(0)  # of those seen in the newest frame
    hand = NAMES.index("lhand")
    expected = before.positions[hand, -1] + centre[63] - centre[60]
    np.testing.assert_allclose(after.positions[hand, -1], expected, atol=1e-9)


def test_one_unfit_window_does_not_wipe_what_is_carried(estimator):
    positions = walk(90, 102, bias=0.05)
    previous = None
    for end in range(20, 60, 4):
        previous = estimator.estimate(window(positions, end, lost_at=40), previous)
    jump = positions.copy()
    jump[6, 60] += 1.0
    unfit = estimator.estimate(window(jump, 60, lost_at=40), previous)
    assert unfit.reason[0].startswith("extrapolated")
    again = estimator.estimate(window(positions, 62, lost_at=40), unfit)
    assert again.reason[0] == "" and error(again, positions, 62) < 0.02  # without the carry it is 0.05


def test_two_limbs_and_other_skeletons(estimator):
    positions = walk(60, 107)
    both = estimator.estimate(window(positions, 40, lost_at=-1, lost=("lelbow", "lhand", "lfoot")))
    assert error(both, positions, 40) < 0.02 and error(both, positions, 40, "lfoot") < 0.02
    given = window(positions, 40, lost_at=30)
    given.names[0] = "hip"
    assert "pelvis" in estimator.estimate(given).reason[3]


def test_too_fast_a_body_is_not_guessed_at(estimator):
    positions = walk(60, 108)
    positions[6, 30:] += np.arange(30)[:, None] * np.array([0, 0.5, 0])
    assert "m/s, training saw up to 8.0 m/s" in estimator.estimate(window(positions, 35, lost_at=30)).reason[3]


def test_deviations_are_those_of_the_tables(estimator):
    estimate = estimator.estimate(window(walk(60, 109), 40, lost_at=38))
    hand = NAMES.index("lhand")
    since = 2 * DT
    expected = np.interp(since, [0.05, 1.0], [0.01, 0.02])
    np.testing.assert_allclose(np.sqrt(np.diagonal(estimate.covariance[hand, -1])), expected, rtol=1e-6)
    assert estimate.position_95[hand, -1] == pytest.approx(np.interp(since, [0.05, 1.0], [0.02, 0.05]))
    assert estimate.position_95[hand, 0] < 0.01
    ahead = np.sqrt(np.diagonal(estimate.forecast.covariance[0, -1]))
    later = np.interp(HORIZON * DT, [0.05, 1.0], [0.01, 0.02])
    assert ahead == pytest.approx(later)  # of joints that are seen the table says all
    assert estimate.forecast.position_95[0, -1] == pytest.approx(np.interp(HORIZON * DT, [0.05, 1.0], [0.02, 0.05]))
    both = np.sqrt(np.diagonal(estimate.forecast.covariance[hand, -1]))
    assert both == pytest.approx(np.hypot(later, expected))  # of others what is not known now comes on top


def test_deviations_beyond_the_bundle_have_a_table_of_their_own(estimator):
    positions = walk(120, 116)
    lost = ("lhand", "rhand", "lfoot")
    estimate = estimator.estimate(window(positions, 70, lost_at=70 - 18, lost=lost))  # 0.6 s, longer than the window
    for name, half_width, radius in (("lhand", 0.15, 0.4), ("head", 0.002, 0.0056)):
        row = NAMES.index(name)
        np.testing.assert_allclose(estimate.covariance[row, -1], half_width**2 * np.eye(3), atol=1e-12)
        assert estimate.position_95[row, -1] == pytest.approx(radius)
        ahead = 0.06**2 + (half_width**2 if name in lost else 0)
        np.testing.assert_allclose(estimate.forecast.covariance[row, -1], ahead * np.eye(3), atol=1e-12)
    never = estimator.estimate(window(positions, 70, lost_at=-1, lost=lost))
    assert never.position_95[NAMES.index("lfoot"), -1] == pytest.approx(1.1)


def test_a_body_unlike_those_of_training_has_wider_deviations(estimator):
    """While it was seen, the arm was 0.1 m from where the rest of the body says, along each axis; usual is 0.01 m."""
    positions = walk(60, 109)
    plain = estimator.estimate(window(positions, 40, lost_at=38))
    positions[[NAMES.index(joint) for joint in LIMBS["left_arm"]]] += 0.1
    unlike = estimator.estimate(window(positions, 40, lost_at=38))
    remembered = unlike.internal.groups["left_arm"]
    errors = np.abs(remembered.errors[~remembered.visible.any(1)]) / 0.01
    multiple = np.quantile(errors, 0.6827)
    assert len(errors) >= 5 and multiple == pytest.approx(10, rel=0.3)
    for joint in ("lelbow", "lhand"):
        row = NAMES.index(joint)
        assert unlike.position_95[row, -1] == pytest.approx(multiple * plain.position_95[row, -1])
        np.testing.assert_allclose(unlike.covariance[row, -1], multiple**2 * plain.covariance[row, -1])
    assert unlike.position_95[NAMES.index("rhand"), -1] < 0.01  # which is seen


def test_a_part_of_a_limb_is_known_better_than_the_whole(estimator):
    """The elbow, which is seen, tells where the hand is: as well as it did before."""
    positions = walk(60, 109)
    part, whole = (
        estimator.estimate(window(positions, 40, lost_at=38, lost=lost)) for lost in (("lhand",), ("lelbow", "lhand"))
    )
    hand, remembered = NAMES.index("lhand"), part.internal.groups["left_arm"]
    usable = (remembered.visible == [True, False]).all(1)
    multiple = np.nanquantile(np.abs(remembered.errors[usable, 1]) / 0.01, 0.6827)
    assert usable.sum() >= 5 and multiple < 1
    expected = max(0.25, multiple) * whole.position_95[hand, -1]
    assert part.position_95[hand, -1] == pytest.approx(expected)


def test_a_joint_that_hides_alone_has_tables_of_its_own(bundle):
    alone, usual = ErrorTable([0.05, 1.0], [0.03, 0.07], [0.08, 0.2]), ErrorTable([0.05], [1e-4], [0.004])
    errors = bundle.config.errors | {"lhand_alone": alone, "lhand_alone_unseen": usual}
    own = BodyEstimator(replace(bundle, config=replace(bundle.config, errors=errors)), torch.device("cpu"))
    hand, given = NAMES.index("lhand"), window(walk(60, 109), 40, lost_at=38, lost=("lhand",))
    estimate = own.estimate(given)
    remembered = estimate.internal.groups["left_arm"]
    told = remembered.errors[(remembered.visible == [True, False]).all(1), 1]
    multiple = max(1.0, float(np.nanquantile(np.abs(told), 0.6827)) / 1e-4)
    assert estimate.position_95[hand, -1] == pytest.approx(multiple * np.interp(2 * DT, [0.05, 1], [0.08, 0.2]))
    half_width = np.sqrt(estimate.covariance[hand, -1, 0, 0])
    assert half_width == pytest.approx(multiple * np.interp(2 * DT, [0.05, 1], [0.03, 0.07]))
    never = own.estimate(window(walk(60, 109), 40, lost_at=-1, lost=("lhand",)))
    assert never.position_95[hand, -1] == pytest.approx(0.004)
    forgotten = own.estimate(window(walk(90, 109), 85, lost_at=45, lost=("lhand",)))  # 1.33 s after the loss
    assert forgotten.position_95[hand, -1] == pytest.approx(0.004)
    both = [each.estimate(window(walk(60, 109), 40, lost_at=38)) for each in (own, BodyEstimator(bundle, own.device))]
    assert both[0].position_95[hand, -1] == both[1].position_95[hand, -1]  # a whole arm: tables of whole arms


def test_of_parts_of_a_limb_the_smallest_set_that_was_measured_is_told():
    estimator = load_estimator(bundle_path("body"), "cpu")
    names = estimator.names
    near, far = halves(estimator.bundle.config.limbs["left_arm"])
    assert (list(near), far[-1]) == (["lclavicle", "lhumerus", "lradius"], "lthumb")

    def measured(*lost):
        found, exact = estimator._measured_as(~np.isin(names, lost))
        rows = [names.index(name) for name in lost]
        return {found[row][len(names[row]) :] for row in rows}, {bool(exact[row]) for row in rows}

    assert measured(*near) == ({"_half"}, {True}) and measured(*far) == ({"_half"}, {True})
    assert measured("lhand", "lthumb") == ({"_half"}, {False})  # less than the half that was measured
    assert measured("lhand") == ({"_alone"}, {True})
    assert measured("lradius", "lwrist") == ({""}, {False})  # of both halves
    assert measured(*near, *far) == ({""}, {True}) and measured("head") == ({""}, {True})


def test_how_unlike_errors_are_is_their_quantile_over_what_is_usual():
    errors = np.array([[[0.01, 0.02, np.nan], [-0.03, 0.04, 0.05]]])  # 1, 2, 3/2, 4/2, 5/2 times the usual
    assert unlike(errors, np.array([0.01, 0.02])) == pytest.approx(np.quantile([1, 2, 1.5, 2, 2.5], 0.6827))


def test_deviations_grow_when_a_second_limb_is_hidden(estimator):
    positions = walk(60, 109)
    one = estimator.estimate(window(positions, 40, lost_at=38))
    two = estimator.estimate(window(positions, 40, lost_at=38, lost=("lelbow", "lhand", "lfoot")))
    hand = NAMES.index("lhand")
    np.testing.assert_allclose(two.covariance[hand, -1], 4 * one.covariance[hand, -1])  # 0.02 m for 0.01 m
    assert two.position_95[hand, -1] == pytest.approx(3 * one.position_95[hand, -1])
    assert two.position_95[0, -1] == one.position_95[0, -1]


def test_the_change_is_how_far_the_last_round_moved_the_joints(bundle, monkeypatch):
    monkeypatch.setattr("siha_ros.body_estimator.SETTLED", 0.0)
    arrays = dict(bundle.arrays)
    arrays["refinement"] = {"gain": torch.full((6,), 0.1), "share": torch.tensor([[[0.0, 3.0], [0.5, 0.5]]] * 3)}
    given = window(walk(60, 112), 40, lost_at=-1)
    hand = [NAMES.index(name) for name in LIMBS["left_arm"]]
    done = [
        BodyEstimator(replace(bundle, arrays=arrays), torch.device("cpu"), rounds=rounds).estimate(given)
        for rounds in (0, 1, 2)
    ]
    assert [one.rounds for one in done] == [0, 1, 2]
    for before, after in zip(done, done[1:], strict=False):
        moved = np.linalg.norm((after.positions - before.positions)[hand], axis=-1).max()
        assert after.change == pytest.approx(moved, rel=1e-3) and moved > 1e-7
    assert done[0].change == 0.0


@pytest.mark.parametrize(
    ("edit", "said"),
    [
        (lambda c, n, a: c.errors.pop("lhand_unseen"), "bundle.yaml: errors: table 'lhand_unseen' is missing"),
        (lambda c, n, a: c.errors.pop("fallback"), "errors: table 'fallback' is missing"),
        (lambda c, n, a: c.errors.pop("lhand_forecast"), "errors: table 'lhand_forecast' is missing"),
        (lambda c, n, a: a.pop("carry"), "carry.safetensors: left_arm is missing, expected 8 numbers"),
        (lambda c, n, a: a["carry"].pop("core"), "carry.safetensors: core is missing, expected 8 numbers"),
        (
            lambda c, n, a: a["carry"].update(left_leg=torch.zeros(8)),
            "carry.safetensors: left_leg: expected numbers above 0",
        ),
        (lambda c, n, a: a.pop("linear"), "linear.safetensors: template_pose is missing, expected 9 x 3 numbers"),
        (lambda c, n, a: a["linear"].pop("short_mean"), "linear.safetensors: short_mean is missing"),
        (
            lambda c, n, a: a["linear"].update(pose_axes=torch.zeros(3, 7)),
            "linear.safetensors: pose_axes: expected any x 27 numbers, got (3, 7)",
        ),
        (lambda c, n, a: a["linear"]["core"].add_(1), "core: expected the joints of no limb, [0, 1, 2, 8]"),
        (lambda c, n, a: a.pop("refinement"), "refinement.safetensors: gain is missing, expected 6 numbers"),
        (lambda c, n, a: a["refinement"]["share"].add_(2), "share: expected ascending seconds, and shares of 0 to 1"),
        (lambda c, n, a: n.pop("hsp_sg"), "expected hsp_sg of kind hsp"),
        (lambda c, n, a: n.pop("nri"), "expected nri of kind nri"),
        (lambda c, n, a: setattr(c, "window", 30), "modules are not of 30 frames and 6 features"),
        (lambda c, n, a: setattr(c, "limbs", {}), "bundle.yaml: limbs: expected limbs that share no joint"),
        (lambda c, n, a: setattr(c, "dims", 2), "bundle.yaml: dims: expected 3"),
    ],
)
def test_a_bundle_that_lacks_what_a_body_needs_is_one_line(bundle, tmp_path, edit, said):
    parts = copy.deepcopy((bundle.config, bundle.networks, bundle.arrays))
    parts[0].hidden_sets = []
    edit(*parts)
    save_bundle(tmp_path / "short", *parts)
    load_bundle(tmp_path / "short")
    with pytest.raises(BundleError) as caught:
        load_estimator(tmp_path / "short", "cpu")
    assert said in str(caught.value) and "\n" not in str(caught.value) and str(tmp_path) in str(caught.value)


def test_bundle_info_says_what_happens_beyond_the_ranges(bundle, tmp_path):
    save_bundle(tmp_path / "whole", *copy.deepcopy((bundle.config, bundle.networks, bundle.arrays)))
    load_estimator(tmp_path / "whole", "cpu")
    assert "beyond them joints keep their place beside those still seen" in describe(tmp_path / "whole")


def test_warm_up_runs_every_limb(estimator):
    estimator.warm_up()


def test_ridges_complete_a_limb_and_leave_the_rest_alone(bundle):
    positions = walk(60, 110)
    given = window(positions, 40, lost_at=30)
    for name, ridge in ridge_estimators(bundle).items():
        estimate = ridge.estimate(given)
        assert error(estimate, positions, 40) < 0.03, name
        np.testing.assert_array_equal(estimate.positions[given.observed], given.positions[given.observed])
        assert np.isfinite(estimate.forecast.positions).all()
