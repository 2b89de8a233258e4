"""Start a worker of a run, if its software fits the driver's.

Started as `python -m cenote.execution.worker.process.start SOFTWARE MODULE …`: the software of the driver as one
word, the module of the worker, and what that is told. Whatever version of Cenote a node has, it is called like this and
ends in the same way where the two do not fit; until that is known, nothing of the driver's is read.
"""

from __future__ import annotations

import sys
from contextlib import suppress
from importlib import import_module

from cenote.common import software
from cenote.execution.start_failures import StartFailure


def main() -> None:
    """Entry point of the process.

    The module has `main(differences)`, which runs the worker, and `turned_away(reason)`, which tells the driver.
    """
    word, module = sys.argv[1:3]
    sys.argv[1:3] = []
    driver = software.from_word(word)
    found = software.differences(driver, software.software_here(driver))
    if (reason := software.refusal(found)) is not None:
        sys.stderr.write(f"this worker was turned away: {reason}\n")
        sys.stderr.flush()
        with suppress(BaseException):  # anything may be missing or broken here; its exit code and stderr say it as well
            import_module(module).turned_away(reason)
        sys.exit(StartFailure.OTHER_SOFTWARE.value.code)
    import_module(module).main(found)


if __name__ == "__main__":
    main()
