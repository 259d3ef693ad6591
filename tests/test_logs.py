"""What the package says, and that it imports `logging` for that only."""

import logging
import subprocess
import sys

from cuda_device import logs


def test_messages_go_to_the_logger(caplog):
    caplog.set_level(logging.DEBUG, "cuda_device")
    logs.say(logs.WARNING, "%s is %d", "x", 5)
    logs.say(logs.INFO, "100 %")
    logs.say(logs.DEBUG, "no launcher", error=ValueError("a reason"))
    found = [(record.name, record.levelno, record.getMessage()) for record in caplog.records]
    expected = [(logging.WARNING, "x is 5"), (logging.INFO, "100 %"), (logging.DEBUG, "no launcher")]
    assert found == [("cuda_device", *row) for row in expected]
    assert "ValueError: a reason" in caplog.text


def test_only_warnings_import_logging():
    script = (
        "import sys, numpy; assert 'logging' not in sys.modules\n"
        "import cuda_device as device; device.launch, device.cpu_stream()\n"
        "from cuda_device import logs; logs.say(logs.INFO, 'nobody hears it')\n"
        "assert 'logging' not in sys.modules\n"
        "logs.say(logs.WARNING, 'everybody %s', 'hears it')\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "everybody hears it\n")
