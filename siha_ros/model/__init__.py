"""The paper's method on tensors (NRI, hidden-state predictors, refinement) and the bundle that stores it; no ROS."""
