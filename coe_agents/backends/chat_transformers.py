"""Owns `ChatTransformers`: a local causal language model as a LangChain chat model with n samples."""

import inspect
import os
import secrets
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any, cast

import torch
from langchain_core.callbacks import AsyncCallbackManagerForLLMRun, CallbackManagerForLLMRun
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, UsageMetadata
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
from langchain_core.runnables import Runnable
from langchain_core.tools import BaseTool
from pydantic import BaseModel, ConfigDict, Field, PrivateAttr, SecretStr
from transformers import AutoModelForCausalLM

from coe_agents._steps import Call, Steps, Wait, arun_steps, run_steps
from coe_agents.backends.batching import Batches, Prepared, Request, batches_of
from coe_agents.backends.generation import CutRow, DrawnToken, DrawSettings, pad_rows
from coe_agents.backends.model_loading import Loaded, load
from coe_agents.backends.reply_forms import (
    HERMES_TAGS,
    BoundTools,
    HermesForm,
    PlainForm,
    Reply,
    ReplyForm,
    TemplateForm,
    to_template_messages,
)
from coe_agents.backends.streaming import StreamedReply
from coe_agents.checks import require
from coe_agents.errors import AgentTimeoutError, ContextOverflowError, ModelLoadError
from coe_agents.text import visible
from coe_agents.types import Fields, JsonObject

_WORD_JOINER = "\u2060"
_OF_LANGCHAIN = ("stop", "stream")
"""Options of a call that LangChain reads itself: it passes `stop` by itself, and calls `_stream` where it streams."""


class SamplingOptions(BaseModel):
    """The options that a call may set."""

    model_config = ConfigDict(extra="forbid")

    n: int = Field(default=1, ge=1)
    temperature: float = Field(default=1.0, ge=0, allow_inf_nan=False)
    top_p: float = Field(default=1.0, gt=0, le=1)
    max_tokens: int = Field(default=256, ge=1)
    stop: list[Annotated[str, Field(min_length=1)]] | None = None
    seed: int | None = Field(default=None, ge=0)
    logprobs: bool = True
    top_logprobs: int = Field(default=0, ge=0)


@dataclass(eq=False, slots=True)
class _Call:
    """What one call asks for; with tools, the form of its replies is known once the model is loaded."""

    options: SamplingOptions
    tools: BoundTools | None
    form: ReplyForm = field(default_factory=PlainForm)


class ChatTransformers(BaseChatModel, SamplingOptions):
    """A causal language model of the transformers library, in this process, as a LangChain chat model.

    `generate` and `agenerate` return `n` generations from one batch, each with per-token log-probabilities (natural, of
    the model's raw logits) in `generation_info["logprobs"]`, shaped as `ChatOpenAI` gives them. Sample i is drawn from
    its own stream, seeded with `seed + i`. The model is loaded at the first call, and models of the same name share one
    copy in memory. Calls that arrive within milliseconds, or while it is busy, are answered in one batch if their
    settings are equal; the results are the same as alone, except for the last bits of log-probabilities.

    A stream draws one response, in pieces of its text. The last piece has calls, usage and why the response ended. Who
    stops reading stops the drawing.

    `bind_tools` shows tools to the model by its chat template. Calls are read from each response: in the form that the
    tokenizer's `response_template` describes, as Llama 3's and Mistral's do, else in the Hermes form,
    `<tool_call>{"name": ..., "arguments": {...}}</tool_call>`. The text around them stays the content. What should be a
    call and cannot be read as one, for example because it is cut off, is in `invalid_tool_calls`.

    Args:
        model: A local folder, a hub id, or a GGUF file, which is read into full precision (extra `gguf`). Of others
            only safetensors are read, and no code of the repository is run.
        device: "cpu", "cuda", "cuda:1", "auto" (spread over all, needs accelerate); by default the first GPU if any.
        dtype: "float32", "bfloat16", "auto"; by default float32 on a CPU and the saved one elsewhere.
        revision: A branch, tag or commit of the hub.
        n: How many samples a call returns.
        temperature: 0 takes the most probable token each time.
        top_p: Draws among the most probable tokens that together have at least this probability.
        max_tokens: The most tokens of a response.
        stop: Strings that end a response; they are not part of it.
        seed: Makes samples repeatable; by default each call gives other samples.
        top_logprobs: How many alternatives to report for each token.
        chat_template: A Jinja template in place of the tokenizer's own.
        max_batch: The most responses that are drawn at once; fewer are where the memory is too small for them.
        timeout: Seconds for one call, after the model is loaded; None for no limit.
        api_key: Token of the Hugging Face hub, for a hub id that needs one; by default the stored one.
        max_retries: Accepted, as by every chat model, and without effect: drawing again would fail again.
        streaming: Whether `invoke` draws as `stream` does, so that callbacks receive each piece.

    Raises:
        ImportError: For a GGUF file, if the package that reads it is not installed.

    Example:
        >>> from langchain_core.messages import HumanMessage
        >>> from coe_agents.tinyworld import model_folder
        >>> chat = ChatTransformers(str(model_folder("tiny-llama")), seed=1, max_tokens=16)
        >>> result = chat.generate([[HumanMessage("What is the capital of France?")]], n=3)
        >>> len(result.generations[0])
        3
    """

    model: str
    device: str | None = None
    dtype: str | None = None
    revision: str | None = None
    chat_template: str | None = None
    max_batch: int = Field(default=256, ge=1)
    timeout: float | None = Field(default=None, gt=0)
    api_key: SecretStr | None = None
    max_retries: int | None = Field(default=None, ge=0)
    streaming: bool = False
    _holder: list[Batches] = PrivateAttr(default_factory=list)

    def __init__(self, model: str | os.PathLike[str], **options: Any) -> None:
        path = Path(model)
        if path.suffix == ".gguf" and path.is_file() and find_spec("gguf") is None:
            raise ImportError(
                f'the model "{visible(str(path))}" needs gguf; pip install "coe-agents[gguf]"'
            )
        super().__init__(model=os.fspath(model), **options)

    @property
    def _llm_type(self) -> str:
        return "coe-agents-transformers"

    @property
    def _identifying_params(self) -> Fields:
        names = ("model", "revision", "dtype", *SamplingOptions.model_fields)
        return {name: getattr(self, name) for name in names}

    def _combine_llm_outputs(self, llm_outputs: list[JsonObject | None]) -> JsonObject:
        n_prompt = 0
        n_drawn = 0
        for output in llm_outputs:
            if output:
                n_prompt += output["token_usage"]["prompt_tokens"]
                n_drawn += output["token_usage"]["completion_tokens"]
        return self._llm_output(n_prompt, n_drawn)

    def _llm_output(self, n_prompt: int, n_drawn: int) -> JsonObject:
        usage = {
            "prompt_tokens": n_prompt,
            "completion_tokens": n_drawn,
            "total_tokens": n_prompt + n_drawn,
        }
        return {"model_name": self.model, "token_usage": usage}

    def load(self) -> Loaded:
        """Returns the model with its tokenizer, loaded at the first call.

        Raises:
            ModelLoadError: If there is no such model, or it has no chat template.
        """
        return self._batches().loaded

    def _batches(self) -> Batches:
        if not self._holder:  # which copies of this model share
            where = {"device": self.device, "dtype": self.dtype, "revision": self.revision}
            token = None if self.api_key is None else self.api_key.get_secret_value()
            loaded = load(AutoModelForCausalLM, self.model, **where, token=token)
            if not (self.chat_template or loaded.tokenizer.chat_template):
                hint = "Use an instruction-tuned model, or pass `chat_template`"
                raise ModelLoadError(
                    f'the tokenizer of "{self.model}" has no chat template', hint=hint
                )
            self._holder.append(batches_of(loaded))
        return self._holder[0]

    def bind_tools(
        self,
        tools: Sequence[JsonObject | type | Callable[..., Any] | BaseTool],
        *,
        tool_choice: JsonObject | str | bool | None = None,
        **kwargs: Any,
    ) -> Runnable[Any, AIMessage]:
        """Returns this model with tools that it may call.

        A call that must be made begins every response: the model draws what follows `<tool_call>`, or the arguments
        where the tool is named. The log-probabilities are those of the drawn tokens, given that beginning.

        Args:
            tools: LangChain tools, functions, Pydantic classes or OpenAI schemas.
            tool_choice: "auto" or None, the model chooses; "any", it must call a tool; or the name of the tool to call.
            **kwargs: Options of each call, as in the constructor.

        Raises:
            ValueError: If there is no tool, one is not a function, or `tool_choice` names none. At the first call, if
                the chat template does not show the tools, or the calls of the model could not be read.
        """
        bound = BoundTools.read(tools, tool_choice)
        if bound.choice is not None:
            kwargs["tool_choice"] = bound.choice
        return cast("Runnable[Any, AIMessage]", self.bind(tools=[*bound.schemas], **kwargs))

    def choice_log_probabilities(
        self, messages: Sequence[BaseMessage], choices: Sequence[str]
    ) -> list[float]:
        """Returns the log-probability of each choice as the beginning of the reply, in nats, before temperature.

        The choice's tokens, as the tokenizer cuts it at the assistant's place, are scored by teacher forcing:
        sum_t log p(token_t | messages, tokens before t). The token that would end the reply is not among them.

        Raises:
            ValueError: If there is no choice, or an empty one.
            ContextOverflowError: If the conversation and the longest choice are too long for the model.
        """
        loaded = self.load()
        must = '"choices" must hold at least one text, none empty'
        require(bool(choices) and all(choices), must, list(choices), "Pass what a reply may be")
        with loaded.lock, torch.inference_mode():
            prompt = self._prompt(loaded, messages)
            rendered = self._render(loaded, messages, tokenize=False)
            tails = [_tail(loaded.tokenizer, rendered, prompt, choice) for choice in choices]
            longest = max(map(len, tails))
            self._check_room(loaded, len(prompt), longest)
            return continuation_log_probabilities(loaded, prompt, tails)

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        return run_steps(self._steps(messages, stop, kwargs))

    async def _agenerate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: AsyncCallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        return await arun_steps(self._steps(messages, stop, kwargs))

    def _streaming_disabled(self, **kwargs: Any) -> bool:
        # the pieces of several responses would be joined to one
        return kwargs.get("n", self.n) != 1 or super()._streaming_disabled(**kwargs)

    def _stream(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> Iterator[ChatGenerationChunk]:
        reply = StreamedReply(self.timeout)
        request = self._request(messages, self._call(stop, kwargs), reply)
        try:
            run_steps(self._send(request))
            with self._time_limit():
                while chunk := run_steps(reply.next_chunk(request.future)):
                    if run_manager is not None:
                        run_manager.on_llm_new_token(chunk.text, chunk=chunk)
                    yield chunk
        finally:
            request.is_given_up = True

    async def _astream(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: AsyncCallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> AsyncIterator[ChatGenerationChunk]:
        reply = StreamedReply(self.timeout)
        request = self._request(messages, self._call(stop, kwargs), reply)
        try:
            await arun_steps(self._send(request))
            with self._time_limit():
                while chunk := await arun_steps(reply.next_chunk(request.future)):
                    if run_manager is not None:
                        await run_manager.on_llm_new_token(chunk.text, chunk=chunk)
                    yield chunk
        finally:
            request.is_given_up = True

    def _steps(
        self, messages: Sequence[BaseMessage], stop: list[str] | None, options: Fields
    ) -> Steps[ChatResult]:
        request = self._request(messages, self._call(stop, options))
        try:
            yield from self._send(request)
            with self._time_limit():
                result: ChatResult = yield Wait(request.future, self.timeout)
        finally:
            request.is_given_up = True
        return result

    def _send(self, request: Request[ChatResult]) -> Steps[None]:
        if not self._holder:
            yield Call(self._batches, None, ())
        self._holder[0].put(request)

    @contextmanager
    def _time_limit(self) -> Iterator[None]:
        try:
            yield
        except TimeoutError as error:
            message = f'"{self.model}" gave no reply within {self.timeout} s'
            hint = "Raise `timeout` or lower `max_tokens`"
            raise AgentTimeoutError(message, hint=hint) from error

    def _call(self, stop: list[str] | None, options: Fields) -> _Call:
        """Returns the call's own options over the constructor's; raises `ValueError` at an unknown one."""
        settings = {name: getattr(self, name) for name in SamplingOptions.model_fields}
        settings["stop"] = self.stop if stop is None else stop
        tools = None
        choice = None
        for name, value in options.items():
            if name == "model":
                must = '"model" must be given to the constructor'
                advice = "Create a ChatTransformers for another model"
                require(value == self.model, must, value, advice)
            elif name == "tools":
                tools = value
            elif name == "tool_choice":
                choice = value
            elif name == "max_completion_tokens" and value is not None:
                settings["max_tokens"] = value
            elif value is not None and name not in _OF_LANGCHAIN:
                settings[name] = value
        if tools is None:
            must = '"tool_choice" needs "tools" in the same call'
            require(choice is None, must, choice, "Call `bind_tools`")
            return _Call(SamplingOptions(**settings), None)
        return _Call(SamplingOptions(**settings), BoundTools.read(tools, choice))

    def _form_of_calls(self, loaded: Loaded, tools: BoundTools) -> ReplyForm:
        """Returns how replies are written that may call these tools."""
        # replies are read with the end of their prompt, which is that of every prompt
        probe = self._render(loaded, [HumanMessage("Hello")], tools, tokenize=False)
        for name in tools.names:
            if name not in probe:
                raise ValueError(
                    f'"tools" needs a chat template that shows them; got that of "{self.model}", which omits '
                    f'"{name}". Use a model that was trained to call tools, or pass its `chat_template`'
                )
        tokenizer = loaded.tokenizer
        is_usual = self.chat_template is None and tools.choice is None
        if is_usual and getattr(tokenizer, "response_template", None) is not None:
            return TemplateForm(tokenizer, probe, tools.schemas)
        template = self._template(loaded, tools)
        return HermesForm.create(tokenizer, template, probe, tools.choice)

    def _request(
        self, messages: Sequence[BaseMessage], call: _Call, stream: StreamedReply | None = None
    ) -> Request[ChatResult]:
        """Returns the request of a call; while it is drawn, `stream` is shown what is there."""
        options = call.options
        seed = secrets.randbits(48) if options.seed is None else options.seed

        def prepare() -> Prepared:
            loaded = self.load()
            prompt = self._prompt(loaded, messages, call.tools)
            if call.tools is not None:
                call.form = self._form_of_calls(loaded, call.tools)
                prompt += _encode(loaded.tokenizer, call.form.beginning)
            room = self._check_room(loaded, len(prompt), 1)
            settings = DrawSettings(
                temperature=options.temperature,
                top_p=options.top_p,
                n_top=options.top_logprobs,
                n_new=min(options.max_tokens, room),
                stop=tuple(options.stop or ()),
                max_batch=self.max_batch,
            )
            return Prepared(prompt, range(seed, seed + options.n), settings)

        def finish(prepared: Prepared, drawn: Sequence[Sequence[DrawnToken]]) -> ChatResult:
            return self._result(call, len(prepared.prompt), drawn)

        if stream is None:
            return Request(prepare, finish)
        must = '"n" must be 1 in a stream'
        require(options.n == 1, must, options.n, "Call generate, or stream several times")
        request = Request(prepare, finish, partial(self._show, stream, call))
        request.future.add_done_callback(stream.tell)
        return request

    def _result(
        self, call: _Call, n_prompt: int, drawn: Sequence[Sequence[DrawnToken]]
    ) -> ChatResult:
        loaded = self.load()
        rows = [self._cut(loaded, call, tokens) for tokens in drawn]

        # every message carries the usage of the whole request, as ChatOpenAI's do
        n_drawn = sum(len(row.tokens) for row in rows)
        usage = UsageMetadata(
            input_tokens=n_prompt, output_tokens=n_drawn, total_tokens=n_prompt + n_drawn
        )
        generations = list[ChatGeneration]()
        for row in rows:
            reply = call.form.read(row)
            generation = self._generation(loaded, row, reply, usage, logprobs=call.options.logprobs)
            generations.append(generation)
        return ChatResult(generations=generations, llm_output=self._llm_output(n_prompt, n_drawn))

    def _cut(self, loaded: Loaded, call: _Call, tokens: Sequence[DrawnToken]) -> CutRow:
        return CutRow.cut(loaded, tokens, call.options.stop or (), call.form.hidden)

    def _show(self, stream: StreamedReply, call: _Call, drawn: Sequence[DrawnToken]) -> None:
        """Shows to a stream what is certain of the reply once these tokens are drawn."""
        loaded = self.load()
        row = self._cut(loaded, call, drawn)
        text = call.form.certain_prefix(row.text, call.options.stop or ())
        logprobs = list[JsonObject]()
        if call.options.logprobs:
            logprobs += [_describe_drawn(loaded, token) for token in row.tokens[stream.n_shown :]]
        stream.show(text, logprobs)

    def _check_room(self, loaded: Loaded, n_prompt: int, n_needed: int) -> int:
        room = loaded.context_length - n_prompt
        if room < n_needed:
            raise ContextOverflowError(
                f'the conversation has {n_prompt} tokens, and "{self.model}" takes {loaded.context_length}',
                hint="Shorten the conversation or use a model with a longer context",
            )
        return room

    def _template(self, loaded: Loaded, tools: BoundTools | None = None) -> str:
        schemas = None if tools is None else [*tools.schemas]
        return str(loaded.tokenizer.get_chat_template(self.chat_template, schemas))

    def _prompt(
        self, loaded: Loaded, messages: Sequence[BaseMessage], tools: BoundTools | None = None
    ) -> list[int]:
        return list(self._render(loaded, messages, tools, return_dict=True)["input_ids"])

    def _render(
        self,
        loaded: Loaded,
        messages: Sequence[BaseMessage],
        tools: BoundTools | None = None,
        **form: Any,
    ) -> Any:
        """Renders the conversation, up to where the assistant speaks, in the requested form: text or token ids."""
        template = self._template(loaded, tools)
        # what a user writes must not be read as a sign of the template's
        controls = list[str]()
        for token in loaded.tokenizer.added_tokens_decoder.values():
            is_control = token.special or token.content in template
            if is_control and len(token.content) > 1:
                controls.append(token.content)
        for tag in HERMES_TAGS:
            if tag in template and tag not in controls:
                controls.append(tag)
        conversation = list[JsonObject]()
        for message in to_template_messages(messages):
            conversation.append({**_defuse(message, controls), "role": message["role"]})
        schemas = None if tools is None else _defuse([*tools.schemas], controls)
        return loaded.tokenizer.apply_chat_template(
            conversation, chat_template=template, add_generation_prompt=True, tools=schemas, **form
        )

    def _generation(
        self, loaded: Loaded, row: CutRow, reply: Reply, usage: UsageMetadata, *, logprobs: bool
    ) -> ChatGeneration:
        info: JsonObject = {"finish_reason": row.finish_reason, "model_name": self.model}
        if logprobs:
            info["logprobs"] = {"content": [_describe_drawn(loaded, token) for token in row.tokens]}
        message = AIMessage(
            content=reply.content,
            tool_calls=[*reply.calls],
            invalid_tool_calls=[*reply.invalid],
            usage_metadata=usage,
            response_metadata={"model_name": self.model},
        )
        return ChatGeneration(message=message, generation_info=info)


def _describe_drawn(loaded: Loaded, token: DrawnToken) -> JsonObject:
    """Returns a token with its log-probability, and the likeliest ones, as `ChatOpenAI` shows them."""
    top = [_describe(loaded, *other) for other in token.top]
    return {**_describe(loaded, token.id, token.logprob), "top_logprobs": top}


def _describe(loaded: Loaded, token: int, logprob: float) -> JsonObject:
    text = loaded.decode(token)
    # part of a character decodes to a replacement; its bytes are not known here
    is_partial = "\ufffd" in text
    return {"token": text, "bytes": None if is_partial else list(text.encode()), "logprob": logprob}


def _tail(tokenizer: Any, rendered: str, prompt: list[int], text: str) -> list[int]:
    """Returns the tokens of `text` as the beginning of the reply; the tokens of the prompt stay the same."""
    together = _encode(tokenizer, rendered + text)
    if together[: len(prompt)] == prompt:
        return together[len(prompt) :]
    return _encode(tokenizer, text)


def _encode(tokenizer: Any, text: str) -> list[int]:
    return list(tokenizer(text, add_special_tokens=False)["input_ids"])


def _defuse(value: Any, controls: Sequence[str]) -> Any:
    """Returns a message's field with none of `controls` in any text of it, the names in objects included."""
    if isinstance(value, str):
        return _without(controls, value)
    if isinstance(value, list):
        return [_defuse(item, controls) for item in value]
    if not isinstance(value, dict):
        return value
    defused = JsonObject()
    for name, item in value.items():
        # a template looks names up, and these are identifiers
        plain = name if name.isidentifier() else _without(controls, name)
        defused[plain] = _defuse(item, controls)
    return defused


def _without(controls: Sequence[str], text: str) -> str:
    """Returns `text` so that none of `controls` is read in it: a word joiner follows the first character of each."""
    # to part one may join another
    while any(control in text for control in controls):
        for control in controls:
            text = text.replace(control, control[0] + _WORD_JOINER + control[1:])
    return text


def continuation_log_probabilities(
    loaded: Loaded, prompt: Sequence[int], continuations: Sequence[Sequence[int]]
) -> list[float]:
    """Returns sum_t log p(token_t | prompt, tokens before t) of each continuation, in nats, of the raw logits.

    The caller holds the lock of `loaded`; prompt and continuations each have at least one token.
    """
    model = loaded.model
    rows = [[*prompt, *tokens] for tokens in continuations]
    # after a row's end any id will do: no token attends to a later one
    ids, mask = pad_rows(rows, padding=0, side="right", device=model.device)

    # a long prompt times a large vocabulary would fill the memory with logits that are not used
    n_kept = ids.shape[1] - len(prompt) + 1
    options = JsonObject()
    if "logits_to_keep" in inspect.signature(model.forward).parameters:
        options["logits_to_keep"] = n_kept
    out = model(input_ids=ids, attention_mask=mask, use_cache=False, **options)
    logprobs = out.logits[:, -n_kept:-1].float().log_softmax(-1)
    sums = list[float]()
    for row, tokens in enumerate(continuations):
        of_tokens = logprobs[row, range(len(tokens)), list(tokens)]
        sums.append(float(of_tokens.double().sum()))
    return sums
