// Whether f(PX) is Pf(X), which P₂ makes them agree where it is not, and a verdict over many multisets.
import { assign } from "./matching.js";
import { randn } from "./torchrandom.js";

const PERMUTATIONS = 4;

export const permuted = (rows, order) => order.map((from) => rows[from]);

// Both sides at one X and P. `p2` has P₂X = PX and P₂f(X) = f(PX); null where there is none.
export function compare(f, X, order) {
  const out = f(X);
  const ofPermuted = f(permuted(X, order));
  const tolerance = 1e-6 * Math.max(1, ...out.flat().map(Math.abs));
  const groups = groupsOf(X);
  const found = fitting(groups, order, out, ofPermuted, tolerance);
  const off = largest(order.map((from, place) => apart(ofPermuted[place], out[from])));
  return {
    out,
    ofPermuted,
    equal: off <= tolerance,
    p2: off <= tolerance ? order : found.deviation <= tolerance ? found.order : null,
    deviation: found.deviation,
    // Whether f(PX) holds the same elements as f(X) at all, though unequal ones have changed places.
    exchanged: found.deviation > tolerance && fitting(groups.map(() => 0), order, out, ofPermuted, tolerance).deviation <= tolerance,
  };
}

// The order within groups of equal elements that brings f(X) closest to f(PX).
function fitting(groups, order, out, ofPermuted, tolerance) {
  const found = new Array(order.length);
  for (const label of new Set(groups)) {
    const sources = groups.flatMap((own, i) => (own === label ? [i] : []));
    const places = order.flatMap((from, place) => (groups[from] === label ? [place] : []));
    const cost = places.map((place) => sources.map((source) => apart(ofPermuted[place], out[source])));
    // One pair beyond the tolerance must cost more than any number of pairs within it.
    const dear = 1 + cost.flat().reduce((sum, value) => sum + value, 0);
    assign(cost.map((row) => row.map((value) => value + (value > tolerance ? dear : 0)))).forEach((source, i) => {
      found[places[i]] = sources[source];
    });
  }
  return { order: found, deviation: largest(found.map((source, place) => apart(ofPermuted[place], out[source]))) };
}

// For each element the index of the first one equal to it.
export const groupsOf = (X) => X.map((element) => X.findIndex((other) => other.join() === element.join()));

// A verdict over multisets of n elements in which functions show what they are, and what was tried for it.
export function verdict(f, n, dim) {
  const tried = hardSets(n, dim).flatMap((X) => orders(n).map((order) => ({ X, order, ...compare(f, X, order) })));
  const failed = tried.filter(({ equal }) => !equal);
  const beyond = failed.filter(({ p2 }) => !p2);
  const words = !failed.length
    ? "set-equivariant (and so multiset-equivariant)"
    : !beyond.length
      ? "exclusively multiset-equivariant"
      : beyond.every(({ exchanged }) => exchanged)
        ? "multiset-equivariant but for elements that met on the way and changed places"
        : "neither set- nor multiset-equivariant";
  return { words, tried: tried.length, witness: (beyond.length ? beyond : failed)[0] ?? null };
}

// Random elements, duplicates, all equal, all zero, and small integers, which share some of their numbers.
function hardSets(n, dim) {
  const rows = (seed) => {
    const numbers = [...randn(seed, 16)];
    return Array.from({ length: n }, (_, i) => numbers.slice(i * dim, (i + 1) * dim));
  };
  const some = rows(1);
  return [
    some,
    some.map((_, i) => some[i >> 1]),
    some.map((_, i) => some[i % Math.max(1, n >> 1)]),
    some.map(() => some[0]),
    some.map((row) => row.map(() => 0)),
    rows(2).map((row) => row.map((value) => Math.sign(Math.round(value)))),
    rows(3).map((row) => row.map((value) => Math.round(2 * value))),
  ];
}

// The reversal, which reorders all equals, and some others.
function orders(n) {
  const all = [Array.from({ length: n }, (_, i) => n - 1 - i)];
  for (let seed = 1; seed < PERMUTATIONS; seed++) {
    const keys = randn(seed, 16);
    all.push([...all[0]].sort((a, b) => keys[a] - keys[b]));
  }
  return all;
}

const apart = (a, b) => largest(a.map((value, i) => Math.abs(value - b[i])));
const largest = (values) => Math.max(0, ...values);
