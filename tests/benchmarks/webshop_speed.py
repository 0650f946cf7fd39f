"""Speed and size of the shop: steps beside the original's logic, searches, start, memory.

    python -m tests.benchmarks.webshop_speed [--cache .bench] [--out speed.json] [--rounds 5]

The original needs Java and a search engine with it; what can be had of it in a virtual environment of its own (Flask,
BeautifulSoup) renders and reads pages of the same content as its step does: one template, and one pass of the parser
for what can be clicked and one for the observation. Its search, of 35 to 60 ms in the recorded runs, is left out, so
the ratio says the least of it. Recorded on two cores, the whole original made 40 to 63 steps per second. Times are
seconds of the processor, on both sides, so that other load on the machine counts less.
"""

import argparse
import json
import os
import resource
import subprocess
import sys
import time
from pathlib import Path
from statistics import mean, median
from typing import Any, cast

from agentbench_envs.webshop.env import WebShopEnv

from agentbench.core.registry import resolve
from tests.benchmarks.rival import Rival

PINS = ("flask==3.1.2", "beautifulsoup4==4.13.5")
RECORDED = (40.0, 63.0)
"""The original's steps per second, measured when its sessions were recorded."""
SIDE = """
import json, sys, time
from bs4 import BeautifulSoup
from bs4.element import Comment
from flask import Flask, render_template_string

app = Flask("shop")
HEAD = "<!DOCTYPE html><html><head><link rel='stylesheet' href='x'><title>Shop</title></head><body>"
TEMPLATE = HEAD + '''
  <div class="container"><div><h4>Instruction:<br>{{ instruction }}</h4></div>
  {% for button in buttons %}
  <div class="row"><form method="post" action="/{{ loop.index }}">
    <button type="submit" class="btn">{{ button }}</button>
  </form></div>
  {% endfor %}
  {% for link in links %}
  <div class="row"><div class="card"><h4><a class="product-link" href="/{{ link }}">{{ link }}</a></h4></div></div>
  {% endfor %}
  {% for option in options %}
  <div class="row">
    <input type="radio" id="o{{ loop.index }}" value="{{ option }}">
    <label for="o{{ loop.index }}">{{ option }}</label>
  </div>
  {% endfor %}
  {% for text in texts %}<div class="row"><h4>{{ text }}</h4></div>
  {% endfor %}
</div></body></html>'''

def step(page):
    with app.app_context(), app.test_request_context():
        html = render_template_string(TEMPLATE, **page)
    parsed = BeautifulSoup(html, "html.parser")
    clickable = [b.get_text().lower() for b in parsed.find_all(class_="btn") + parsed.find_all(class_="product-link")]
    clickable += [option.get("value") for option in parsed.select('input[type="radio"]')]
    hidden = {"style", "script", "head", "title", "meta", "[document]"}
    seen = BeautifulSoup(html, "html.parser").find_all(string=True)
    kept = [t for t in seen if t.parent.name not in hidden and not isinstance(t, Comment) and t != "\\n"]
    return " [SEP] ".join(t.strip() for t in kept), clickable

for line in sys.stdin:
    pages = json.loads(line)
    begin = time.process_time()
    for page in pages:
        step(page)
    print(json.dumps((time.process_time() - begin) / len(pages)), flush=True)
"""


def page_of(env: WebShopEnv) -> dict[str, Any]:
    """Return the content of the page that the shopper sees."""
    roles: dict[str, list[str]] = {"button": [], "link": [], "option": [], "text": []}
    for node in env.session.page.nodes():
        roles[node.role].append(node.text)
    return {"instruction": env.session.goal["instruction_text"], "buttons": roles["button"], "links": roles["link"],
            "options": roles["option"], "texts": roles["text"]}  # fmt: skip


def walk(env: WebShopEnv, steps: int, first: int) -> tuple[float, list[dict[str, Any]]]:
    """Play random actions; return seconds per step, and the pages that were seen."""
    spent, pages, seed, over = 0.0, [], first, True
    for _ in range(steps):
        if over:
            env.reset(seed=seed)
            seed += 1
        action = env.random_action()
        begin = time.process_time()
        over = env.step(action).terminated
        spent += time.process_time() - begin
        pages.append(page_of(env))
    return spent / steps, pages


def compare_steps(original: Rival, rounds: int) -> dict[str, float]:
    env = cast(WebShopEnv, resolve("webshop/original").make())
    walk(env, 500, 0)
    ours, theirs = [], []
    for number in range(rounds):
        seconds, pages = walk(env, 1500, 1000 * number)
        ours.append(seconds)
        theirs.append(original.ask(pages[:150]))
    per_second = 1 / median(ours)
    return {
        "steps per second": per_second,
        "pages per second, the original's rendering and parsing alone": 1 / median(theirs),
        "steps, ratio to those pages": median(theirs) / median(ours),
        "steps, ratio to the recorded original": per_second / RECORDED[1],
    }


def searches(env: WebShopEnv, count: int = 500) -> list[float]:
    """Time searches for the first words of instructions, as a shopper types them, each new to the index."""
    goals = env.shop.catalogue.goals
    index, spent = env.shop.catalogue.index, []
    for number in range(count):
        goal = goals[(7919 * number) % len(goals)]
        words = " ".join([*goal["attributes"], goal["query"]])
        begin = time.process_time()
        index.search(words)
        spent.append(1000 * (time.process_time() - begin))
    return sorted(spent)


def measure_size(name: str) -> dict[str, float]:
    """Measure one catalogue; in a process of its own, so that memory is its own."""
    begin = time.process_time()
    env = cast(WebShopEnv, resolve(f"webshop/{name}").make())
    opened = time.process_time() - begin
    spent = searches(env)
    walk(env, 500, 0)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return {"open, s": opened, "search, ms": median(spent), "search, mean ms": mean(spent),
            "search, 95 % below, ms": spent[int(0.95 * len(spent))], "memory, MB": peak}  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cache", type=Path, default=Path(".bench"))
    parser.add_argument("--out", type=Path)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--size", help="measure one variant alone, in this process")
    arguments = parser.parse_args()
    os.environ.setdefault("AGENTBENCH_CACHE", str(arguments.cache.resolve()))
    if arguments.size:
        print(json.dumps(measure_size(arguments.size)))
        return
    original = Rival(arguments.cache.resolve() / "webshop-pages", [PINS], ["-c", SIDE])
    result: dict[str, Any] = {"steps": compare_steps(original, arguments.rounds)}
    original.close()
    for name in ("synth-1k", "synth-10k", "synth-100k"):
        command = [sys.executable, "-P", "-m", "tests.benchmarks.webshop_speed", "--size", name]
        command += ["--cache", str(arguments.cache)]
        subprocess.run(command, check=True, capture_output=True)  # builds what is kept on disk
        done = subprocess.run(command, check=True, capture_output=True, text=True)
        result[name] = json.loads(done.stdout)
    print(json.dumps(result, indent=1))
    if arguments.out is not None:
        arguments.out.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    large = result["synth-100k"]
    missed = [
        name
        for name, held in (
            ("100 times the original's steps", result["steps"]["steps, ratio to the recorded original"] >= 100),
            ("a search in a millisecond", large["search, ms"] < 1),
            ("a gigabyte", large["memory, MB"] < 1000),
        )
        if not held
    ]
    if missed:
        raise SystemExit(f"missed: {', '.join(missed)}")


if __name__ == "__main__":
    main()
