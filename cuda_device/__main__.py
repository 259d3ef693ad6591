"""`python -m cuda_device`, the command line, which is a plugin."""

import sys

from cuda_device import hooks

sys.exit(hooks.plugin(hooks.COMMAND_LINE).main())
