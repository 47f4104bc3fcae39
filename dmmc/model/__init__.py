"""What one sweep over the data computes: losses, geometry, passes."""
