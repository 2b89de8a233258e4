"""This file makes `python -m cenote` the same as the command `cenote`."""

from cenote.cli.main import main

main()
