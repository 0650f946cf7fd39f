"""The environments that come with AgentBench: one folder each, found by the registry through its `ENTRY`."""
