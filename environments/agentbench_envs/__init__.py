"""The environments that come with AgentBench: one folder each, found by the registry through its `ENTRY`."""

import agentbench  # noqa: F401 - its import looks for environments, and must not meet one that is half imported
