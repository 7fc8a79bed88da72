"""A 3-D view of what the node says, live or from a bag, in any browser; a process of its own that only listens.

memory keeps what was heard in order of time, scene_state answers for any time, scene makes arrays to draw of it (all
three numpy only), playback is the cursor in time, panel and curves make what the side panel shows, browser and layers
draw with viser. subscriber listens with rclpy, bag reads without it, messages is for both; main ties them together.
Importing this package imports none of them.
"""
