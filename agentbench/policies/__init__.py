"""Who plays: scripted players, transformers models, servers and people."""
