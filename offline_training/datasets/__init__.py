"""Complete recorded or simulated trajectories, read as arrays: one small reader per kind of data."""
