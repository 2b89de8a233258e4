"""The program `cenote`, and `python -m cenote`: it hears signals before it imports anything heavy."""

import faulthandler
import sys

from cenote.common import signals
from cenote.common import signals as garbage


def main() -> None:
    """The console script."""
    signals.take_over()
    garbage.leave_alone()
    if sys.__stderr__ is not None:  # it may have been closed
        faulthandler.enable(sys.__stderr__, all_threads=False)  # a renderer or library that crashes leaves its stack
    from cenote.cli.main import main as command

    try:
        command()
    except SystemExit as ended:
        from cenote.cli.ending import end

        end(ended.code)


if __name__ == "__main__":
    main()
