"""Configuration of the ``ipu`` platform: environment variables and the same options as attributes.

Set them before JAX creates its backends, at the first ``jax.devices()`` or ``jit`` call; later, attributes are refused.
An attribute takes precedence over its environment variable. See ``docs/environment.md``.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any, Generic, TypeVar, overload

from jax_ipu import environment, names
from jax_ipu.chips import chip_names, most_tiles
from jax_ipu.integration.tracebacks import leave_out, unseen

T = TypeVar("T")

EXECUTIONS = ("fast", "tile", "codelets")
INSTRUCTION_SETS = ("avx2", "avx512")
TRACE_PLANES = ("custom", "tpu")
_TRUE = ("1", "true", "yes", "t", "on")
_FALSE = ("0", "false", "no", "f", "off")


def _boolean(text: str) -> bool:
    if text.lower() in _TRUE:
        return True
    if text.lower() in _FALSE:
        return False
    raise ValueError(f"one of {', '.join(_TRUE)} or {', '.join(_FALSE)}")


def _one_of(names: tuple[str, ...]) -> Callable[[str], str]:
    def parse(text: str) -> str:
        if text.lower() not in names:
            raise ValueError(f"one of {', '.join(names)}")
        return text.lower()

    return parse


def _chip(text: str) -> str:
    return _one_of(chip_names())(text)


def _positive(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise ValueError("a whole number of at least 1")
    return int(text)


def _seed(text: str) -> int:
    if not text.isdecimal() or int(text) >= 1 << 63:
        raise ValueError("a whole number from 0 to 2**63 - 1")
    return int(text)


def _num_tiles(text: str) -> int:
    if text.lower() in ("all", "0"):
        return 0
    if not text.isdecimal() or not 1 <= int(text) <= most_tiles():
        raise ValueError(f"a whole number from 1 to {most_tiles()}, or all")
    return int(text)


def _io_tiles(text: str) -> int:
    if not text.isdecimal() or int(text) >= most_tiles():
        raise ValueError(f"a whole number from 0 to {most_tiles() - 1}")
    return int(text)


def _threads(text: str) -> int:
    if text.lower() in ("all", "0"):
        return 0
    if not text.isdecimal() or not 1 <= int(text) <= 1024:
        raise ValueError("a whole number from 1 to 1024, or all")
    return int(text)


def _monitor(text: str) -> bool | str:
    if "/" in text:
        return text
    try:
        return _boolean(text)
    except ValueError as good:
        raise ValueError(f"{good}, or a folder, with a slash") from None


def _device_list(text: str) -> tuple[int, ...] | None:
    if not text.strip():
        return None
    ids = [part.strip() for part in text.split(",")]
    if not all(part.isdecimal() for part in ids) or len(set(ids)) != len(ids):
        raise ValueError("distinct device numbers separated by commas, e.g. 0,1")
    return tuple(int(part) for part in ids)


class _Option(Generic[T]):
    """One option: an attribute of :class:`Config` backed by an environment variable."""

    def __init__(self, default: T, parse: Callable[[str], T], doc: str) -> None:
        self.default = default
        self.parse = parse
        self.__doc__ = doc

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name
        self.variable = f"JAX_IPU_{name.upper()}"

    @overload
    def __get__(self, instance: None, owner: type) -> _Option[T]: ...
    @overload
    def __get__(self, instance: Config, owner: type) -> T: ...
    def __get__(self, instance: Config | None, owner: type) -> T | _Option[T]:
        if instance is None:
            return self
        if self.name in instance._values:
            value: T = instance._values[self.name]
            return value
        text = os.environ.get(self.variable)
        try:
            return self.default if text is None else self._checked(text, self.variable)
        except ValueError as error:
            leave_out(error)
            raise

    def __set__(self, instance: Config, value: T) -> None:
        instance._check_not_frozen(self.name)
        text = ",".join(map(str, value)) if isinstance(value, (tuple, list)) else "" if value is None else str(value)
        given = None if value is None else text
        instance._values[self.name] = self._checked(text, f"jax_ipu.config.{self.name}", given)

    def _checked(self, text: str, source: str, *given: str | None) -> T:
        try:
            return self.parse(text)
        except ValueError as good:
            shown = given[0] if given else text
            raise ValueError(f"{source}={shown!r} is not valid. Give {good}.") from None


class Config:
    """Options of the ``ipu`` platform.

    Raises:
        AttributeError: there is no such option; the message has the one that is most like it.
        ValueError: a value is not valid; the message lists the valid ones.
        RuntimeError: an option is set after JAX has created the ``ipu`` backend.

    Examples:
        The platform reads one object, ``jax_ipu.config``. Others are of use for checking values:

        >>> from jax_ipu import Config
        >>> options = Config()
        >>> options.model_version = "bow"
        >>> options.model_version
        'bow'
        >>> options.model_version = "ipu3"
        Traceback (most recent call last):
        ValueError: jax_ipu.config.model_version='ipu3' is not valid. Give one of ipu1, ipu2, ipu21, bow.
    """

    use_model = _Option(True, _boolean, "Use the IPU model. False needs a build against the Poplar SDK and hardware.")
    model_version = _Option("ipu2", _chip, "The chip that the model is: `jax-ipu info` lists them.")
    model_num_tiles = _Option(0, _num_tiles, "Tiles of each modelled IPU; 0 means all of the architecture.")
    device_count = _Option(1, _positive, "How many IPUs the model has.")
    visible_devices: _Option[tuple[int, ...] | None] = _Option(
        None, _device_list, "Device numbers to use, e.g. (0, 1); wins over device_count."
    )
    model_execution = _Option(
        "fast",
        _one_of(EXECUTIONS),
        "fast: whole-tensor kernels; tile: every vertex alone from its tile's memory; codelets: as tile, and the"
        " operations that PopLibs lacks run as codelets in C++.",
    )
    max_isa = _Option("avx512", _one_of(INSTRUCTION_SETS), "The largest instruction set of the host's kernels.")
    host_threads = _Option(0, _threads, "Threads of the host's kernels; 0 means one for each CPU of the process.")
    machine_code = _Option(True, _boolean, "Whether the host may run loops of small operations as generated code.")
    monitor: _Option[bool | str] = _Option(
        True, _monitor, "Whether jax-ipu monitor sees this process; or a folder where its counters stay."
    )
    stochastic_rounding = _Option(False, _boolean, "Whether f16 results are rounded stochastically, as IPUs can.")
    stochastic_rounding_seed = _Option(
        0, _seed, "Seed of stochastic rounding, for values that repeat, on one host thread; 0: another in each process."
    )
    synthetic_data = _Option(False, _boolean, "Nothing crosses the host link, and values are meaningless.")
    link = _Option(
        True, _boolean, "Whether programs that take each other's arrays share an engine, where they fit together."
    )
    report_dir = _Option("", str, "Folder for a report on every program that the process compiles; empty for none.")
    io_tiles = _Option(
        0, _io_tiles, "Tiles for input and output: what loops read from host memory arrives there while others compute."
    )
    poplibs = _Option("", str, "A folder of tools/build_poplibs: operations come from Graphcore's PopLibs.")
    trace_planes = _Option(
        "custom", _one_of(TRACE_PLANES), "custom: a trace names its devices IPU; tpu: TPU, for more of XProf's tools."
    )
    process_timeout = _Option(600, _positive, "Seconds that a process of jax.distributed waits for another.")

    def __init__(self) -> None:
        """No option set: the environment decides."""
        self._values: dict[str, Any] = {}
        self._frozen = False

    @unseen
    def __setattr__(self, name: str, value: Any) -> None:
        if not name.startswith("_") and name not in self._options():
            raise self._unknown(name)
        super().__setattr__(name, value)

    @unseen
    def __getattr__(self, name: str) -> Any:  # called for names that do not exist
        raise self._unknown(name)

    @classmethod
    def _options(cls) -> dict[str, _Option[Any]]:
        return {name: option for name, option in vars(cls).items() if isinstance(option, _Option)}

    def _unknown(self, name: str) -> AttributeError:
        # The name may also be that of the variable.
        option = name.lower().removeprefix(environment.OWN_PREFIX.lower())
        return AttributeError(f"jax_ipu.config has no option {name!r}. {names.suggestion(option, self._options())}")

    def _check_not_frozen(self, name: str) -> None:
        if self._frozen:
            raise RuntimeError(
                f"jax_ipu.config.{name} was set after JAX created the ipu backend. Set it before the first use of JAX, "
                f"or set the environment variable JAX_IPU_{name.upper()}."
            )

    def report_folder(self) -> str:
        """Where reports on compiled programs go: `report_dir`, or what POPLAR_ENGINE_OPTIONS says; "" for nowhere.

        Raises:
            ValueError: POPLAR_ENGINE_OPTIONS is not valid.

        Examples:
            >>> from jax_ipu import Config
            >>> options = Config()
            >>> options.report_dir = "reports"
            >>> options.report_folder()
            'reports'
        """
        return self.report_dir or environment.report_folder(os.environ)

    def device_ids(self) -> list[int]:
        """The device numbers that the platform offers.

        Examples:
            >>> from jax_ipu import Config
            >>> options = Config()
            >>> options.device_count = 4
            >>> options.device_ids()
            [0, 1, 2, 3]
            >>> options.visible_devices = (2, 3)
            >>> options.device_ids()
            [2, 3]
        """
        visible = self.visible_devices
        return list(visible) if visible is not None else list(range(self.device_count))

    def compile_options(self, options: bytes) -> bytes:
        """A serialised xla.CompileOptionsProto with the options that are set here and not in it.

        Examples:
            >>> from jax_ipu import Config
            >>> options = Config()
            >>> options.poplibs = "/opt/poplibs"
            >>> b"ipu_poplibs" in options.compile_options(b"")
            True
        """
        own: dict[str, str | float] = {}
        if self.poplibs:
            own["ipu_poplibs"] = self.poplibs
        if self.io_tiles:
            own["ipu_io_tiles"] = str(self.io_tiles)
        if not own:
            return options
        from jax_ipu.compiler.options import serialize_options

        # The last of two entries with one name counts.
        return serialize_options(own) + options

    @classmethod
    def variables(cls) -> list[str]:
        """The names of all environment variables with the prefix JAX_IPU_ that have an effect.

        Examples:
            >>> from jax_ipu import Config
            >>> Config.variables()[:2]
            ['JAX_IPU_USE_MODEL', 'JAX_IPU_MODEL_VERSION']
        """
        return [option.variable for option in cls._options().values()]

    def sources(self) -> dict[str, tuple[Any, str]]:
        """The value of each option and where it is from: an environment variable, "jax_ipu.config" or "default".

        Raises:
            ValueError: a value is not valid.

        Examples:
            >>> from jax_ipu import Config
            >>> options = Config()
            >>> options.model_num_tiles = 64
            >>> options.sources()["model_num_tiles"]
            (64, 'jax_ipu.config')
        """
        found: dict[str, tuple[Any, str]] = {}
        for name, option in self._options().items():
            given = option.variable if option.variable in os.environ else "default"
            found[name] = (getattr(self, name), "jax_ipu.config" if name in self._values else given)
        return found

    @property
    def frozen(self) -> bool:
        """Whether the backend exists, so that options cannot be changed any more.

        Examples:
            >>> import jax, jax_ipu
            >>> ipus = jax.devices("ipu")
            >>> jax_ipu.config.frozen
            True
        """
        return self._frozen

    def freeze(self) -> None:
        """Called when the backend is created: later changes would have no effect and are refused.

        Examples:
            >>> from jax_ipu import Config
            >>> options = Config()
            >>> options.freeze()
            >>> options.device_count = 2  # doctest: +ELLIPSIS
            Traceback (most recent call last):
            RuntimeError: jax_ipu.config.device_count was set after JAX created the ipu backend. ...
        """
        self._frozen = True


config = Config()
