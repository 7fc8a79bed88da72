"""`python -m siha_ros.viewer`: see main.main for the options."""

import sys

from siha_ros.viewer.main import main

sys.exit(main())
