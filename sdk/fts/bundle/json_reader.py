"""Typed reading of JSON: every value knows its path, so that a message can say where something is wrong."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NoReturn, TypeVar

from fts.errors import BundleManifestError

T = TypeVar("T")


def json_from_text(text: str, where: str) -> JsonValue:
    """Parse strict JSON: no NaN, no infinity, no key twice.

    Raises:
        BundleManifestError: It is not JSON of this kind.
    """
    try:
        value = json.loads(text, object_pairs_hook=_object, parse_constant=_refuse_constant, parse_float=_finite)
    except (ValueError, RecursionError) as cause:
        raise BundleManifestError(f"{where}: found text that is not JSON ({cause}), expected a JSON object.") from cause
    return JsonValue(value, "$", where)


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) != len(pairs):
        raise ValueError(f"a key stands twice among {sorted(k for k, _ in pairs)[:6]}")
    return value


def _refuse_constant(text: str) -> NoReturn:
    raise ValueError(f"{text} is no JSON number")


def _finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(f"{text} is no finite number")
    return value


class JsonValue:
    """One value of a JSON document together with its path, `$.inputs[0].shape`."""

    __slots__ = ("_path", "_raw", "_where")

    def __init__(self, raw: Any, path: str, where: str) -> None:
        self._raw = raw
        self._path = path
        self._where = where

    def refuse(self, expected: str) -> NoReturn:
        """Raise the error that names the path, what was found, and what was expected."""
        if isinstance(self._raw, (dict, list)):
            found = f"{'an object' if isinstance(self._raw, dict) else 'an array'} of {len(self._raw)}"
        else:
            found = json.dumps(self._raw)[:60]
        raise BundleManifestError(f"{self._where}: {self._path}: found {found}, expected {expected}.")

    @property
    def is_null(self) -> bool:
        """True for null."""
        return self._raw is None

    def fields(self, required: tuple[str, ...], optional: tuple[str, ...] = ()) -> Mapping[str, JsonValue]:
        """The fields of an object; all required ones are there, and none that is not named here."""
        if not isinstance(self._raw, dict):
            self.refuse("an object")
        for key in required:
            if key not in self._raw:
                raise BundleManifestError(
                    f"{self._where}: {self._path}.{key}: missing; expected the keys {', '.join(required)}."
                )
        for key in self._raw:
            if key not in required and key not in optional:
                raise BundleManifestError(
                    f"{self._where}: {self._path}: found the unknown key {key[:40]!a}, "
                    f"expected only {', '.join((*required, *optional))}."
                )
        return {k: JsonValue(v, f"{self._path}.{k}", self._where) for k, v in self._raw.items()}

    def items(self) -> Iterator[JsonValue]:
        """The items of an array."""
        if not isinstance(self._raw, list):
            self.refuse("an array")
        for i, item in enumerate(self._raw):
            yield JsonValue(item, f"{self._path}[{i}]", self._where)

    def tuple_of(self, read: Callable[[JsonValue], T]) -> tuple[T, ...]:
        """An array whose every item `read` understands."""
        return tuple(read(item) for item in self.items())

    def text(self, *, empty: bool = True) -> str:
        """A string; without `empty`, at least one character."""
        if not isinstance(self._raw, str) or not (empty or self._raw) or not _is_unicode(self._raw):
            self.refuse("a string" if empty else "a string that is not empty")
        return self._raw

    def one_of(self, choices: tuple[T, ...]) -> T:
        """One of a few values, of the same type."""
        for choice in choices:
            if type(choice) is type(self._raw) and choice == self._raw:
                return choice
        self.refuse(" or ".join(json.dumps(c) for c in choices))

    def integer(self, least: int) -> int:
        """A whole number, `least` or more."""
        if type(self._raw) is not int or self._raw < least:
            self.refuse(f"a whole number >= {least}")
        return self._raw

    def number(self) -> float:
        """A finite number."""
        if type(self._raw) not in (int, float) or abs(self._raw) > 1e300:
            self.refuse("a number")
        return float(self._raw)

    def boolean(self) -> bool:
        """True or false."""
        if not isinstance(self._raw, bool):
            self.refuse("true or false")
        return self._raw

    def free_object(self) -> dict[str, Any]:
        """An object of any content."""
        if not isinstance(self._raw, dict):
            self.refuse("an object")
        return self._raw

    def anything(self) -> Any:
        """The raw value."""
        return self._raw


def _is_unicode(text: str) -> bool:
    return not any("\ud800" <= c <= "\udfff" for c in text)
