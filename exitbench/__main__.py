"""``python -m exitbench``, which ``accelerate launch -m exitbench`` uses."""

from exitbench.cli.app import main

if __name__ == "__main__":
    main()
