"""Bags in and out, without ROS: rosbag2 (sqlite3, mcap) and ROS 1 bags read, rosbag2 written, by the library rosbags.

The messages of this package are known from its msg/ files, whatever the bag says of its types.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache, cached_property, partial
from pathlib import Path
from typing import Any, Final

import numpy as np
from rosbags.highlevel import AnyReader
from rosbags.interfaces import (
    Connection,
    ConnectionExtRosbag2,
    Nodetype,
    Qos,
    QosDurability,
    QosHistory,
    QosLiveliness,
    QosReliability,
    QosTime,
)
from rosbags.rosbag2 import StoragePlugin, Writer
from rosbags.typesys import Stores, get_types_from_msg, get_typestore
from rosbags.typesys.store import Typestore

from siha_ros.errors import one_line
from siha_ros.resources import message_files

RENAMED = {"tf/msg/tfMessage": "tf2_msgs/msg/TFMessage"}  # ROS 1 types that ROS 2 knows by another name
METADATA_VERSION: Final = 8  # of rosbag2: what Iron and later read
NANOSECOND = 1e-9


def to_ns(seconds: float) -> int:
    """Nanoseconds of a time in seconds, right to the microsecond that a float of today's dates resolves."""
    return round(seconds * 1e6) * 1000


class BagError(ValueError):
    """A bag that cannot be read or written; the message is one line: which, what, what was expected."""


@cache
def own_types() -> Typestore:
    """The types of ROS 2 and of this package; nothing may be registered in it."""
    store = get_typestore(Stores.ROS2_JAZZY)
    types = {}
    for file in message_files():
        types.update(get_types_from_msg(file.read_text(), f"siha_ros/msg/{file.stem}"))
    store.register(types)
    return store


@dataclass(frozen=True)
class Entry:
    """One message of a bag as it is stored. time_ns: when it was recorded."""

    connection: Connection
    time_ns: int
    raw: bytes

    @property
    def topic(self) -> str:
        """Its topic."""
        return self.connection.topic

    @property
    def time(self) -> float:
        """When it was recorded (s)."""
        return self.time_ns * NANOSECOND


class Bag:
    """A bag that is read; used as a context.

    Args:
        path: folder, .mcap or .db3 file of a rosbag2, .bag file of ROS 1.

    Attributes:
        types: types by topic, sorted by topic.
        begin_ns, end_ns: when the first and the last message were recorded.
        ros1: it is a bag of ROS 1.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        if not self.path.exists():
            raise BagError(f"bag {self.path}: no such file or folder")
        try:
            self._reader = AnyReader([self.path], default_typestore=own_types())
            self._reader.open()
        except Exception as error:  # damaged files make the libraries fail in ways of their own
            raise BagError(f"bag {self.path} cannot be read: {one_line(error)}") from error
        if not self._reader.message_count:
            self._reader.close()
            raise BagError(f"bag {self.path} holds no messages")
        self.ros1 = not self._reader.is2
        self.connections = list(self._reader.connections)
        self.typestore = self._reader.typestore
        self.begin_ns, self.end_ns = self._reader.start_time, self._reader.end_time - 1
        self.types: dict[str, list[str]] = {}
        for connection in sorted(self.connections, key=lambda found: found.topic):
            kinds = self.types.setdefault(connection.topic, [])
            if connection.msgcount and connection.msgtype not in kinds:
                kinds.append(connection.msgtype)

    @property
    def begin(self) -> float:
        """When the first message was recorded (s)."""
        return self.begin_ns * NANOSECOND

    @property
    def end(self) -> float:
        """When the last message was recorded (s)."""
        return self.end_ns * NANOSECOND

    @property
    def duration(self) -> float:
        """From the first to the last message (s)."""
        return (self.end_ns - self.begin_ns) * NANOSECOND

    def messages(
        self, topics: set[str] | None = None, begin: float | None = None, end: float | None = None
    ) -> Iterator[Entry]:
        """Messages in the order in which they were recorded, of some topics and between two times (s) where given."""
        chosen = [c for c in self.connections if topics is None or c.topic in topics]
        if not chosen:
            return
        limits = [None if time is None else to_ns(time) for time in (begin, end)]
        try:
            for connection, time_ns, raw in self._reader.messages(chosen, start=limits[0], stop=limits[1]):
                yield Entry(connection, time_ns, raw)
        except Exception as error:  # damaged files make the libraries fail in ways of their own
            raise BagError(f"bag {self.path} cannot be read on: {one_line(error)}") from error

    def read(self, entry: Entry) -> Any:
        """The message of an entry, with the fields that it has in ROS."""
        try:
            return self._reader.deserialize(entry.raw, entry.connection.msgtype)
        except Exception as error:
            raise self._unreadable(entry, error) from error

    def _unreadable(self, entry: Entry, error: Exception) -> BagError:
        return BagError(f"bag {self.path}: a message on {entry.topic} cannot be read: {one_line(error)}")

    @cached_property
    def ros2_types(self) -> Typestore:
        """The bag's types as ROS 2 writes them: a Header of ROS 1 has a field more."""
        if not self.ros1:
            return self.typestore
        store = get_typestore(Stores.EMPTY)
        header = get_typestore(Stores.ROS2_JAZZY).fielddefs["std_msgs/msg/Header"]
        types = {RENAMED.get(name, name): fields for name, fields in self.typestore.fielddefs.items()}
        store.register({**types, "std_msgs/msg/Header": header})
        return store

    @staticmethod
    def ros2_kind(kind: str) -> str:
        """The name in ROS 2 of a type of the bag."""
        return RENAMED.get(kind, kind)

    def ros2(self, entry: Entry) -> tuple[str, bytes | memoryview]:
        """Type and encoding in ROS 2 of an entry."""
        kind = self.ros2_kind(entry.connection.msgtype)
        try:
            return kind, self.ros2_types.ros1_to_cdr(entry.raw, kind) if self.ros1 else entry.raw
        except Exception as error:
            raise self._unreadable(entry, error) from error

    def close(self) -> None:
        """Close the files."""
        self._reader.close()

    def __enter__(self) -> Bag:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class BagWriter:
    """A rosbag2 that is written; used as a context. What fails half-way leaves no metadata, so that no reader takes it.

    Args:
        path: folder that is made; it must not exist.
        storage: "mcap" or "sqlite3".
        source: bag from which messages are copied, where there is one.
    """

    def __init__(self, path: str | Path, storage: str, source: Bag | None = None) -> None:
        self.path, self._source = Path(path), source
        if self.path.exists():
            raise BagError(f"bag {self.path} exists already: choose another name, or remove it")
        self._writer = Writer(self.path, version=METADATA_VERSION, storage_plugin=StoragePlugin[storage.upper()])
        self._writer.open()
        self._messages = MessageFactory(own_types())
        self.new = self._messages.new
        self._copies: dict[tuple[int, int], Connection] = {}
        self._own: dict[str, Connection] = {}

    def copy(self, entry: Entry) -> None:
        """Write a message of the source as it is; one of ROS 1 in the encoding of ROS 2."""
        assert self._source is not None
        found = entry.connection
        key = found.id, id(found.owner)
        kind, raw = self._source.ros2(entry)
        if key not in self._copies:
            self._copies[key] = self._connection(entry.topic, kind, self._source.ros2_types, offered_qos(found))
        self._writer.write(self._copies[key], entry.time_ns, raw)

    def write(self, topic: str, kind: str, time_ns: int, message: Any) -> None:
        """Write a message made by `new`."""
        store = self._messages.store
        if topic not in self._own:
            self._own[topic] = self._connection(topic, kind, store, [])
        self._writer.write(self._own[topic], time_ns, store.serialize_cdr(message, kind, little_endian=True))

    def _connection(self, topic: str, kind: str, store: Typestore, qos: list[Qos]) -> Connection:
        for known in self._writer.connections:
            if (known.topic, known.msgtype) == (topic, kind):
                return known
        return self._writer.add_connection(topic, kind, typestore=store, offered_qos_profiles=qos)

    def __enter__(self) -> BagWriter:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None:
            self._writer.close()
        else:
            self._writer.abort()


class MessageFactory:
    """Makes messages of a type store as rclpy's constructors would: what is not given is zero, empty or false."""

    def __init__(self, store: Typestore) -> None:
        self.store = store
        self._zeros: dict[str, dict[str, Any]] = {}  # of fields that hold one number or text
        self._makers: dict[str, dict[str, _Field]] = {}  # of the others

    def new(self, kind: str, **given: Any) -> Any:
        """A message; see siha_ros.node.messages.NewMessage. Raises TypeError for a field that it does not have."""
        if kind not in self._zeros:
            self._learn(kind)
        values = self._zeros[kind] | given
        for name, found in self._makers[kind].items():
            values[name] = found.convert(given[name]) if name in given else found.make()
        return self.store.types[kind](**values)

    def _learn(self, kind: str) -> None:
        self._zeros[kind], self._makers[kind] = {}, {}
        for name, (node, detail) in self.store.fielddefs[kind][1]:
            if node == Nodetype.BASE:
                base = str(detail[0])
                zero: Any = "" if base == "string" else False if base == "bool" else 0.0 if "float" in base else 0
                self._zeros[kind][name] = zero
            else:
                self._makers[kind][name] = self._field(node, detail)

    def _field(self, node: Nodetype, detail: Any) -> _Field:
        if node == Nodetype.NAME:
            return _Field(partial(self.new, detail), lambda value: value)
        (inner, inner_detail), length = detail
        size = length if node == Nodetype.ARRAY else 0
        if inner == Nodetype.NAME:
            return _Field(lambda: [self.new(inner_detail) for _ in range(size)], list)
        if inner_detail[0] == "string":
            return _Field(lambda: [""] * size, list)
        dtype = np.dtype({"char": "uint8", "byte": "uint8"}.get(inner_detail[0], inner_detail[0]))
        return _Field(partial(np.zeros, size, dtype), partial(np.asarray, dtype=dtype))


@dataclass(frozen=True)
class _Field:
    """How the default of a field is made, and how a value given for it is converted."""

    make: Callable[[], Any]
    convert: Callable[[Any], Any]


def offered_qos(connection: Connection) -> list[Qos]:
    """How the topic was published; a latched one of ROS 1 is transient local in ROS 2."""
    if isinstance(connection.ext, ConnectionExtRosbag2):
        return list(connection.ext.offered_qos_profiles)
    if not connection.ext.latching:
        return []
    forever = QosTime(2147483647, 4294967295)
    return [
        Qos(
            QosHistory.KEEP_LAST,
            1,
            QosReliability.RELIABLE,
            QosDurability.TRANSIENT_LOCAL,
            forever,
            forever,
            QosLiveliness.AUTOMATIC,
            forever,
            False,
        )
    ]
