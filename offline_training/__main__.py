"""``torchrun --nproc-per-node N -m offline_training CONFIG.yaml ...``: ``siha train CONFIG.yaml`` in N processes."""

import sys

from siha_ros.cli import main
from siha_ros.cli_train_config import COMMAND

if __name__ == "__main__":
    sys.exit(main(["train", COMMAND, *sys.argv[1:]]))
