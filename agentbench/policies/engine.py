"""Continuous batching: one thread, one model, many conversations.

Sessions submit requests from wherever they run; the engine's thread repeats one round: let waiting requests in while
there is room and prefill what they add to their lanes, or else append one token to every row that is being written. A
row that ends leaves at once and the next request takes its place. Requests that find no room wait; nobody is refused.

Each row draws with its own seed (`sampling.py`), so that its reply does not depend on the company it has. Weights
change between replies only: an update waits until every row has ended, and makes all lanes forget their caches.

The thread holds the engine, never the policy: a policy that is closed, or forgotten, stops its engine and frees its
memory at once.
"""

import contextlib
import math
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, InvalidStateError
from dataclasses import dataclass
from typing import Any

import torch

from agentbench.core.errors import Failure
from agentbench.core.types import Finish
from agentbench.policies.forward import Backend, Feed, Lane, Output, is_out_of_memory
from agentbench.policies.request import Request
from agentbench.policies.sampling import draw

PREFILL_TOKENS = 8192
"""Tokens of one prefill pass, padding included."""
CHUNK = 1024
"""New tokens of one row in one pass; longer prompts take several."""
MASK_CELLS = 1 << 26
"""New tokens times positions that they look at, in one prefill pass: the size of its mask."""
PATIENCE = 4
"""Rounds that a request may wait for others to prefill with it while rows are being written."""
COMPANY_SECONDS = 30.0
"""How long rows that must stay together wait for one that does not come."""
LINGER = 0.001
"""Seconds without a new request after which an idle engine starts with those it has."""


@dataclass(eq=False, slots=True)
class _Update:
    """Something to do while no reply is in progress."""

    change: Callable[[], None]
    new_weights: bool
    future: "Future[int]"


@dataclass(slots=True)
class Counters:
    """What the engine has done so far."""

    prefilled_tokens: int = 0
    sampled_tokens: int = 0
    passes: int = 0
    """Forward passes."""
    replies: int = 0


class Engine:
    """Answers requests with drafts, on a thread of its own.

    Args:
        backend: What runs the model.
        batch_size: Rows that are written at the same time.
    """

    def __init__(self, backend: Backend, batch_size: int) -> None:
        self.backend = backend
        self.batch_size = batch_size
        self.version = 0
        self.counters = Counters()
        self._lanes: set[Lane] = set()
        self._waiting: deque[Request] = deque()
        self._rows: list[Request] = []
        self._released: list[Lane] = []
        self._updates: deque[_Update] = deque()
        self._stopped = False
        self._company = 0
        self._opened = 0
        self._changed = threading.Condition()

    def start(self) -> threading.Thread:
        """Start the thread."""
        thread = threading.Thread(target=_serve, args=(self,), name="agentbench-engine", daemon=True)
        thread.start()
        return thread

    def open(self) -> Lane:
        """Register a conversation."""
        lane = Lane()
        with self._changed:
            self._lanes.add(lane)
            self._opened += 1
        return lane

    def gather(self, company: int) -> None:
        """From now on, work only while so many conversations were opened and every open one waits for its next token.

        Which rows share a pass then depends on nothing but the conversations themselves, and a run repeats to the last
        bit. It costs the time that the slowest environment takes for a step; one that hangs is waited for
        `COMPANY_SECONDS`. 0 ends it.
        """
        with self._changed:
            self._company, self._opened = company, 0
            self._changed.notify()

    def submit(self, request: Request) -> None:
        """Queue a request; its future gets the draft, or whatever went wrong."""
        with self._changed:
            if self._stopped or request.lane not in self._lanes:
                raise Failure("policy", "the policy is closed" if self._stopped else "the session is closed")
            self._waiting.append(request)
            self._changed.notify()

    def release(self, lane: Lane) -> None:
        """Forget a conversation; a reply in progress fails. Idempotent."""
        with self._changed:
            if lane in self._lanes:
                self._lanes.remove(lane)
                self._released.append(lane)
                self._changed.notify()

    def between_replies(self, change: Callable[[], None], *, new_weights: bool = True) -> "Future[int]":
        """Queue a change for a moment when no reply is in progress; its future gets the version that then holds."""
        future: Future[int] = Future()
        with self._changed:
            if self._stopped:
                raise Failure("policy", "the policy is closed")
            self._updates.append(_Update(change, new_weights, future))
            self._changed.notify()
        return future

    def free_caches(self) -> "Future[int]":
        """Free the memory of all conversations as soon as no reply is in progress."""
        return self.between_replies(lambda: self.backend.clear(list(self._lanes)), new_weights=False)

    def stop(self) -> None:
        """Ask the thread to end; whatever still waits fails."""
        with self._changed:
            self._stopped = True
            self._changed.notify()

    def round(self) -> bool:
        """Do one round of work; False when the engine has stopped."""
        if not self._await_work():
            self._fail(Failure("policy", "the policy was closed"))
            return False
        try:
            self._drop_ended()
            if self._updates and not self._rows:
                self._apply_update()
            admitted = self._admit()
            if admitted:
                self._prefill(admitted)
            elif self._rows:
                self._write()
        except Exception as error:  # it belongs to those who wait for an answer, whatever it is
            self._fail(_as_failure(error))
        return True

    def _await_work(self) -> bool:
        """Sleep until there is something to do; wait a moment for requests that are about to come together."""
        with self._changed:
            while not (self._stopped or self._rows or self._waiting or self._updates or self._released):
                self._changed.wait()
            if self._company:
                self._changed.wait_for(self._is_complete, COMPANY_SECONDS)
                self._waiting = deque(sorted(self._waiting, key=lambda request: request.seed))
                return not self._stopped
            while not (self._stopped or self._rows) and 0 < len(self._waiting) < min(self.batch_size, len(self._lanes)):
                before = len(self._waiting)
                self._changed.wait(LINGER)
                if len(self._waiting) == before:
                    break
            return not self._stopped

    def _is_complete(self) -> bool:
        """Tell whether everybody is here, and waits."""
        here = self._opened >= self._company and len(self._rows) + len(self._waiting) >= len(self._lanes)
        return here or self._stopped or bool(self._updates) or not self._company

    def _drop_ended(self) -> None:
        """Let go of conversations that were closed and of replies that nobody waits for any more."""
        with self._changed:
            released, self._released = self._released, []
            requests = [*self._rows, *self._waiting]
        for request in requests:
            if request.lane in released:
                _settle(request.future, error=Failure("policy", "the session was closed"))
        for row in [row for row in self._rows if row.future.done()]:
            self._leave(row)
        for lane in released:
            self.backend.release(lane)
        with self._changed:
            self._waiting = deque(request for request in self._waiting if not request.future.done())

    def _apply_update(self) -> None:
        with self._changed:
            update = self._updates.popleft()
            lanes = list(self._lanes)
        try:
            with torch.inference_mode(False):
                update.change()
        except Exception as error:  # it belongs to whoever asked for the change
            _settle(update.future, error=error)
            return
        if update.new_weights:
            for lane in lanes:
                self.backend.rewind(lane, 0)
            self.version += 1
        _settle(update.future, result=self.version)

    def _admit(self) -> list[Request]:
        """Let waiting requests in, as many as there is room for."""
        with self._changed:
            waiting = [self._waiting[i] for i in range(min(len(self._waiting), self.batch_size - len(self._rows)))]
            self.backend.expected = len(self._lanes)
        if self._updates or not waiting or not self._worthwhile(waiting):
            return []
        admitted = []
        for request in waiting:
            if not self._make_room(request):
                break
            admitted.append(request)
        with self._changed:
            for _ in admitted:
                self._waiting.popleft()
        return [request for request in admitted if not request.future.done()]

    def _worthwhile(self, waiting: Sequence[Request]) -> bool:
        """Tell whether to prefill now: a pass costs nearly the same for one row and for many."""
        waiting[0].waited += 1
        return 4 * len(waiting) >= len(self._rows) or waiting[0].waited > PATIENCE

    def _make_room(self, request: Request) -> bool:
        """Reserve a place for the context and the longest possible reply; False if that has to wait."""
        lane = request.lane
        if lane.busy:  # two replies of one session at a time: the second waits for the first
            return False
        try:
            if not self.backend.reserve(lane, len(request.context_ids) + request.room):
                return False
        except Failure as failure:  # this context will never fit; the others may
            _settle(request.future, error=failure)
            return True
        lane.busy = True
        kept = self.backend.rewind(lane, min(_shared(lane.ids, request.context_ids), len(request.context_ids) - 1))
        request.draft.prefilled = len(request.context_ids) - kept
        request.draft.version = self.version
        self._rows.append(request)
        return True

    def _prefill(self, rows: Sequence[Request]) -> None:
        """Append to each lane what it lacks of its context, and sample the first tokens."""
        for row in rows:
            while len(row.context_ids) - len(row.lane.ids) > CHUNK:
                start = len(row.lane.ids)
                self._step([Feed(row.lane, row.context_ids[start : start + CHUNK])])
        pending = [(row, row.context_ids[len(row.lane.ids) :]) for row in rows]
        for group in packed(pending):
            self._append([row for row, _ in group], self._step([Feed(row.lane, ids) for row, ids in group]))

    def _write(self) -> None:
        """Append one token to every row."""
        rows = sorted(self._rows, key=lambda row: row.lane.slot)
        self._append(rows, self._step([Feed(row.lane, row.draft.token_ids[-1:]) for row in rows]))

    def _step(self, feeds: list[Feed]) -> Output:
        self.counters.passes += 1
        return self.backend.step(feeds)

    def _append(self, rows: Sequence[Request], output: Output) -> None:
        """Sample a token for each row; answer the rows that it ends."""
        uniforms = [row.uniforms[len(row.draft.token_ids)] for row in rows]
        drawn = draw(output.logits, [row.sampling for row in rows], uniforms)
        values = [None] * len(rows) if output.values is None else output.values.float().tolist()
        self.counters.sampled_tokens += len(rows)
        for row, token, logprob, entropy, value in zip(rows, *drawn, values, strict=True):
            if math.isnan(entropy):
                raise Failure("policy", "the model's logits are not numbers (nan)")
            row.draft.add(token, logprob, entropy, value)
            finish = row.ended(row.draft.token_ids) or ("length" if len(row.draft.token_ids) >= row.room else None)
            if finish:
                self._answer(row, finish)

    def _answer(self, row: Request, finish: Finish) -> None:
        self._leave(row)
        row.draft.finish = finish
        self.counters.prefilled_tokens += row.draft.prefilled
        self.counters.replies += 1
        _settle(row.future, result=row.draft)

    def _leave(self, row: Request) -> None:
        self._rows.remove(row)
        row.lane.busy = False
        self.backend.rest(row.lane)

    def _fail(self, error: Exception) -> None:
        """Hand an error to everybody who waits, and forget all caches: nobody knows what state they are in."""
        with self._changed:
            unanswered = [*self._rows, *self._waiting]
            updates = list(self._updates) if self._stopped else []
            lanes = [*self._lanes, *(row.lane for row in unanswered)]
            self._waiting.clear()
        self._rows.clear()
        for lane in lanes:
            lane.busy = False
        self.backend.clear(lanes)
        for request in unanswered:
            _settle(request.future, error=error)
        for update in updates:
            _settle(update.future, error=error)


def _settle(future: Future[Any], *, result: Any = None, error: Exception | None = None) -> None:
    """Answer a future, unless it was cancelled in the meantime."""
    with contextlib.suppress(InvalidStateError):
        if error is not None:
            future.set_exception(error)
        else:
            future.set_result(result)


def _shared(old: list[int], new: list[int]) -> int:
    """Return the length of the common prefix."""
    size = min(len(old), len(new))
    if old[:size] == new[:size]:
        return size
    return next(index for index in range(size) if old[index] != new[index])


def packed(pending: Sequence[tuple[Request, list[int]]]) -> Iterator[list[tuple[Request, list[int]]]]:
    """Group rows of similar length, so that a pass stays under its allowances and pads little."""
    group: list[tuple[Request, list[int]]] = []
    seen = 0
    for item in sorted(pending, key=lambda item: (len(item[1]), item[0].lane.slot)):
        seen = max(seen, len(item[0].context_ids))
        tokens = len(item[1]) * (len(group) + 1)
        if group and (tokens > PREFILL_TOKENS or tokens * seen > MASK_CELLS):
            yield group
            group, seen = [], len(item[0].context_ids)
        group.append(item)
    if group:
        yield group


def _as_failure(error: Exception) -> Exception:
    """Name what is known to be infrastructure; leave everything else as it is."""
    if is_out_of_memory(error):
        return Failure("memory", f"the model's device is out of memory: {str(error).splitlines()[0]}")
    return error


def _serve(engine: Engine) -> None:
    with torch.inference_mode():
        while engine.round():
            pass
