from agentbench.core.registry import EnvEntry, Variant
from agentbench.core.rewards import RewardSpec, RewardTerm

_INSTRUCTIONS = """\
You are shopping in a web shop. The instruction says what to buy: a kind of product, its attributes, often options such
as color and size, and a price. Find the product that fits best, choose the right options, and buy it. A visit ends with
the purchase, and is scored by how much of the instruction the purchase fulfils.

Each turn you see a page as text, its parts separated by [SEP]. Answer with exactly one action:
search[words]      looks for products; the start page has the search box
click[something]   clicks a button, a product's code, or a value of an option, written as on the page

For example: search[waterproof hiking boots], click[b07xyz1234], click[size 9], click[next >], click[back to search],
click[description], click[features], click[buy now]."""

_BROWSER = """\
You are shopping in a web shop, in a browser. The page says what to buy: a kind of product, its attributes, often
options such as color and size, and a price. Find the product that fits best, choose the right options, and buy it. A
visit ends with the purchase, and is scored by how much of the instruction the purchase fulfils.

Answer with exactly one action:
click[name]          clicks a button or link, by its name{id}
type[box][words]     puts words into a box
scroll[down]         scrolls by half a window; also scroll[up]
back                 goes back to the page before
goto[/3]             opens a page of this visit by its address

For example: type[Search the shop][waterproof hiking boots], click[Search], click[b07xyz1234], click[size 9],
click[buy now].{view}"""

_TREE = _BROWSER.format(
    id=" or by its id such as e3",
    view="\n\nEach turn you see the page as its accessibility tree, ids in brackets.",
)
_PICTURE = _BROWSER.format(id="", view="\n\nEach turn you see a picture of the window.")

_TINY = "Buy what is wanted: search[kind], click[number], click[option], click[buy now]."

_RAGEN = """\
You are shopping in a web shop and must buy what the instruction asks for. Each turn you see a page and the actions that
you can choose from. Answer with exactly one of them: search[words] or click[something]."""

_VERL_AGENT = """\
You are an expert agent in the WebShop e-commerce environment. Each turn you are given the task, the present page, and
the admissible actions. Reason about which of them brings the purchase closest, then answer with exactly one:
search[words] or click[something]."""

_AGENTGYM = """\
You are web shopping. Every round you get an observation, and you answer with an action that follows the instruction:
search[keywords] if a search is available, or click[value] for one of the buttons. The value of a click must be one that
the page offers; the keywords are up to you and should be chosen with care. An action that is not valid does nothing."""


def _reward(*, score: float = 0.0, won: float = 0.0) -> RewardSpec:
    """Weigh the purchase; the terms that follow its parts are recorded, and pay nothing unless a trainer says so."""
    parts = ("attributes", "options", "type", "price", "illegal")
    return RewardSpec((RewardTerm("score", score), RewardTerm("won", won), *(RewardTerm(part, 0.0) for part in parts)))


def _browser(*, instructions: str | None = None, max_turns: int | None = None, **kwargs: str) -> Variant:
    """Make a variant that is played in a real browser."""
    return Variant(
        {"products": 1000, **kwargs},
        instructions=instructions,
        max_turns=max_turns,
        needs=frozenset({"browser"}),
        entry_point="agentbench_envs.webshop.browser:WebShopBrowserEnv",
        thread_bound=True,
    )


ENTRY = EnvEntry(
    name="webshop",
    title="WebShop",
    version=0,
    entry_point="agentbench_envs.webshop.env:WebShopEnv",
    summary="Shopping by instruction: search a catalogue, tell near duplicates apart, choose options, buy.",
    instructions=_INSTRUCTIONS,
    max_turns=15,
    reward=_reward(score=1.0),
    variants={
        "synth-1k": Variant({"products": 1000}),
        "synth-10k": Variant({"products": 10_000}),
        "synth-100k": Variant({"products": 100_000}),
        "tiny": Variant({"products": 1000, "protocol": "compact", "explain": False}, instructions=_TINY, max_turns=10),
        "browser": _browser(),
        "browser-native": _browser(actions="native", view="tree", instructions=_TREE, max_turns=20),
        "browser-vision": _browser(actions="native", view="screenshot", instructions=_PICTURE, max_turns=20),
        "original": Variant({"protocol": "original", "explain": False}, max_turns=100),
        "ragen": Variant(
            {"protocol": "ragen", "explain": False}, instructions=_RAGEN, max_turns=9, reward=_reward(won=1.0)
        ),
        "verl-agent": Variant(
            {"protocol": "verl-agent", "explain": False},
            instructions=_VERL_AGENT,
            max_turns=15,
            reward=_reward(won=10.0),
            context="window:2",
        ),
        "agentgym": Variant({"protocol": "agentgym", "explain": False}, instructions=_AGENTGYM, max_turns=10),
    },
    site="agentbench_envs.webshop.site:serve",
    identity="agentbench_envs.webshop.files:identity",
    paths=frozenset({"data", "cache"}),
    licence="Apache-2.0",
    source="WebShop (Yao et al., 2022, arXiv 2207.01206); own code and catalogue",
)
