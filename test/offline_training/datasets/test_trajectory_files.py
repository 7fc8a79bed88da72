"""Sets on disk: the simulators' own numbers, the same bytes from any number of threads, and nothing half written."""

from __future__ import annotations

import json

import numpy as np
import pytest

from offline_training.datasets.trajectory_files import SYSTEMS, SimulatedSet, load, stream, write
from offline_training.systems.charged import simulate_charged
from offline_training.systems.kuramoto import simulate_kuramoto
from offline_training.systems.springs import simulate_springs


@pytest.mark.parametrize("system", list(SYSTEMS))
def test_the_same_bytes_from_any_number_of_threads(tmp_path, system):
    wanted = SimulatedSet(system, 70, 3, 4, 9)
    one = write(wanted, tmp_path / "one", threads=1)
    two = write(wanted, tmp_path / "two", threads=2, chunk=16)
    names = {path.name for path in one.iterdir()}
    assert names == {path.name for path in two.iterdir()} and "set.json" in names and "edges.npy" in names
    for name in names:
        assert (one / name).read_bytes() == (two / name).read_bytes()
    described, arrays = load(one)
    assert described == wanted
    simulate = {"springs": simulate_springs, "charged": simulate_charged, "kuramoto": simulate_kuramoto}[system]
    made = simulate(70, 3, agents=4, seed=9)
    for name, array in arrays.items():
        assert isinstance(array, np.memmap) and np.array_equal(array, getattr(made, name))


def test_chunks_come_in_order():
    firsts, sizes = zip(*((first, len(a["edges"])) for first, a in stream(
        SimulatedSet("springs", 45, 1, 3, 0), threads=2, chunk=8)), strict=True)  # fmt: skip
    assert firsts == (0, 8, 16, 24, 32, 40) and sizes == (8, 8, 8, 8, 8, 5)


def test_a_set_is_complete_or_not_there(tmp_path):
    wanted = SimulatedSet("springs", 3, 1, 3, 0)
    folder = tmp_path / "set"
    left = tmp_path / "set.part"
    left.mkdir()
    (left / "old.npy").write_text("from a run that was killed")
    write(wanted, folder)
    assert not left.exists() and not (folder / "old.npy").exists()
    before = (folder / "positions.npy").stat().st_mtime_ns
    assert write(wanted, folder) == folder and (folder / "positions.npy").stat().st_mtime_ns == before
    with pytest.raises(FileExistsError, match="does not hold this set"):
        write(SimulatedSet("springs", 3, 1, 3, 1), folder)
    (folder / "set.json").write_text(json.dumps({"system": "springs"}))
    with pytest.raises(ValueError, match="set.json"):
        load(folder)
    with pytest.raises(FileNotFoundError, match="no set.json"):
        load(tmp_path)
    with pytest.raises(ValueError, match="2 to 100 agents, not 1"):
        write(SimulatedSet("springs", 3, 1, 1, 0), tmp_path / "lonely")
    assert [path.name for path in tmp_path.iterdir()] == ["set"]


@pytest.mark.parametrize(("change", "message"), [({"system": "gas"}, "'gas' is unknown"), ({"count": 0}, "0 traj")])
def test_what_cannot_be_simulated(change, message):
    with pytest.raises(ValueError, match=message):
        SimulatedSet(**({"system": "springs", "count": 1, "frames": 1, "agents": 3, "seed": 0} | change))
