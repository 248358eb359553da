"""Owns `ModelAgent`: any LangChain chat model, sampled several times, with log-probabilities where it gives them."""

import asyncio
import hashlib
import logging
import math
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Literal, get_args

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import (
    BaseMessage,
    HumanMessage,
    MessageLikeRepresentation,
    SystemMessage,
    convert_to_messages,
)
from langchain_core.utils.function_calling import convert_to_openai_tool

from coe_agents._removed import refuses_removed
from coe_agents._steps import Call, Steps, arun_steps, run_steps
from coe_agents.agents.choice import probability
from coe_agents.agents.greedy_decoding import OnGreedy, examine, may_be_probed
from coe_agents.agents.requests import chat_models, model_names
from coe_agents.agents.requests.capabilities import Drawn, Ladder, draw
from coe_agents.agents.requests.parse import to_reply
from coe_agents.agents.requests.send import Asker, Deadline, Server, places_of, tracing_options
from coe_agents.checks import instance, integer, number, one_of, require
from coe_agents.errors import InvalidReplyError, NoChoiceError
from coe_agents.prompts import STATED_CONFIDENCE
from coe_agents.types import MOST_SAMPLES, AgentReply, AgentRequest, Fields

_LOG = logging.getLogger(__name__)


class ModelAgent:
    """A participant: a chat model with its sampling settings.

    The agent detects what the model supports at the first requests, and remembers it: all samples in one request or a
    request for each, with or without log-probabilities. `AgentReply["sampling"]` records this, and anomalies. Seeds are
    derived from `seed` (or the model's own), the agent's name, the conversation and the round, so that no two requests
    share one. Streaming and LangChain's cache are off: one merges the choices of a request, the other gives one sample
    for all.

    Args:
        name: Its name in the graph and in reports.
        model: A chat model, or its name for `coe_agents.load_model`, which is called at the first use.
        n_samples: How many responses a round draws, at most 500; 5 unless given, and 1 in a council.
        temperature: Above 0 unless `n_samples` is 1.
        weight: Its weight in the ensemble mean and in the epistemic part, before normalisation; at 0 it is asked,
            and counts in neither.
        system_prompt: Sent to the model before the conversation.
        max_tokens: The most tokens of a response; the model's own default if None.
        seed: Makes sampling repeatable where the model takes a seed.
        timeout: Seconds for all responses of a round, waits and retries included; None for no limit. Unless given, 600,
            and 30 in a council. Responses received by then count. A call to a model in this process, or without its own
            async, cannot be stopped and continues in the background.
        request_timeout: Seconds for one attempt at one request; `timeout` alone if None.
        retries: How often a request is sent again after a transient failure, with growing, random waits, or after the
            wait that the server asks for. OpenAI's client has its own retries turned off.
        max_concurrency: The most requests at a time at each address of the model, or at the model object where it has
            none, for all agents and graph runs of the process together; the smallest of theirs counts. Unless given, 16
            at an address, and 64 at a model object, which answers simultaneous requests in one batch.
        max_response_chars: A longer response is cut, with a mark at its end.
        on_greedy: What to do with responses that are copies, because the temperature has no effect: the server decodes
            greedily, answers from a cache, or uses one seed for all. "exclude" raises `IgnoredTemperatureError`, so
            that the agent counts as failed; "count_once" keeps one of them; "trust" keeps all. Unless it is "trust", at
            least three equal responses of a model with a field `temperature`, at one above 0, are examined. Where they
            have log-probabilities, these say whether they may be equal by chance. Without them the server is asked once
            for an invented story, as often and without the system prompt: if these are equal, too, the temperature has
            no effect. What it replied is kept for a day, see `agents.greedy_decoding`. If the result stays unknown,
            `Sampling` says so, and all responses count.
        tools: Tools that the model is shown, in its provider's own way: LangChain tools, functions, or OpenAI's
            schemas. Its responses are then proposals, which nothing runs: see `Response["calls"]`. A proposal that
            cannot be read, or does not fit the tools, is a failure of that response. A request may name other tools. In
            a question with `choices`, no tools are shown.
        price_per_million: What a million tokens cost, as {"input": 0.25, "output": 2.0}, for `cost_budget`: LangChain's
            profiles of models hold no prices.
        stated_confidence: Whether the model is asked to end its reply in its confidence, which is taken out of the
            response: see `Response["confidence"]`. The same request asks for both, and asking changes what a model
            says. It is not asked in a question with `choices`, nor where tools are shown.

    Raises:
        TypeError: If `model` is neither a chat model nor a string.
        ValueError: If an option cannot work, or `model` is a pipeline of langchain-huggingface.
    """

    @refuses_removed
    def __init__(
        self,
        name: str,
        model: BaseChatModel | str,
        *,
        n_samples: int | None = None,
        temperature: float = 1.0,
        weight: float = 1.0,
        system_prompt: str | None = None,
        max_tokens: int | None = None,
        seed: int | None = None,
        timeout: float | Literal["usual"] | None = "usual",
        request_timeout: float | None = None,
        retries: int = 2,
        max_concurrency: int | None = None,
        max_response_chars: int = 20_000,
        on_greedy: OnGreedy = "exclude",
        tools: Sequence[Any] | None = None,
        stated_confidence: bool = False,
        price_per_million: Mapping[str, float] | None = None,
    ) -> None:
        # a council has other defaults than a graph, so it must know what the caller left out
        unset = set[str]()
        if n_samples is None:
            n_samples = 5
            unset.add("n_samples")
        if timeout == "usual":
            timeout = 600.0
            unset.add("timeout")
        self.unset = frozenset(unset)

        self.name = name
        self.n_samples = n_samples
        self.temperature = temperature
        self.weight = weight
        self.system_prompt = system_prompt
        self.max_tokens = max_tokens
        self.seed = seed
        self.timeout = timeout
        self.request_timeout = request_timeout
        self.retries = retries
        self.max_concurrency = max_concurrency
        self.max_response_chars = max_response_chars
        self.on_greedy: OnGreedy = on_greedy
        self.stated_confidence = stated_confidence
        self.price_per_million = chat_models.read_price(price_per_million)
        self._check_settings()

        chat_models.check_model(model)
        self.tools = None if tools is None else [convert_to_openai_tool(tool) for tool in tools]
        if self.tools is not None and isinstance(model, BaseChatModel):
            chat_models.check_tools(model)

        self._original = model
        self._ready: BaseChatModel | None = None
        self._may_grade = True
        self._lock = threading.Lock()

    def _check_settings(self) -> None:
        instance(
            self.name,
            str,
            '"name" of ModelAgent',
            what="a string",
            advice="Write ModelAgent(name, model)",
        )
        must = '"name" of ModelAgent must not be empty'
        require(bool(self.name.strip()), must, self.name, "Name each agent differently")

        of_agent = "of ModelAgent"
        advice = "5 to 10 are usual"
        integer(
            self.n_samples, f'"n_samples" {of_agent}', least=1, most=MOST_SAMPLES, advice=advice
        )
        advice = "1.0 samples the model's own distribution"
        number(self.temperature, f'"temperature" {of_agent}', least=0, advice=advice)
        must = f'"temperature" {of_agent} must be above 0 for more than one sample'
        advice = "At 0 all samples are the same and say nothing of uncertainty"
        require(self.temperature > 0 or self.n_samples == 1, must, self.temperature, advice)
        number(self.weight, f'"weight" {of_agent}', least=0, advice="Omit it for equal weights")
        advice = "20,000 are usual"
        number(self.max_response_chars, f'"max_response_chars" {of_agent}', least=1, advice=advice)

        where = f'"retries" {of_agent}'
        number(self.retries, where, least=0, may_be_infinite=True, advice="0 never asks again")
        if self.max_concurrency is not None:
            where = f'"max_concurrency" {of_agent}'
            advice = "1 asks one by one"
            number(self.max_concurrency, where, least=1, may_be_infinite=True, advice=advice)
        for option in ("timeout", "request_timeout"):
            seconds = getattr(self, option)
            if seconds is not None:
                where = f'"{option}" {of_agent} in seconds'
                number(seconds, where, above=0, advice="None is no limit")

        advice = 'Omit it for "exclude"'
        one_of(self.on_greedy, f'"on_greedy" {of_agent}', get_args(OnGreedy), advice=advice)
        where = '"stated_confidence"'
        instance(self.stated_confidence, bool, where, what="a bool", advice="True asks for it")

    @property
    def model_name(self) -> str | None:
        """The name of the model, by which a calibration knows it; None if its client tells none."""
        model = self._original
        if isinstance(model, str):
            return model.partition(":")[2] or model
        return chat_models.client_name_of(model)

    @property
    def provider(self) -> str | None:
        """The provider of the agent's model as LangChain names it, known for certain once the model has been asked."""
        name = model_names.name_of(self._ready or self._original)
        return None if name is None else name.provider

    @property
    def configured_provider(self) -> str | None:
        """The provider in the name of the model; "transformers" for one in this process, None if not known."""
        model = self._original
        if isinstance(model, str):
            return model.partition(":")[0]
        return "transformers" if model._llm_type == "coe-agents-transformers" else None

    @property
    def is_of_tinyworld(self) -> bool:
        """Whether the model is one of those that come with the package."""
        return chat_models.is_shipped(self._original)

    def uses(self, model: object) -> bool:
        """Returns whether the agent's model is this one, or has this name, whatever its settings and its address."""
        return model_names.is_same_model(self._original, model)

    def __repr__(self) -> str:
        return (
            f"ModelAgent({self.name!r}, n_samples={self.n_samples}, temperature={self.temperature})"
        )

    def sample(self, request: AgentRequest, config: Fields | None = None) -> AgentReply:
        """Draws `n_samples` responses; fewer if the model fails, or time is up, after it gave some.

        The request may override the number (500 at most), the temperature (one response at 0) and the time (less only).
        If the request has `choices`, may be `graded`, and the model gives their probabilities exactly
        (as `choice` does: scored in this process, or with the reply restricted to the choices by the server), these
        are returned in place of samples, from one request. If the choices hold less than half of the model's
        probability, it is sampled.

        Raises:
            AgentError: If the model gives none, or copies of one (`on_greedy`); or another of our errors, which the
                model raised.
            ImportError: If a package that the model needs is not installed.
            ValueError: If "provider:model" cannot be made of its options.
        """
        self._prepare_model()
        return run_steps(self._steps(request, config))

    async def asample(self, request: AgentRequest, config: Fields | None = None) -> AgentReply:
        """Draws `n_samples` responses; see `sample`. Where each has a request of its own, they are sent at once."""
        await self._aprepare_model()
        return await arun_steps(self._steps(request, config))

    def choice(
        self,
        messages: Sequence[MessageLikeRepresentation],
        choices: Sequence[str],
        *,
        methods: Sequence[probability.ChoiceMethod] = probability.CHOICE_METHODS,
        config: Fields | None = None,
        strict: bool = False,
    ) -> probability.ChoiceProbabilities:
        """Returns how likely the model is to reply with each of a few short choices, P(choice | reply is a choice).

        It uses the first of these methods that the model supports. None of them reads the first token of a reply alone,
        which may continue:

        - "exact": the choice's tokens are scored at the assistant's place, whatever their number, as they are spelled:
          log P(choice) = sum_t log p(token_t | messages, tokens before t). For models with `choice_log_probabilities`.
        - "sampled": the frequency among ten replies that state one choice and no other; one at temperature 0. A reply
          that did not end whole states none.

        The system prompt is omitted. All requests of it have one place at the model's server, `timeout` seconds, and
        the retries of samples.

        Args:
            messages: The conversation; the last message asks for one of the choices.
            choices: At least two. None may be the beginning of another, ignoring case, or should be that of another
                usual reply.
            methods: Which methods may be used.
            config: Callbacks, tags and metadata of its requests.
            strict: Whether a reply states a choice only if it consists of it, as gates read replies. By default words
                may follow, such as reasons.

        Raises:
            CoEError: If the model fails, or chooses none of them, or no allowed method gives probabilities.
            ValueError: If the choices cannot be distinguished.

        Example:
            >>> from langchain_core.language_models.fake_chat_models import FakeListChatModel
            >>> agent = ModelAgent("a", FakeListChatModel(responses=["True", "True.", "False", "It depends."]))
            >>> answer = agent.choice([("user", "Is it so?")], ("True", "False"))  # of ten replies, eight state one
            >>> answer.method, round(answer.probabilities["True"], 3), answer.mass
            ('sampled', 0.75, 0.8)
        """
        self._prepare_model()
        return run_steps(self._choice(messages, choices, methods, config=config, strict=strict))

    async def achoice(
        self,
        messages: Sequence[MessageLikeRepresentation],
        choices: Sequence[str],
        *,
        strict: bool = False,
    ) -> probability.ChoiceProbabilities:
        """Returns how likely the model is to reply with each of a few short choices, by any method; see `choice`."""
        await self._aprepare_model()
        return await arun_steps(
            self._choice(messages, choices, probability.CHOICE_METHODS, strict=strict)
        )

    def _choice(
        self,
        messages: Sequence[MessageLikeRepresentation],
        choices: Sequence[str],
        methods: Sequence[probability.ChoiceMethod],
        *,
        deadline: Deadline | None = None,
        config: Fields | None = None,
        strict: bool = False,
    ) -> Steps[probability.ChoiceProbabilities]:
        # at temperature 0 all replies would be the same
        n_samples = 1 if self.temperature == 0 else probability.N_REPLIES

        def send(server: Server, seconds: float | None) -> Steps[probability.ChoiceProbabilities]:
            return probability.choice_steps(
                server,
                messages,
                choices,
                n_samples=n_samples,
                methods=methods,
                config=config,
                seconds=seconds,
                strict=strict,
            )

        return self._asker.retry(send, deadline or Deadline(self.timeout))

    def model(self) -> BaseChatModel:
        """Returns a copy of the chat model, set up for sampling; made at the first call.

        Raises:
            ImportError: If a package that the provider needs is not installed.
        """
        with self._lock:
            if self._ready is None:
                server = self._set_up()
                self._ladder = Ladder(server.model)
                self._own_seed: int | None = getattr(server.model, "seed", None)
                self._asker = Asker(
                    self.name, server, self.retries, self.request_timeout, holder=self
                )
                self._ready = server.model  # last, since it says that the others are there
            return self._ready

    def _set_up(self) -> Server:
        model = self._original
        if isinstance(model, str):
            model = chat_models.load_model(model)
        settings = {
            "temperature": self.temperature,
            "logprobs": True,
            "max_tokens": self.max_tokens,
            "streaming": False,
        }
        address = chat_models.address_of(model)
        # agents that were given one object share its places, so it is not the copy that counts
        places = places_of(self._original, address, self.max_concurrency)
        return Server(chat_models.prepare(model, settings), address, places)

    def _prepare_model(self) -> BaseChatModel:
        try:
            return self.model()
        except ValueError as error:
            raise chat_models.without_input(error) from None

    async def _aprepare_model(self) -> None:
        if self._ready is None:  # imports the provider's package, and may read files
            await asyncio.to_thread(self._prepare_model)

    def _messages(self, request: AgentRequest) -> list[BaseMessage]:
        messages = convert_to_messages(request["messages"])
        parts = [self.system_prompt, request.get("instruction")]
        if self._asks_confidence(request):
            parts.append(STATED_CONFIDENCE)
        texts = [part for part in parts if part]
        if not texts:
            return messages
        if isinstance(messages[0], SystemMessage):  # many chat templates refuse a second one
            texts.append(messages.pop(0).text)
        return [SystemMessage("\n\n".join(texts)), *messages]

    def _asks_confidence(self, request: AgentRequest) -> bool:
        shows_tools = "tools" in request or self.tools is not None
        return self.stated_confidence and not shows_tools and not request.get("choices")

    def _seeds(self, request: AgentRequest) -> Callable[[int], int | None]:
        """Returns the seed of each response by number, far from those of other agents, conversations and rounds."""
        base = self.seed if self.seed is not None else self._own_seed
        if base is None:
            return lambda number: None
        key = repr((base, self.name, request["messages"], request["round"]))
        digest = hashlib.sha256(key.encode()).digest()
        block = int.from_bytes(digest[:4], "big") % 2**21
        # below 2**31, and 1,024 apart, more than there are samples
        first = block * 1024
        return lambda number: first + number

    def _deadline(self, request: AgentRequest) -> Deadline:
        left = request.get("timeout", math.inf)
        usual = math.inf if self.timeout is None else self.timeout
        if left < usual:
            return Deadline(left, setting="`deadline` of the graph")
        return Deadline(self.timeout)

    def _steps(self, request: AgentRequest, config: Fields | None) -> Steps[AgentReply]:
        messages = self._messages(request)
        observed = tracing_options(config)
        deadline = self._deadline(request)
        request = self._with_settings(request)

        graded = yield from self._grade(messages, request, observed, deadline)
        if graded is not None:
            return graded

        ask = partial(self._draw, observed=observed, deadline=deadline)
        drawn, reply = yield from ask(self._asker, request, messages)
        if drawn.failure is not None:
            if not drawn.results:
                raise drawn.failure
            _LOG.warning(
                'agent "%s" gave %d of %d samples: %s',
                self.name,
                drawn.n_received,
                request["n_samples"],
                drawn.failure,
            )
        _refuse_invalid(reply)
        if not may_be_probed(self.model(), request, self.on_greedy):
            return reply

        return (
            yield from examine(
                reply,
                self._asker.server,
                partial(self._probe, ask, request),
                deadline,
                on_greedy=self.on_greedy,
                temperature=request["temperature"],
            )
        )

    def _probe(
        self,
        ask: Callable[..., Steps[tuple[Drawn, AgentReply]]],
        request: AgentRequest,
        server: Server,
        prompt: str,
        temperature: float,
    ) -> Steps[AgentReply]:
        """Sends a server a prompt as often as the request asks, without the system prompt."""
        probing = AgentRequest(
            question=prompt,
            messages=[],
            round=request["round"],
            n_samples=request["n_samples"],
            temperature=temperature,
        )
        asker = replace(self._asker, server=server)
        messages = [HumanMessage(prompt)]
        # a server that refuses the temperature would show nothing by its replies
        _, reply = yield from ask(asker, probing, messages, needed="temperature")
        return reply

    def _with_settings(self, request: AgentRequest) -> AgentRequest:
        """Returns the request with the agent's number, temperature and tools where it names none."""
        temperature = request.get("temperature", self.temperature)
        n_samples = 1
        if temperature > 0:
            n_samples = min(request.get("n_samples", self.n_samples), MOST_SAMPLES)
        integer(n_samples, '"n_samples" of the request to ModelAgent', least=1, advice="Omit it")
        request = {**request, "n_samples": n_samples, "temperature": temperature}
        if request.get("choices"):
            request.pop("tools", None)
        elif self.tools is not None:
            request.setdefault("tools", self.tools)
        return request

    def _grade(
        self,
        messages: list[BaseMessage],
        request: AgentRequest,
        observed: Fields,
        deadline: Deadline,
    ) -> Steps[AgentReply | None]:
        """Returns the exact probabilities of the choices as a reply; None where the model is to be sampled."""
        choices = request.get("choices")
        if not (choices and request.get("graded") and self._may_grade):
            return None
        if probability.find_ambiguous(choices):
            return None
        try:
            scored = yield from self._choice(
                messages, choices, ("exact",), deadline=deadline, config=observed
            )
        except NoChoiceError:
            self._may_grade = False  # a property of the model, which is not asked again
            return None
        if scored.mass < probability.MIN_MASS:
            return None
        return probability.to_graded_reply(scored, request, agent=self.name)

    def _draw(
        self,
        asker: Asker,
        request: AgentRequest,
        messages: list[BaseMessage],
        *,
        observed: Fields,
        deadline: Deadline,
        needed: str = "",
    ) -> Steps[tuple[Drawn, AgentReply]]:
        tools = request.get("tools", ())
        ask = partial(
            asker.ask, messages=messages, observed=observed, deadline=deadline, tools=tools
        )
        drawn = yield from draw(self._ladder, request, self._seeds(request), ask, needed)
        max_tokens = getattr(self.model(), "max_tokens", None) or self.max_tokens
        if not isinstance(max_tokens, int):
            max_tokens = None
        read = partial(
            to_reply,
            drawn,
            self._ladder,
            request,
            agent=self.name,
            max_chars=self.max_response_chars,
            max_tokens=max_tokens,
            states_confidence=self._asks_confidence(request),
        )
        if not tools:
            return drawn, read()
        # schemas come from outside, and may take a while to read: an event loop answers others meanwhile
        reply = yield Call(read, None, ())
        return drawn, reply


def _refuse_invalid(reply: AgentReply) -> None:
    """Raises an error that carries the reply, where none of its responses is valid."""
    errors = [response["error"] for response in reply["responses"]]
    if not errors or not all(errors):
        return
    faults = [response.get("fault") for response in reply["responses"]]
    message = f"no response is valid; the first: {errors[0]}"
    invalid = InvalidReplyError(message, retryable="failed" in faults)
    invalid.reply = reply
    invalid.usage = reply["usage"]
    invalid.fault = faults[0]
    raise invalid
