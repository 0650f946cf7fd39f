"""The shop's pages as HTML: the same data that `pages` writes as text, for a browser.

Every element that the text shows carries the number of its piece (`data-piece`), so that whoever opens the page reads
the same words in the same order. Forms are all that a page needs to work: a button sends `click`, the search box sends
`search`. There is no script, and nothing is loaded. What can be used has an id, `e1`, `e2` ... in document order.
"""

import html
import itertools
import re
import zlib
from base64 import b64encode
from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Final

from agentbench_envs.webshop import pages
from agentbench_envs.webshop.pages import DonePage, IndexPage, ItemPage, Page, ResultsPage, Role, SectionPage
from agentbench_envs.webshop.products import Product

BOX: Final = "Search the shop"
"""The search box's accessible name."""
SHOWN: Final = 200
"""Characters of a search that the page repeats."""
HUES: Final = 8

_ID = re.compile(r' id="e\*"')


@dataclass(frozen=True, slots=True)
class Frame:
    """What a page needs besides its content."""

    address: str
    """Where its forms are sent."""
    onward: str = ""
    """Where the receipt leads on; empty: nowhere."""
    notice: str = ""
    """Something to be said on top."""


def document(page: Page, frame: Frame) -> str:
    """Write a page."""
    pieces = _Pieces(page)
    match page:
        case IndexPage():
            title, main = "WebShop", _index(page, pieces, frame)
        case ResultsPage():
            title, main = "Results", _results(page, pieces, frame)
        case ItemPage():
            title, main = page.product["Title"], _item(page, pieces, frame)
        case SectionPage():
            title, main = page.section, _section(page, pieces, frame)
        case DonePage():
            title, main = "Receipt", _receipt(page, pieces, frame)
    searches = not isinstance(page, IndexPage | DonePage)
    words = page.keywords if isinstance(page, ResultsPage) else ""
    head = pieces.tag("p", "WebShop", "brand") + (_search_form(pieces, frame, words) if searches else "")
    return _whole(title, head, _notice(frame) + main)


def welcome(goals: int, action: str) -> str:
    """Write the page that a shop without a visit begins with."""
    main = (
        '<section class="hero"><h1>Welcome</h1><p>You are given a wish. Find the product that fits it best, choose its '
        f"options, and buy it; then you see how well you did. There are {goals:,} wishes.</p>"
        f'<form method="post" action="{_plain(action)}"><label for="e1">Number of a wish, or nothing for the next one'
        f'</label><div class="search"><input id="e*" name="goal" inputmode="numeric" pattern="[0-9]*" '
        f'autocomplete="off"><button id="e*" class="primary">Start</button></div></form></section>'
    )
    return _whole("WebShop", '<p class="brand">WebShop</p>', main)


def message(title: str, text: str) -> str:
    """Write a page that says that something is not there."""
    main = f'<section class="hero"><h1>{_plain(title)}</h1><p>{_plain(text)}</p></section>'
    return _whole(title, '<p class="brand">WebShop</p>', main)


@cache
def style() -> str:
    """Return the style sheet."""
    return Path(__file__).with_name("shop.css").read_text(encoding="utf-8")


@cache
def policy() -> str:
    """Return the content-security policy of every page: its own style sheet, and nothing else."""
    known = b64encode(sha256(style().encode()).digest()).decode()
    return (
        f"default-src 'none'; style-src 'sha256-{known}'; img-src data:; form-action 'self'; base-uri 'none'; "
        "frame-ancestors 'none'"
    )


class _Pieces:
    """The words of a page, each given away once, with its place in the text."""

    def __init__(self, page: Page) -> None:
        self._left = list(enumerate(pages.visible(page)))

    def tag(self, name: str, text: str, style: str = "", *, role: Role = "text", attributes: str = "") -> str:
        """Write an element; it is marked if the text shows these words in this role."""
        mark = self._take(text, role)
        shape = f' class="{style}"' if style else ""
        return f"<{name}{shape}{mark}{attributes}>{_plain(text)}</{name}>"

    def button(self, text: str, style: str = "", *, role: Role = "button", attributes: str = "") -> str:
        """Write something to click."""
        click = text if role == "option" else text.lower()
        own = f' id="e*" name="click" value="{_plain(click)}"{attributes}'
        return self.tag("button", text, style, role=role, attributes=own)

    def rest(self) -> list[str]:
        """Write what is left as the items of a list."""
        return [self.tag("li", node.text, role=node.role) for _, node in list(self._left)]

    def _take(self, text: str, role: Role) -> str:
        for place, (number, node) in enumerate(self._left):
            if node == (text, role):
                del self._left[place]
                return f' data-piece="{number}" data-role="{role}"'
        return ""


def _whole(title: str, head: str, main: str) -> str:
    numbers = itertools.count(1)
    body = f'<header class="bar">{head}</header><main>{main}</main>'
    numbered = _ID.sub(lambda _: f' id="e{next(numbers)}"', body)
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8"><meta name="viewport" '
        f'content="width=device-width, initial-scale=1"><title>{_plain(title[:SHOWN])}</title>'
        f'<link rel="icon" href="data:,"><style>{style()}</style></head><body>{numbered}</body></html>'
    )


def _index(page: IndexPage, pieces: _Pieces, frame: Frame) -> str:
    return (
        f'<section class="hero"><h1>What are you looking for?</h1>{_wish(page, pieces)}'
        f"{_search_form(pieces, frame, '')}</section>"
    )


def _results(page: ResultsPage, pieces: _Pieces, frame: Frame) -> str:
    cards = "".join(_card(number, product, page, pieces) for number, product in enumerate(page.products))
    shown = f'<ol class="results">{cards}</ol>' if cards else '<p class="quiet">There is nothing here.</p>'
    words = page.keywords if len(page.keywords) <= SHOWN else f"{page.keywords[:SHOWN]}..."
    previous = pieces.button(pages.PREVIOUS) if page.number > 1 else ""
    where = pieces.tag("p", f"Page {page.number} (Total results: {page.total})", "where")
    return _form(
        frame,
        f"{_wish(page, pieces)}{pieces.button(pages.BACK, 'back')}<h1>Results for “{_plain(words)}”</h1>"
        f'{shown}<nav class="pager" aria-label="Pages of results">{previous}{where}{pieces.button(pages.NEXT)}</nav>',
    )


def _card(number: int, product: Product, page: ResultsPage, pieces: _Pieces) -> str:
    seen = " seen" if product["asin"] in page.visited else ""
    link = pieces.button(product["asin"], "code", role="link", attributes=f' aria-describedby="t{number}"')
    title = pieces.tag("h2", product["Title"], attributes=f' id="t{number}"')
    return (
        f'<li class="card{seen}">{_art(product)}<div>{title}'
        f"{pieces.tag('p', product['Price'], 'price')}{link}</div></li>"
    )


def _item(page: ItemPage, pieces: _Pieces, frame: Frame) -> str:
    product = page.product
    price = pieces.tag("p", f"Price: {product['Price']}", "price")
    rating = pieces.tag("p", f"Rating: {product['Rating']}", "quiet")
    options = "".join(_option(name, values, page, pieces) for name, values in product["options"].items())
    sections = "".join(pieces.button(section) for section in page.sections)
    return _form(
        frame,
        f"{_wish(page, pieces)}{pieces.button(pages.BACK, 'back')}{pieces.button(pages.PREVIOUS, 'back')}"
        f'<article class="product">{_art(product)}<div>{pieces.tag("h1", product["Title"])}'
        f'{price}{rating}{options}<nav class="sections" aria-label="About the product">{sections}</nav>'
        f"{pieces.button(pages.BUY, 'primary')}</div></article>",
    )


def _option(name: str, values: list[str], page: ItemPage, pieces: _Pieces) -> str:
    def value_of(value: str) -> str:
        chosen = "true" if page.chosen.get(name) == value else "false"
        return pieces.button(value, "value", role="option", attributes=f' aria-pressed="{chosen}"')

    legend = pieces.tag("legend", name)
    return f'<fieldset>{legend}<div class="values">{"".join(map(value_of, values))}</div></fieldset>'


def _section(page: SectionPage, pieces: _Pieces, frame: Frame) -> str:
    wish = _wish(page, pieces)
    back = pieces.button(pages.BACK, "back") + pieces.button(pages.PREVIOUS, "back")
    lines = pieces.rest()
    said = f'<ul class="lines">{"".join(lines)}</ul>' if lines else '<p class="quiet">There is nothing to read.</p>'
    title = _plain(page.product["Title"])
    return _form(frame, f'{wish}{back}<h1>{_plain(page.section)}</h1><p class="quiet">{title}</p>{said}')


def _receipt(page: DonePage, pieces: _Pieces, frame: Frame) -> str:
    chosen = "".join(f"<li>{_plain(name)}: {_plain(value)}</li>" for name, value in page.chosen.items())
    onward = f'<p><a id="e*" class="primary" href="{_plain(frame.onward)}">Go on</a></p>' if frame.onward else ""
    thanks = pieces.tag("h1", "Thank you for shopping with us!")
    label = pieces.tag("h2", "Your score (min 0.0, max 1.0)")
    score = pieces.tag("p", str(page.reward), "exact")
    return (
        f'<section class="hero receipt">{thanks}<p class="score">{round(100 * page.reward)} %</p>{label}{score}'
        f'<p class="quiet">The wish: {_plain(page.instruction)}</p>'
        f'<div class="bought">{_art(page.product)}<div><p>{_plain(page.product["Title"])}</p>'
        f'<ul class="lines">{chosen}</ul></div></div>{onward}'
        f'<details><summary id="e*">The receipt, line by line</summary><ul class="lines">{"".join(pieces.rest())}</ul>'
        "</details></section>"
    )


def _wish(page: Page, pieces: _Pieces) -> str:
    label = "Instruction: " if isinstance(page, IndexPage) else "Instruction:"
    said = pieces.tag("p", label, "label") + pieces.tag("p", page.instruction)
    return f'<section class="wish" aria-label="What is wanted">{said}</section>'


def _search_form(pieces: _Pieces, frame: Frame, words: str) -> str:
    button = pieces.tag("button", pages.SEARCH, "primary", role="button", attributes=' id="e*"')
    return (
        f'<form class="search" role="search" method="post" action="{_plain(frame.address)}"><input id="e*" type="text" '
        f'name="search" aria-label="{BOX}" value="{_plain(words[:SHOWN])}" autocomplete="off" enterkeyhint="search">'
        f"{button}</form>"
    )


def _form(frame: Frame, content: str) -> str:
    return f'<form method="post" action="{_plain(frame.address)}">{content}</form>'


def _notice(frame: Frame) -> str:
    return f'<p class="notice" role="status">{_plain(frame.notice)}</p>' if frame.notice else ""


def _art(product: Product) -> str:
    """Stand in for the picture that the data does not have."""
    kind = product["query"] or product["Title"]
    hue = zlib.crc32(kind.encode("utf-8", "replace")) % HUES
    return f'<span class="art hue{hue}" aria-hidden="true">{_plain(kind[:1].upper())}</span>'


def _plain(text: str) -> str:
    """Escape a text for HTML; a carriage return would otherwise be read as a line feed."""
    return html.escape(text).replace("\r", "&#13;").replace("\0", "\ufffd")
