"""The method of the paper on tensors: NRI, hidden-state predictors, refinement, and the bundle that stores them; no ROS."""
