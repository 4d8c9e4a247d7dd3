// The Python code that makes what a page shows, to copy.

export function pointsCode({ points, iterations, momentum, step, spread, seed }) {
  return `import torch
import setpred as sp
from setpred.play import pretrained

model = pretrained("points-fs")  # or points-sum, points-mean
points = torch.tensor(${rows(points)})
sets, mask = sp.pad_sets([points], size=16)

start = ${spread} * torch.randn(16, 2, generator=torch.Generator().manual_seed(${seed}))
solver = sp.Nesterov(steps=${iterations}, lr=${step}, momentum=${momentum})
decoder = sp.SetDecoder(model.decoder.encoder, solver=solver)
solution = decoder.solve(model.encode(sets, mask), mask, init=start, trace=True)

found = solution.sets[0, : len(points)]
print(found)
print("inner loss", solution.loss.item())
print("set error", sp.hungarian_loss(found[None], points[None]).item())
`;
}

export function labCode(define, X, order) {
  return `import torch
import setpred as sp

${define}
X = torch.tensor(${rows(X)}, dtype=torch.float64)
P = torch.tensor([${order.join(", ")}])

print("f(PX) =", f(X[P][None])[0])
print("Pf(X) =", f(X[None])[0][P])
report = sp.equivariance.check(f, X, permutations=P[None])
print("P2 =", P if report.witness is None else report.witness.p2)
print(sp.equivariance.check(f, sp.equivariance.hard_sets(size=${X.length}, dim=${X[0].length}, copies=1)))
`;
}

// Rows of floats: [[0.0, 1.5], [2.0, 3.0]].
const rows = (values) => `[${values.map((row) => `[${row.map(float).join(", ")}]`).join(", ")}]`;
const float = (value) => (Number.isInteger(value) ? value.toFixed(1) : String(value));
