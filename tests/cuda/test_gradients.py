"""Gradients in bfloat16 on a GPU: whatever makes them faster leaves them as near to float32 as they were."""

import pytest
import torch

from docsplit_hf.encoding.compiled_layers import compile_layers
from docsplit_hf.encoding.portable.run_encoder import is_packed, use_packing
from docsplit_hf.pretraining.gradient_caching import RandomState
from docsplit_hf.pretraining.info_nce import in_batch_info_nce
from docsplit_hf.pretraining.model import model_inputs

from .conftest import DEVICE

pytestmark = pytest.mark.cuda


def gradients(model, batch, bf16=True):
    """All gradients of InfoNCE and MLM as one vector, in float64."""
    model.to(DEVICE).train().zero_grad()
    with torch.autocast(DEVICE, torch.bfloat16, enabled=bf16):
        output = model(**model_inputs(batch))
        contrastive = in_batch_info_nce(output.embeddings, batch["document_ids"], 0.05, "cosine")
        loss = contrastive.loss.mean() + 0.1 * output.mlm_loss
    loss.backward()
    found = [weights.grad.flatten() for weights in model.parameters() if weights.grad is not None]
    return torch.cat(found).double()


def distance(found, exact):
    return ((found - exact).norm() / exact.norm()).item()


@pytest.fixture
def padded(make_model):
    """A model that runs with padding."""
    model = make_model()
    use_packing(model, "off")
    return model


@pytest.fixture
def exact(padded, batch):
    """The gradients in float32."""
    return gradients(padded, batch, bf16=False)


def test_packed_gradients_are_as_exact_as_padded_ones(make_model, padded, batch, exact):
    packed = make_model()
    assert use_packing(packed, "on")
    noise = distance(gradients(padded, batch), exact)
    assert 0 < distance(gradients(packed, batch), exact) < 2 * noise < 0.2
    with torch.autocast(DEVICE, torch.bfloat16):
        assert is_packed(packed.base_model)


def test_gradients_in_float32_are_those_of_a_cpu(make_model, batch, exact):
    model = make_model()
    on_cpu = {name: values.cpu() for name, values in batch.items()}
    output = model.train()(**model_inputs(on_cpu))
    contrastive = in_batch_info_nce(output.embeddings, on_cpu["document_ids"], 0.05, "cosine")
    (contrastive.loss.mean() + 0.1 * output.mlm_loss).backward()
    found = [weights.grad.flatten() for weights in model.parameters() if weights.grad is not None]
    assert distance(torch.cat(found).double(), exact.cpu()) < 1e-4


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("packing", ["on", "off"])
def test_compiled_gradients_are_as_exact_as_others(make_model, batch, exact, packing):
    model = make_model()
    use_packing(model, packing)
    noise = distance(gradients(model, batch), exact)
    assert compile_layers(model) == 3
    torch._dynamo.utils.counters.clear()
    assert distance(gradients(model, batch), exact) < 2 * noise < 0.2
    assert torch._dynamo.utils.counters["stats"]["unique_graphs"] > 0


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_flash_attention_is_inside_the_compiled_graph(make_model, batch):
    model = make_model().to(DEVICE).train()
    use_packing(model, "on")
    layer = model.base_model.encoder.layer[0]
    calls = []
    hook = layer.register_forward_pre_hook(lambda _, args, kwargs: calls.append((args, kwargs)), with_kwargs=True)
    graphs = []

    def keep(graph, example_inputs):
        graphs.append(graph.code)
        return graph.forward

    with torch.autocast(DEVICE, torch.bfloat16):
        model(**model_inputs(batch))
        hook.remove()
        positional, named = calls[0]
        named = {name: value for name, value in named.items() if value is not None}
        torch.compile(layer, fullgraph=True, dynamic=True, backend=keep)(*positional, **named)
    assert len(graphs) == 1
    assert "_flash_attention_forward" in graphs[0]


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("is_compiled", [False, True])
def test_the_same_dropout_is_drawn_again_with_gradients(make_model, batch, is_compiled):
    model = make_model(dropout=0.1).to(DEVICE).train()
    use_packing(model, "on")
    if is_compiled:
        compile_layers(model)
    inputs = {name: batch[name] for name in ("input_ids", "attention_mask")}
    with torch.autocast(DEVICE, torch.bfloat16):
        state = RandomState(torch.device(DEVICE))
        with torch.no_grad():
            cached = model(**inputs).embeddings
        with state.replayed():
            again = model(**inputs).embeddings
        other = model(**inputs).embeddings
    assert (again - cached).norm() < 0.01 * (other - cached).norm()
