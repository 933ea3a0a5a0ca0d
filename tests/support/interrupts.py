"""Ctrl-C for a program under test."""

import signal
import subprocess

import pytest


def interrupt(running: subprocess.Popen[str], seconds: float = 60) -> tuple[int, str]:
    """Send SIGINT; the exit code and the text on standard error. A program that does not answer is killed."""
    assert running.stderr is not None
    running.send_signal(signal.SIGINT)
    try:
        code = running.wait(seconds)
    except subprocess.TimeoutExpired:
        running.kill()
        pytest.fail(f"expected an answer to Ctrl-C within {seconds:g} seconds, found none")
    with running.stderr as stream:
        return code, stream.read()
