"""Options of `make demo`: flags, or environment variables of the same names."""

from __future__ import annotations

import argparse
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

LIMBS = ("left_arm", "left_leg", "right_arm", "right_leg")


@dataclass(frozen=True)
class Options:
    """What a demo does.

    Attributes:
        duration: of the run (s).
        seed: of the team and of who is lost.
        losses: loss episodes, in equal parts of the duration (team).
        headless: no browser view.
        report: where the JSON report goes, None for nowhere.
        body: folder with an .asf and .amc files; None for the team.
        limb: what is lost of a body, one of LIMBS.
        trials: trials to play; empty for those of the folder that the bundle was not trained on.
        force: play training trials too.
        bundle: name or folder of a trained model.
        port: of the browser view; 0 for any free one.
    """

    duration: float
    seed: int
    losses: int
    headless: bool
    report: Path | None
    body: Path | None
    limb: str
    trials: tuple[str, ...]
    force: bool
    bundle: str
    port: int


def parse_options(arguments: Sequence[str], environment: Mapping[str, str] = os.environ) -> Options:
    """Flags win over environment variables. Exits with one line on what cannot be."""
    parser = argparse.ArgumentParser(
        "siha_ros.demo", description="The main job, live over ROS 2; each flag is an environment variable too."
    )

    def add(name: str, help_text: str, default: str = "") -> None:
        given = environment.get(name, "") or default
        parser.add_argument(
            f"--{name.lower()}", default=given, help=f"{help_text} ({name}; default {default or 'none'})"
        )

    add("DURATION", "seconds", "30")
    add("SEED", "of the team and of who is lost", "1")
    add("LOSSES", "loss episodes of the team, in equal parts of the duration", "1")
    add("REPORT", "JSON report to write")
    add("BODY", "folder with one .asf and .amc files: recorded bodies in place of the team")
    add("LIMB", f"what a body loses: {', '.join(LIMBS)}", "left_arm")
    add("TRIAL", "trials to play, as 35_05 or 05, with commas between; by default those not used in training")
    add("BUNDLE", "trained model, by default springs_team or body")
    add("PORT", "of the browser view; 0: any free one", "0")
    for name, help_text in (
        ("HEADLESS", "no browser view"),
        ("FORCE", "play trials that the bundle was trained on too"),
    ):
        set_already = environment.get(name, "0") not in ("", "0")
        parser.add_argument(
            f"--{name.lower()}", action="store_true", default=set_already, help=f"{help_text} ({name}=1)"
        )
    given = parser.parse_args(arguments)

    def number(name: str, kind: type, low: float) -> float:
        text = getattr(given, name.lower())
        try:
            value = kind(text)
        except ValueError:
            value = None
        if value is None or not low <= value < 1e6:
            parser.error(f"{name} is {text!r}: expected a {'whole ' if kind is int else ''}number from {low:g}")
        return value

    if given.limb not in LIMBS:
        parser.error(f"LIMB is {given.limb!r}: expected {', '.join(LIMBS)}")
    body = Path(given.body).expanduser() if given.body else None
    if body is not None and not body.is_dir():
        parser.error(f"BODY is {given.body!r}: expected a folder with an .asf and .amc files")
    return Options(
        duration=number("DURATION", float, 1),
        seed=int(number("SEED", int, 0)),
        losses=int(number("LOSSES", int, 1)),
        headless=given.headless,
        report=Path(given.report).expanduser() if given.report else None,
        body=body,
        limb=given.limb,
        trials=tuple(filter(None, given.trial.replace(",", " ").split())),
        force=given.force,
        bundle=given.bundle or ("body" if body else "springs_team"),
        port=int(number("PORT", int, 0)),
    )
