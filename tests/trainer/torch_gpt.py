"""pawl-train's GPT in PyTorch: GPT-2 with layer norms before attention and before the MLP, gelu by tanh, and weights of linear layers
[inputs, outputs] under the names of the Hugging Face layout. Needs torch.
"""

import dataclasses

import torch
import torch.nn.functional as functional


@dataclasses.dataclass(frozen=True)
class Shape:
    """As the keys of `model` (docs/trainer.md)."""

    layers: int
    heads: int
    channels: int
    context: int
    vocabulary: int
    tied: bool = False

    def tensors(self):
        """Names and shapes, in the order in which pawl-train has them."""
        c = self.channels
        yield "transformer.wte.weight", (self.vocabulary, c)
        yield "transformer.wpe.weight", (self.context, c)
        for layer in range(self.layers):
            block = f"transformer.h.{layer}."
            for norm, linears in (("ln_1", (("attn.c_attn", c, 3 * c), ("attn.c_proj", c, c))),
                                  ("ln_2", (("mlp.c_fc", c, 4 * c), ("mlp.c_proj", 4 * c, c)))):
                yield f"{block}{norm}.weight", (c,)
                yield f"{block}{norm}.bias", (c,)
                for name, inputs, outputs in linears:
                    yield f"{block}{name}.weight", (inputs, outputs)
                    yield f"{block}{name}.bias", (outputs,)
        yield "transformer.ln_f.weight", (c,)
        yield "transformer.ln_f.bias", (c,)
        if not self.tied:
            yield "lm_head.weight", (self.vocabulary, c)


def token_losses(shape, p, inputs, targets):
    """[samples, context], in nats; `inputs` and `targets` are token ids of the same form, `p` the parameters by name."""
    x = p["transformer.wte.weight"][inputs] + p["transformer.wpe.weight"]

    def norm(name, x):
        return functional.layer_norm(x, (shape.channels,), p[name + ".weight"], p[name + ".bias"], 1e-5)

    def linear(name, x):
        return x @ p[name + ".weight"] + p[name + ".bias"]

    for layer in range(shape.layers):
        block = f"transformer.h.{layer}."
        qkv = linear(block + "attn.c_attn", norm(block + "ln_1", x))
        q, k, v = (part.unflatten(2, (shape.heads, -1)).transpose(1, 2) for part in qkv.split(shape.channels, dim=2))
        attention = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + linear(block + "attn.c_proj", attention.transpose(1, 2).reshape(x.shape))
        up = functional.gelu(linear(block + "mlp.c_fc", norm(block + "ln_2", x)), approximate="tanh")
        x = x + linear(block + "mlp.c_proj", up)
    head = p["transformer.wte.weight" if shape.tied else "lm_head.weight"]
    logits = norm("transformer.ln_f", x) @ head.T
    return functional.cross_entropy(logits.transpose(1, 2), targets, reduction="none")


def groups(p, weight_decay):
    """Weight decay is for matrices."""
    return [{"params": [value for value in p.values() if value.dim() > 1], "weight_decay": weight_decay},
            {"params": [value for value in p.values() if value.dim() == 1], "weight_decay": 0.0}]
