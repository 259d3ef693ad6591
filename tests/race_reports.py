"""What reports of races say, and the mistakes of programs that have them."""

import re

import cuda_device as device


def has_report(error, first, second, help):
    """Whether one of the reports of an error has the lines of two statements, in this order, and this help."""
    reports = [report.split("help:") for report in re.split(r"\brace on ", str(error))[1:]]
    fitting = [remedy for lines, remedy in reports if lines.find(first) < lines.find(second, lines.find(first) + 1)]
    return any(help in remedy for remedy in fitting)


def mistakes(names):
    """Values of `mistake` in programs, by their names; that of "" equals none of them.

    In a kernel, `mistake == "name"` compares a number of the launch, so a program is compiled once for all its mistakes.
    """
    numbers = {name: number for number, name in enumerate(dict.fromkeys(names), 1)}

    @device.struct
    class Mistake:
        number: device.int32

        def __eq__(self, name):
            return self.number == numbers[name]

        def __ne__(self, name):
            return self.number != numbers[name]

    return {"": Mistake(0)} | {name: Mistake(number) for name, number in numbers.items()}
