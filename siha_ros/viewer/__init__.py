"""A live 3-D view of what the node says, in any browser; a process of its own that only listens.

scene_state decides what to draw from the latest messages (numpy only), panel writes the side panel's HTML, browser
draws with viser, subscriber listens with rclpy, app ties them together. Importing this package imports none of them.
"""
