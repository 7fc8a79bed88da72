"""Where shipped models (bundles), parameter files and message definitions lie: in a source tree, a pip install or an
ament install.

Knows folders only, nothing of what is in them.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

_PACKAGE = Path(__file__).parent


def _folders(kind: str) -> Iterator[Path]:
    """Folders that may hold shipped files of a kind ("bundles", "config"), the source tree's first."""
    for package in (_PACKAGE, Path(__file__).resolve().parent):  # a symlinked install resolves to its source tree
        if (package.parent / "package.xml").is_file():
            yield package.parent / kind
    yield _PACKAGE / kind
    for prefix in filter(None, os.environ.get("AMENT_PREFIX_PATH", "").split(os.pathsep)):
        yield Path(prefix) / "share" / "siha_ros" / kind


def bundle_path(name_or_path: str | Path) -> Path:
    """The folder of a bundle, given by the name of a shipped one ("body") or by a path.

    A folder of that path with a `bundle.yaml` in it wins over a shipped bundle of the same name.
    Raises FileNotFoundError, in one line, where neither exists.
    """
    given = Path(name_or_path).expanduser()
    if (given / "bundle.yaml").is_file():
        return given
    searched = [folder for folder in _folders("bundles") if folder.is_dir()]
    if len(given.parts) == 1:
        for folder in searched:
            if (folder / given / "bundle.yaml").is_file():
                return folder / given
    if given.is_dir():
        raise FileNotFoundError(f"{given} is not a bundle: it holds no bundle.yaml")
    shipped = sorted({path.parent.name for folder in searched for path in folder.glob("*/bundle.yaml")})
    expected = f"a folder with a bundle.yaml, or one of {', '.join(shipped) or 'none shipped'}"
    raise FileNotFoundError(f"no bundle {str(name_or_path)!r}: expected {expected}")


def config_path(name: str) -> Path:
    """A shipped file of `config/`, "siha.yaml" for one. Raises FileNotFoundError where no install has it."""
    folders = list(_folders("config"))
    for folder in folders:
        if (folder / name).is_file():
            return folder / name
    raise FileNotFoundError(f"no config file {name!r} in {', '.join(map(str, folders))}")


def message_files() -> list[Path]:
    """The definitions of this package's messages (msg/*.msg), sorted by name."""
    for folder in (*_folders("msg"), _PACKAGE / "interfaces"):  # msg/ of an install holds the generated Python code
        if files := sorted(folder.glob("*.msg")):
            return files
    raise FileNotFoundError("the definitions of the messages, msg/*.msg, are not part of this install")
