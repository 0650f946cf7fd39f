"""The space of texts."""

import pytest

from agentbench.core.spaces import Text


def test_every_string_is_in_the_space_and_nothing_else() -> None:
    space = Text()
    for text in ("", "up", "two\nlines", "\x00", "漢字 🎉", "\ud800", "x" * 1_000_000):
        assert text in space
    for thing in (None, 1, b"up", ["up"]):
        assert thing not in space


def test_samples_follow_the_seed() -> None:
    def draw(seed: int) -> list[str]:
        space = Text(seed=seed)
        return [space.sample() for _ in range(20)]

    assert draw(1) == draw(1) != draw(2)
    assert all(text in Text() for text in draw(3))
    assert any("\n" in text for seed in range(5) for text in draw(seed))


def test_masks_are_refused_rather_than_ignored() -> None:
    with pytest.raises(ValueError, match="no mask"):
        Text().sample(mask=(1,))
    with pytest.raises(ValueError, match="no probability"):
        Text().sample(probability=(1,))


def test_spaces_of_texts_are_equal() -> None:
    assert Text() == Text(seed=3)
    assert hash(Text()) == hash(Text())
    assert Text() != "Text()"
    assert repr(Text()) == "Text()"
    assert not Text().is_np_flattenable
