// Functions of multisets for the equivariance lab: each as JavaScript, which is shown, and as the Python code of the same.
import { descend } from "./descent.js";
import { model } from "./encoder.js";

// The rank of each element of scalars in ascending order; equal ones keep their order.
function ranks(X) {
  const order = X.map((_, i) => i).sort((a, b) => X[a][0] - X[b][0] || a - b);
  return order.reduce((found, element, rank) => ((found[element] = rank), found), []);
}

const ascending = (rank, n) => -1 + (2 * rank) / (n - 1);

// Ten iterations of a decoder as a function of its initial set; the set sought is a ring.
const decoder = (pool) => (X) => {
  const ring = X.flatMap((_, i) => [Math.cos((2 * Math.PI * i) / X.length), Math.sin((2 * Math.PI * i) / X.length)]);
  const { outer } = model(pool);
  const settings = { iterations: 10, momentum: 0.9, step: 1 };
  const last = descend(model(pool), outer.encode(ring), X.flat(), settings).sets.at(-1);
  return X.map((_, i) => [last[2 * i], last[2 * i + 1]]);
};
const decoderCode = (pool) => `from copy import deepcopy
from setpred.play import pretrained

model = deepcopy(pretrained("points-${pool}")).double()  # in float64 rounding decides nothing
inner = sp.SetDecoder(model.decoder.encoder, solver=sp.Nesterov(steps=10))


@torch.no_grad()
def f(start):  # the decoder, as a function of its initial set; z is that of a ring
    angle = torch.arange(start.shape[1], dtype=torch.float64) * 2 * torch.pi / start.shape[1]
    ring, mask = sp.pad_sets([torch.stack([angle.cos(), angle.sin()], dim=1)] * len(start), size=16)
    start = torch.nn.functional.pad(start, (0, 0, 0, 16 - start.shape[1]))
    return inner.solve(model.encode(ring, mask), mask, init=start).sets[:, : int(mask[0].sum())]

`;

export const FUNCTIONS = {
  push_apart: {
    title: "push_apart",
    about: "The smallest element moves down by 1, the largest up by 1, those between by less. Of equal ones the first is the smaller.",
    dim: 1,
    code: "f = sp.equivariance.push_apart",
    f: (X) => ranks(X).map((rank, i) => [X[i][0] + ascending(rank, X.length)]),
  },
  sort_jacobian: {
    title: "Jacobian of sorting",
    about: "The gradient of a sort: each element gets its rank, as a row with a single 1. The height of a ball is its rank.",
    dim: 1,
    code: "f = sp.equivariance.sort_jacobian",
    f: (X) => ranks(X).map((rank) => X.map((_, place) => Number(place === rank))),
  },
  deepsets: {
    title: "DeepSets layer",
    about: "Every element is mixed with the mean of the set. Equal elements get equal values.",
    dim: 1,
    code: "f = lambda X: torch.tanh(1.5 * X - X.mean(dim=1, keepdim=True))\n",
    f: (X) => {
      const mean = X.reduce((sum, [x]) => sum + x, 0) / X.length;
      return X.map(([x]) => [Math.tanh(1.5 * x - mean)]);
    },
  },
  running_total: {
    title: "running total",
    about: "Every element is added to those before it, so the order decides everything.",
    dim: 1,
    code: "f = lambda X: X.cumsum(dim=1)\n",
    f: (X) => X.reduce((sums, [x]) => [...sums, [(sums.at(-1)?.[0] ?? 0) + x]], []),
  },
  fs: {
    title: "decoder with FSPool",
    about: "Ten iterations of the decoder, from these points towards a ring. It sorts, so equal points part.",
    dim: 2, code: decoderCode("fs"), f: decoder("fs"),
  },
  sum: {
    title: "decoder with sum pooling",
    about: "Ten iterations of the decoder, from these points towards a ring. Equal points have equal gradients and stay equal.",
    dim: 2, code: decoderCode("sum"), f: decoder("sum"),
  },
  mean: {
    title: "decoder with mean pooling",
    about: "Ten iterations of the decoder, from these points towards a ring. Equal points have equal gradients and stay equal.",
    dim: 2, code: decoderCode("mean"), f: decoder("mean"),
  },
};
