"""What `portability.py` prints on this machine is what it prints on every other one."""

import pathlib

import portability

EXPECTED = pathlib.Path(__file__).parents[1] / "portability.txt"


def test_the_programs_print_the_same_everywhere(capfd, update_golden):
    portability.main()
    found = capfd.readouterr().out
    if update_golden:
        EXPECTED.write_text(found)
    assert found == EXPECTED.read_text()
