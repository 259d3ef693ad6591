"""Several GPUs: device groups, arrays with a part on each device, and launches on all devices."""
