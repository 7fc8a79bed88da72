"""Simulated systems of interacting agents: complete trajectories with their true interaction graph."""
