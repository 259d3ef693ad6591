"""What reports of races say."""

import re


def has_report(error, first, second, help):
    """Whether one of the reports of an error has the lines of two statements, in this order, and this help."""
    reports = [report.split("help:") for report in re.split(r"\brace on ", str(error))[1:]]
    fitting = [remedy for lines, remedy in reports if lines.find(first) < lines.find(second, lines.find(first) + 1)]
    return any(help in remedy for remedy in fitting)
