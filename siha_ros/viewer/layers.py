"""Layers of the 3-D picture in viser, each one handle that is updated in place: any number of balls, tubes or lines."""

from __future__ import annotations

from typing import Literal

import numpy as np
import viser
from numpy.typing import NDArray

from siha_ros.viewer.scene import Balls, Bands, Lines, Tubes


class BallLayer:
    """Any number of balls as instances of one mesh."""

    def __init__(
        self,
        scene: viser.SceneApi,
        name: str,
        opacity: float | None = None,
        shadow: bool = True,
        side: Literal["front", "back"] = "front",
    ) -> None:
        vertices, faces = unit_ball()
        self.handle = _add_instances(scene, name, vertices, faces, opacity, shadow, each_opacity=False)
        self.handle.side = side

    def draw(self, balls: Balls) -> None:
        """Show these and no others."""
        identity = np.tile([1.0, 0.0, 0.0, 0.0], (len(balls.radii), 1))
        scales = np.repeat(balls.radii[:, None], 3, axis=1)
        _set_instances(self.handle, balls.positions, identity, scales, balls.colours)


class TubeLayer:
    """Any number of tubes as instances of one mesh; `end` is the share of its radius that each has left at its end."""

    def __init__(
        self, scene: viser.SceneApi, name: str, opacity: float | None = None, shadow: bool = True, end: float = 1.0
    ) -> None:
        vertices, faces = unit_tube(end)
        self._handle = _add_instances(scene, name, vertices, faces, opacity, shadow, each_opacity=True)

    def draw(self, tubes: Tubes) -> None:
        """Show these and no others."""
        along = tubes.ends - tubes.starts
        length = np.linalg.norm(along, axis=1)
        scales = np.stack([tubes.radii, tubes.radii, np.maximum(length, 1e-6)], axis=1)
        _set_instances(self._handle, tubes.starts, rotation_from_z(along), scales, tubes.colours, tubes.opacities)


class LineLayer:
    """Any number of line segments, of one thickness on the screen (pixels)."""

    def __init__(self, scene: viser.SceneApi, name: str, thickness: float) -> None:
        self._handle = scene.add_line_segments(
            name,
            np.zeros((1, 2, 3)),
            np.zeros((1, 2, 3), dtype=np.uint8),
            thickness=thickness,
            thickness_units="screen",
            visible=False,
        )

    def draw(self, lines: Lines) -> None:
        """Show these and no others."""
        self._handle.visible = len(lines.points) > 0
        if len(lines.points):
            self._handle.points = lines.points.astype(np.float32)
            self._handle.colors = linear_colours(lines.colours)


class BandLayer:
    """One translucent surface."""

    def __init__(self, scene: viser.SceneApi, name: str, colour: tuple[int, int, int], opacity: float) -> None:
        self._handle = scene.add_mesh_simple(
            name,
            np.zeros((3, 3)),
            np.array([[0, 1, 2]]),
            color=colour,
            opacity=opacity,
            side="double",
            cast_shadow=False,
            receive_shadow=False,
            visible=False,
        )

    def draw(self, bands: Bands) -> None:
        """Show these and no others."""
        self._handle.visible = len(bands.triangles) > 0
        if len(bands.triangles):
            self._handle.vertices = bands.vertices.astype(np.float32)
            self._handle.faces = bands.triangles.astype(np.uint32)


def rotation_from_z(directions: NDArray[np.float64]) -> NDArray[np.float64]:
    """f8[N, 4] quaternions (w, x, y, z) that turn the z axis to the directions f8[N, 3]; identity for a zero one."""
    length = np.linalg.norm(directions, axis=1, keepdims=True)
    unit = np.where(length > 1e-12, directions / np.maximum(length, 1e-12), [0.0, 0.0, 1.0])
    quaternions = np.stack([1 + unit[:, 2], -unit[:, 1], unit[:, 0], np.zeros(len(unit))], axis=1)
    quaternions[unit[:, 2] < -1 + 1e-9] = [0.0, 1.0, 0.0, 0.0]
    return quaternions / np.linalg.norm(quaternions, axis=1, keepdims=True)


def linear_colours(colours: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """sRGB to linear light, which viser expects of the colours of instances and line segments."""
    srgb = colours / 255
    linear = np.where(srgb <= 0.04045, srgb / 12.92, ((srgb + 0.055) / 1.055) ** 2.4)
    return np.round(255 * linear).astype(np.uint8)


def _add_instances(
    scene: viser.SceneApi,
    name: str,
    vertices: NDArray[np.float64],
    faces: NDArray[np.int64],
    opacity: float | None,
    shadow: bool,
    each_opacity: bool,
) -> viser.BatchedMeshHandle:
    return scene.add_batched_meshes_simple(
        name,
        vertices,
        faces,
        batched_wxyzs=np.array([[1.0, 0.0, 0.0, 0.0]]),
        batched_positions=np.zeros((1, 3)),
        batched_scales=np.ones((1, 3)),
        batched_colors=np.zeros((1, 3), dtype=np.uint8),
        batched_opacities=np.ones(1) if each_opacity else None,
        opacity=opacity,
        lod="off",
        cast_shadow=shadow,
        receive_shadow=False,
        visible=False,
    )


def _set_instances(
    handle: viser.BatchedMeshHandle,
    positions: NDArray[np.float64],
    wxyzs: NDArray[np.float64],
    scales: NDArray[np.float64],
    colours: NDArray[np.uint8],
    opacities: NDArray[np.float64] | None = None,
) -> None:
    handle.visible = len(positions) > 0
    if len(positions):
        handle.batched_positions = positions.astype(np.float32)
        handle.batched_wxyzs = wxyzs.astype(np.float32)
        handle.batched_scales = scales.astype(np.float32)
        handle.batched_colors = linear_colours(colours)
        if opacities is not None:
            handle.batched_opacities = opacities.astype(np.float32)


def unit_ball(rings: int = 16, sectors: int = 24) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """A ball of radius 1: vertices [V, 3], triangles [F, 3]."""
    polar = np.linspace(0, np.pi, rings + 1)[:, None]
    around = np.linspace(0, 2 * np.pi, sectors, endpoint=False)[None, :]
    x, y, z = np.sin(polar) * np.cos(around), np.sin(polar) * np.sin(around), np.cos(polar) + 0 * around
    return np.stack([x, y, z], axis=-1).reshape(-1, 3), _strip_faces(rings, sectors)


def unit_tube(end: float = 1.0, sectors: int = 10) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """An open tube of radius 1 at z = 0 and of radius `end` at z = 1: vertices [V, 3], triangles [F, 3]."""
    around = np.linspace(0, 2 * np.pi, sectors, endpoint=False)
    circle = np.stack([np.cos(around), np.sin(around), np.zeros(sectors)], axis=1)
    return np.concatenate([circle * [end, end, 0] + [0, 0, 1], circle]), _strip_faces(1, sectors)


def _strip_faces(rings: int, sectors: int) -> NDArray[np.int64]:
    """Triangles [F, 3], seen from outside, between rings of `sectors` vertices each, the upper one first."""
    ring, sector = np.meshgrid(np.arange(rings), np.arange(sectors), indexing="ij")
    upper = ring * sectors + sector
    upper_next = ring * sectors + (sector + 1) % sectors
    lower, lower_next = upper + sectors, upper_next + sectors
    return np.concatenate(
        [np.stack([upper, lower, lower_next], -1), np.stack([upper, lower_next, upper_next], -1)]
    ).reshape(-1, 3)
