"""A live 3-D view of what the node says, in any browser; a process of its own that only listens.

memory and scene_state keep the latest messages, scene makes arrays to draw of them (all three numpy only), panel writes
the side panel's HTML, browser draws with viser, subscriber listens with rclpy, main ties them together. Importing this
package imports none of them.
"""
