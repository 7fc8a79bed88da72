"""`python -m siha_ros.node`."""

import sys

from siha_ros.node.main import main

sys.exit(main())
