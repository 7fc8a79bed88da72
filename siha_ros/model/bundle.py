"""Bundles: what training makes and the node loads. A folder of ``bundle.yaml`` and one ``*.safetensors`` per module.

Plain data and tensors only: nothing in a bundle can execute. Loading is strict, and every fault is one
:class:`BundleError` of one line that names the file, the key and what was expected.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import shutil
import sys
import types
import typing
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any, TypeVar

import numpy as np
import safetensors.torch
import torch
import yaml
from torch import Tensor, nn

from siha_ros.errors import one_line
from siha_ros.model.frame import Scale
from siha_ros.model.hidden_state import HiddenStatePredictor, HSPConfig
from siha_ros.model.nri import NRI, NRIConfig

Table = TypeVar("Table")

FORMAT = 1
RECORDED = "recorded"  # the system of a bundle that was trained on recordings of a team
LARGEST_FILE = 64 * 1024 * 1024
LARGEST_YAML = 1024 * 1024
LARGEST_SIZE = 10_000  # of any number in a module's hyper-parameters that is a count
LARGEST_LAYER = 16_000_000  # weights of one layer
SUM = "# SHA-256 of what follows: "  # the first line of bundle.yaml
MOST_UNUSUAL = 10.0  # times more or less than usual that a predicted deviation is followed


class BundleError(ValueError):
    """A bundle that cannot be used; the message is one line: file, key, what was expected."""


@dataclass
class Ranges:
    """What training has seen; input beyond it is said and not guessed at.

    agents: fewest and most. rate: of the stream, Hz. speed: largest, m/s. extent: largest distance from the frame's
    origin, m.
    """

    agents: list[int]
    rate: list[float]
    speed: float
    extent: float

    def __post_init__(self) -> None:
        for name, pair in (("agents", self.agents), ("rate", self.rate)):
            if len(pair) != 2 or not 0 < pair[0] <= pair[1]:
                raise ValueError(f"{name}: expected the lowest and the highest, above 0")
        if self.speed <= 0 or self.extent <= 0:
            raise ValueError("speed and extent must be above 0")


@dataclass
class ErrorTable:
    """Errors measured on validation data by time since loss.

    seconds: ascending times since loss (s). half_width: 68 % half-width per axis (m). radius: that holds 95 % of the
    errors (m). spread, exponent: where an estimator predicts a deviation of its own, the usual one at these times (m);
    both columns hold for that one, and go with (predicted / usual) to the power of ``exponent``.
    """

    seconds: list[float]
    half_width: list[float]
    radius: list[float]
    spread: list[float] = field(default_factory=list)
    exponent: float = 0.0

    def __post_init__(self) -> None:
        if not len(self.seconds) == len(self.half_width) == len(self.radius) > 0:
            raise ValueError("seconds, half_width and radius need one entry each for the same times")
        if any(later <= earlier for earlier, later in zip(self.seconds, self.seconds[1:], strict=False)):
            raise ValueError("seconds must ascend")
        if min(self.half_width) < 0 or min(self.radius) < 0:
            raise ValueError("half_width and radius must not be negative")
        if self.spread and (len(self.spread) != len(self.seconds) or min(self.spread) <= 0):
            raise ValueError("spread needs one entry above 0 for each time, or none at all")
        if not 0 <= self.exponent <= 2 or (self.exponent > 0) > bool(self.spread):
            raise ValueError("exponent must be 0 to 2, and 0 without spread")

    @property
    def trend(self) -> float:
        """The power of time by which the radius grew in the later half of the table's times, 0 to 1."""
        last = self.seconds[-1]
        before = float(np.interp(last / 2, self.seconds, self.radius))
        if last <= 0 or last / 2 < self.seconds[0] or before <= 0:
            return 0.0
        return float(np.clip(np.log2(self.radius[-1] / before), 0.0, 1.0))

    def at(
        self, seconds: np.ndarray, growing: float = 0.0, spread: np.ndarray | None = None
    ) -> tuple[np.ndarray, np.ndarray]:
        """Half-widths and radii (m) at times since loss (s). Beyond the table the last entry, which is the largest
        known, and more with the power ``growing`` of time. Infinite: the last entry.
        spread: what the estimator predicted for each (m), NaN for the usual."""
        factor: np.ndarray | float = 1.0
        if growing:
            elapsed = np.where(np.isfinite(seconds), seconds, 0.0) / max(self.seconds[-1], 1e-9)
            factor = np.maximum(elapsed, 1.0) ** growing
        if spread is not None and self.exponent:
            factor = factor * self.against_usual(seconds, spread) ** self.exponent
        width = np.interp(seconds, self.seconds, self.half_width)
        return width * factor, np.interp(seconds, self.seconds, self.radius) * factor

    def against_usual(self, seconds: np.ndarray, spread: np.ndarray) -> np.ndarray:
        """Predicted deviations (m) in units of the usual one at times since loss (s), within a factor of MOST_UNUSUAL;
        1 where NaN."""
        usual = np.interp(seconds, self.seconds, self.spread)
        return np.clip(np.where(np.isfinite(spread), spread / usual, 1.0), 1 / MOST_UNUSUAL, MOST_UNUSUAL)


def by_number(tables: Mapping[str, Table], name: str, lost: int) -> Table | None:
    """The table of a name for so many lost agents, or for the next smaller number that was measured; of a bundle that
    does not tell numbers apart the one for all."""
    found = (tables[f"{name}_{number}"] for number in range(max(lost, 1), 0, -1) if f"{name}_{number}" in tables)
    return next(found, tables.get(name))


@dataclass
class Training:
    """How the bundle came to be. trials: recordings trained on (others may be used to judge it). samples, minutes: what
    each stage cost."""

    command: str
    data: str
    seed: int
    trials: list[str]
    samples: dict[str, int]
    minutes: dict[str, float]
    revision: str
    versions: dict[str, str]


@dataclass
class ModuleEntry:
    """kind: "nri", "hsp" or "arrays" (plain tensors). config: hyper-parameters of the kind. sha256: of the file
    NAME.safetensors."""

    kind: str
    config: dict[str, Any]
    sha256: str


@dataclass
class BundleConfig:
    """The contents of ``bundle.yaml``.

    name, system: what it is for ("springs", "body", or RECORDED). count: agents of the model. agent_names: empty for
    like agents. limbs: named sets of agents that hide together. dims: 2 or 3. dt: s. window, horizon: frames. frame:
    "world", "team" or "body". velocity: "measured" or "backward_difference". scale: normalisation. edge_types: K, and
    their names where they have any. max_hidden: most agents hidden at once (like agents). hidden_sets: names of limbs
    trained on (named agents). rounds: refinement rounds. errors: by method or limb. metrics: measured, by set and
    method.
    """

    format: int
    name: str
    system: str
    purpose: str
    count: int
    agent_names: list[str]
    limbs: dict[str, list[str]]
    dims: int
    dt: float
    window: int
    horizon: int
    frame: str
    velocity: str
    scale: Scale
    edge_types: list[str]
    max_hidden: int
    hidden_sets: list[str]
    rounds: int
    ranges: Ranges
    errors: dict[str, ErrorTable]
    training: Training
    metrics: dict[str, Any]
    modules: dict[str, ModuleEntry] = field(default_factory=dict)

    @property
    def identified(self) -> bool:
        """Whether agents have names of their own (joints) or are alike (robots of a team)."""
        return bool(self.agent_names)

    def __post_init__(self) -> None:
        checks = [
            (self.dims in (2, 3), "dims", "2 or 3"),
            (0 < self.dt < 10, "dt", "between 0 and 10 s"),
            (2 <= self.window <= 10_000, "window", "2 to 10000 frames"),
            (1 <= self.horizon <= 10_000, "horizon", "1 to 10000 frames"),
            (2 <= self.count <= 1000, "count", "2 to 1000 agents"),
            (self.frame in ("world", "team", "body"), "frame", "world, team or body"),
            (self.velocity in ("measured", "backward_difference"), "velocity", "measured or backward_difference"),
            (self.scale.position > 0 and self.scale.velocity > 0, "scale", "positive half-ranges"),
            (
                not self.agent_names or len(set(self.agent_names)) == self.count,
                "agent_names",
                f"{self.count} different names",
            ),
            (0 <= self.rounds <= 100, "rounds", "0 to 100"),
            (0 <= self.max_hidden < self.count, "max_hidden", f"below {self.count}"),
            (set(self.hidden_sets) <= set(self.limbs), "hidden_sets", "names of limbs"),
            (all(set(limb) <= set(self.agent_names) for limb in self.limbs.values()), "limbs", "lists of agent_names"),
        ]
        for fine, key, expected in checks:
            if not fine:
                raise ValueError(f"{key}: expected {expected}")


@dataclass
class Bundle:
    """A loaded bundle: config, networks by name (eval mode, no gradients) and plain tensors by name."""

    path: Path
    config: BundleConfig
    networks: dict[str, nn.Module]
    arrays: dict[str, dict[str, Tensor]]

    def nri(self) -> NRI:
        """The interaction model. Raises :class:`BundleError` where there is none."""
        network = self.networks.get("nri")
        if not isinstance(network, NRI):
            raise BundleError(f"{self.path / 'bundle.yaml'}: modules: expected nri of kind nri")
        return network

    def predictor(self, name: str) -> HiddenStatePredictor:
        """A hidden-state predictor by name, such as ``hsp_sa_2``. Raises :class:`BundleError` where there is none."""
        network = self.networks.get(name)
        if not isinstance(network, HiddenStatePredictor):
            raise BundleError(f"{self.path / 'bundle.yaml'}: modules: expected {name} of kind hsp")
        return network


def check_place(folder: Path) -> None:
    """Raises BundleError or OSError where a bundle could not be written to ``folder``, before anything is spent on it:
    it cannot be made, or holds other files than a bundle's, which would be lost. Nothing is left of the try."""
    folder = folder.absolute()
    for taken in (folder, *_beside(folder)):
        if taken.exists() and not _is_ours(taken):
            raise BundleError(f"{taken} is no bundle, and would be overwritten: choose another folder, or move it")
    made = [empty for empty in (folder, *folder.parents) if not empty.exists()]
    folder.mkdir(parents=True, exist_ok=True)
    try:
        with TemporaryFile(dir=folder), TemporaryFile(dir=folder.parent):
            pass
    finally:
        for empty in made:
            empty.rmdir()


def _beside(folder: Path) -> list[Path]:
    """Where a bundle is written, and where the one before it is until that is done."""
    return [folder.with_name(f"{folder.name}.{end}") for end in ("part", "old")]


def _is_ours(folder: Path) -> bool:
    return folder.is_dir() and all(
        file.name == "bundle.yaml" or file.suffix == ".safetensors" for file in folder.iterdir()
    )


def save_bundle(
    path: Path,
    config: BundleConfig,
    networks: dict[str, NRI | HiddenStatePredictor],
    arrays: dict[str, dict[str, Tensor]] | None = None,
) -> None:
    """Write a bundle folder; ``config.modules`` is filled in. Weights are stored in half precision, computed with in
    float32.

    The folder appears complete or not at all; a bundle of that name is replaced at the very end. Raises
    :class:`BundleError` where a number is not finite, or none in half precision, and as :func:`check_place`.
    """
    check_place(path)
    beside, old = _beside(path)
    shutil.rmtree(beside, ignore_errors=True)
    beside.mkdir(parents=True)
    try:
        config.modules = {}
        for name, network in networks.items():
            kind = "nri" if isinstance(network, NRI) else "hsp"
            tensors = {
                key: value.half() if value.is_floating_point() else value for key, value in network.state_dict().items()
            }
            config.modules[name] = _write_tensors(beside, name, kind, dataclasses.asdict(network.config), tensors)
        for name, tensors in (arrays or {}).items():
            config.modules[name] = _write_tensors(beside, name, "arrays", {}, tensors)
        plain = json.loads(json.dumps(dataclasses.asdict(config), default=lambda number: number.item()))
        text = yaml.safe_dump(plain, sort_keys=False, allow_unicode=True, width=150)
        (beside / "bundle.yaml").write_text(f"{SUM}{_sha256(text)}\n{text}", encoding="utf-8")
    except BaseException:
        shutil.rmtree(beside, ignore_errors=True)
        raise
    if path.exists():
        shutil.rmtree(old, ignore_errors=True)
        path.rename(old)
    beside.rename(path)
    shutil.rmtree(old, ignore_errors=True)


def _write_tensors(
    folder: Path, name: str, kind: str, config: dict[str, Any], tensors: dict[str, Tensor]
) -> ModuleEntry:
    for key, value in tensors.items():
        if not bool(torch.isfinite(value).all()):
            raise BundleError(f"{folder.stem}: {name}: {key} holds numbers that are not finite, or none as stored")
    content = safetensors.torch.save({key: value.clone().contiguous() for key, value in tensors.items()})
    (folder / f"{name}.safetensors").write_bytes(content)
    return ModuleEntry(kind, config, hashlib.sha256(content).hexdigest())


def load_bundle(path: str | Path) -> Bundle:
    """Read and check a bundle folder. Raises :class:`BundleError`."""
    path = Path(path)
    config = load_config(path)
    networks: dict[str, nn.Module] = {}
    arrays: dict[str, dict[str, Tensor]] = {}
    for name, entry in config.modules.items():
        if not name.isidentifier():
            raise BundleError(f"{path / 'bundle.yaml'}: modules: {name!r:.60} is no name of a file")
        file = path / f"{name}.safetensors"
        tensors = _read_tensors(file, entry.sha256)
        if entry.kind == "arrays":
            arrays[name] = tensors
            continue
        network = _build(entry, f"{path / 'bundle.yaml'}: modules.{name}", tensors, file)
        networks[name] = network.eval().requires_grad_(False)
    return Bundle(path, config, networks, arrays)


def load_config(path: Path) -> BundleConfig:
    """Read and check ``bundle.yaml`` alone. Raises :class:`BundleError`."""
    file = path / "bundle.yaml"
    try:
        if file.stat().st_size > LARGEST_YAML:
            raise BundleError(f"{file}: over {LARGEST_YAML} bytes, no bundle.yaml is that large")
        text = file.read_text(encoding="utf-8")
        content = yaml.safe_load(text)
    except FileNotFoundError:
        raise BundleError(f"{file}: no such file, expected a bundle folder") from None
    except BundleError:
        raise
    except Exception as error:  # whatever a damaged file makes of the parser: it raises more than YAMLError
        raise BundleError(f"{file}: cannot be read as YAML ({one_line(error):.200})") from None
    if not isinstance(content, dict) or "format" not in content:
        raise BundleError(f"{file}: no bundle, expected a mapping with the key format")
    if content["format"] != FORMAT:
        raise BundleError(
            f"{file}: format {content['format']!r}, this version reads format {FORMAT}: update siha_ros or train again"
        )
    first, _, rest = text.partition("\n")
    if first.startswith(SUM) and first != SUM + _sha256(rest):
        raise BundleError(f"{file}: damaged, or changed by hand: if that was meant, remove its first line, the SHA-256")
    config: BundleConfig = read_strictly(BundleConfig, content, str(file))
    return config


def _sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def _read_tensors(file: Path, sha256: str) -> dict[str, Tensor]:
    try:
        if file.stat().st_size > LARGEST_FILE:
            raise BundleError(f"{file}: over {LARGEST_FILE} bytes, no module of a bundle is that large")
        content = file.read_bytes()
    except OSError as error:
        raise BundleError(f"{file}: cannot be read ({error.strerror})") from None
    if hashlib.sha256(content).hexdigest() != sha256:
        raise BundleError(f"{file}: damaged or exchanged, its SHA-256 is not the one in bundle.yaml")
    try:
        tensors = safetensors.torch.load(content)
        finite = {key: bool(torch.isfinite(value.float()).all()) for key, value in tensors.items()}
    except Exception as error:  # the library raises several kinds
        raise BundleError(f"{file}: no safetensors file ({one_line(error):.200})") from None
    for key, fine in finite.items():
        if not fine:
            raise BundleError(f"{file}: tensor {key} is not finite")
    return tensors


def _build(entry: ModuleEntry, where: str, tensors: dict[str, Tensor], file: Path) -> nn.Module:
    """The network that an entry describes, filled with tensors."""
    kinds: dict[str, tuple[Any, Callable[..., nn.Module]]] = {
        "nri": (NRIConfig, NRI),
        "hsp": (HSPConfig, HiddenStatePredictor),
    }
    if entry.kind not in kinds:
        raise BundleError(f"{where}.kind is {entry.kind!r:.60}, expected nri, hsp or arrays")
    described, network_of = kinds[entry.kind]
    config = read_strictly(described, entry.config, f"{where}.config")
    for key, value in vars(config).items():
        if type(value) is int and not 0 <= value <= LARGEST_SIZE:
            raise BundleError(f"{where}.config: {key} is {value}, expected 0 to {LARGEST_SIZE}")
    width = max(value for key, value in vars(config).items() if key.endswith("width"))
    inputs = max(
        2 * config.frames * config.features, 8 * width, getattr(config, "identities", 0), getattr(config, "hidden", 0)
    )
    if inputs * width > LARGEST_LAYER:
        raise BundleError(f"{where}.config: describes layers of over {LARGEST_LAYER} weights, no bundle has such")
    try:
        network = network_of(config)
        expected = network.state_dict()
        _compare(expected, tensors, file)
    except BundleError:
        raise
    except Exception as error:  # sizes that no layer can have
        raise BundleError(f"{where}.config: describes no network ({one_line(error):.200})") from None
    network.load_state_dict({key: value.to(expected[key].dtype) for key, value in tensors.items()})
    return network


def _compare(expected: dict[str, Tensor], tensors: dict[str, Tensor], file: Path) -> None:
    for key in tensors.keys() - expected.keys():
        raise BundleError(f"{file}: tensor {key!r:.60} is unknown to the module that bundle.yaml describes")
    for key, like in expected.items():
        if key not in tensors:
            raise BundleError(f"{file}: tensor {key} is missing")
        value = tensors[key]
        if value.shape != like.shape:
            raise BundleError(f"{file}: tensor {key} has shape {tuple(value.shape)}, expected {tuple(like.shape)}")
        if value.is_floating_point() != like.is_floating_point():
            raise BundleError(f"{file}: tensor {key} holds {value.dtype}, expected numbers like {like.dtype}")


def read_strictly(kind: Any, content: Any, where: str) -> Any:
    """``content`` of a YAML file as the annotated type ``kind``, strictly: dataclasses, lists, dicts, optionals and
    scalars."""
    if dataclasses.is_dataclass(kind):
        if not isinstance(content, dict):
            raise BundleError(f"{where}: expected a mapping, got {type(content).__name__}")
        hints = typing.get_type_hints(kind)
        required = {f.name for f in dataclasses.fields(kind) if f.default is f.default_factory is dataclasses.MISSING}
        for key in content:
            if key not in hints:
                raise BundleError(f"{where}: unknown key {key!r:.60}")
        for key in sorted(required - content.keys()):
            raise BundleError(f"{where}: key {key!r} is missing")
        values = {key: read_strictly(hints[key], value, f"{where}: {key}") for key, value in content.items()}
        try:
            return kind(**values)  # type: ignore[operator]
        except ValueError as error:
            raise BundleError(f"{where}: {one_line(error):.200}") from None
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if kind is Any:
        return content
    if origin is types.UnionType:
        inner = [part for part in arguments if part is not type(None)]
        return None if content is None else read_strictly(inner[0], content, where)
    if origin is list and isinstance(content, list):
        return [read_strictly(arguments[0], item, f"{where}[{index}]") for index, item in enumerate(content)]
    if origin is dict and isinstance(content, dict):
        return {
            read_strictly(arguments[0], key, where): read_strictly(arguments[1], item, f"{where}.{key}")
            for key, item in content.items()
        }
    if kind is float and isinstance(content, int | float) and not isinstance(content, bool):
        if not abs(content) <= sys.float_info.max:
            raise BundleError(f"{where}: {content!r:.60} is not finite")
        return float(content)
    if kind is int and isinstance(content, int) and abs(content) > sys.maxsize:
        raise BundleError(f"{where}: {content!r:.60} is too large")
    if origin is None and isinstance(content, kind) and (kind is bool or not isinstance(content, bool)):
        return content
    raise BundleError(f"{where}: expected {getattr(kind, '__name__', kind)}, got {content!r:.60}")
