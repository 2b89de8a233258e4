"""What tasks print is shown as they printed it, however it is cut on its way."""

from cenote.service.client.asking import ShownOutput


def test_a_character_on_the_border_of_two_pieces_is_shown_whole() -> None:
    printed = "größer als 5 µm: ✓\n".encode()
    shown = ShownOutput()

    text = "".join(shown.text_of(printed[at : at + 1]) for at in range(len(printed)))

    assert text == "größer als 5 µm: ✓\n"
    assert shown.size == len(printed)


def test_half_a_character_at_the_end_is_shown_as_such() -> None:
    shown = ShownOutput()

    assert shown.text_of("✓".encode()[:2]) == ""
    assert shown.text_of(b"", last=True) == "\N{REPLACEMENT CHARACTER}"
