"""Where untrusted work runs: containers, a process jail where there is no engine, and a browser."""
