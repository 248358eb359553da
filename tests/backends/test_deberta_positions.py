import pytest
import torch
from transformers import (
    DebertaConfig,
    DebertaForSequenceClassification,
    DebertaV2Config,
    DebertaV2ForSequenceClassification,
)

from coe_agents.backends.entailment_transformers import short_positions

SMALL = {"vocab_size": 50, "hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 16}
RELATIVE = {"relative_attention": True, "pos_att_type": ["p2c", "c2p"], "position_biased_input": False}
V3 = {**SMALL, **RELATIVE, "position_buckets": 16, "max_position_embeddings": 64, "norm_rel_ebd": "layer_norm"}


def model_of(**options):
    torch.manual_seed(0)
    model = DebertaV2ForSequenceClassification(DebertaV2Config(**{**V3, "share_att_key": True, **options})).eval()
    for weights in model.parameters():
        torch.nn.init.normal_(weights)  # fresh ones are near 0, and a wrong position would not show in the logits
    return model


def logits_of(model, n_tokens):
    ids = torch.randint(1, 50, (3, n_tokens), generator=torch.Generator().manual_seed(n_tokens))
    mask = torch.ones_like(ids)
    mask[1, n_tokens // 2 :] = 0
    with torch.inference_mode():
        return model(input_ids=ids, attention_mask=mask).logits


@pytest.mark.parametrize("options", [{}, {"share_att_key": False}, {"position_buckets": -1}, {"conv_kernel_size": 3}])
@pytest.mark.parametrize("n_tokens", [1, 2, 5, 9])
def test_the_logits_are_those_of_all_positions(options, n_tokens):
    if n_tokens == 9 and "position_buckets" not in options:
        options = {**options, "position_buckets": 20}
    model = model_of(**options)
    expected = logits_of(model, n_tokens)
    with short_positions(model, n_tokens) as left:
        assert left == n_tokens
        assert model.deberta.encoder.get_rel_embedding().shape == (2 * n_tokens, 16)
        assert torch.allclose(logits_of(model, n_tokens), expected, atol=1e-3)
    assert torch.equal(logits_of(model, n_tokens), expected)


def test_the_longest_text_whose_positions_share_no_bucket_is_cut_and_a_longer_one_is_not():
    model = model_of()  # 16 buckets on each side: up to a distance of 8 each position has its own
    for n_tokens, left in ((9, 9), (10, None), (40, None)):
        expected = logits_of(model, n_tokens)
        with short_positions(model, n_tokens) as found:
            assert found == left
            assert torch.allclose(logits_of(model, n_tokens), expected, atol=1e-3)


def test_the_model_is_as_before_after_an_error():
    model = model_of()
    expected = logits_of(model, 20)
    with pytest.raises(RuntimeError), short_positions(model, 4):
        raise RuntimeError
    assert torch.equal(logits_of(model, 20), expected)


@pytest.mark.parametrize(
    "model",
    [
        DebertaV2ForSequenceClassification(DebertaV2Config(**SMALL)),
        DebertaForSequenceClassification(DebertaConfig(**SMALL, relative_attention=True, pos_att_type=["p2c", "c2p"])),
        torch.nn.Linear(2, 3),
    ],
    ids=["absolute positions", "DeBERTa v1", "another architecture"],
)
def test_what_has_no_such_positions_is_left_alone(model):
    with short_positions(model, 4) as left:
        assert left is None
