"""Models in this process and on servers, by langchain-openai and by langchain-huggingface, asked as one group.

python examples/vllm_mixed_group.py http://127.0.0.1:8000/v1 NAME "What is the capital of France?"

NAME is what the server, such as vLLM's, calls its model. Each agent is any chat model of LangChain, and is sampled as
it allows: several responses and their log-probabilities in one request, or one after the other. Only
HuggingFacePipeline is refused, which has no log-probabilities: `ChatTransformers` loads the same model. With
HF_HUB_OFFLINE set, langchain-huggingface asks no server.
"""

import argparse

from langchain_huggingface import ChatHuggingFace, HuggingFaceEndpoint
from langchain_openai import ChatOpenAI

from coe_agents import ModelAgent, RegimePolicy, create_coe_graph
from coe_agents.backends import ChatTransformers
from coe_agents.tinyworld import model_folder, tinyworld_clusterer
from coe_agents.tinyworld.facts import MODELS


def main(url: str, name: str, question: str) -> None:
    folder = str(model_folder(MODELS[0]))  # a hub id does as well
    endpoint = HuggingFaceEndpoint(endpoint_url=url, huggingfacehub_api_token="none")
    served = ChatOpenAI(model=name, base_url=url, api_key="none")
    agents = [
        ModelAgent("local", ChatTransformers(folder), max_tokens=48),
        ModelAgent("served", served, max_tokens=48),
        ModelAgent(
            "endpoint", ChatHuggingFace(llm=endpoint, model_kwargs={"model": name}), max_tokens=48
        ),
    ]
    policy = RegimePolicy(actions={"conflict": "escalate"})
    graph = create_coe_graph(agents, clusterer=tinyworld_clusterer(), policy=policy).compile()
    decision = graph.invoke({"question": question})["decision"]
    print(f"{decision['action']}: {decision['answer']}\n  {decision['reason']}")
    for agent, said in decision["agents"].items():
        print(f"  {agent}: {said['n_responses']} responses, by {said['weighting']}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("url")
    parser.add_argument("name")
    parser.add_argument("question")
    main(**vars(parser.parse_args()))
