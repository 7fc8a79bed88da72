"""The live node: ROS 2 streams in, estimates out. The only part of the package that needs rclpy."""
