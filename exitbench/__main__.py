"""``python -m exitbench``, which ``accelerate launch -m exitbench`` uses."""

from exitbench.cli.app import main

if __name__ == "__main__":
    try:
        main()
    finally:
        # A Ctrl-C that fell into the exec() of a text (an import making a named tuple) leaves a mark in CPython, which
        # then ends `python -m` with the signal although the program caught it and chose its own exit code. Running
        # another text takes the mark away.
        exec("")  # noqa: S102
