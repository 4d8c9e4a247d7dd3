// The one-to-one match of two sets at the least total cost, and that cost: the Hungarian loss.

// For each prediction the target it is matched with, and the mean cost of the pairs.
export function match(prediction, target) {
  const cost = prediction.map((point) => target.map((goal) => huber(point, goal)));
  const pairs = assign(cost);
  return { pairs, error: pairs.reduce((sum, j, i) => sum + cost[i][j], 0) / pairs.length };
}

const huber = (a, b) =>
  a.reduce((sum, value, axis) => {
    const apart = Math.abs(value - b[axis]);
    return sum + (apart < 1 ? 0.5 * apart * apart : apart - 0.5);
  }, 0) / a.length;

// Shortest augmenting paths on a square matrix of costs: for each row its column.
export function assign(cost) {
  const n = cost.length;
  const rowPrice = new Float64Array(n + 1);
  const columnPrice = new Float64Array(n + 1);
  const rowOf = new Int32Array(n + 1).fill(n); // column n is where each path begins, row n is none
  for (let row = 0; row < n; row++) {
    const least = new Float64Array(n + 1).fill(Infinity);
    const before = new Int32Array(n + 1).fill(n);
    const seen = new Uint8Array(n + 1);
    let column = n;
    rowOf[n] = row;
    while (rowOf[column] !== n) {
      seen[column] = 1;
      const from = rowOf[column];
      let next = -1;
      for (let j = 0; j < n; j++) {
        if (seen[j]) continue;
        const reduced = cost[from][j] - rowPrice[from] - columnPrice[j];
        if (reduced < least[j]) {
          least[j] = reduced;
          before[j] = column;
        }
        if (next < 0 || least[j] < least[next]) next = j;
      }
      const by = least[next];
      for (let j = 0; j <= n; j++) {
        if (seen[j]) {
          rowPrice[rowOf[j]] += by;
          columnPrice[j] -= by;
        } else least[j] -= by;
      }
      column = next;
    }
    while (column !== n) {
      rowOf[column] = rowOf[before[column]];
      column = before[column];
    }
    rowOf[n] = n;
  }
  const columnOf = new Array(n);
  for (let j = 0; j < n; j++) columnOf[rowOf[j]] = j;
  return columnOf;
}
