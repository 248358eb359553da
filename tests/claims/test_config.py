from coe_agents.claims import ClaimPolicy
from coe_agents.config import load
from coe_agents.config.build import create_claims, create_clusterer

AGENTS = "".join(
    f'[[agents]]\nname = "{name}"\nprovider = "transformers"\nmodel = "m"\n' for name in "ab"
)


def claims_of(folder, text):
    path = folder / "coe.toml"
    path.write_text(AGENTS + text)
    config = load(path).settings
    return config, create_claims(config, create_clusterer(config))


def test_claims_are_configured_and_agents_are_then_asked_for_whole_texts(tmp_path):
    config, claims = claims_of(tmp_path, "[claims]\nmin_support = 0.6\nmark_from = 0.4\n")
    assert claims.policy == ClaimPolicy(0.6, 0.4)
    assert config.answers is None
    ClaimPolicy(0.9, None).save(tmp_path / "claims.json")
    assert claims_of(tmp_path, '[claims]\npolicy = "claims.json"\n')[1].policy == ClaimPolicy(
        0.9, None
    )
    config, claims = claims_of(tmp_path, "")
    assert config.answers.kind == "short"
    assert claims is None
