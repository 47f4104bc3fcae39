"""What a user calls: `dmmc.fit`, the command line, the demo."""
