"""Result folders, checkpoints and label files on disk."""
