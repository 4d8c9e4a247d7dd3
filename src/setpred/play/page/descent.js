// The inner optimisation: Nesterov's method on the encoding of a set, every iterate judged against the set sought.
import { model } from "./encoder.js";
import { match } from "./matching.js";
import { randn } from "./torchrandom.js";

export const POOLS = ["fs", "sum", "mean"];
export const SIZE = 16;
const LOST = 1e4; // farther out an iterate has diverged, though it may still be a number

// The iterates of a descent as flat arrays, with the inner loss of each; `steps` of them after the start.
export function descend({ inner }, z, start, { iterations, momentum, step }) {
  const set = Float64Array.from(start);
  const velocity = new Float64Array(set.length);
  const sets = [];
  const losses = [];
  for (let t = 0; t <= iterations; t++) {
    const { loss, grad } = inner.gradient(set, z);
    sets.push(Float64Array.from(set));
    losses.push(loss);
    for (let k = 0; k < set.length; k++) {
      velocity[k] = grad[k] + momentum * velocity[k];
      set[k] -= step * (grad[k] + momentum * velocity[k]);
    }
  }
  return { sets, losses };
}

// The descent of one model for a set of points: frames, inner loss, set error and pairs; null where it has diverged.
export function decode(pool, { points, iterations, momentum, step, spread, seed }) {
  const { outer } = model(pool);
  const start = randn(seed, 2 * SIZE).slice(0, 2 * points.length).map((value) => Math.fround(spread) * value);
  const { sets, losses } = descend(model(pool), outer.encode(points.flat()), start, { iterations, momentum, step });
  const answer = { frames: [], inner: [], error: [], pairs: [] };
  sets.forEach((set, t) => {
    const fine = Number.isFinite(losses[t]) && set.every((value) => Math.abs(value) < LOST);
    const frame = points.map((_, i) => (fine ? [set[2 * i], set[2 * i + 1]] : [null, null]));
    const { pairs, error } = fine ? match(frame, points) : { pairs: [], error: null };
    answer.frames.push(frame);
    answer.inner.push(fine ? losses[t] : null);
    answer.error.push(error);
    answer.pairs.push(pairs);
  });
  return answer;
}

export const decodeAll = (request) => Object.fromEntries(POOLS.map((pool) => [pool, decode(pool, request)]));
