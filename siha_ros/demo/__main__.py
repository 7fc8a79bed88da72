"""`python -m siha_ros.demo`: see siha_ros.demo.run for the options."""

import sys

from siha_ros.demo.run import main

sys.exit(main())
