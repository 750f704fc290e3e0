import pytest
import yaml

from iris_fed.cli.yaml_entry import with_entry

WHERE = ("auth", "previous_signing_keys")
NEW = "file:old.pub"


@pytest.mark.parametrize(
    "text",
    [
        "a: 1\nauth:\n  # ours\n  signing_key: file:k   # kept\npeers: []\n",
        "auth:\n    signing_key: file:k\n    previous_signing_keys:\n    # older\n    - file:x\n    - file:y\n# end\n",
        "auth:\n  previous_signing_keys: [file:x]\n  signing_key: file:k\n",
        "auth:\n  previous_signing_keys: []\n",
        "auth: {signing_key: 'file:k', users: [a]}  # short\n",
        '{"auth": {"signing_key": "file:k", "previous_signing_keys": ["file:x"]}}',
        "auth:\n  previous_signing_keys:\n    - |\n      -----BEGIN\n      X\n  users: [a]\n",
    ],
)
def test_the_entry_is_added_and_nothing_else_changes(text: str) -> None:
    edited = with_entry(text, WHERE, NEW)
    assert edited is not None
    before, after = yaml.safe_load(text), yaml.safe_load(edited)
    assert after["auth"].pop("previous_signing_keys") == [NEW, *before["auth"].pop("previous_signing_keys", [])]
    assert after == before
    for comment in [line[line.index("#") :] for line in text.splitlines() if "#" in line]:
        assert comment in edited
    assert with_entry(edited, WHERE, NEW) == edited


@pytest.mark.parametrize(
    "text", ["", "a: 1\n", "auth:\n", "auth: [x]\n", "x: &k [file:x]\nauth: {previous_signing_keys: *k}\n", "auth: *x"]
)
def test_what_a_machine_cannot_change_with_certainty_is_left_to_a_person(text: str) -> None:
    try:
        assert with_entry(text, WHERE, NEW) is None
    except yaml.YAMLError:
        assert text == "auth: *x"
