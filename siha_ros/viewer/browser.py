"""Draws a SceneState in the browser with viser: one handle per layer, updated in place, nothing made anew per frame.

What is set in the panel (time, layers, focus) holds for everyone who looks; only the cameras are each browser's own.
"""

from __future__ import annotations

import contextlib
import errno
import io
import itertools
import socket
import time
from dataclasses import replace
from typing import Any

import numpy as np
import viser
from numpy.typing import NDArray

from siha_ros.viewer.curves import plotted, with_cursor
from siha_ros.viewer.layers import BallLayer, BandLayer, LineLayer, TubeLayer
from siha_ros.viewer.memory import Agent
from siha_ros.viewer.panel import agents_html, edges_html, headline_html, legend_html, strip_html
from siha_ros.viewer.playback import Playback
from siha_ros.viewer.scene import STATUS_COLOURS, Scene, View
from siha_ros.viewer.scene_state import SceneState
from siha_ros.window.types import Status

EVERYONE = "all agents"
PORTS_TRIED = 100
PANEL_PERIOD = 0.25  # s
PLOT_PERIOD = 0.5  # s
HIDDEN = STATUS_COLOURS[Status.HIDDEN]
VISIBLE = STATUS_COLOURS[Status.VISIBLE]
FOLLOWING = 0.15  # share of the way to the group that the picture moves per update
THIN = 0.25  # share of its radius that an influence has left where it arrives
FIELD_OF_VIEW = np.deg2rad(38)
TIME: dict[str, Any] = {"label": "s"}
CURSOR_CURVE: dict[str, Any] = {"label": "shown", "stroke": "#9ca3af", "width": 1}
SPREAD_CURVE: dict[str, Any] = {"label": "95 % radius", "stroke": "#d55e00", "width": 1.5, "dash": (6, 4)}
ERROR_CURVE: dict[str, Any] = {"label": "error", "stroke": "#111827", "width": 2}
LATENCY_CURVE: dict[str, Any] = {"label": "latency", "stroke": "#546278", "width": 1.5}
FROM_ZERO: Any = {"min": {"pad": 0, "soft": 0, "mode": 1}, "max": {"pad": 0.1, "soft": 1, "mode": 1}}
TIME_STEP = 0.01  # s
SETTLES_IN = 0.5  # s: then a slider that a value on its way has overtaken in the browser is set right
SPEEDS = {"0.1 ×": 0.1, "0.25 ×": 0.25, "0.5 ×": 0.5, "1 ×": 1.0, "2 ×": 2.0, "5 ×": 5.0}
VIEW_DIRECTION = np.array([0.25, -1.0, 0.85]) / np.linalg.norm([0.25, -1.0, 0.85])
ABOVE = np.array([0.0, -0.001, 1.0])


class BrowserView:
    """A web server showing a SceneState; `update` draws its present content for everyone who looks."""

    def __init__(
        self,
        state: SceneState,
        host: str = "127.0.0.1",
        port: int = 8080,
        playback: Playback | None = None,
        title: str = "siha",
    ) -> None:
        """Serve on `host` and `port`, or on the next free port; `url` says which. `playback`: a live run's by default.

        Raises:
            OSError: as free_port.
        """
        self._state = state
        self._playback = playback or Playback(live=True)
        port = free_port(host, port)
        with _silenced():  # viser prints a banner of its own
            self._server = viser.ViserServer(host=host, port=port, label=title, verbose=False)
        self.url = f"http://{'localhost' if host == '0.0.0.0' else host}:{self._server.get_port()}"
        self._view = View()
        self._drawn: tuple[float | None, View] | None = None
        self._asked = False  # by the user, for another picture
        self._slid: float | None = None  # when the user last moved the time (steady clock, s)
        self._framed: tuple[NDArray[np.float64], NDArray[np.float64]] | None = None
        self._last_update = time.monotonic()
        self._last_panel = self._last_plot = -np.inf
        self._build_scene()
        self._build_panel()
        self._server.on_client_connect(self._frame_client)

    def stop(self) -> None:
        """Close the server and all connections."""
        with _silenced():
            self._server.stop()

    def update(self) -> None:
        """Draw the state of the time to be shown; does nothing while no browser is connected."""
        now = time.monotonic()
        elapsed, self._last_update = now - self._last_update, now
        if not self._server.get_clients():
            return
        at = self._advance(elapsed)
        asked, self._asked = self._asked, False
        still = not asked and not self._playback.playing and self._drawn == (at, self._view)
        scene = None if still else self._state.scene(self._view, at)
        with self._server.atomic():
            if scene is not None:
                self._draw(scene, at_once=asked)
                self._drawn = (at, self._view) if self._settled else None
            if asked or now - self._last_panel >= PANEL_PERIOD:
                self._last_panel = now
                self._fill_panel(now, at)
            if asked or now - self._last_plot >= PLOT_PERIOD:
                self._last_plot = now
                self._fill_plots()
        self._server.flush()

    def _advance(self, elapsed: float) -> float | None:
        """Move the time shown on; the stamp to draw (s), None for the newest."""
        span = self._state.span()
        if span is None:
            return None
        self._playback.advance(*span, elapsed)
        return None if self._playback.following else self._playback.at

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
        self._origin = scene.add_frame(
            "/siha/origin", axes_length=0.3, axes_radius=0.008, origin_radius=0.012, origin_color=(90, 90, 90)
        )
        self._agents = BallLayer(scene, "/siha/agents")
        self._ghosts = BallLayer(scene, "/siha/truth", opacity=0.35, shadow=False)
        self._bones = TubeLayer(scene, "/siha/bones")
        self._ghost_bones = TubeLayer(scene, "/siha/truth_bones", opacity=0.3, shadow=False)
        self._edges = TubeLayer(scene, "/siha/edges", opacity=1.0, shadow=False, end=THIN)
        self._trails = LineLayer(scene, "/siha/trails", thickness=3.0)
        self._forecast = LineLayer(scene, "/siha/forecast", thickness=2.0)
        self._misses = LineLayer(scene, "/siha/misses", thickness=1.5)
        self._bands_seen = BandLayer(scene, "/siha/bands_seen", VISIBLE, opacity=0.14)
        self._bands_hidden = BandLayer(scene, "/siha/bands_hidden", HIDDEN, opacity=0.2)
        # Only the far inner side, so that what is inside shines through whatever the order of drawing.
        self._spread = BallLayer(scene, "/siha/spread", opacity=0.16, shadow=False, side="back")
        self._labels: dict[str, viser.LabelHandle] = {}
        self._label_numbers = itertools.count()
        self._balls: list[Agent] = []
        self._titles: dict[str, Agent] = {}
        self._settled = True  # the picture has caught up with the group that it follows

        @self._agents.handle.on_click
        def _(event: viser.SceneNodePointerEvent[Any]) -> None:
            self._focus_on_click(event.instance_index)

    def _build_panel(self) -> None:
        gui = self._server.gui
        gui.configure_theme(show_logo=False, show_share_button=False, control_width="large", brand_color=VISIBLE)
        gui.main_panel.dock_right()
        self._headline = gui.add_html(headline_html(self._state.summary(time.monotonic())))
        with gui.add_folder("Time"):
            self._build_time()
        self._agent_table = gui.add_html("")
        error = "hidden: error (line), 95 % radius (dashes), cm"
        self._error_plot = self._add_plot(error, (SPREAD_CURVE, CURSOR_CURVE), height=150)
        self._latency_plot = self._add_plot("latency, ms", (LATENCY_CURVE, CURSOR_CURVE), height=110)
        with gui.add_folder("Interaction graph"):
            self._focus = gui.add_dropdown("Edges of", (EVERYONE,), initial_value=EVERYONE)
            threshold = gui.add_slider("Probability from", min=0.0, max=1.0, step=0.05, initial_value=0.5)
            self._edge_table = gui.add_html("")
        gui.add_html(legend_html())
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
        with gui.add_folder("Camera"):
            self._follow = gui.add_checkbox("Follow the group", initial_value=False)
            camera = gui.add_button_group("Look at it", ("whole", "from above"))

        @camera.on_click
        def _(event: viser.GuiEvent) -> None:
            scene = self._state.scene(self._view, self._shown())
            if scene is not None and event.client is not None:
                above = camera.value == "from above"
                self._framed = self._camera(scene, ABOVE if above else VIEW_DIRECTION)
                self._frame_client(event.client)

        @self._follow.on_update
        def _(_: viser.GuiEvent) -> None:
            self._asked = True

        @threshold.on_update
        def _(_: viser.GuiEvent) -> None:
            self._view = replace(self._view, threshold=float(threshold.value))

        @self._focus.on_update
        def _(_: viser.GuiEvent) -> None:
            self._view = replace(self._view, focus=self._titles.get(self._focus.value))
            self._asked = True

    def _build_time(self) -> None:
        gui, playback = self._server.gui, self._playback
        self._strip = gui.add_html("")
        self._slider = gui.add_slider("Time, s", min=0.0, max=1.0, step=TIME_STEP, initial_value=0.0)
        self._play = gui.add_button("Pause", icon=viser.Icon.PLAYER_PAUSE)
        step = gui.add_button_group("Step", ("‹ back", "next ›"))
        jump = gui.add_button_group("Go to", ("begin", "‹ loss", "loss ›", "end"))
        speed = gui.add_dropdown("Speed", tuple(SPEEDS), initial_value="1 ×")

        @self._slider.on_update
        def _(event: viser.GuiEvent) -> None:
            if event.client is not None and self._state.origin is not None:  # not the one that this class set
                playback.seek(self._state.origin + float(self._slider.value))
                self._slid = time.monotonic()
                self._asked = True

        @self._play.on_click
        def _(_: viser.GuiEvent) -> None:
            playback.toggle()
            self._asked = True

        @step.on_click
        def _(_: viser.GuiEvent) -> None:
            if playback.at is not None:
                playback.seek(self._state.step(playback.at, 1 if step.value == "next ›" else -1))
                self._asked = True

        @jump.on_click
        def _(_: viser.GuiEvent) -> None:
            self._jump(str(jump.value))
            self._asked = True

        @speed.on_update
        def _(_: viser.GuiEvent) -> None:
            playback.speed = SPEEDS[speed.value]

    def _jump(self, where: str) -> None:
        playback, span = self._playback, self._state.span()
        if span is None or playback.at is None:
            return
        if where == "begin":
            playback.seek(span[0])
        elif where == "end":
            playback.to_the_end()
        elif where == "loss ›":
            later = [stamp for stamp in self._state.losses() if stamp > playback.at + TIME_STEP]
            if later:
                playback.seek(later[0])
        else:
            earlier = [stamp for stamp in self._state.losses() if stamp < playback.at - TIME_STEP]
            if earlier:
                playback.seek(earlier[-1])

    def _shown(self) -> float | None:
        """The stamp that is shown (s), None for the newest."""
        return None if self._playback.following else self._playback.at

    def _focus_on_click(self, instance: int | None) -> None:
        """A click on an agent's ball shows its edges only; a second one those of all."""
        if instance is not None and instance < len(self._balls):
            title = next((title for title, agent in self._titles.items() if agent == self._balls[instance]), EVERYONE)
            self._focus.value = EVERYONE if self._focus.value == title else title  # type: ignore[misc]

    def _add_plot(self, title: str, curves: tuple[dict[str, Any], ...], height: int) -> viser.GuiUplotHandle:
        return self._server.gui.add_uplot(
            (np.array([0.0, 1.0]),) + (np.zeros(2),) * len(curves),
            (TIME, *curves),  # type: ignore[arg-type]
            title=title,
            scales={"x": {"time": False}, "y": {"range": FROM_ZERO}},
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
        way, target = self._framed
        with client.atomic():
            client.camera.fov = FIELD_OF_VIEW
            client.camera.position = target + way / min(client.camera.aspect, 1.0)  # a high and narrow picture: further
            client.camera.look_at = target

    def _camera(
        self, scene: Scene, direction: NDArray[np.float64] = VIEW_DIRECTION
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """The way from the middle of the group to a camera that has all of it in view (m), and that middle."""
        target = scene.centre + self._root.position
        upright = len(scene.bones.starts) > 0  # a team lies flat, and is seen from the side
        distance = (1.25 if upright else 0.9) * scene.extent / np.tan(FIELD_OF_VIEW / 2)
        return distance * direction, target

    def _draw(self, scene: Scene, at_once: bool) -> None:
        if self._framed is None:
            self._follow.value = len(scene.bones.starts) > 0  # type: ignore[misc]  # bodies walk out of the picture
        shift = -scene.centre * [1, 1, 0] if self._follow.value else np.zeros(3)
        step = 1.0 if at_once or self._framed is None else FOLLOWING
        way = step * (shift - self._root.position)
        self._root.position = self._root.position + way
        self._settled = bool(np.abs(way).max() < 1e-3)
        self._balls = scene.names
        if self._framed is None:
            self._framed = self._camera(scene)
            for client in self._server.get_clients().values():
                self._frame_client(client)
        self._grid.position = self._origin.position = (0.0, 0.0, scene.ground)
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
                    f"/siha/labels/{next(self._label_numbers)}",
                    label.text,
                    position=label.position,
                    anchor="bottom-center",
                    font_screen_scale=0.9,
                )
            else:
                handle.text = label.text
                handle.position = label.position
        for key in self._labels.keys() - scene.labels.keys():  # so that those of a group that is gone do not stay
            self._labels.pop(key).remove()

    def _fill_panel(self, now: float, at: float | None) -> None:
        summary = self._state.summary(now, at)
        self._headline.content, self._agent_table.content = headline_html(summary), agents_html(summary.rows)
        self._fill_focus(self._state.agents())
        focus = self._view.focus
        self._edge_table.content = edges_html(focus[1], self._state.edges(focus, at)) if focus else edges_html("", [])
        span, shown, origin = self._state.span(), self._playback.at, self._state.origin
        if span is None or shown is None or origin is None:
            return
        self._slider.min, self._slider.max = _rounded(span[0] - origin), _rounded(span[1] - origin)
        self._set_slider(now, _rounded(shown - origin))
        playing = self._playback.playing
        self._play.label = "Pause" if playing else "Play"
        self._play.icon = viser.Icon.PLAYER_PAUSE if playing else viser.Icon.PLAYER_PLAY
        self._strip.content = strip_html(self._state.history(), *span, shown)

    def _fill_focus(self, agents: list[Agent]) -> None:
        """Offer the agents: by name, or by group and name where there are several groups."""
        several = len({group for group, _ in agents}) > 1
        titles = {f"{group}/{name}" if several else name: (group, name) for group, name in agents}
        if titles == self._titles:
            return
        focus = self._view.focus
        self._titles = titles
        self._focus.options = (EVERYONE, *titles)  # which leaves the focus where its title is no more
        self._focus.value = next((title for title, agent in titles.items() if agent == focus), EVERYONE)  # type: ignore[misc]

    def _set_slider(self, now: float, value: float) -> None:
        if self._slid is not None and now - self._slid > SETTLES_IN:
            self._slid = None
            self._slider.value = value + TIME_STEP  # type: ignore[misc]  # what is equal would not be sent
        self._slider.value = value  # type: ignore[misc]

    def _fill_plots(self) -> None:
        history, shown, origin = self._state.history(), self._playback.at, self._state.origin
        if history is None or shown is None or origin is None or len(history.time) < 2:
            return
        cut = plotted(history, shown, origin)
        curves = (SPREAD_CURVE, CURSOR_CURVE) if cut.error is None else (SPREAD_CURVE, ERROR_CURVE, CURSOR_CURVE)
        if len(self._error_plot.series) != 1 + len(curves):
            self._error_plot.series = (TIME, *curves)  # type: ignore[arg-type]
        errors = [] if cut.error is None else [cut.error]
        for plot, lines in ((self._error_plot, [cut.position_95, *errors]), (self._latency_plot, [cut.latency])):
            plot.data = with_cursor(cut.time, lines, shown - origin)
            plot.visible = True


def _rounded(seconds: float) -> float:
    return round(seconds / TIME_STEP) * TIME_STEP


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
