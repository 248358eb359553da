"""What is left out of a classifier's computation changes no logit: positions that do not occur, and unread tokens."""

import pytest
import torch
import transformers

from coe_agents.backends.entailment_transformers import first_token, short_positions

SMALL = {
    "vocab_size": 50,
    "hidden_size": 16,
    "num_attention_heads": 2,
    "intermediate_size": 16,
    "pad_token_id": 0,
}
POSITIONS = {"relative_attention": True, "pos_att_type": ["p2c", "c2p"]}
KINDS = {
    "bert": ("Bert", {}),
    "roberta": ("Roberta", {}),
    "xlm-roberta": ("XLMRoberta", {}),
    "deberta": ("Deberta", POSITIONS),
    "deberta-v2": ("DebertaV2", {**POSITIONS, "position_buckets": 16}),
    "deberta-v2, convolved": ("DebertaV2", {"conv_kernel_size": 3}),
}


def model_of(kind, **options):
    torch.manual_seed(0)
    name, own = KINDS[kind]
    create, configure = (
        getattr(transformers, name + part) for part in ("ForSequenceClassification", "Config")
    )
    model = create(configure(**{**SMALL, **own, **options})).eval()
    for weights in model.parameters():
        torch.nn.init.normal_(
            weights
        )  # fresh ones are near 0, and a wrong token would not show in the logits
    return model


def logits_of(model, n_tokens=7):
    ids = torch.randint(1, 50, (3, n_tokens), generator=torch.Generator().manual_seed(0))
    mask = torch.ones_like(ids)
    ids[1, n_tokens // 2 + 1 :] = mask[1, n_tokens // 2 + 1 :] = 0
    with torch.inference_mode():
        return model(input_ids=ids, attention_mask=mask).logits


@pytest.mark.parametrize("n_layers", [1, 2, 3])
@pytest.mark.parametrize("kind", KINDS)
def test_the_logits_are_those_of_all_tokens(kind, n_layers):
    model = model_of(kind, num_hidden_layers=n_layers)
    shapes = []
    model.base_model.encoder.layer[-1].output.dense.register_forward_hook(
        lambda _, __, states: shapes.append(tuple(states.shape))
    )
    expected = logits_of(model)
    with first_token(model) as is_dropped, short_positions(model, 7):
        assert is_dropped == (kind != "deberta-v2, convolved" or n_layers > 1)
        assert torch.allclose(logits_of(model), expected, rtol=1e-4, atol=1e-4)
    assert torch.equal(logits_of(model), expected)
    assert shapes == [(3, 7, 16), (3, 1 if is_dropped else 7, 16), (3, 7, 16)]


def test_the_model_is_as_before_after_an_error():
    model = model_of("deberta-v2", num_hidden_layers=2)
    expected = logits_of(model)
    with pytest.raises(RuntimeError), first_token(model), short_positions(model, 4):
        raise RuntimeError
    assert torch.equal(logits_of(model), expected)


V3 = {"position_biased_input": False, "norm_rel_ebd": "layer_norm", "max_position_embeddings": 64}
V3 |= {"share_att_key": True, "num_hidden_layers": 2}


@pytest.mark.parametrize(
    "options", [{}, {"share_att_key": False}, {"position_buckets": -1}, {"conv_kernel_size": 3}]
)
@pytest.mark.parametrize("n_tokens", [1, 5])
def test_the_logits_are_those_of_all_positions(options, n_tokens):
    model = model_of("deberta-v2", **{**V3, **options})
    expected = logits_of(model, n_tokens)
    with short_positions(model, n_tokens) as left:
        assert left == n_tokens
        assert model.deberta.encoder.get_rel_embedding().shape == (2 * n_tokens, 16)
        assert torch.allclose(logits_of(model, n_tokens), expected, atol=1e-3)
    assert torch.equal(logits_of(model, n_tokens), expected)


def test_the_longest_text_whose_positions_share_no_bucket_is_cut_and_a_longer_one_is_not():
    model = model_of(
        "deberta-v2", **V3
    )  # 16 buckets on each side: up to a distance of 8 each position has its own
    for n_tokens, left in ((9, 9), (10, None), (40, None)):
        expected = logits_of(model, n_tokens)
        with short_positions(model, n_tokens) as found:
            assert found == left
            assert torch.allclose(logits_of(model, n_tokens), expected, atol=1e-3)
