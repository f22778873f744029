"""A backend in one file: it computes the encoder's negated states."""

from transformers.modeling_outputs import BaseModelOutput

from docsplit_hf.encoding.backends.backend import Backend


class NegatingEngine:
    precision = "float32"
    key = "negated"

    def __init__(self, encoder):
        self._forward = encoder.forward

    def __call__(self, input_ids, **arguments):
        states = self._forward(input_ids=input_ids, **arguments).last_hidden_state
        return BaseModelOutput(last_hidden_state=-states)

    def save(self, folder):
        raise NotImplementedError


class ToyBackend(Backend):
    precisions = ("float32",)
    uses_accelerator = False

    def make_engine(self, encoder, tokenizer, pooling, precision, calibration_texts):
        return NegatingEngine(encoder.eval())
