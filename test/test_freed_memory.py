"""Commands that work through batches keep the memory that they free: by the page faults that the system counts."""

from __future__ import annotations

import subprocess
import sys

from siha_ros import cli

FAULTS = """
import resource, sys
from siha_ros.memory import keep_freed_memory

kept = sys.argv[1] == "kept" and keep_freed_memory()
b"x" * 64_000_000  # more than malloc keeps by itself
begin = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(10):
    b"x" * 64_000_000
print(kept, resource.getrusage(resource.RUSAGE_SELF).ru_minflt - begin)
"""


def faults(how):
    done = subprocess.run([sys.executable, "-c", FAULTS, how], capture_output=True, text=True, check=True)
    kept, count = done.stdout.split()
    return kept == "True", int(count)


def test_large_arrays_one_after_the_other_take_the_same_pages():
    (kept, few), (_, many) = faults("kept"), faults("as usual")
    if kept:
        assert few < many / 10
    else:  # another C library
        assert few > many / 2


def test_the_commands_that_work_through_batches_do(tmp_path, monkeypatch):
    told = []
    monkeypatch.setattr(cli, "keep_freed_memory", lambda: told.append(True))
    assert cli.main(["train", str(tmp_path / "no.yaml")]) == 2 and len(told) == 1
    assert cli.main(["bundle", "info", "nowhere"]) == 2 and len(told) == 1
