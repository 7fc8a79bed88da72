"""The cursor in time: a run is followed, paused and caught up with; a recording plays and ends."""

from __future__ import annotations

import pytest

from siha_ros.viewer.playback import Playback


def test_a_run_is_followed_until_it_is_paused_and_caught_up_with_again():
    playback = Playback(live=True)
    playback.advance(0.0, 10.0, 0.1)
    assert (playback.at, playback.following) == (10.0, True)
    playback.toggle()
    playback.advance(0.0, 12.0, 2.0)
    assert (playback.at, playback.following, playback.playing) == (10.0, False, False)
    playback.speed = 2.0
    playback.toggle()
    playback.advance(0.0, 13.0, 1.0)
    assert (playback.at, playback.following, playback.playing) == (12.0, False, True)
    playback.advance(0.0, 14.0, 1.0)
    assert (playback.at, playback.following) == (14.0, True)
    playback.advance(0.0, 20.0, 1.0)
    assert playback.at == 20.0


def test_what_is_forgotten_cannot_be_shown():
    playback = Playback(live=True)
    playback.advance(0.0, 10.0, 0.1)
    playback.seek(-5.0)
    assert playback.at == 0.0
    playback.advance(3.0, 13.0, 0.1)
    assert playback.at == 3.0


def test_going_to_the_end_of_a_run_follows_it():
    playback = Playback(live=True)
    playback.advance(0.0, 10.0, 0.1)
    playback.seek(4.0)
    assert not playback.playing
    playback.to_the_end()
    playback.advance(0.0, 11.0, 0.1)
    assert (playback.at, playback.following) == (11.0, True)


def test_a_recording_plays_from_its_beginning_to_its_end_and_again():
    playback = Playback(live=False)
    playback.advance(5.0, 6.0, 0.1)
    assert playback.at == pytest.approx(5.1)
    playback.advance(5.0, 6.0, 2.0)
    assert (playback.at, playback.playing) == (6.0, True), "more of it is still being read"
    playback.advance(5.0, 9.0, 1.0)
    assert (playback.at, playback.playing) == (7.0, True)
    playback.growing = False
    playback.advance(5.0, 9.0, 9.0)
    assert (playback.at, playback.playing, playback.following) == (9.0, False, False)
    playback.toggle()
    playback.advance(5.0, 9.0, 0.5)
    assert playback.at == 5.5


def test_seeking_pauses():
    playback = Playback(live=False)
    playback.advance(0.0, 10.0, 0.0)
    playback.seek(7.5)
    playback.advance(0.0, 10.0, 3.0)
    assert (playback.at, playback.playing) == (7.5, False)
    playback.to_the_end()
    assert (playback.at, playback.playing) == (10.0, False)
