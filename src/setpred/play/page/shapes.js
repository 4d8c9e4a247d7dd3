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

export function twins(n) {
  const some = random(Math.ceil(n / 2));
  return Array.from({ length: n }, (_, i) => [...some[i >> 1]]);
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

// n points evenly along the strokes of a digit.
export function digit(which, n) {
  const segments = DIGITS[which % 10].flatMap((stroke) => stroke.slice(1).map((end, i) => [stroke[i], end]));
  const lengths = segments.map(([a, b]) => Math.hypot(b[0] - a[0], b[1] - a[1]));
  const total = lengths.reduce((sum, length) => sum + length, 0);
  return Array.from({ length: n }, (_, i) => {
    let rest = (total * (i + 0.5)) / n;
    let k = 0;
    while (k < lengths.length - 1 && rest > lengths[k]) rest -= lengths[k++];
    const [a, b] = segments[k];
    const share = lengths[k] ? rest / lengths[k] : 0;
    return [round(1.25 * (a[0] + share * (b[0] - a[0]))), round(1.25 * (a[1] + share * (b[1] - a[1])))];
  });
}
