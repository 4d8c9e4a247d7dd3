// Sets of points to begin with.
const round = (value) => Math.round(value * 1000) / 1000 + 0;

function normal() {
  return Math.sqrt(-2 * Math.log(1 - Math.random())) * Math.cos(2 * Math.PI * Math.random());
}

export const inside = (value) => round(Math.max(-2.8, Math.min(2.8, value)));

export const random = (n) => Array.from({ length: n }, () => [inside(normal()), inside(normal())]);

export const ring = (n) =>
  Array.from({ length: n }, (_, i) => {
    const angle = (2 * Math.PI * i) / n + Math.PI / 2;
    return [round(1.6 * Math.cos(angle)), round(1.6 * Math.sin(angle))];
  });

// Every point twice.
export const doubled = (points) => points.flatMap((point) => [[...point], [...point]]);

// A shape made of these points: n of them are the first n, and new ones where there are not enough.
export function kept(points) {
  const all = points.map((point) => [...point]);
  return (n) => {
    while (all.length < n) all.push(...random(1));
    return all.slice(0, n).map((point) => [...point]);
  };
}

// n points evenly along strokes, each a list of places.
export function along(strokes, n) {
  const segments = strokes.flatMap((stroke) => stroke.slice(1).map((end, i) => [stroke[i], end]));
  const lengths = segments.map(([a, b]) => Math.hypot(b[0] - a[0], b[1] - a[1]));
  const total = lengths.reduce((sum, length) => sum + length, 0);
  return Array.from({ length: n }, (_, i) => {
    let rest = (total * (i + 0.5)) / n;
    let k = 0;
    while (k < lengths.length - 1 && rest > lengths[k]) rest -= lengths[k++];
    const [a, b] = segments[k];
    const fraction = lengths[k] ? rest / lengths[k] : 0;
    return [inside(a[0] + fraction * (b[0] - a[0])), inside(a[1] + fraction * (b[1] - a[1]))];
  });
}

// Strokes in a box of 2 by 3, y upwards.
const arc = (cx, cy, rx, ry, from, to) =>
  Array.from({ length: 17 }, (_, i) => {
    const angle = ((from + ((to - from) * i) / 16) * Math.PI) / 180;
    return [cx + rx * Math.cos(angle), cy + ry * Math.sin(angle)];
  });
const DIGITS = [
  [arc(0, 0, 1, 1.5, 90, 450)],
  [[[-0.6, 0.9], [0, 1.5], [0, -1.5]]],
  [[...arc(0, 0.6, 0.9, 0.9, 160, -40), [-0.9, -1.5], [0.95, -1.5]]],
  [[...arc(0, 0.75, 0.85, 0.75, 150, -90), ...arc(0, -0.75, 0.95, 0.75, 90, -150)]],
  [[[0.5, -1.5], [0.5, 1.5], [-0.9, -0.5], [1, -0.5]]],
  [[[0.85, 1.5], [-0.7, 1.5], [-0.8, 0.2], ...arc(0, -0.6, 0.95, 0.9, 120, -150)]],
  [[...arc(0.5, 0.2, 1.4, 1.3, 95, 180), ...arc(0, -0.6, 0.9, 0.9, 180, 540)]],
  [[[-0.9, 1.5], [0.9, 1.5], [-0.3, -1.5]]],
  [arc(0, 0.75, 0.75, 0.75, 270, 630), arc(0, -0.75, 0.95, 0.75, 90, 450)],
  [[...arc(0, 0.6, 0.9, 0.9, 0, 360), ...arc(-0.5, 0.4, 1.4, 1.9, 0, -75)]],
];

// n points along the strokes of a digit.
export const digit = (which, n) =>
  along(DIGITS[which % 10].map((stroke) => stroke.map(([x, y]) => [1.25 * x, 1.25 * y])), n);
