"""`python -m dmmc` is the command line."""

from dmmc.app.cli import main

if __name__ == "__main__":
    main()
