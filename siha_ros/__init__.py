"""Live recovery of the hidden members of an interacting team or body."""
