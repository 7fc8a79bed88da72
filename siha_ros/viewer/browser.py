"""Draws a SceneState in the browser with viser: one handle per layer, updated in place, nothing made anew per frame."""

from __future__ import annotations

import contextlib
import errno
import io
import socket
import time
from dataclasses import replace
from typing import Any, Literal

import numpy as np
import viser
from numpy.typing import NDArray

from siha_ros.viewer.panel import legend_html, summary_html
from siha_ros.viewer.scene import STATUS_COLOURS, Balls, Bands, Lines, Scene, Tubes, View
from siha_ros.viewer.scene_state import HISTORY_SECONDS, SceneState
from siha_ros.window.types import Status

EVERYONE = "all agents"
PORTS_TRIED = 100
PANEL_PERIOD = 0.25  # s
PLOT_PERIOD = 0.5  # s
HIDDEN = STATUS_COLOURS[Status.HIDDEN]
VISIBLE = STATUS_COLOURS[Status.VISIBLE]
FOLLOWING = 0.15  # share of the way to the group that the picture moves per update
FIELD_OF_VIEW = np.deg2rad(38)
AGE: dict[str, Any] = {"label": "s"}
SPREAD_CURVE: dict[str, Any] = {"label": "95 % radius", "stroke": "#d55e00", "width": 1.5, "dash": (6, 4)}
ERROR_CURVE: dict[str, Any] = {"label": "error", "stroke": "#111827", "width": 2}
LATENCY_CURVE: dict[str, Any] = {"label": "latency", "stroke": "#546278", "width": 1.5}
VIEW_DIRECTION = np.array([0.25, -1.0, 0.85]) / np.linalg.norm([0.25, -1.0, 0.85])


class BrowserView:
    """A web server showing a SceneState; `update` draws its present content for everyone who looks."""

    def __init__(self, state: SceneState, host: str = "127.0.0.1", port: int = 8080, title: str = "siha") -> None:
        """Serve on `host` and `port`, or on the next free port; `url` says which.

        Raises:
            OSError: as free_port.
        """
        self._state = state
        port = free_port(host, port)
        with _silenced():  # viser prints a banner of its own
            self._server = viser.ViserServer(host=host, port=port, label=title, verbose=False)
        self.url = f"http://{'localhost' if host == '0.0.0.0' else host}:{self._server.get_port()}"
        self._view = View()
        self._hold = False
        self._framed: tuple[NDArray[np.float64], NDArray[np.float64]] | None = None
        self._last_panel = self._last_plot = -np.inf
        self._build_scene()
        self._build_panel()
        self._server.on_client_connect(self._frame_client)

    def stop(self) -> None:
        """Close the server and all connections."""
        with _silenced():
            self._server.stop()

    def update(self) -> None:
        """Draw the newest state; does nothing while no browser is connected."""
        if not self._server.get_clients():
            return
        scene = None if self._hold else self._state.scene(self._view)
        now = time.monotonic()
        with self._server.atomic():
            if scene is not None:
                self._draw(scene)
            if now - self._last_panel >= PANEL_PERIOD:
                self._last_panel = now
                self._fill_panel(now)
            if now - self._last_plot >= PLOT_PERIOD:
                self._last_plot = now
                self._fill_plots()
        self._server.flush()

    def _build_scene(self) -> None:
        scene = self._server.scene
        scene.set_up_direction("+z")
        scene.world_axes.visible = False
        scene.configure_environment_map("studio", environment_intensity=0.25)
        scene.configure_default_lights(False)
        scene.add_light_ambient("/light/ambient", intensity=0.9)
        scene.add_light_directional("/light/sun", position=(2.0, -3.0, 6.0), intensity=1.6, cast_shadow=True)
        self._root = scene.add_frame("/siha", show_axes=False)
        self._grid = scene.add_grid(
            "/siha/ground",
            width=200.0,
            height=200.0,
            cell_size=1.0,
            section_size=5.0,
            cell_color=(238, 240, 244),
            section_color=(220, 225, 232),
            fade_distance=60.0,
            shadow_opacity=0.18,
        )
        self._agents = _BallLayer(scene, "/siha/agents")
        self._ghosts = _BallLayer(scene, "/siha/truth", opacity=0.35, shadow=False)
        self._bones = _TubeLayer(scene, "/siha/bones")
        self._ghost_bones = _TubeLayer(scene, "/siha/truth_bones", opacity=0.3, shadow=False)
        self._edges = _TubeLayer(scene, "/siha/edges", opacity=1.0, shadow=False)
        self._trails = _LineLayer(scene, "/siha/trails", thickness=3.0)
        self._forecast = _LineLayer(scene, "/siha/forecast", thickness=2.0)
        self._misses = _LineLayer(scene, "/siha/misses", thickness=1.5)
        self._bands_seen = _BandLayer(scene, "/siha/bands_seen", VISIBLE, opacity=0.14)
        self._bands_hidden = _BandLayer(scene, "/siha/bands_hidden", HIDDEN, opacity=0.2)
        # Only the far inner side, so that what is inside shines through whatever the order of drawing.
        self._spread = _BallLayer(scene, "/siha/spread", opacity=0.16, shadow=False, side="back")
        self._labels: dict[str, viser.LabelHandle] = {}

    def _build_panel(self) -> None:
        gui = self._server.gui
        gui.configure_theme(show_logo=False, show_share_button=False, control_width="medium", brand_color=VISIBLE)
        gui.main_panel.dock_right()
        self._text = gui.add_html(summary_html(self._state.summary(time.monotonic())))
        gui.add_html(legend_html())
        self._error_plot = self._add_plot("hidden: error (line), 95 % radius (dashes), cm", (SPREAD_CURVE,), height=160)
        self._latency_plot = self._add_plot("latency (ms)", (LATENCY_CURVE,), height=120)
        with gui.add_folder("Show"):
            for layer, title in (
                ("edges", "Interaction graph"),
                ("forecast", "Forecasts"),
                ("spread", "95 % spread"),
                ("trails", "Trails"),
                ("truth", "Truth"),
                ("bones", "Bones"),
                ("names", "Names"),
            ):
                self._add_check_box(layer, title)
            self._follow = gui.add_checkbox("Follow the group", initial_value=False)
            hold = gui.add_checkbox("Hold the picture", initial_value=False)
            reset = gui.add_button("Whole group in view")
        with gui.add_folder("Interaction graph"):
            threshold = gui.add_slider("Probability from", min=0.0, max=1.0, step=0.05, initial_value=0.5)
            self._focus = gui.add_dropdown("Edges of", (EVERYONE,), initial_value=EVERYONE)

        @hold.on_update
        def _(_: viser.GuiEvent) -> None:
            self._hold = bool(hold.value)

        @reset.on_click
        def _(event: viser.GuiEvent) -> None:
            scene = self._state.scene(self._view)
            if scene is not None and event.client is not None:
                self._framed = self._camera(scene)
                self._frame_client(event.client)

        @threshold.on_update
        def _(_: viser.GuiEvent) -> None:
            self._view = replace(self._view, threshold=float(threshold.value))

        @self._focus.on_update
        def _(_: viser.GuiEvent) -> None:
            focus = None if self._focus.value == EVERYONE else self._focus.value
            self._view = replace(self._view, focus=focus)

    def _add_plot(self, title: str, curves: tuple[dict[str, Any], ...], height: int) -> viser.GuiUplotHandle:
        return self._server.gui.add_uplot(
            (np.array([-1.0, 0.0]),) + (np.zeros(2),) * len(curves),
            (AGE, *curves),  # type: ignore[arg-type]
            title=title,
            scales={"x": {"time": False, "range": (-HISTORY_SECONDS, 0.0)}},
            axes=({"size": 32}, {"size": 44}),
            legend={"show": False},
            height=height,
            visible=False,
        )

    def _add_check_box(self, layer: str, title: str) -> None:
        box = self._server.gui.add_checkbox(title, initial_value=getattr(self._view, layer))

        @box.on_update
        def _(_: viser.GuiEvent) -> None:
            self._view = replace(self._view, **{layer: box.value})  # type: ignore[arg-type]

    def _frame_client(self, client: viser.ClientHandle) -> None:
        """Put the whole group in front of one browser's camera, once it is known where that is."""
        if self._framed is None:
            return
        position, target = self._framed
        with client.atomic():
            client.camera.fov = FIELD_OF_VIEW
            client.camera.position = position
            client.camera.look_at = target

    def _camera(self, scene: Scene) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        target = scene.centre + self._root.position
        distance = 0.9 * scene.extent / np.tan(FIELD_OF_VIEW / 2)
        return target + distance * VIEW_DIRECTION, target

    def _draw(self, scene: Scene) -> None:
        if self._framed is None:
            self._follow.value = len(scene.bones.starts) > 0  # type: ignore[misc]  # bodies walk out of the picture
        shift = -scene.centre * [1, 1, 0] if self._follow.value else np.zeros(3)
        step = 1.0 if self._framed is None else FOLLOWING
        self._root.position = self._root.position + step * (shift - self._root.position)
        if self._framed is None:
            self._framed = self._camera(scene)
            for client in self._server.get_clients().values():
                self._frame_client(client)
        self._grid.position = (0.0, 0.0, scene.ground)
        self._agents.draw(scene.agents)
        self._spread.draw(scene.spread)
        self._ghosts.draw(scene.ghosts)
        self._bones.draw(scene.bones)
        self._ghost_bones.draw(scene.ghost_bones)
        self._edges.draw(scene.edges)
        self._trails.draw(scene.trails)
        self._forecast.draw(scene.forecast)
        self._misses.draw(scene.misses)
        self._bands_seen.draw(scene.bands_seen)
        self._bands_hidden.draw(scene.bands_hidden)
        self._draw_labels(scene)

    def _draw_labels(self, scene: Scene) -> None:
        for key, label in scene.labels.items():
            handle = self._labels.get(key)
            if handle is None:
                self._labels[key] = self._server.scene.add_label(
                    f"/siha/labels/{len(self._labels)}",
                    label.text,
                    position=label.position,
                    anchor="bottom-center",
                    font_screen_scale=0.9,
                )
            else:
                handle.text = label.text
                handle.position = label.position
                handle.visible = True
        for key in self._labels.keys() - scene.labels.keys():
            self._labels[key].visible = False

    def _fill_panel(self, now: float) -> None:
        self._text.content = summary_html(self._state.summary(now))
        options = (EVERYONE, *self._state.names())
        if options != tuple(self._focus.options):
            self._focus.options = options

    def _fill_plots(self) -> None:
        history = self._state.history()
        if history is None or len(history.age) < 2:
            return
        curves = (SPREAD_CURVE,) if history.error is None else (SPREAD_CURVE, ERROR_CURVE)
        if len(self._error_plot.series) != 1 + len(curves):
            self._error_plot.series = (AGE, *curves)  # type: ignore[arg-type]
        errors = () if history.error is None else (history.error,)
        self._error_plot.data = (history.age, history.position_95, *errors)
        self._latency_plot.data = (history.age, history.latency)
        self._error_plot.visible = self._latency_plot.visible = True


def free_port(host: str, port: int) -> int:
    """The first free port of `host` from `port` on.

    Raises:
        OSError: one line: the host is not one of this machine's, or the ports may not or cannot be used.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    for candidate in range(port, min(port + PORTS_TRIED, 65536)):
        with socket.socket(family, socket.SOCK_STREAM) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind((host, candidate))
            except OSError as error:
                if error.errno == errno.EADDRINUSE:
                    continue
                raise OSError(
                    f"cannot serve on {host}:{candidate} ({error.strerror}); see --host and --port"
                ) from error
        return candidate
    raise OSError(f"no free port on {host} from {port} on; choose another one with --port")


def _silenced() -> contextlib.redirect_stdout[io.StringIO]:
    return contextlib.redirect_stdout(io.StringIO())


class _BallLayer:
    """Any number of balls as instances of one mesh."""

    def __init__(
        self,
        scene: viser.SceneApi,
        name: str,
        opacity: float | None = None,
        shadow: bool = True,
        side: Literal["front", "back"] = "front",
    ) -> None:
        vertices, faces = _unit_ball()
        self._handle = _add_instances(scene, name, vertices, faces, opacity, shadow, each_opacity=False)
        self._handle.side = side

    def draw(self, balls: Balls) -> None:
        identity = np.tile([1.0, 0.0, 0.0, 0.0], (len(balls.radii), 1))
        scales = np.repeat(balls.radii[:, None], 3, axis=1)
        _set_instances(self._handle, balls.positions, identity, scales, balls.colours)


class _TubeLayer:
    """Any number of tubes as instances of one mesh."""

    def __init__(self, scene: viser.SceneApi, name: str, opacity: float | None = None, shadow: bool = True) -> None:
        vertices, faces = _unit_tube()
        self._handle = _add_instances(scene, name, vertices, faces, opacity, shadow, each_opacity=True)

    def draw(self, tubes: Tubes) -> None:
        along = tubes.ends - tubes.starts
        length = np.linalg.norm(along, axis=1)
        scales = np.stack([tubes.radii, tubes.radii, np.maximum(length, 1e-6)], axis=1)
        _set_instances(self._handle, tubes.starts, rotation_from_z(along), scales, tubes.colours, tubes.opacities)


class _LineLayer:
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
        self._handle.visible = len(lines.points) > 0
        if len(lines.points):
            self._handle.points = lines.points.astype(np.float32)
            self._handle.colors = linear_colours(lines.colours)


class _BandLayer:
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


def _unit_ball(rings: int = 16, sectors: int = 24) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """A ball of radius 1: vertices [V, 3], triangles [F, 3]."""
    polar = np.linspace(0, np.pi, rings + 1)[:, None]
    around = np.linspace(0, 2 * np.pi, sectors, endpoint=False)[None, :]
    x, y, z = np.sin(polar) * np.cos(around), np.sin(polar) * np.sin(around), np.cos(polar) + 0 * around
    return np.stack([x, y, z], axis=-1).reshape(-1, 3), _strip_faces(rings, sectors)


def _unit_tube(sectors: int = 10) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """An open tube of radius 1 from z = 0 to z = 1: vertices [V, 3], triangles [F, 3]."""
    around = np.linspace(0, 2 * np.pi, sectors, endpoint=False)
    circle = np.stack([np.cos(around), np.sin(around), np.zeros(sectors)], axis=1)
    return np.concatenate([circle + [0, 0, 1], circle]), _strip_faces(1, sectors)


def _strip_faces(rings: int, sectors: int) -> NDArray[np.int64]:
    """Triangles [F, 3], seen from outside, between rings of `sectors` vertices each, the upper one first."""
    ring, sector = np.meshgrid(np.arange(rings), np.arange(sectors), indexing="ij")
    upper = ring * sectors + sector
    upper_next = ring * sectors + (sector + 1) % sectors
    lower, lower_next = upper + sectors, upper_next + sectors
    return np.concatenate(
        [np.stack([upper, lower, lower_next], -1), np.stack([upper, lower_next, upper_next], -1)]
    ).reshape(-1, 3)
