from tokenworlds.core.errors import missing_extra, unknown


def test_an_unknown_name_is_told_with_the_choices_and_the_nearest() -> None:
    assert str(unknown("size", "smal", ["small", "nano"])) == (
        "unknown size 'smal': choose from nano, small; did you mean 'small'?"
    )


def test_nothing_is_offered_where_nothing_is_near() -> None:
    assert str(unknown("size", "zzz", ["nano"])) == "unknown size 'zzz': choose from nano"


def test_a_missing_extra_comes_with_the_command_that_brings_it() -> None:
    assert "pip install 'tokenworlds[atari]'" in str(missing_extra("atari:Pong", "atari"))
