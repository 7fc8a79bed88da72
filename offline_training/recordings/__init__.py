"""One's own recordings: readers of files, and windows on a grid cut from what they read."""
