"""`python -m siha_ros.viewer`: see app.main for the options."""

import sys

from siha_ros.viewer.app import main

sys.exit(main())
