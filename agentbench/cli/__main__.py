"""`python -m agentbench.cli`: the command where it is not on the path."""

from agentbench.cli.main import run

run()
