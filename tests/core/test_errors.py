from tokenworlds.core.errors import missing_extra, unknown


def test_an_unknown_name_is_reported_with_the_choices_and_the_nearest() -> None:
    assert str(unknown("size", "smal", ["small", "nano"])) == (
        "unknown size 'smal': choose from nano, small; did you mean 'small'?"
    )


def test_no_match_is_offered_if_none_is_near() -> None:
    assert str(unknown("size", "zzz", ["nano"])) == "unknown size 'zzz': choose from nano"


def test_a_missing_extra_is_reported_with_the_command_that_installs_it() -> None:
    assert "pip install 'tokenworlds[atari]'" in str(missing_extra("atari:Pong", "atari"))
