"""The stages of training: NRI, HSP-sa, HSP-sg, and the loop that all of them run in."""
