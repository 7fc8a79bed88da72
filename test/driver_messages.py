"""Messages of drivers that are not installed here: their fields, as classes of the bag library.

`new("mocap4r2_msgs/msg/Markers", markers=[...])` makes one; what is not given is zero, empty or false, as in ROS.
"""

from __future__ import annotations

from rosbags.typesys import Stores, get_types_from_msg, get_typestore

from siha_ros.replay.bag import MessageFactory

DEFINITIONS = {
    "motion_capture_tracking_interfaces/msg/NamedPose": "string name\ngeometry_msgs/Pose pose",
    "motion_capture_tracking_interfaces/msg/NamedPoseArray": "std_msgs/Header header\nNamedPose[] poses",
    "mocap4r2_msgs/msg/Marker": """
        int8 USE_NAME=0
        int8 USE_INDEX=1
        int8 USE_BOTH=2
        int8 id_type
        int32 marker_index
        string marker_name
        geometry_msgs/Point translation
        """,
    "mocap4r2_msgs/msg/Markers": "std_msgs/Header header\nuint32 frame_number\nMarker[] markers",
    "mocap4r2_msgs/msg/RigidBody": "string rigid_body_name\nMarker[] markers\ngeometry_msgs/Pose pose",
    "mocap4r2_msgs/msg/RigidBodies": "std_msgs/Header header\nuint32 frame_number\nRigidBody[] rigidbodies",
    "xsens_mvn_msgs/msg/LinkState": """
        std_msgs/Header header
        geometry_msgs/Pose pose
        geometry_msgs/Twist twist
        geometry_msgs/Accel accel
        """,
    "xsens_mvn_msgs/msg/LinkStateArray": "std_msgs/Header header\nLinkState[] states",
    "hri_msgs/msg/IdsList": "std_msgs/Header header\nstring[] ids",
    "yolo_msgs/msg/KeyPoint3D": "int32 id\ngeometry_msgs/Point point\nfloat64 score",
    "yolo_msgs/msg/KeyPoint3DArray": "KeyPoint3D[] data\nstring frame_id",
    "yolo_msgs/msg/Detection": "string class_name\nfloat64 score\nstring id\nKeyPoint3DArray keypoints3d",
    "yolo_msgs/msg/DetectionArray": "std_msgs/Header header\nDetection[] detections",
}

STORE = get_typestore(Stores.ROS2_JAZZY)
for _name, _text in DEFINITIONS.items():
    STORE.register(get_types_from_msg(_text, _name))
new = MessageFactory(STORE).new


def header(stamp: float = 10.0, frame: str = "world"):
    """std_msgs/Header."""
    whole, nanoseconds = divmod(round(stamp * 1e9), 10**9)
    time = new("builtin_interfaces/msg/Time", sec=whole, nanosec=nanoseconds)
    return new("std_msgs/msg/Header", stamp=time, frame_id=frame)


def point(x: float, y: float, z: float):
    """geometry_msgs/Point."""
    return new("geometry_msgs/msg/Point", x=x, y=y, z=z)


def pose(place, quaternion=(0.0, 0.0, 0.0, 1.0)):
    """geometry_msgs/Pose."""
    x, y, z, w = quaternion
    return new(
        "geometry_msgs/msg/Pose",
        position=point(*place),
        orientation=new("geometry_msgs/msg/Quaternion", x=x, y=y, z=z, w=w),
    )


def vector(x: float, y: float, z: float):
    """geometry_msgs/Vector3."""
    return new("geometry_msgs/msg/Vector3", x=x, y=y, z=z)


def twist(x: float, y: float, z: float):
    """geometry_msgs/Twist of a linear velocity."""
    return new("geometry_msgs/msg/Twist", linear=vector(x, y, z))


def transform(child: str, parent: str, place, quaternion=(0.0, 0.0, 0.0, 1.0), stamp: float = 10.0):
    """geometry_msgs/TransformStamped."""
    x, y, z, w = quaternion
    return new(
        "geometry_msgs/msg/TransformStamped",
        header=header(stamp, parent),
        child_frame_id=child,
        transform=new(
            "geometry_msgs/msg/Transform",
            translation=vector(*place),
            rotation=new("geometry_msgs/msg/Quaternion", x=x, y=y, z=z, w=w),
        ),
    )
