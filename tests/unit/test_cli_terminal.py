import pytest

from iris_fed.cli.terminal import one_line, render_table, strip_control_bytes, strip_controls


@pytest.mark.parametrize(
    ("written", "shown"),
    [
        ("\x1b[31mred\x1b[0m", "red"),
        ("\x1b]0;new title\x07text", "text"),
        ("\x1b]8;;http://evil\x1b\\link\x1b]8;;\x1b\\", "link"),
        ("\x1bP1$r0m\x1b\\dcs", "dcs"),
        ("\x9b2Jcleared", "cleared"),
        ("\x1b(Bcharset", "charset"),
        ("bell\x07 back\x08space del\x7f", "bell backspace del"),
        ("over\rwritten", "overwritten"),
        ("a\r\nb", "a\nb"),
        ("tab\tand\nnewline", "tab\tand\nnewline"),
        ("\u202egnp.exe\u2066x\u2069", "gnp.exex"),
        ("cut short \x1b[", "cut short "),
        ("ümläut 日本", "ümläut 日本"),
    ],
)
def test_nothing_that_drives_a_terminal_is_left(written: str, shown: str) -> None:
    assert strip_controls(written) == shown


def test_output_that_is_no_text_keeps_what_is_readable() -> None:
    assert strip_control_bytes(b"ok \xff\x9b31m \x1b[31mred\n") == "ok \ufffd\ufffd31m red\n".encode()


def test_a_sentence_stays_on_one_line() -> None:
    assert one_line("first\nsecond\t\x1b[2Jthird") == "first second third"


def test_a_table_off_a_terminal_is_plain_and_never_cut() -> None:
    long = "x" * 500
    lines = render_table(["JOB", "REASON"], [["/a/b", long], ["/a/[bold]c", "two\nlines"]], on_terminal=False).split(
        "\n"
    )
    assert [line.split() for line in lines] == [
        ["JOB", "REASON"],
        ["/a/b", long],
        ["/a/[bold]c", "two", "lines"],
    ]


def test_a_cell_cannot_carry_an_escape_into_a_table() -> None:
    assert "\x1b[2J" not in render_table(["JOB"], [["\x1b[2Jwiped"]], on_terminal=True)
