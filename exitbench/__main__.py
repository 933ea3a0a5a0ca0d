"""``python -m exitbench``, which ``accelerate launch -m exitbench`` uses."""

from exitbench.cli.app import main

if __name__ == "__main__":
    try:
        main()
    finally:
        # CPython keeps a flag "unhandled keyboard interrupt": exec() of a text sets it when a Ctrl-C ends that text (a
        # named tuple is made by such an exec), and `python -m` then ends with the signal, although the program caught
        # the interrupt and chose its own exit code. Every exec() begins by clearing the flag.
        exec("")  # noqa: S102
