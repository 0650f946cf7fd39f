"""The other side of `trl_speed`: TRL's `GRPOTrainer` in its own virtual environment, one line on the pipes per step.

    python -m tests.benchmarks.trl_side MODEL EPISODES TOKENS ROWS GAME

A line on stdin asks for a whole step (one collection, four gradient steps); the answer is what it cost, as JSON. The
end of stdin ends training. `trl_speed` says what is measured and what is set.
"""

import json
import resource
import sys
import tempfile
import time
from collections.abc import Callable
from typing import Any

import torch
import trl.trainer.grpo_trainer as grpo  # type: ignore[import-not-found]
from datasets import Dataset  # type: ignore[import-not-found]
from transformers import AutoModelForCausalLM, AutoTokenizer, TrainerCallback
from trl import GRPOConfig, GRPOTrainer

from tests.benchmarks.trl_walk import GROUP, INSTRUCTIONS, TURNS, Walk

MINIBATCHES = 4

# What a tool returns is a user's message, as with us. How a call is written matters to nobody: TRL keeps sampled ids
# and never renders a call that the model made, but it insists on a template that could.
TEMPLATE = (
    "{% for message in messages %}"
    "{{ '<|im_start|>' + ('user' if message.role == 'tool' else message.role) + '\n' + message.content }}"
    "{% for call in message.tool_calls or [] %}"
    "{{ call.function.name + ' ' + (call.function.arguments | tojson) }}"
    "{% endfor %}"
    "{{ '<|im_end|>\n' }}"
    "{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)


class Game:
    """The environment as TRL wants it: public methods are tools, their docstrings become a schema."""

    _ends = False

    def reset(self, seed: int, **_: Any) -> str:
        """Begin; what is returned ends the prompt."""
        self._walk = Walk(seed, ends=self._ends)
        return self._walk.look()

    def move(self, reply: str) -> str:
        """Take a step.

        Args:
            reply: What was said.

        Returns:
            The grid.
        """
        self._walk.move(reply)
        return self._walk.look()

    def get_reward(self) -> float:
        """Say what the walk paid."""
        return self._walk.score


def parse_response(tokenizer: Any, ids: list[int], prefix: list[int] | None = None) -> dict[str, Any]:
    """Make a call of any reply: random weights call no tool by themselves. Cheaper than the parser it stands for."""
    said = tokenizer.decode(ids, skip_special_tokens=True)
    call = {"type": "function", "function": {"name": "move", "arguments": {"reply": said}}}
    return {"role": "assistant", "content": "", "tool_calls": [call]}


class Meter(TrainerCallback):
    """Waits for a line before a step, and answers behind it."""

    def __init__(self, answers: Any) -> None:
        self.answers = answers
        self.seconds: dict[str, float] = {}
        self.counts: dict[str, int] = {}

    def timed(self, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        """Return the function; what it takes is added up."""

        def wrapped(*args: Any, **kwargs: Any) -> Any:
            began = time.process_time()
            result = function(*args, **kwargs)
            self.seconds[name] = self.seconds.get(name, 0.0) + time.process_time() - began
            return result

        return wrapped

    def counted(self, generate: Callable[..., Any]) -> Callable[..., Any]:
        """Return TRL's `_generate`; the tokens that it returns are counted."""

        def wrapped(*args: Any, **kwargs: Any) -> Any:
            result = generate(*args, **kwargs)
            prompts, completions, mask = result[:3]
            self.counts = {
                "generated": sum(map(sum, mask)),
                "trajectory": sum(map(len, prompts)) + sum(map(len, completions)),
                # A reply begins where the mask rises; the first one has the prompt before it.
                "replies": sum(on > before for row in mask for before, on in zip([0, *row], row, strict=False)),
            }
            return result

        return wrapped

    def on_train_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        self._wait(control)

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        if state.global_step % MINIBATCHES:
            return
        whole = time.process_time() - self.began
        collected, rollout = self.seconds["collect"], self.seconds["rollout"]
        seconds = {"rollout": rollout, "score": collected - rollout, "update": whole - collected, "step": whole}
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
        print(json.dumps({"seconds": seconds, "peak_gigabytes": peak, **self.counts}), file=self.answers, flush=True)
        self._wait(control)

    def _wait(self, control: Any) -> None:
        control.should_training_stop = not sys.stdin.readline()
        self.seconds = {}
        self.began = time.process_time()


def settings(folder: str, episodes: int, tokens: int, rows: int) -> Any:
    """Return what makes TRL do the same work as we."""
    return GRPOConfig(
        output_dir=folder,
        max_steps=10**9,
        per_device_train_batch_size=rows,
        gradient_accumulation_steps=episodes // MINIBATCHES // rows,
        steps_per_generation=episodes // rows,
        num_generations=GROUP,
        max_tool_calling_iterations=TURNS - 1,
        max_completion_length=4096,
        generation_kwargs={"max_new_tokens": tokens},
        temperature=1.0,
        learning_rate=1e-12,
        lr_scheduler_type="constant",
        max_grad_norm=1.0,
        beta=0.0,
        epsilon=0.2,
        loss_type="grpo",
        scale_rewards="group",
        bf16=False,
        use_cpu=True,
        gradient_checkpointing=False,
        logging_strategy="no",
        save_strategy="no",
        report_to="none",
        disable_tqdm=True,
    )


def main() -> None:
    answers, sys.stdout = sys.stdout, sys.stderr
    path, (episodes, tokens, rows) = sys.argv[1], map(int, sys.argv[2:5])
    Game._ends = sys.argv[5] == "ends"
    torch.set_num_threads(1)
    tokenizer: Any = AutoTokenizer.from_pretrained(path)
    tokenizer.chat_template = TEMPLATE
    tokenizer.response_template = {}  # there is one already: TRL need not know the chat template
    grpo.parse_response = parse_response
    meter = Meter(answers)
    chat = [{"role": "system", "content": INSTRUCTIONS}, {"role": "user", "content": ""}]
    tasks = [{"prompt": chat, "seed": seed} for seed in range(episodes // GROUP)]
    with tempfile.TemporaryDirectory() as folder:
        trainer = GRPOTrainer(
            AutoModelForCausalLM.from_pretrained(path, dtype=torch.float32),
            args=settings(folder, episodes, tokens, rows),
            train_dataset=Dataset.from_list(tasks),
            processing_class=tokenizer,
            environment_factory=Game,
            callbacks=[meter],
        )
        trainer._generate = meter.timed("rollout", meter.counted(trainer._generate))
        trainer._generate_and_score_completions = meter.timed("collect", trainer._generate_and_score_completions)
        trainer.train()


if __name__ == "__main__":
    main()
