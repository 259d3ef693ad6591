"""The programming model of the specification: one file for each chapter, with rows for the device table (`library/table`)."""
