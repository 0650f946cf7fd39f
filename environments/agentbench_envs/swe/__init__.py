from agentbench.core.registry import EnvEntry, Variant
from agentbench.core.rewards import Gate, RewardSpec, RewardTerm

_INSTRUCTIONS = """\
You are repairing a program. You are told what is wrong; find the mistake, correct it in the repository, and submit.
Tests that you cannot see decide. Changes to tests and to what configures them are not taken over.

Each turn, answer with exactly one action, in one of two forms. A block of shell commands:

```bash
grep -rn total src
```

or a call:

<function=edit>
<parameter=path>src/sum.py</parameter>
<parameter=old>a - b</parameter>
<parameter=new>a + b</parameter>
</function>

These can be called:
bash(command)           run a shell command; folder and variables stay for the next one
view(path, start, end)  show a file with line numbers, or the entries of a folder; start and end may be left out
search(pattern, path)   find a regular expression in the repository; path may be left out
edit(path, old, new)    replace a text that stands exactly once in a file
create(path, text)      write a new file
tests(paths)            run the tests that you can see, all or those of some paths
undo()                  take back the last edit or create
submit()                hand in the repository as it is; this ends the task

There is no network. A command that does not end is killed.
"""

_TERMS = ("resolved", "fraction", "submitted", "modified", "format")


def _reward(**weights: float) -> RewardSpec:
    return RewardSpec(tuple(RewardTerm(name, weights.get(name, 0.0)) for name in _TERMS))


def _paying(*gates: Gate, **weights: float) -> Variant:
    return Variant({"weights": weights}, reward=RewardSpec(_reward(**weights).terms, gates))


ENTRY = EnvEntry(
    name="swe",
    title="SWE",
    version=0,
    entry_point="agentbench_envs.swe.env:SweEnv",
    summary="Repairing a program: a repository, an issue, a shell, and hidden tests.",
    instructions=_INSTRUCTIONS,
    max_turns=30,
    reward=_reward(resolved=1.0),
    variants={
        "synth": Variant(),
        "synth-file": Variant({"hints": "file"}),
        "synth-function": Variant({"hints": "function"}),
        "synth-tests": Variant({"hints": "tests"}),
        "fraction": _paying(fraction=1.0),
        # G-RA (arXiv 2508.10548): what single steps earn counts only in an episode whose outcome reached a level, here
        # that a change was handed in. The paper's weights are not known to us; these are ours.
        "g-ra": _paying(
            Gate("submitted", 1.0), Gate("modified", 1.0), resolved=1.0, submitted=0.1, modified=0.1, format=0.01
        ),
        "fresh": Variant(entry_point="agentbench_envs.swe.fresh:FreshEnv"),
        "list": Variant(splits=("train", "valid", "test", "all")),
    },
    deterministic=False,
    thread_bound=True,  # Its calls wait for commands; on a thread of its own none waits for another episode's.
    needs=frozenset({"docker"}),
    needs_with={("sandbox", "process"): frozenset({"bubblewrap"})},
    image="swe",
    identity="agentbench_envs.swe.tasks:identity",
    builder="agentbench_envs.swe.build:main",
    paths=frozenset({"tasks"}),
    licence="Apache-2.0",
    source="SWE-bench (arXiv 2310.06770), SWE-smith (arXiv 2504.21798), G-RA (arXiv 2508.10548); own code and tasks",
)
