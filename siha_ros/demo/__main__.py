"""`python -m siha_ros.demo`: see siha_ros.demo.run for the options."""

import os
import sys

os.environ.setdefault("OMP_NUM_THREADS", "1")  # as in the node: the scorer's baselines must not take the cores from it

from siha_ros.demo.run import main  # noqa: E402

sys.exit(main())
