"""Exceptions: one for each status code, under the built-in that says the same."""

from __future__ import annotations

import pickle

import pytest

import farwrite as fw
from farwrite import errors


@pytest.mark.parametrize("code", [code for code in fw.StatusCode if code is not fw.StatusCode.OK])
def test_every_status_code_has_its_class(code: fw.StatusCode) -> None:
    error = errors.from_status(int(code), "a sentence")
    assert type(error) in fw.Error.__subclasses__()
    assert type(error).__name__.lower() == code.name.replace("_", "").lower()
    assert getattr(fw, type(error).__name__) is type(error)
    assert error.code is code
    assert str(error) == "a sentence"


@pytest.mark.parametrize(
    ("kind", "builtin"),
    [
        (fw.InvalidArgument, ValueError),
        (fw.OutOfRange, IndexError),
        (fw.NotFound, LookupError),
        (fw.PermissionDenied, PermissionError),
        (fw.Unauthenticated, PermissionError),
        (fw.ResourceExhausted, MemoryError),
        (fw.FailedPrecondition, RuntimeError),
        (fw.Unavailable, ConnectionError),
        (fw.DeadlineExceeded, TimeoutError),
        (fw.PeerDead, ConnectionError),
        (fw.PeerSilent, ConnectionError),
        (fw.PeerRestarted, ConnectionError),
        (fw.VersionMismatch, ConnectionError),
        (fw.ProtocolError, ConnectionError),
        (fw.Forked, RuntimeError),
        (fw.Unsupported, NotImplementedError),
        (fw.EndOfStream, EOFError),
    ],
)
def test_a_builtin_catches_it(kind: type[fw.Error], builtin: type[Exception]) -> None:
    assert issubclass(kind, builtin)


def test_a_code_of_a_newer_core_is_still_an_error() -> None:
    assert type(errors.from_status(250, "new")) is fw.Error


def test_errors_cross_processes() -> None:
    error = pickle.loads(pickle.dumps(fw.PeerDead("gone")))
    assert type(error) is fw.PeerDead
    assert str(error) == "gone"
