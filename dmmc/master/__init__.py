"""The small problem on the driver: cutting planes, their dual, and the norms of hyperplanes."""
