"""`python -m jepsen.control`."""

from jepsen.control.command import control

if __name__ == "__main__":
    control(prog_name="python -m jepsen.control")
