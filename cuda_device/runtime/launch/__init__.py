"""From a call of `launch` to a running grid: arguments, specialisation, checks of the launch."""
