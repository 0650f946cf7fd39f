"""What is shown and sent cannot do harm."""

import sys
import unicodedata

from hypothesis import given
from hypothesis import strategies as st

from agentbench.core.plain import encodable, plain

EVERYTHING = "".join(map(chr, range(sys.maxunicode + 1)))


def test_no_control_character_but_newline_and_tab_is_shown() -> None:
    assert {c for c in plain(EVERYTHING) if unicodedata.category(c) in ("Cc", "Cs")} == {"\n", "\t"}


def test_nothing_that_turns_the_reading_direction_is_shown() -> None:
    steering = {"LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI"}
    assert not {c for c in plain(EVERYTHING) if unicodedata.bidirectional(c) in steering}


def test_words_grids_and_markup_stay_as_they_are() -> None:
    text = "click[x] [/answer]\n#  .$\n\tnaïve 漢字 🎉 עברית"
    assert plain(text) == text


@given(st.text(st.characters(codec=None)))
def test_encodable_text_has_a_utf8_form_and_keeps_its_length(text: str) -> None:
    encodable(text).encode()
    assert len(encodable(text)) == len(text)


def test_sound_text_is_encoded_unchanged() -> None:
    assert encodable("漢字 🎉\x00") == "漢字 🎉\x00"
