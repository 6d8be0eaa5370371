// DIN in plain JavaScript (DIN eq. 3): the prediction of `reporting/playable_din.py`'s model, and the controls around it.
function readDin(description) {
  const bytes = Uint8Array.from(atob(description.parameters), character => character.charCodeAt(0));
  const numbers = new DataView(bytes.buffer);
  let offset = 0;
  const take = count => Float64Array.from({length: count}, () => {
    offset += 4;
    return numbers.getFloat32(offset - 4, true);
  });
  const parametersOf = {prelu: ["slope"], dice: ["mean", "deviation", "slope"]};
  const layers = shapes => shapes.map(shape => {
    const layer = {...shape, weight: take(shape.outputs * shape.inputs), bias: take(shape.outputs)};
    for (const name of parametersOf[shape.activation] || []) layer[name] = take(shape.outputs);
    return layer;
  });
  const items = description.items.map(() => take(description.width));
  const others = take(description.others);
  return {...description, vectors: items, otherFields: others, attention: layers(description.attention), mlp: layers(description.mlp)};
}

const sigmoid = x => 1 / (1 + Math.exp(-x));

function activate(layer, x, channel) {
  switch (layer.activation) {
    case "relu": return Math.max(x, 0);
    case "sigmoid": return sigmoid(x);
    case "prelu": return x > 0 ? x : layer.slope[channel] * x;
    case "dice": {
      const p = sigmoid((x - layer.mean[channel]) / layer.deviation[channel]);
      return p * x + (1 - p) * layer.slope[channel] * x;
    }
    default: return x;
  }
}

const applyLayers = (layers, input) => layers.reduce((x, layer) => Float64Array.from({length: layer.outputs}, (_, row) => {
  let sum = layer.bias[row];
  for (let column = 0; column < layer.inputs; column++) sum += layer.weight[row * layer.inputs + column] * x[column];
  return activate(layer, sum, row);
}), input);

// history: indices of items; candidate: index of an item. Returns the CTR and the attention weight of each behaviour.
function predictDin(din, history, candidate) {
  const target = din.vectors[candidate];
  const shared = din.behavior.map(column => target[column]);
  const behaviors = history.map(item => din.behavior.map(column => din.vectors[item][column]));
  let weights = behaviors.map(behavior => applyLayers(din.attention, [
    ...behavior, ...shared, ...behavior.map((value, k) => value * shared[k]),
    ...(din.difference ? behavior.map((value, k) => value - shared[k]) : []),
  ])[0]);
  if (din.normalize === "softmax" && weights.length) {
    const scaled = weights.map(weight => weight / Math.sqrt(shared.length));
    const largest = Math.max(...scaled);
    const powers = scaled.map(weight => Math.exp(weight - largest));
    const total = powers.reduce((sum, power) => sum + power, 0);
    weights = powers.map(power => power / total);
  }
  const interest = shared.map((_, k) => behaviors.reduce((sum, behavior, j) => sum + weights[j] * behavior[k], 0));
  return {ctr: sigmoid(applyLayers(din.mlp, [...interest, ...target, ...din.otherFields])[0]), weights};
}

function showDin(description) {
  const din = readDin(description);
  const element = name => document.getElementById(`din-${name}`);
  const make = (tag, text, properties = {}) => Object.assign(document.createElement(tag), {textContent: text}, properties);
  const percent = share => `${(100 * share).toFixed(1)}%`;
  const fixed = (value, digits, positive = "") => `${value < 0 ? "−" : positive}${Math.abs(value).toFixed(digits)}`;
  let history = [...din.history];
  for (const select of [element("candidate"), element("item")]) {
    select.append(...din.items.map((name, index) => make("option", name, {value: index})));
  }
  element("candidate").value = din.candidate;

  function historyRow(item, index, result, largest) {
    const weight = result.weights[index];
    const without = predictDin(din, history.filter((_, other) => other !== index), Number(element("candidate").value));
    const row = document.createElement("tr");
    const bar = make("span", "", {className: weight < 0 ? "bar negative" : "bar"});
    bar.style.width = `${largest ? 100 * Math.abs(weight) / largest : 0}%`;
    bar.setAttribute("aria-hidden", "true");
    const attention = make("td", fixed(weight, 3));
    attention.append(bar);
    const remove = make("button", "×", {type: "button"});
    remove.setAttribute("aria-label", `Remove ${din.items[item]}`);
    remove.addEventListener("click", () => {
      history.splice(index, 1);
      update();
      const buttons = element("history").querySelectorAll("button");
      (buttons[Math.min(index, buttons.length - 1)] || element("item")).focus();
    });
    const last = document.createElement("td");
    last.append(remove);
    const heading = make("th", din.items[item]);
    heading.scope = "row";
    row.append(heading, attention, make("td", fixed(100 * (result.ctr - without.ctr), 2, "+")), last);
    return row;
  }

  function update() {
    const candidate = Number(element("candidate").value);
    const result = predictDin(din, history, candidate);
    const largest = Math.max(0, ...result.weights.map(Math.abs));
    element("ctr").textContent = percent(result.ctr);
    element("without").textContent = `(without any behaviour ${percent(predictDin(din, [], candidate).ctr)})`;
    element("history").replaceChildren(...history.map((item, index) => historyRow(item, index, result, largest)));
    element("add").disabled = history.length >= din.max_history;
    const ranked = din.items.map((name, item) => [predictDin(din, history, item).ctr, name]).sort((a, b) => b[0] - a[0]);
    element("best").replaceChildren(...ranked.slice(0, 5).map(([ctr, name]) => make("li", `${name}: ${percent(ctr)}`)));
  }

  element("candidate").addEventListener("change", update);
  element("add").addEventListener("click", () => { history.push(Number(element("item").value)); update(); });
  element("reset").addEventListener("click", () => { history = [...din.history]; update(); });
  element("clear").addEventListener("click", () => { history = []; update(); });
  update();
}

if (typeof playable !== "undefined") showDin(playable);
