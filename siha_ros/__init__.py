"""Live recovery of the hidden members of an interacting team or body.

The package lies in two places once it is built: this code, and the generated `siha_ros.msg` in the install tree.
Extending the path lets `siha_ros.msg` be found where this folder comes first on sys.path (in the repository's root).
"""

from pkgutil import extend_path

__path__ = extend_path(__path__, __name__)
__version__ = "0.1.0"
