"""The two real runs of `make demo`: a simulated robot team that loses members, and recorded bodies that lose a limb.

Player or simulator, node, viewer and scorer are processes of their own that meet over DDS only. The truth travels on
topics that the node does not subscribe to (`/truth`, `/truth_graph`).
"""
