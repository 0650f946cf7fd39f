"use strict";
// Steps through recorded episodes. Everything is put into the page as text.
(() => {
  const source = document.getElementById("player-data");
  if (!source) return;
  const episodes = JSON.parse(source.textContent);
  const part = (name) => document.getElementById(`player-${name}`);
  const COLUMNS = { entropy: 1, logprob: 2, value: 3, advantage: 4 };
  const UNITS = { entropy: "nats", logprob: "nats", value: "reward", advantage: "reward" };
  const state = { episode: 0, turn: 0, timer: null };

  const element = (tag, text, className) => {
    const made = document.createElement(tag);
    if (text !== undefined) made.textContent = text;
    if (className) made.className = className;
    return made;
  };
  const number = (value) => (value === null || value === undefined ? "–" : String(value).replace("-", "−"));
  const outcome = (episode) =>
    episode.failure ? "broken" : episode.success === null ? "no verdict" : episode.success ? "solved" : "failed";

  const fillMenu = () => {
    const groups = new Map();
    episodes.forEach((episode, index) => {
      if (!groups.has(episode.run)) {
        groups.set(episode.run, element("optgroup"));
        groups.get(episode.run).label = episode.run;
      }
      const updates = episode.turns.length ? episode.turns[0].version : 0;
      const when = updates ? ` · after ${updates} updates` : "";
      const name = `${outcome(episode)} · ${episode.turns.length} turns · reward ${number(episode.reward)}${when} · ${episode.key}`;
      const option = element("option", name);
      option.value = index;
      groups.get(episode.run).append(option);
    });
    part("episode").append(...groups.values());
  };

  // Strength of the colour: the token's share of the largest in this episode; 0.6 at most, so that text stays readable.
  const strengths = (episode, name) => {
    const column = COLUMNS[name];
    const values = episode.turns.flatMap((turn) =>
      turn.reply.flatMap((piece) => (piece.tokens || []).map((token) => Math.abs(token[column] ?? 0))));
    const largest = Math.max(1e-9, ...values.slice(0, 60000));
    return { largest, of: (value) => (value === null ? 0 : (0.6 * Math.abs(value)) / largest) };
  };

  const describe = (token) => [
    `entropy ${number(token[1])} nats`,
    `probability ${token[2] === null ? "–" : `${(100 * Math.exp(token[2])).toPrecision(3)} %`}`,
    ...(token[3] === null ? [] : [`value ${number(token[3])}`]),
    ...(token[4] === null ? [] : [`advantage ${number(token[4])}`]),
  ].join(", ");

  const showReply = (turn, name, scale) => {
    const box = part("reply");
    box.replaceChildren();
    for (const piece of turn.reply) {
      const span = element("span", undefined, piece.thought ? "thought" : "said");
      if (piece.thought) span.append(element("span", "thinking", "mark"));
      for (const token of piece.tokens || []) {
        const shown = element("span", token[0], "token");
        const value = token[COLUMNS[name]];
        shown.style.setProperty("--strength", `${(100 * scale.of(value)).toFixed(1)}%`);
        if (value < 0 && name === "advantage") shown.classList.add("negative");
        shown.title = describe(token);
        span.append(shown);
      }
      if (!piece.tokens) span.append(piece.text);
      box.append(span);
    }
    const traced = turn.reply.some((piece) => (piece.tokens || []).some((token) => token[COLUMNS[name]] !== null));
    part("legend").textContent = traced
      ? `Colour: ${name === "logprob" ? "−log p" : name} of each token, the strongest ${number(Number(scale.largest.toPrecision(3)))} ${UNITS[name]} in this episode; point at a token for its numbers.`
      : `No ${name === "logprob" ? "probabilities" : name} per token to show for this reply.`;
  };

  const showNumbers = (turn) => {
    const terms = Object.entries(turn.terms).map(([name, value]) => `${name} ${number(value)}`).join(", ");
    const facts = [
      ["action", turn.action], ["valid", turn.valid ? "yes" : "no"], ["reward", number(turn.reward)],
      ["terms", terms || "–"], ["value", number(turn.value)], ["advantage", number(turn.advantage)],
      ["entropy, nats", number(turn.entropy)], ["tokens", turn.tokens + (turn.cut ? " (cut off)" : "")],
      ["reply took", `${number(turn.seconds[0])} s`], ["environment took", `${number(turn.seconds[1])} s`],
    ];
    const shown = facts.filter(([, value]) => value !== "–").map(([name, value]) => {
      const row = element("div");
      row.append(element("dt", name), element("dd", value));
      return row;
    });
    part("numbers").replaceChildren(...shown);
  };

  const showStrip = (episode) => {
    const largest = Math.max(1e-9, ...episode.turns.map((turn) => turn.entropy ?? 0));
    const buttons = episode.turns.map((turn, index) => {
      const button = element("button", String(index + 1));
      button.type = "button";
      const sign = turn.reward > 0 ? "gain" : turn.reward < 0 ? "loss" : "nothing";
      button.className = `${sign}${turn.valid ? "" : " invalid"}`;
      button.style.setProperty("--height", `${((100 * (turn.entropy ?? 0)) / largest).toFixed(0)}%`);
      button.title = `reward ${number(turn.reward)}${turn.valid ? "" : ", invalid action"}, entropy ${number(turn.entropy)}`;
      button.addEventListener("click", () => go(index));
      return button;
    });
    const end = element("button", "end");
    end.type = "button";
    end.addEventListener("click", () => go(episode.turns.length));
    part("strip").replaceChildren(...buttons, end);
  };

  const show = () => {
    const episode = episodes[state.episode];
    const total = episode.turns.length;
    [...part("strip").children].forEach((button, index) => {
      button.toggleAttribute("aria-current", index === state.turn);
      if (index === state.turn) button.setAttribute("aria-current", "step");
    });
    const isEnd = state.turn >= total;
    part("where").textContent = isEnd ? `the end, after ${total} turns` : `turn ${state.turn + 1} of ${total}`;
    part("left").textContent = isEnd ? "Last observation" : "Observation";
    part("observation").textContent = isEnd ? episode.final : episode.turns[state.turn].observation;
    part("right").hidden = part("reply").hidden = part("numbers").hidden = part("legend").hidden = isEnd;
    for (const name of ["first", "back"]) part(name).disabled = state.turn === 0;
    for (const name of ["next", "last"]) part(name).disabled = isEnd;
    if (isEnd) return pause();
    const name = part("shade").value;
    showReply(episode.turns[state.turn], name, strengths(episode, name));
    showNumbers(episode.turns[state.turn]);
  };

  const go = (turn) => {
    state.turn = Math.max(0, Math.min(turn, episodes[state.episode].turns.length));
    show();
  };

  const open = (index) => {
    pause();
    state.episode = index;
    const episode = episodes[index];
    const facts = [outcome(episode), `end: ${episode.end}`, `reward ${number(episode.reward)}`, `task ${episode.task}`,
      `seed ${episode.seed}`, `trial ${episode.trial}`];
    part("facts").textContent = facts.join(" · ") + (episode.failure ? ` · ${episode.failure}` : "");
    part("facts").className = `facts ${outcome(episode).replace(" ", "-")}`;
    showStrip(episode);
    go(0);
  };

  const pause = () => {
    clearInterval(state.timer);
    state.timer = null;
    part("play").textContent = "play";
    part("play").setAttribute("aria-pressed", "false");
  };
  const play = () => {
    if (state.turn >= episodes[state.episode].turns.length) go(0);
    state.timer = setInterval(() => go(state.turn + 1), 900);
    part("play").textContent = "pause";
    part("play").setAttribute("aria-pressed", "true");
  };

  fillMenu();
  part("episode").addEventListener("change", () => open(Number(part("episode").value)));
  part("shade").addEventListener("change", show);
  part("first").addEventListener("click", () => go(0));
  part("back").addEventListener("click", () => go(state.turn - 1));
  part("next").addEventListener("click", () => go(state.turn + 1));
  part("last").addEventListener("click", () => go(Infinity));
  part("play").addEventListener("click", () => (state.timer ? pause() : play()));
  document.getElementById("player").addEventListener("keydown", (event) => {
    if (event.target.matches("select")) return;
    if (event.key === "ArrowRight") go(state.turn + 1);
    else if (event.key === "ArrowLeft") go(state.turn - 1);
    else return;
    event.preventDefault();
  });
  open(0);
})();
