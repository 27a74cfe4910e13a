"""`python -m fairlead`: the installed program, where its script is not on the path."""

from fairlead.cli.main import run

if __name__ == "__main__":
    run()
