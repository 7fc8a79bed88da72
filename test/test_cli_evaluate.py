"""What ``siha evaluate --hide`` takes of a body."""

from types import SimpleNamespace

import pytest

from siha_ros.cli_evaluate import hidden_sets

LIMBS = {"arm": ["shoulder", "elbow", "hand"], "leg": ["hip", "foot"]}
BODY = SimpleNamespace(name="b", limbs=LIMBS, agent_names=["root", *LIMBS["arm"], *LIMBS["leg"]])


@pytest.mark.parametrize(
    ("hide", "expected"),
    [
        (None, LIMBS),
        ("limbs", LIMBS),
        (
            "halves",
            {"arm_near": ["shoulder"], "leg_near": ["hip"], "arm_far": ["elbow", "hand"], "leg_far": ["foot"]},
        ),
        ("joints", {name: [name] for name in BODY.agent_names}),
        ("leg", {"leg": ["hip", "foot"]}),
        ("root,foot", {"root,foot": ["root", "foot"]}),
    ],
)
def test_hidden_joints_by_limb_half_or_name(hide, expected):
    assert hidden_sets(BODY, hide) == expected


def test_an_unknown_joint_is_named():
    with pytest.raises(ValueError, match="--hide tail: expected joints of b, limbs, halves, joints or one of arm, leg"):
        hidden_sets(BODY, "foot,tail")
