"""`python -m siha_ros.node`."""

from siha_ros.node.main import main

main()
