"""Every kind of source, read into rows in memory."""
