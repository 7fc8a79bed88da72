"""Recorded streams through the estimator, and the metrics it is judged by."""
