"""The program `cenote`, and `python -m cenote`: it hears signals before it imports anything heavy."""

from cenote import garbage, signals


def main() -> None:
    """The console script."""
    signals.take_over()
    garbage.leave_alone()
    from cenote.cli.main import main as command

    try:
        command()
    except SystemExit as ended:
        from cenote.cli.ending import end

        end(ended.code)


if __name__ == "__main__":
    main()
