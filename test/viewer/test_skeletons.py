"""Bones: the built-in skeleton and a user's own."""

from __future__ import annotations

import pytest

from siha_ros.viewer.skeletons import CMU_BONES, bone_indices, chain_ends, load_bones


def test_bones_of_a_file(tmp_path):
    path = tmp_path / "bones.yaml"
    path.write_text("- [hip, knee]\n- [knee, foot]\n")
    assert load_bones(path) == (("hip", "knee"), ("knee", "foot"))


@pytest.mark.parametrize("text", ["hip", "- [hip]", "- [hip, 3]", "a: [", "- hip\n- knee"])
def test_a_file_that_is_no_list_of_pairs_is_refused_in_one_line(tmp_path, text):
    path = tmp_path / "bones.yaml"
    path.write_text(text)
    with pytest.raises(ValueError, match="bones.yaml") as caught:
        load_bones(path)
    assert "\n" not in str(caught.value)


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(ValueError, match="nowhere.yaml"):
        load_bones(tmp_path / "nowhere.yaml")


def test_bones_only_between_known_joints():
    assert bone_indices(["lwrist", "robot_1", "lradius"], CMU_BONES) == [(2, 0)]
    assert bone_indices(["robot_1", "robot_2"], CMU_BONES) == []


def test_ends_of_the_cmu_skeleton():
    names = sorted({joint for bone in CMU_BONES for joint in bone})
    ends = chain_ends(len(names), bone_indices(names, CMU_BONES))
    assert {names[i] for i in ends} == {"head", "ltoes", "rtoes", "lfingers", "rfingers", "lthumb", "rthumb"}
