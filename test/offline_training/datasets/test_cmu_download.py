"""Downloads against a server of this test's own that breaks off, refuses, resumes and serves nonsense."""

from __future__ import annotations

import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from offline_training.datasets.cmu_download import DownloadError, download_subject
from offline_training.datasets.cmu_mocap import load_subject

SKELETON = b""":units
  length 0.45
  angle deg
:root
  order TX TY TZ RX RY RZ
:bonedata
  begin
    name arm
    direction 1 0 0
    length 2
    dof rx
  end
:hierarchy
  begin
    root arm
  end
"""
MOTION = b":DEGREES\n" + b"".join(b"%d\nroot 0 0 0 0 0 0\narm 5\n" % number for number in range(1, 40))


class Handler(BaseHTTPRequestHandler):
    def do_GET(self):
        server = self.server
        span = self.headers.get("Range")
        server.asked.append((self.path, span))
        content = server.files.get(self.path)
        if self.path in server.failing:
            return self.send_error(503, "Too busy")
        if content is None:
            return self.send_error(404)
        begin = int(span.removeprefix("bytes=").rstrip("-")) if span and server.ranges else 0
        if span and server.ranges and begin >= len(content):
            return self.send_error(416)
        self.send_response(206 if span and server.ranges else 200)
        self.send_header("Content-Length", str(len(content) - begin))
        self.end_headers()
        self.wfile.write(content[begin : server.break_at.get(self.path)])

    def log_message(self, *_):
        pass


@pytest.fixture
def server():
    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as made:
        made.files = {
            "/subjects/07/07.asf": SKELETON,
            "/subjects/07/07_01.amc": MOTION,
            "/subjects/07/07_02.amc": MOTION.replace(b"\n", b"\r\n"),
            "/subjects/07/07_05.amc": MOTION,
        }
        made.ranges, made.break_at, made.failing, made.asked = True, {}, set(), []
        made.site = f"http://127.0.0.1:{made.server_address[1]}"
        threading.Thread(target=made.serve_forever, daemon=True).start()
        yield made
        made.shutdown()


def fetch(server, folder, trials=None):
    return download_subject(7, folder, trials, site=server.site, say=lambda line: None)


def test_a_subject_comes_whole(server, tmp_path):
    files = fetch(server, tmp_path / "cmu")
    assert [file.name for file in files] == ["07.asf", "07_01.amc", "07_02.amc", "07_05.amc"]
    assert (tmp_path / "cmu" / "07_02.amc").read_bytes() == MOTION.replace(b"\n", b"\r\n")
    assert sorted(p.name for p in (tmp_path / "cmu").iterdir()) == [file.name for file in files]
    assert server.asked[-1][0] == "/subjects/07/07_10.amc"  # five numbers in a row are not there
    trials = load_subject(tmp_path / "cmu")
    assert [trial.positions.shape for trial in trials] == [(2, 39, 3)] * 3


def test_what_is_there_is_not_asked_for_again(server, tmp_path):
    fetch(server, tmp_path, [1])
    server.asked.clear()
    fetch(server, tmp_path, [1, 5])
    assert [path for path, _ in server.asked] == ["/subjects/07/07_05.amc"]


@pytest.mark.parametrize("ranges", [True, False])
def test_a_broken_download_goes_on(server, tmp_path, ranges):
    path = "/subjects/07/07_01.amc"
    server.ranges, server.break_at = ranges, {path: 100}
    with pytest.raises(DownloadError, match="07_01.amc: broke off after 100 bytes"):
        fetch(server, tmp_path, [1])
    assert not (tmp_path / "07_01.amc").exists()
    server.break_at = {}
    fetch(server, tmp_path, [1])
    assert server.asked[-1] == (path, "bytes=100-")
    assert (tmp_path / "07_01.amc").read_bytes() == MOTION
    assert not (tmp_path / "07_01.amc.part").exists()


def test_a_part_that_is_longer_than_the_file_starts_anew(server, tmp_path):
    (tmp_path / "07_01.amc.part").write_bytes(MOTION + b"junk of an older file")
    fetch(server, tmp_path, [1])
    assert (tmp_path / "07_01.amc").read_bytes() == MOTION


def test_errors_are_one_line(server, tmp_path):
    server.files["/subjects/07/07_03.amc"] = b"<html>sorry</html>"
    server.failing = {"/subjects/07/07_04.amc"}
    for trials, message in (
        (
            [3],
            r"07_03.amc: what came cannot be read: 07_03.amc.part:1: '<html>sorry</html>' is none of the skeleton's 2",
        ),
        ([4], "07_04.amc: the server says 503 Too busy"),
        ([6], r"07_06.amc: not found \(404\), so subject 7 has no trial 6"),
    ):
        with pytest.raises(DownloadError, match=message) as error:
            fetch(server, tmp_path, trials)
        assert "\n" not in str(error.value)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["07.asf"]
    with pytest.raises(DownloadError, match="no subject 8"):
        download_subject(8, tmp_path, site=server.site)
    with pytest.raises(DownloadError, match="subject 0: expected 1 to 144"):
        download_subject(0, tmp_path, site=server.site)
    with pytest.raises(DownloadError, match="refused"):
        download_subject(7, tmp_path / "else", site="http://127.0.0.1:9")


def test_a_subject_without_trials(server, tmp_path):
    server.files = {"/subjects/07/07.asf": SKELETON}
    with pytest.raises(DownloadError, match="no trial found, the first 5 numbers are not there"):
        fetch(server, tmp_path)
