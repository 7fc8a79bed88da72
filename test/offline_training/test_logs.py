"""What a training leaves beside its weights: here its options, which a later run must share."""

from __future__ import annotations

import pytest

from offline_training.stages.logs import claim


def test_a_work_folder_belongs_to_one_training(tmp_path):
    work = tmp_path / "training" / "team"
    claim(work, set="any", seed=0, data=tmp_path)
    claim(work, set="any", seed=0, data=tmp_path)  # the same one goes on
    with pytest.raises(ValueError, match=r"team holds a training with seed 0 \(now 1\): choose another") as fault:
        claim(work, set="any", seed=1, data=tmp_path)
    assert "\n" not in str(fault.value)
    claim(tmp_path / "other", set="any", seed=1, data=tmp_path)
