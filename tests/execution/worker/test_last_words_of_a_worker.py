"""What a worker wrote last tells why it ended."""

from __future__ import annotations

from cenote.execution.worker.process.user_output import last_words


def test_the_last_lines_are_its_last_words_and_empty_ones_say_nothing() -> None:
    text = "\n".join(f"line {number}" for number in range(100)) + "\n\n\n"
    assert last_words(text).splitlines() == [f"line {number}" for number in range(92, 100)]
    assert last_words("") == ""


def test_a_crash_is_told_from_its_first_line_on() -> None:
    stack = [f'  File "library.py", line {number} in call' for number in range(30)]
    text = "\n".join(["before", "Fatal Python error: Segmentation fault", "", *stack, "Extension modules: a, b"])
    first, second, *_ = last_words(text).splitlines()
    assert first == "Fatal Python error: Segmentation fault"
    assert second == stack[0]
