"""The inner loop as one would write it without this package, to measure against."""

import torch
from scipy.optimize import linear_sum_assignment
from torch import Tensor, nn

from ..encoders import SetEncoder


class NaiveDecoder(nn.Module):
    """iDSPN with autograd, `torch.sort` and `torch.optim.SGD`, and the gradient of one step at the end."""

    def __init__(self, encoder: SetEncoder, size: int, dim: int, values: Tensor, known: int, clip: float | None):
        super().__init__()
        self.net, self.weight = encoder.net, encoder.pool.weight
        self.size, self.dim, self.values, self.known, self.clip = size, dim, values, known, clip

    def forward(self, z: Tensor, steps: int) -> Tensor:
        sets = self.minimise(z.detach(), steps - 1).detach().requires_grad_()
        (grad,) = torch.autograd.grad(self.loss(sets, z), sets, create_graph=True)
        step = self.project(sets.detach() - grad)
        return sets.detach() + (step - step.detach())

    def unrolled(self, z: Tensor, steps: int) -> Tensor:
        """DSPN: plain gradient descent with the whole way in the graph."""
        sets = self.project(0.1 * torch.randn(len(z), self.size, self.dim, device=z.device)).requires_grad_()
        for _ in range(steps):
            (grad,) = torch.autograd.grad(self.loss(sets, z), sets, create_graph=True)
            sets = self.project(sets - grad)
        return sets

    def minimise(self, z: Tensor, steps: int) -> Tensor:
        sets = self.project(0.1 * torch.randn(len(z), self.size, self.dim, device=z.device)).requires_grad_()
        optimizer = torch.optim.SGD([sets], lr=1.0, momentum=0.9, nesterov=True)
        for _ in range(steps):
            (grad,) = torch.autograd.grad(self.loss(sets, z), sets)
            if self.clip is not None:
                norm = grad.norm(dim=(1, 2), keepdim=True)
                grad = grad * (self.clip / (norm + 1e-6)).clamp(max=1)
            sets.grad = grad
            optimizer.step()
            sets.data = self.project(sets.data)
        return sets

    def loss(self, sets: Tensor, z: Tensor) -> Tensor:
        if self.known:
            sets = torch.cat([self.values[..., : self.known], sets[..., self.known :]], dim=-1)
        ranked = self.net(sets).sort(dim=1).values
        encoding = torch.einsum("bnc,nc->bc", ranked, self.weight)
        return 0.5 * (encoding - z).square().mean(dim=1).sum()

    def project(self, sets: Tensor) -> Tensor:
        if not self.known:
            return sets
        x = sets[..., self.known :]
        ranked = x.sort(dim=-1, descending=True).values
        count = torch.arange(1, x.shape[-1] + 1, device=x.device)
        thresholds = (ranked.cumsum(dim=-1) - 1) / count
        support = (ranked > thresholds).sum(dim=-1, keepdim=True)
        projected = (x - thresholds.gather(-1, support - 1)).relu()
        return torch.cat([sets[..., : self.known], projected], dim=-1)


def naive_hungarian_loss(prediction: Tensor, target: Tensor, cost: str, classes: Tensor | None) -> Tensor:
    """Every pair at once, then SciPy example by example."""
    if cost == "euclidean":
        pairs = (prediction.unsqueeze(2) - target.unsqueeze(1)).norm(dim=-1)
    else:
        a, b = torch.broadcast_tensors(prediction.unsqueeze(2), target.unsqueeze(1))
        pairs = nn.functional.smooth_l1_loss(a, b, reduction="none").mean(dim=-1)
    matched = pairs.detach()
    if classes is not None:
        matched = matched + 1e3 * (classes.unsqueeze(2) != classes.unsqueeze(1))
    total = prediction.new_zeros(())
    for example, costs in zip(pairs, matched.cpu().numpy(), strict=True):
        rows, columns = linear_sum_assignment(costs)
        total = total + example[rows, columns].mean()
    return total / len(prediction)
