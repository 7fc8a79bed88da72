"""The live node: ROS 2 streams in, estimates out. The only part of the package that needs rclpy."""

HELP = """usage: siha node [--ros-args -p NAME:=VALUE ... -r FROM:=TO ... --params-file FILE]

The node, until it is stopped; its parameters and topics are in docs/node.md. `ros2 launch siha_ros siha.launch.py`
starts it with a parameter file, the simulator or the browser view. With another team:

  siha node --ros-args -p bundle:=bundles/mine -p input.topic:=/{agent}/odom"""
