// The set encoders of the point models: Linear, ReLU, Linear on every element, then a pooling; and the gradient.
// Sets are flat arrays x0, y0, x1, y1, … of the elements that exist.
import { WEIGHTS } from "./weights.js";

class SetEncoder {
  constructor(weights, prefix, pooling) {
    const tensor = (name) => halves(weights[`${prefix}${name}`]);
    [this.first, this.firstBias, this.second, this.secondBias] =
      ["net.0.weight", "net.0.bias", "net.2.weight", "net.2.bias"].map(tensor);
    this.hidden = this.firstBias.length;
    this.latent = this.secondBias.length;
    this.dim = this.first.length / this.hidden;
    this.pooling = pooling;
    if (pooling === "fs") this.knots = tensor("pool.weight");
    // By columns: the loops below run along the rows of both.
    this.columns = transposed(this.second, this.latent, this.hidden);
  }

  // The weight of every element in every channel of the pooling.
  weights(features, n) {
    const { latent, pooling } = this;
    const weights = new Float64Array(n * latent);
    if (pooling !== "fs") return weights.fill(pooling === "mean" ? 1 / n : 1);
    const ranks = rankWeights(this.knots, latent, n);
    const order = new Int32Array(n);
    for (let c = 0; c < latent; c++) {
      // The largest first; equal values keep their order, as in PyTorch's stable sort.
      for (let i = 0; i < n; i++) {
        let place = i;
        while (place > 0 && features[order[place - 1] * latent + c] < features[i * latent + c]) {
          order[place] = order[place - 1];
          place -= 1;
        }
        order[place] = i;
      }
      for (let rank = 0; rank < n; rank++) weights[order[rank] * latent + c] = ranks[rank * latent + c];
    }
    return weights;
  }

  forward(set) {
    const { dim, hidden, latent } = this;
    const n = set.length / dim;
    const active = new Float64Array(n * hidden);
    const features = new Float64Array(n * latent);
    for (let i = 0; i < n; i++) {
      const out = features.subarray(i * latent, (i + 1) * latent);
      out.set(this.secondBias);
      for (let h = 0; h < hidden; h++) {
        let value = this.firstBias[h];
        for (let d = 0; d < dim; d++) value += this.first[h * dim + d] * set[i * dim + d];
        if (!(value > 0)) continue;
        active[i * hidden + h] = value;
        const row = h * latent;
        for (let c = 0; c < latent; c++) out[c] += value * this.columns[row + c];
      }
    }
    const weights = this.weights(features, n);
    const encoding = new Float64Array(latent);
    for (let k = 0; k < n * latent; k++) encoding[k % latent] += weights[k] * features[k];
    return { n, active, weights, encoding };
  }

  encode(set) {
    return this.forward(set).encoding;
  }

  // L = ½ mean (g(Y) − z)² and its gradient by Y.
  gradient(set, z) {
    const { dim, hidden, latent } = this;
    const { n, active, weights, encoding } = this.forward(set);
    const off = encoding.map((value, c) => value - z[c]);
    const grad = new Float64Array(n * dim);
    const back = new Float64Array(latent);
    for (let i = 0; i < n; i++) {
      for (let c = 0; c < latent; c++) back[c] = (off[c] * weights[i * latent + c]) / latent;
      for (let h = 0; h < hidden; h++) {
        if (!active[i * hidden + h]) continue;
        let value = 0;
        const row = h * latent;
        for (let c = 0; c < latent; c++) value += back[c] * this.columns[row + c];
        for (let d = 0; d < dim; d++) grad[i * dim + d] += value * this.first[h * dim + d];
      }
    }
    return { loss: off.reduce((sum, value) => sum + value * value, 0) / (2 * latent), grad };
  }
}

// A piecewise linear function of the relative rank, read at n ranks.
function rankWeights(knots, latent, n) {
  const last = knots.length / latent - 1;
  const weights = new Float64Array(n * latent);
  for (let rank = 0; rank < n; rank++) {
    const knot = (rank / Math.max(1, n - 1)) * last;
    const lower = Math.floor(knot);
    const upper = Math.min(lower + 1, last);
    for (let c = 0; c < latent; c++) {
      const from = knots[lower * latent + c];
      weights[rank * latent + c] = from + (knot - lower) * (knots[upper * latent + c] - from);
    }
  }
  return weights;
}

function transposed(matrix, rows, columns) {
  const turned = new Float64Array(matrix.length);
  for (let r = 0; r < rows; r++) for (let c = 0; c < columns; c++) turned[c * rows + r] = matrix[r * columns + c];
  return turned;
}

// Numbers of half precision in base64, two bytes each, the lower one first.
function halves(text) {
  const bytes = atob(text);
  return Float64Array.from({ length: bytes.length / 2 }, (_, i) => {
    const bits = bytes.charCodeAt(2 * i) | (bytes.charCodeAt(2 * i + 1) << 8);
    const exponent = (bits >> 10) & 31;
    const fraction = bits & 1023;
    const size = exponent ? (1 + fraction / 1024) * 2 ** (exponent - 15) : (fraction / 1024) * 2 ** -14;
    return bits >> 15 ? -size : size;
  });
}

const made = {};

// The two encoders of a model: `outer` makes z of a set, `inner` is the one that the decoder descends.
export function model(pool) {
  made[pool] ??= {
    outer: new SetEncoder(WEIGHTS[pool], "encoder.", "fs"),
    inner: new SetEncoder(WEIGHTS[pool], "decoder.encoder.", pool),
  };
  return made[pool];
}
