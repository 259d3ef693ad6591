"""The programming model of the specification, one file a chapter, as rows of one table (`library/table`)."""
